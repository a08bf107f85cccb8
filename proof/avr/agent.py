"""Follows every path of the compiled agent on AVR, with all 2^64 packets at once.

    make figures ONLY=paths

The tests run this machine code in simavr with numbers. Here it runs with symbols instead: the
packet is 8 unknown bytes with an unknown length, the table is 260 unknown bytes, the clock's answer
and the context are 2 unknown bytes each. z3 says which ways a branch can go. If it can go both
ways, both are followed. For each path to the function's return, this program proves that

  - the result is what SPEC.md says for exactly the packets that take this path,
  - the table has changed as SPEC.md says, and nowhere else,
  - no other memory was written than the stack's,
  - no other memory was read than packet, table, stack and the library's own constant,
  - the hooks were called with the right arguments, and nothing that they may change is used later,
  - the stack pointer and the registers that a function must keep are as before.

It also proves that all paths together cover every packet and every length. So the cycles and the
stack of the longest path are bounds for any input. That the report's checksum is Adler-32 for every
table is proved by induction over the turns of its loop: see check_sums."""

import random
from dataclasses import dataclass, replace

import z3

from proof.avr.machine import (RAM_BYTES, Code, State, check_reached, check_return, check_written,
                               cover_all, evaluate, explore, find_taken, follow_turn, proved)
from proof.avr.symbols import Byte, Bytes, halve, join, must, split, unknown, vector, widen
from spec import model
from tools.processors.machine import Machine, load

AGENT = "dumpulse_process_packet"
KINDS = ("refused", "heartbeat", "report", "record")  # the index of the first three is the result
# All that is added to the second sum is at most 256 + 256 * 257 / 2 * 255. Each reduction takes
# 65521 off again, so there are at most this many.
REDUCTIONS_MAX = (256 + 256 * 257 // 2 * 255) // 65521


@dataclass
class World:
    """An agent and a packet that may hold anything: the unknown bytes, and their addresses."""

    agent: int
    packet: int
    top: int  # of the stack
    state: Bytes  # of the agent
    bytes: Bytes
    length: Bytes  # low byte first, as in registers
    context: Bytes

    def call(self, code: Code, function: int, *arguments: Bytes) -> State:
        memory = dict(zip(range(self.agent, self.agent + len(self.state)), self.state, strict=True))
        memory |= dict(zip(range(self.packet, self.packet + 8), self.bytes, strict=True))
        return code.call(function, self.top, memory, *arguments)

    def process(self, code: Code, function: int) -> State:
        return self.call(code, function, split(self.agent), split(self.packet), self.length,
                         self.context)


def specified(world: World) -> tuple[z3.BoolRef, z3.BoolRef]:
    """Is the packet a heartbeat? Is it a request? This repeats SPEC.md. Over 4 bytes the sums are
    at most 4 + 10 * 255, so they are never reduced."""
    p = world.bytes
    eight = join(world.length) == 8
    a: z3.BitVecRef = z3.BitVecVal(1, 32)
    b: z3.BitVecRef = z3.BitVecVal(0, 32)
    for byte in p[4:]:
        a = a + widen(byte)
        b = b + a
    checksum = widen(p[0]) << 24 | widen(p[1]) << 16 | widen(p[2]) << 8 | widen(p[3])
    heartbeat = z3.And(eight, vector(p[4]) == model.MAGIC, z3.ULT(vector(p[5]), 64),
                       checksum == (b << 16 | a))
    return heartbeat, z3.And(eight,
                             *(vector(x) == y for x, y in zip(p, model.REQUEST, strict=True)))


def check_frame(state: State, start: State, world: World) -> list[int]:
    """Proves that a path has changed nothing that it must keep. Returns the offsets of the table
    that were written."""
    check_return(state, start, world.top)
    table = range(world.agent, world.agent + 260)
    return [at - world.agent for at in check_written(state, start, table, world.top)]


def check_entry(code: Code, state: State, start: State, world: World, written: list[int],
                *said: Byte) -> None:
    variable, sender, value = said
    entry = (written[0] - 4) // 4
    must(written == list(range(4 + 4 * entry, 8 + 4 * entry)), f"writes {written}")
    stored = [state.memory[world.agent + at] for at in written]
    must([hook[0] for hook in state.hooks] == ["time"], "the clock hook is not called once")
    then = state.hooks[0][1]
    must(all(then[world.agent + at] is
             (state if at in written[2:] else start).memory[world.agent + at]
             for at in range(260)), "the entry is not as promised when the clock is read")
    must(proved(z3.And(vector(variable) == entry, *(
        vector(a) == vector(b) for a, b in zip(stored, [*code.clock[::-1], sender, value],
                                               strict=True))), state),
        f"the entry of variable {entry} is not as it should be")


def check_packet(code: Code, state: State, start: State, world: World) -> int:
    """Proves one path through dumpulse_process_packet. Returns its result."""
    heartbeat, request = specified(world)
    written, result = check_frame(state, start, world), state.registers[24]
    must(result in (0, 1, 2), f"the result may be {result}")
    claim = (z3.Not(z3.Or(heartbeat, request)), heartbeat, request)[int(result)]
    must(proved(claim, state), f"result {result} for packets that need another result")
    if result == 1:
        check_entry(code, state, start, world, written, *world.bytes[5:])
    elif result == 2:
        must(written == [0, 1, 2, 3], f"a request writes {written}")
        must(len(state.hooks) == 1, "the send hook is not called once")
        context, pointer, length, memory = state.hooks[0][1:]
        must((pointer, length) == (split(world.agent), split(260)), "sends something else")
        must(all(a is b for a, b in zip(context, world.context, strict=True)), "loses the context")
        must(all(memory[at] is state.memory[at] for at in range(world.agent, world.agent + 260)),
             "what was sent is not what the table holds")
    else:
        must(not written and not state.hooks, "a refused packet changes the table or calls a hook")
    return int(result)


def check_record(code: Code, state: State, start: State, world: World) -> int:
    """Proves one path through dumpulse_record."""
    variable, sender, value = (vector(start.registers[number]) for number in (22, 20, 18))
    written, result = check_frame(state, start, world), state.registers[24]
    must(result in (0, 1), f"dumpulse_record may say {result}")
    valid = z3.ULT(variable, 64)
    must(proved(valid if result else z3.Not(valid), state), "dumpulse_record: wrong result")
    if result:
        check_entry(code, state, start, world, written, variable, sender, value)
    else:
        must(not written and not state.hooks,
             "dumpulse_record refuses, but changes the table or calls a hook")
    return int(result)


def run_on_numbers(code: Code, world: World, function: int) -> State:
    """Follows the one path that known bytes take."""
    [state] = explore(code, world.process(code, function))
    return state


def find_sums(code: Code, world: World, function: int) -> tuple[int, int]:
    """Sets code.head to the address where a turn of the sum's loop begins. There, two registers
    hold the first sum a, and two hold b + 15, where b is the second sum. Returns the lower register
    of each pair. It finds them in a report of known bytes."""
    numbers = random.Random(1).randbytes(256)
    fixed = replace(world, state=[*bytes(4), *numbers], bytes=[*model.REQUEST], length=split(8))
    run_on_numbers(code, fixed, function)
    code.head = max(code.loops, key=lambda at: code.loops[at])
    turns = run_on_numbers(code, fixed, function).heads
    must(len(turns) == 256, f"the loop of the sum turns {len(turns)} times")

    def holder(values: list[int]) -> int:
        found = [low for low in range(31) if all(turn.registers[low:low + 2] == split(number) for
                                                 turn, number in zip(turns, values, strict=True))]
        must(len(found) == 1, "the registers of the sums were not found")
        return found[0]

    sums = [(1, 0)]
    for byte in numbers[:-1]:
        a = (sums[-1][0] + byte) % 65521
        sums.append((a, (sums[-1][1] + a) % 65521))
    return holder([a for a, _ in sums]), holder([b + 15 for _, b in sums])


def check_sums(code: Code, report: State, world: World, sums: tuple[int, int]) -> int:
    """Proves by induction over the turns of the loop that the report's checksum is Adler-32.

    The first turn begins with the sums 1 and 0. Each turn is then followed from the state of this
    path, but with any two sums: it takes them one step of RFC 1950 further, with the next byte, and
    ends in the state in which the next turn begins. After the last turn the sums are stored,
    big-endian. A turn takes longer when it reduces b; nothing else makes a difference. Returns how
    many cycles longer."""
    must(not any("table" in condition.sexpr() for condition in report.conditions),
         "what a report does depends on the table")
    turns, (first, second) = report.heads, sums
    must(len(turns) == 256, f"the loop of the sum turns {len(turns)} times")
    must(turns[0].registers[first:first + 2] == split(1) and
         turns[0].registers[second:second + 2] == split(15), "the sums do not begin with 1 and 0")
    a, b, byte = z3.BitVec("a", 16), z3.BitVec("b", 16), z3.BitVec("byte", 8)
    next_a = z3.ZeroExt(16, a) + z3.ZeroExt(24, byte)
    total = z3.ZeroExt(16, b) - 15 + next_a  # below 2 * 65521, so one subtraction reduces it
    next_b = z3.If(z3.UGE(total, 65521), total - 65521, total)
    longest = 0
    for number, turn in enumerate(turns):
        start = turn.fork()
        start.registers = [byte if isinstance(byte, int) else z3.BitVec(f"any_{at}", 8)
                           for at, byte in enumerate(turn.registers)]
        start.carry, start.zero = z3.Bool("any_carry"), z3.Bool("any_zero")
        for low, value in ((first, a), (second, b)):
            start.registers[low:low + 2] = halve(value)
        start.memory[world.agent + 4 + number] = byte
        start.loads = 0  # so that no branch is merged
        start.cycles = 0
        # Before the last byte, a is at most 1 + 255 * 255. b + 15 is always from 15 to 65535.
        start.conditions = [a >= 1, z3.ULE(a, 1 + 255 * 255), z3.UGE(b, 15)]
        ends = list(follow_turn(code, start))
        shortest = min(one.cycles for one in ends)
        for one in ends:
            if one.cycles > shortest:
                must(proved(z3.UGE(total, 65521), one), "a turn is longer and reduces nothing")
                longest = max(longest, one.cycles - shortest)
            if one.hooks:
                must(number == 255, "the loop ends early")
                stored = [widen(one.memory[world.agent + at]) for at in range(4)]
                now_b, now_a = stored[0] << 8 | stored[1], stored[2] << 8 | stored[3]
            else:
                must(number < 255, "the loop ends late")
                must(all(byte == one.registers[at]
                         for at, byte in enumerate(turns[number + 1].registers)
                         if isinstance(byte, int)
                         and at not in (first, first + 1, second, second + 1)),
                     "a turn does not end as the next one begins")
                now_b, now_a = ((widen(one.registers[low + 1]) << 8 | widen(one.registers[low])) -
                less
                                for low, less in ((second, 15), (first, 0)))
            must(proved(z3.And(now_a == next_a, now_b == next_b), one),
                 "a turn of the loop is not a step of Adler-32")
    must(len(report.longer) <= 256 and set(report.longer) <= {longest},
         "a branch was merged elsewhere")
    return longest


def check_simulated(code: Code, world: World, machine: Machine, found: list[State],
                   extra: int) -> None:
    """Checks that instructions do the same here and in simavr. Packets run in the simulator. Their
    bytes are also put in place of the symbols, in the path that they take here."""
    chance = random.Random(2)
    for number in range(60):
        packet = bytearray(chance.choice([model.REQUEST, model.heartbeat(
            chance.randrange(80), chance.randrange(256), chance.randrange(256))]))
        if number % 3 == 0:
            packet[chance.randrange(8)] ^= 1 << chance.randrange(8)
        length = 8 if number % 10 else chance.choice([0, 7, 9, 264])
        table = chance.choice([bytes(260), b"\xff" * 260, chance.randbytes(260)])
        machine.now = chance.randrange(65536)
        machine.write(world.agent, table)
        machine.write(world.packet, bytes(packet))
        call = machine.call("dumpulse_process_packet", world.agent, world.packet, length, 0x1234)
        state, numbers = find_taken(found, (
            (world.state, table), (world.bytes, packet), (world.length, split(length)),
            (world.context, split(0x1234)), (code.clock, split(machine.now))))
        after = bytes(evaluate(state.memory[world.agent + at], numbers) for at in range(260))
        least, most = bounds([state], extra)
        must((evaluate(state.registers[24], numbers), after, world.top - state.lowest) ==
             (call.result, machine.read(world.agent, 260), call.stack)
             and least <= call.cost <= most and len(call.hooks) == len(state.hooks),
             f"{machine.target.name}: {packet.hex()}, length {length}: not the same in simavr: "
             f"{call}")


def bounds(states: list[State], extra: int) -> tuple[int, int]:
    """Returns the fewest and the most cycles. The paths count all turns of the loop as short; at
    most REDUCTIONS_MAX turns are longer by `extra`."""
    return (min(state.cycles for state in states),
            max(state.cycles + extra * min(len(state.longer), REDUCTIONS_MAX) for state in states))


def follow(name: str) -> tuple[int, list[tuple[int, int]], int]:
    """Proves every path on one chip. Returns how many there are, cycles by kind, bytes of stack."""
    machine = load(name)
    code = Code(machine, pushed=machine.target.return_address)
    agent_code, record_code = machine.symbols[AGENT], machine.symbols["export_record"]
    found: dict[str, list[State]] = {kind: [] for kind in KINDS}
    extra = 0
    for agent, packet in ((machine.ram + 0x7F, machine.ram + 1), (machine.agent, machine.packet)):
        world = World(agent, packet, machine.ram + RAM_BYTES - 1, unknown("table", 260),
                      unknown("packet", 8), unknown("length", 2), unknown("context", 2))
        sums = find_sums(code, world, agent_code)
        start = world.process(code, agent_code)
        states = list(explore(code, start))
        for state in states:
            kind = KINDS[check_packet(code, state, start, world)]
            found[kind].append(state)
            if kind == "report":
                extra = max(extra, check_sums(code, state, world, sums))
        cover_all(states)
        start = world.call(code, record_code, split(agent),
                           *(unknown(argument, 2) for argument in ("variable", "sender", "value")))
        recorded = list(explore(code, start))
        for state in recorded:
            check_record(code, state, start, world)
        cover_all(recorded)
        found["record"] += recorded
    must(len(found["report"]) == 2, "there is more than one way to a report")
    check_reached(code, agent_code, record_code)
    check_simulated(code, world, machine, states, extra)
    machine.close()
    limits = {kind: bounds(states, extra) for kind, states in found.items()}
    every = [state for each in found.values() for state in each]
    return len(every), [*limits.values()], max(world.top - state.lowest for state in every)
