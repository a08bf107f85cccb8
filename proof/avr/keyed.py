"""Follows every path of the compiled agent with keys on AVR. agent.py has how.

The packet, its length, the agent and the context are unknown. Each time that
the agent calls the tag function, this is followed and proved from there, and what it returned is
replaced by unknown bytes. For each path to the end, this program proves that

  - a tag was made exactly if all other checks were passed, and of what spec/keyed.md says,
  - the result is what spec/keyed.md says for exactly the packets that take this path,
  - the agent has changed as spec/keyed.md says, and nowhere else, nor any other memory,
  - the hooks were called with the right arguments, at the right time, and not more often,
  - the stack pointer and the registers that a function must keep are as before.

All paths together cover every packet, length and agent. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import z3

from bench.processors.machine import Keyed, Machine, load
from proof.avr.agent import World
from proof.avr.machine import (HOME, State, check_reached, check_return, check_written, cover_all,
                               evaluate, explore, find_taken, follow_turn, proved, settle)
from proof.avr.symbols import (Byte, Bytes, Flag, choose, equal, feasible, join, must, split,
                               unknown, vector)
from proof.avr.tags import (PERMUTATION, REPORT, TABLE_BLOCKS, TAG, KeyedCode, Tag, bytes_of,
                            check_rounds, find_rounds)
from spec import keyed

PROCESS, TICK, BEACON = "dumpulse_keyed_process", "dumpulse_keyed_tick", "dumpulse_keyed_beacon"
RAM_BYTES = 1024
MOST, DEEPEST = 7000, 170  # cycles of a heartbeat, and of what is refused; bytes of stack
# What becomes of a packet: it is refused before a tag is made, or after it; it is taken; or it is a
# request that a beacon answers. What becomes of a tick: it begins an epoch, or not.
WRONG, BEACON_SENT, TICKED, STOPPED = "wrong", "beacon", "tick", "stop"
KINDS = ("refused", WRONG, "heartbeat", "report", BEACON_SENT, "announce", TICKED, STOPPED)
REFUSED_BEFORE = keyed.REFUSED, keyed.OLD, keyed.NOT_BEGUN


@dataclass
class KeyedWorld(World):
    """The same of an agent with keys."""

    alone: int  # how many may only send

    def part(self, at: int, size: int) -> Bytes:
        return self.state[at:at + size]

    @property
    def epoch(self) -> Bytes:
        return self.part(Keyed.EPOCH, 4)

    def owns(self) -> list[z3.BitVecRef]:
        """The own epochs of nodes that only send."""
        first = Keyed.REPORT + REPORT
        return [z3.Concat(*map(vector, self.part(first + 4 * at, 3))) for at in range(self.alone)]

    def given(self) -> list[z3.BoolRef]:
        """An own epoch is 0, or one that such a node can have."""
        return [z3.ULE(vector(self.state[Keyed.BEGUN]), 1),
                *(z3.Or(own == 0, z3.UGE(own, keyed.OWN_FIRST)) for own in self.owns())]


def make_world(agent: int, packet: int, top: int, alone: int) -> KeyedWorld:
    size = Keyed.REPORT + REPORT
    state = unknown("agent", size)
    for variable in range(alone):
        state += [*unknown(f"own{variable}_", 3), 0]
    return KeyedWorld(agent, packet, top, state, unknown("packet", 8), unknown("length", 2),
                      unknown("context", 2), alone)


def at_index(byte: z3.BitVecRef, first: int, values: Sequence[z3.BitVecRef]) -> z3.BitVecRef:
    """The value that byte 4 of a packet chooses. `first` chooses the first one."""
    result = values[-1]
    for number, value in enumerate(values[:-1]):
        result = z3.If(byte == first + number, value, result)
    return result


class Said:
    """What spec/keyed.md says of a packet: "What it takes"."""

    def __init__(self, world: KeyedWorld) -> None:
        p, owns = [*map(vector, world.bytes)], world.owns() or [z3.BitVecVal(0, 24)]
        kind, epoch = p[4], z3.Concat(*map(vector, world.epoch))
        self.eight = join(world.length) == 8
        own, new = at_index(kind, keyed.IS_ANNOUNCE, owns), z3.Concat(*p[5:])
        self.announce = z3.And(
            self.eight, z3.UGE(kind, keyed.IS_ANNOUNCE),
            z3.ULT(kind, keyed.IS_ANNOUNCE + world.alone), z3.UGE(new, keyed.OWN_FIRST))
        is_later = z3.UGT(new, own)
        last = at_index(kind, keyed.IS_HEARTBEAT, [*map(vector, world.part(Keyed.LAST, 65))])
        self.counted = z3.And(
            self.eight, z3.UGE(kind, keyed.IS_HEARTBEAT), z3.ULE(kind, keyed.IS_REQUEST))
        self.label = kind - z3.If(self.announce, z3.BitVecVal(keyed.IS_ANNOUNCE, 8),
                                  z3.BitVecVal(keyed.IS_HEARTBEAT, 8))
        own = at_index(kind, keyed.IS_HEARTBEAT, owns)
        self.number = z3.If(
            self.announce, z3.BitVecVal(0, 32),
            z3.If(z3.And(z3.ULT(self.label, world.alone), own != 0),
                  z3.Concat(own, z3.BitVecVal(0, 8)), epoch))
        self.is_request = z3.And(self.eight, kind == keyed.IS_REQUEST)
        self.begun = z3.And(world.state[Keyed.BEGUN] != 0, z3.Or(
            self.announce, z3.Extract(31, 24, self.number) != keyed.NO_EPOCH >> 24))
        self.new = z3.If(self.announce, is_later, z3.UGT(p[5], last))
        self.needs_tag = z3.And(z3.Or(self.announce, self.counted), self.begun, self.new)

    def result(self, right: Flag, stored: Flag) -> z3.BitVecRef:
        """Right: its tag is. Stored: its number was."""
        found = z3.If(self.is_request, vector(keyed.REPORT), z3.If(
            self.counted, vector(keyed.HEARTBEAT),
            z3.If(stored, vector(keyed.ANNOUNCE), vector(keyed.NOT_STORED))))
        for otherwise, is_so in ((keyed.WRONG_TAG, right), (keyed.OLD, self.new),
                                 (keyed.NOT_BEGUN, self.begun),
                                 (keyed.REFUSED, z3.Or(self.announce, self.counted))):
            found = z3.If(is_so, found, vector(otherwise))
        return found


def check_memory(state: State, start: State, world: KeyedWorld, expected: Bytes) -> None:
    """Proves what a path has made of the agent, and that it has written nothing else."""
    at = world.agent
    check_written(state, start, range(at, at + len(world.state)), world.top)
    both = [(state.memory[at + number], byte) for number, byte in enumerate(expected)
            if not vector(state.memory[at + number]).eq(vector(byte))]
    must(not both or proved(equal([a for a, _ in both], [b for _, b in both]), state),
         "the agent has not become what it should be")


def check_sent(hook: tuple[Any, ...], world: KeyedWorld, at: int, size: int,
               expected: dict[int, Byte]) -> None:
    name, context, pointer, length, memory = hook
    must(name == "send" and (pointer, length) == (split(at), split(size)), "sends something else")
    must(all(a is b for a, b in zip(context, world.context, strict=True)), "loses the context")
    must(all(memory[where] is expected[where] for where in range(at, at + size)),
         "what is sent is not what it should be")


def check_packet(code: KeyedCode, state: State, start: State, world: KeyedWorld,
                 said: Said) -> None:
    """Proves one path through dumpulse_keyed_process."""
    check_return(state, start, world.top)
    result = state.registers[24]
    must(result in range(len(keyed.NAMES)), f"the result may be {result}")
    tags = [hook for hook in state.hooks if isinstance(hook, Tag)]
    hooks = [hook for hook in state.hooks if not isinstance(hook, Tag)]
    p, label = world.bytes, said.label
    must(done_when(state, tags, said.needs_tag),
         "a tag is made of what should be refused before, or it is not")
    right: Flag = False
    if tags:
        right = equal(tags[0].made, p[:4])
        must(proved(z3.And(vector(tags[0].label) == label, not tags[0].table,
                           z3.Concat(*map(vector, tags[0].number)) == said.number,
                           equal(tags[0].four, p[4:])), state), "a tag of something else")
        check_compared(state, right)
    stores = [hook for hook in hooks if hook[0] == "store"]
    must(done_when(state, stores, z3.And(said.announce, right)),
         "a number is stored when it should not be, or it is not")
    for _, stored_label, number, memory in stores:
        must(proved(z3.And(vector(stored_label) == label, equal(number, p[5:8])), state),
             "another number is stored")
        must(all(memory[world.agent + at] is byte for at, byte in enumerate(world.state)),
             "the agent changes before its number is stored")
    must(proved(said.result(right, code.stored == 1) == result, state),
         f"result {result} for packets that need another result")
    if feasible(*state.conditions, z3.Not(said.eight)):
        must(state.loads == 0, "reads a packet of another length")
    check_effects(code, state, start, world, said, tags,
                  [hook for hook in hooks if hook[0] != "store"])


def check_effects(code: KeyedCode, state: State, start: State, world: KeyedWorld, said: Said,
                  tags: list[Tag], hooks: list[tuple[Any, ...]]) -> None:
    """Proves what a path with this result does to the agent, and which hooks it calls."""
    result, p, expected = state.registers[24], world.bytes, world.state.copy()
    first, count = (keyed.IS_HEARTBEAT, p[5]) if result != keyed.ANNOUNCE else (
        keyed.IS_ANNOUNCE, 0)

    def put(at: int, label: int, byte: Byte) -> None:
        expected[at] = choose(vector(p[4]) == first + label, byte, expected[at])

    if result in (keyed.HEARTBEAT, keyed.REPORT, keyed.ANNOUNCE):
        for at in range(65):
            put(Keyed.LAST + at, at, count)
    names = [hook[0] for hook in hooks]
    if result == keyed.HEARTBEAT:
        must(names == ["time"] and len(tags) == 1, "the clock hook is not called once")
        entry = [*code.clock[::-1], *p[6:]]
        for at in range(256):
            put(Keyed.REPORT + 8 + at, at // 4, entry[at % 4])
        check_clock(state, hooks[0][1], world)
    elif result == keyed.REPORT:
        must(names == ["send"] and len(tags) == 2, "the send hook is not called once")
        must(proved(z3.And(tags[1].label == keyed.READER_LABEL, equal(tags[1].number, world.epoch),
                           equal(tags[1].four, p[4:]),
                           equal(tags[1].table, world.part(Keyed.REPORT + 8, 256))), state),
             "the report's tag is one of something else")
        expected[Keyed.REPORT:Keyed.REPORT + 8] = tags[1].made
        check_sent(hooks[0], world, world.agent + Keyed.REPORT, REPORT, state.memory)
    elif result == keyed.ANNOUNCE:
        must(not names and len(tags) == 1, "an announce calls another hook")
        for at in range(3 * world.alone):
            put(Keyed.REPORT + REPORT + at // 3 * 4 + at % 3, at // 3, p[5 + at % 3])
    else:
        answered = z3.And(said.is_request, result in (keyed.OLD, keyed.WRONG_TAG))
        must(len(names) < 2 and done_when(state, names, answered),
             "the beacon answers something else, or not once")
        if names:
            check_sent(hooks[0], world, world.agent, 8, start.memory)
    check_memory(state, start, world, expected)


def check_compared(state: State, right: z3.BoolRef) -> None:
    """Proves that all wrong tags take the same path, or the right one does: so the time does not
    depend on where a tag is wrong."""
    about = [condition for condition in state.conditions if "tag0_" in condition.sexpr()]
    others = [condition for condition in state.conditions
              if all(condition is not one for one in about)]
    same = right if feasible(*state.conditions, right) else z3.Not(right)
    must(not feasible(*others, same, z3.Not(z3.And(about))), "the time depends on a tag")


def done_when(state: State, done: list[Any], when: z3.BoolRef) -> bool:
    """Was it done exactly when it should have been?"""
    return proved(when if done else z3.Not(when), state)


def check_clock(state: State, then: dict[int, Byte], world: KeyedWorld) -> None:
    """When the clock is read, only the two bytes of the time are still to come."""
    times = {world.agent + Keyed.REPORT + 8 + 4 * at + byte for at in range(64) for byte in (0, 1)}
    must(all(then[at] is state.memory[at] for at in range(world.agent,
                                                          world.agent + len(world.state))
             if at not in times),
         "the entry is not as promised when the clock is read")


def find_counts(code: KeyedCode, world: KeyedWorld, function: int) -> int:
    """Where a turn of the loop begins that sets 65 counts to 0, found in a tick with numbers."""
    numbers = replace(world, state=[1] * len(world.state), bytes=[0] * 8)
    code.loops.clear()
    [_] = explore(code, numbers.call(code, function, split(world.agent), [0, 0]))
    heads = [at for at, count in code.loops.items() if count == 65]
    must(len(heads) == 1, "no loop sets 65 counts")
    return heads[0]


def merge(code: KeyedCode, states: list[State], common: int) -> State:
    """One state for several ways from one place to another. The first `common` conditions hold for
    all of them, and one way is always open. `longer` is what others than the shortest cost more."""
    result, *others = sorted(states, key=lambda state: state.cycles)
    given = result.conditions[:common]
    ways = [z3.And(state.conditions[common:]) for state in (result, *others)]
    must(not feasible(*given, z3.Not(z3.Or(ways))), "a loop has another way")
    for state, way in zip(others, ways[1:], strict=True):
        must((state.pc, state.sp, state.memory.keys()) ==
             (result.pc, result.sp, result.memory.keys()) and len(state.hooks) == len(result.hooks),
             "two ways do not come together")
        result.registers = [choose(way, a, b) for a, b in
                            zip(state.registers, result.registers, strict=True)]
        result.memory = {at: choose(way, state.memory[at], byte)
                         for at, byte in result.memory.items()}
    if others:
        code.forget_flags(result)
        result.longer.append(others[-1].cycles - result.cycles)
        result.lowest = min(state.lowest for state in states)
    result.conditions = given
    return result


def follow_tick(code: KeyedCode, start: State) -> Iterator[State]:
    """Follows a tick to its ends. In the loop that sets the counts to 0, all ways through a turn
    become one, or there would be 2^32 of them."""
    states = [*follow_turn(code, start)]
    while states:
        state = states.pop()
        if state.pc == HOME:
            state.registers[24] = settle(state.registers[24], state)
            yield state
            continue
        ends = [*follow_turn(code, state)]
        again = [end for end in ends if end.pc == code.head]
        states += [merge(code, again, len(state.conditions))] if again else []
        states += [end for end in ends if end.pc != code.head]


def check_tick(code: KeyedCode, state: State, start: State, world: KeyedWorld) -> None:
    """Proves one path through dumpulse_keyed_tick."""
    check_return(state, start, world.top)
    result = state.registers[24]
    must(result in (0, 1), f"the result may be {result}")
    epoch = z3.Concat(*map(vector, world.epoch))
    ended = z3.Or(world.state[Keyed.BEGUN] == 0, z3.UGE(epoch, keyed.EPOCH_LAST))
    following = epoch + 1
    stores = z3.And(z3.Not(ended), z3.URem(following, keyed.BLOCK) == 0)
    fails = z3.Or(ended, z3.And(stores, code.stored == 0))
    must(proved(fails if not result else z3.Not(fails), state), "a tick has another result")
    names = ["tag" if isinstance(hook, Tag) else hook[0] for hook in state.hooks]
    expected, now = world.state.copy(), bytes_of(z3.If(ended, epoch, following))[::-1]
    expected[Keyed.EPOCH:Keyed.EPOCH + 4] = now
    if (stored := "store" in names):
        label, number, memory = state.hooks[0][1:]
        must(proved(z3.And(vector(label) == keyed.BEACON_LABEL, equal(number, now[:3])), state),
             "another block is stored")
        before = start.fork()
        before.conditions, before.memory, before.lowest = state.conditions, memory, state.lowest
        check_memory(before, start, world, expected)
    must(proved(stores if stored else z3.Not(stores), state),
         "a block is stored when it should not be, or it is not")
    must(names == ["store"] * stored + ["tag", "send"] * bool(result),
         f"a tick calls other hooks: {names}")
    if not result:
        expected[Keyed.EPOCH] = 0x7F
        check_memory(state, start, world, expected)
        return
    [made] = [hook for hook in state.hooks if isinstance(hook, Tag)]
    must(proved(z3.And(vector(made.label) == keyed.BEACON_LABEL, not made.table,
                       equal(made.number, now), equal(made.four, now)), state),
         "the beacon is of something else")
    expected[:4] = made.made
    for at in range(65):
        own = world.owns()[at] if at < world.alone else z3.BitVecVal(0, 24)
        expected[Keyed.LAST + at] = z3.If(own == 0, z3.BitVecVal(0, 8),
                                          vector(world.state[Keyed.LAST + at]))
    check_memory(state, start, world, expected)
    check_sent(state.hooks[-1], world, world.agent, 8, state.memory)


@dataclass
class Followed:
    """An agent on a chip: how each call begins, and all paths to its end."""

    machine: Machine
    code: KeyedCode
    world: KeyedWorld
    start: State
    packets: list[State]
    ticks: list[State]
    tick_start: State

    def kinds(self) -> Iterator[tuple[str, State]]:
        """What becomes of what takes each path."""
        for state in self.packets:
            result = int(state.registers[24])
            sends = any(not isinstance(hook, Tag) and hook[0] == "send" for hook in state.hooks)
            yield (keyed.NAMES[result] if result in keyed.TAKEN else BEACON_SENT if sends else
                   "refused" if result in REFUSED_BEFORE else WRONG), state
        for state in self.ticks:
            yield TICKED if state.registers[24] else STOPPED, state

    def limits(self) -> dict[str, tuple[int, int]]:
        """The fewest and the most cycles of each kind."""
        found: dict[str, list[int]] = {}
        for kind, state in self.kinds():
            found.setdefault(kind, []).extend((state.cycles, state.cycles + sum(state.longer)))
        return {kind: (min(found[kind]), max(found[kind])) for kind in KINDS if kind in found}

    def stack(self) -> int:
        return max(self.world.top - state.lowest for _, state in self.kinds())


def follow_agent(machine: Machine, alone: int, places: Sequence[tuple[int, int]]
                 ) -> Iterator[Followed]:
    """Follows an agent on a chip, with agent and packet at each of these places."""
    code, top = KeyedCode(machine), machine.ram + RAM_BYTES - 1
    rounds = find_rounds(code, top)
    check_rounds(code, rounds)
    code.rounds = rounds
    for agent, packet in places:
        world = make_world(agent, packet, top, alone)
        start = world.call(code, machine.symbols[PROCESS], split(agent), split(packet),
                           world.length, world.context)
        start.conditions = world.given()
        packets = list(explore(code, start))
        code.head = find_counts(code, world, machine.symbols[TICK])
        tick_start = world.call(code, machine.symbols[TICK], split(agent), world.context)
        tick_start.conditions = world.given()
        ticks = list(follow_tick(code, tick_start))
        code.head = -1
        yield Followed(machine, code, world, start, packets, ticks, tick_start)


def load_agent(name: str, alone: int) -> Machine:
    return load(name, "dumpulse_keyed.c", f"-DDUMPULSE_ALONE={alone}")


def own_place(machine: Machine, alone: int) -> tuple[int, int]:
    """Where simavr has the agent and the packet."""
    return machine.agent, Keyed(machine, alone).packet


def check_simulated(it: Followed) -> None:
    """Checks that simavr does the same as the path that is taken, in the same cycles."""
    machine, world, chance = it.machine, it.world, random.Random(6)
    here, size = Keyed(machine, world.alone), len(world.state)
    for number in range(24):
        keys = machine.keys = keyed.Keys(chance.randbytes(16))
        machine.numbers, machine.now = keyed.Numbers(), chance.randrange(65536)
        machine.numbers.fails = number % 5 == 0
        owns = [chance.choice([0, chance.randrange(0x800000, 0xFFFFFE)])
                for _ in range(world.alone)]
        epoch = chance.choice([chance.randrange(0x3F000000), chance.randrange(0x3F) << 24 | 0xFFFF,
                               0x3F000000, 0x7F000000, chance.randrange(0x3F0000) << 8 | 0xFF])
        state = (chance.randbytes(4) + epoch.to_bytes(4, "big") + bytes((number % 8 != 7,)) +
                 bytes(chance.randrange(2) * 200 for _ in range(65)) + chance.randbytes(264) +
                 b"".join((own << 8).to_bytes(4, "big") for own in owns))
        machine.write(world.agent, state)
        table, packet, length, tags = state[Keyed.REPORT + 8:][:256], bytes(8), 8, [bytes(8)] * 2
        if number % 4 == 0:
            call, paths = machine.call(TICK, world.agent, 0x1234), it.ticks
            tags[0] = keys.beacon(epoch + 1)[:4]
        else:
            four = bytes((chance.choice([0, 0x40, 0x80, 0x80, 0x80]) + chance.randrange(66),
                          chance.randrange(256), *chance.randbytes(2)))
            label = four[0] & 0x3F if four[0] != keyed.IS_REQUEST else keyed.READER_LABEL
            own = owns[label] << 8 if label < len(owns) else 0
            used = 0 if four[0] < keyed.IS_HEARTBEAT else own or epoch
            packet = keys.packet(label, used, four)
            tags = [packet[:4], keys.tag(label, used, four, table)[:8]]
            if number % 3 == 0:
                packet = chance.randbytes(1) + packet[1:]
            if number % 10 == 1:
                length = chance.choice([0, 7, 9, 264])
            machine.write(here.packet, packet)
            call = machine.call(PROCESS, world.agent, here.packet, length, 0x1234)
            paths = it.packets
        path, numbers = find_taken(paths, (
            (world.state, state), (world.bytes, packet), (world.length, split(length)),
            (world.context, split(0x1234)), (it.code.clock, split(machine.now)),
            (unknown("tag0_", 4), tags[0][:4]), (unknown("tag1_", 8), tags[1]),
            ([it.code.stored], [int(not machine.numbers.fails)])))
        after = bytes(evaluate(path.memory[world.agent + at], numbers) for at in range(size))
        names = ["key" if isinstance(hook, Tag) else hook[0] for hook in path.hooks]
        must((path.registers[24], after, world.top - path.lowest, names) ==
             (call.result, machine.read(world.agent, size), call.stack,
              [hook[0] for hook in call.hooks])
             and path.cycles <= call.cost <= path.cycles + sum(path.longer),
             f"{machine.target.name}: {packet.hex()}, epoch {epoch:x}: not the same in simavr: "
             f"{call}")


@dataclass
class Proved:
    paths: int
    limits: dict[str, tuple[int, int]]
    stack: int
    tags: tuple[int, int]  # cycles: of a packet, and of a report


def check_musts(limits: dict[str, tuple[int, int]], stack: int = 0) -> None:
    for kind in ("refused", WRONG, "heartbeat", "beacon"):
        must(limits[kind][1] <= MOST, f"{kind}: {limits[kind][1]} cycles must be at most {MOST}")
    must(stack <= DEEPEST, f"{stack} bytes of stack must be at most {DEEPEST}")


def follow(name: str, alone: int) -> Proved:
    """Proves every path of an agent on one chip."""
    machine = load_agent(name, alone)
    places = [(machine.ram + 0x5B, machine.ram + 1), own_place(machine, alone)]
    every: list[Followed] = []
    for it in follow_agent(machine, alone, places[alone > 0:]):
        said, world, code = Said(it.world), it.world, it.code
        given = world.given()
        for state in it.packets:
            check_packet(code, state, it.start, world, said)
        for state in it.ticks:
            check_tick(code, state, it.tick_start, world)
        for states in (it.packets, it.ticks):
            cover_all(states, *given, z3.ULE(code.stored, 1))
        every.append(it)
    check_reached(code, *(machine.symbols[function]
                          for function in (PROCESS, TICK, TAG, PERMUTATION, BEACON)))
    check_simulated(it)
    machine.close()
    first = every[0].limits()
    must(all(other.limits() == first and other.stack() == every[0].stack() for other in every),
         "another place costs another time")
    check_musts(first, every[0].stack())
    return Proved(sum(len(it.packets) + len(it.ticks) for it in every), first, every[0].stack(),
                  (code.costs[1], code.costs[1 + TABLE_BLOCKS]))


def bounds(name: str) -> dict[str, tuple[int, int]]:
    """The fewest and the most cycles of an agent without nodes that only send."""
    machine = load_agent(name, 0)
    [it] = follow_agent(machine, 0, [own_place(machine, 0)])
    machine.close()
    return it.limits()
