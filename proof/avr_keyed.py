"""Follows every path of the compiled agent with keys on AVR. proof/avr.py has how.  make paths

**Tags.** The tag function runs with an unknown master key, label, number, packet and table. This
program proves that it computes Chaskey-12 as ISO/IEC 29192-6 defines it, with the key of the label,
as SPEC-keyed.md says. Where a round begins, the state is replaced by 16 unknown bytes. One turn of
the loop is proved to be half a round. So each question for z3 is small. The definition used is
compared with sim/keyed.py on numbers, which passes the vectors of tests/chaskey12.tsv. In the tag
function, a branch must never depend on an unknown byte, and an address only on which number was
asked for. So its cycles depend on the number of blocks alone.

**Packets and ticks.** The packet, its length, the agent and the context are unknown. Each time that
the agent calls the tag function, this is followed and proved from there, and what it returned is
replaced by unknown bytes. For each path to the end, this program proves that

  - a tag was made exactly if all other checks were passed, and of what SPEC-keyed.md says,
  - the result is what SPEC-keyed.md says for exactly the packets that take this path,
  - the agent has changed as SPEC-keyed.md says, and nowhere else, nor any other memory,
  - the hooks were called with the right arguments, at the right time, and not more often,
  - the stack pointer and the registers that a function must keep are as before.

All paths together cover every packet, length and agent. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import z3

from proof.avr import (CLOBBERED, HOME, KEPT, POINTERS, Byte, Code, Flag, Instruction, State,
                       check_reached, check_return, chosen, cover_all, explore, feasible, joined,
                       must, proved, settled, split, turned, unknown, vector)
from sim import keyed
from sim.machine import KEY, STORE, Keyed, Machine, load

PROCESS, TICK, TAG, BEACON = ("dumpulse_keyed_process", "dumpulse_keyed_tick", "dumpulse_tag_",
                              "dumpulse_keyed_beacon")
PERMUTATION = "chaskey"
HALVES = 24  # of the 12 rounds
TABLE_BLOCKS = 16
RAM_BYTES = 1024
REPORT = 264
MOST, DEEPEST = 7000, 170  # cycles of a heartbeat, and of what is refused; bytes of stack
# What becomes of a packet: keyed.NAMES; and wrong, if it is refused for its tag, or as its number
# was not stored. What becomes of a tick: it begins an epoch, or not.
WRONG, TICKED, STOPPED = "wrong", "tick", "stop"
KINDS = ("refused", WRONG, *keyed.NAMES[1:], TICKED, STOPPED)
BUILDS = (("ATmega328P", 0), ("ATtiny88", 0), ("ATtiny85", 0), ("ATmega2560", 0),
          ("ATmega328P", 32))  # a chip, and how many may only send

Bytes = list[Byte]
Words = tuple[z3.BitVecRef, z3.BitVecRef, z3.BitVecRef, z3.BitVecRef]
Permutation = Callable[[Bytes], Bytes]


# ---- Chaskey-12 for messages of whole blocks, for unknown bytes.

def half(words: Words, second: bool) -> Words:
    """Half a round. At its end, a and c change places."""
    a, b, c, d = words
    a, c = a + b, c + d
    b = z3.RotateLeft(b, 7 if second else 5) ^ a
    d = z3.RotateLeft(d, 13 if second else 8) ^ c
    return c, b, z3.RotateLeft(a, 16), d


def a_round(words: Words) -> Words:
    """As sim/keyed.py has it."""
    a, b, c, d = words
    a = a + b
    b = z3.RotateLeft(b, 5) ^ a
    a = z3.RotateLeft(a, 16)
    c = c + d
    d = z3.RotateLeft(d, 8) ^ c
    a = a + d
    d = z3.RotateLeft(d, 13) ^ a
    c = c + b
    b = z3.RotateLeft(b, 7) ^ c
    return a, b, z3.RotateLeft(c, 16), d


def words_of(block: Sequence[Byte]) -> Words:
    a, b, c, d = (z3.Concat(*map(vector, block[at:at + 4][::-1])) for at in range(0, 16, 4))
    return a, b, c, d


def bytes_of(number: z3.BitVecRef) -> Bytes:
    return [z3.Extract(at + 7, at, number) for at in range(0, number.size(), 8)]


def permute(block: Bytes) -> Bytes:
    words = words_of(block)
    for _ in range(HALVES // 2):
        words = a_round(words)
    return [byte for word in words for byte in bytes_of(word)]


def xor(one: Bytes, other: Bytes) -> Bytes:
    return [vector(x) ^ vector(y) for x, y in zip(one, other, strict=True)]


def doubled(key: Bytes) -> Bytes:
    number = z3.Concat(*map(vector, key[::-1]))
    carry = z3.If(z3.Extract(127, 127, number) == 1, z3.BitVecVal(0x87, 128), z3.BitVecVal(0, 128))
    return bytes_of(number << 1 ^ carry)


def chaskey(key: Bytes, blocks: list[Bytes], permutation: Permutation) -> Bytes:
    mask, state = doubled(key), key
    for block in blocks[:-1]:
        state = permutation(xor(state, block))
    return xor(permutation(xor(xor(state, blocks[-1]), mask)), mask)


def tag(master: Bytes, label: Byte, blocks: list[Bytes], permutation: Permutation) -> Bytes:
    return chaskey(chaskey(master, [[label] * 16], permutation), blocks, permutation)


def last_block(label: Byte, number: Bytes, four: Bytes) -> Bytes:
    """The number has its high byte first here, as in memory."""
    return [label] * 8 + number[::-1] + four


def check_definition() -> None:
    """Two halves are a round, for all states. On numbers, all is as in sim/keyed.py."""
    words: Words = words_of(unknown("word", 16))
    must(not feasible(z3.Or(*(x != y for x, y in zip(half(half(words, False), True),
                                                     a_round(words), strict=True)))),
         "two halves are not a round")
    chance = random.Random(4)
    for count in (0, TABLE_BLOCKS):
        master, table, four = (chance.randbytes(size) for size in (16, 16 * count, 4))
        label, number = chance.randrange(66), chance.randbytes(4)
        blocks: list[Bytes] = [[*table[at:at + 16]] for at in range(0, len(table), 16)]

        def on_numbers(block: Bytes) -> Bytes:
            return [z3.simplify(byte) for byte in permute(block)]

        made = tag([*master], label, [*blocks, last_block(label, [*number], [*four])], on_numbers)
        said = keyed.Keys(master).tag(label, int.from_bytes(number, "big"), four, table)
        must(bytes(z3.simplify(vector(byte)).as_long() for byte in made) == said,
             "the definition of a tag is not that of sim/keyed.py")


# ---- Running the code.

@dataclass
class Rounds:
    """The loop of the half rounds: where it begins and ends, and the registers of its state and of
    its counter."""

    head: int
    end: int
    state: int
    counter: int
    cycles: int = 0  # of all turns


class Tag(NamedTuple):
    """A call to the tag function: what of, and what came back."""

    label: Byte
    number: Bytes  # the high byte first
    four: Bytes
    table: Bytes
    made: Bytes  # the first 8 bytes; 4 without a table


class KeyedCode(Code):
    """Hooks are in `hooks` of a state, as in Code. So are the calls to the tag function."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, machine.target.return_address)
        self.tag_at, self.permutation_at = machine.symbols[TAG], machine.symbols[PERMUTATION]
        self.hooks |= {machine.symbols[KEY]: self.key, machine.symbols[STORE]: self.store,
                       self.tag_at: self.tag}
        self.master, self.stored = unknown("master", 16), z3.BitVec("stored", 8)
        self.variable = z3.BitVec("packet4", 8)  # what all unknown pointers depend on
        self.rounds: Rounds | None = None
        self.permuted: list[tuple[Bytes, Bytes]] = []  # of the tag that is being followed
        self.asked: Bytes = []  # the pointer to its number
        self.frame = 0  # the stack pointer when it began; 0: none is followed
        self.costs: dict[int, int] = {}  # cycles of a tag by its blocks
        self.known: dict[tuple[int, ...], tuple[dict[int, Flag], Any]] = {}

    # -- what is followed in another way than in Code

    def step(self, state: State) -> list[State]:
        if self.rounds and state.pc == self.rounds.head:
            self.permute(state, self.rounds)
            return [state]
        return super().step(state)

    def outcomes(self, state: State, condition: Flag) -> tuple[bool, bool]:
        must(isinstance(condition, bool) or not self.frame,
             f"{state.pc:x}: a branch depends on what a tag is made of")
        return super().outcomes(state, condition)

    def is_straight(self, start: int, end: int) -> bool:
        """No branch is merged."""
        return False

    def move(self, state: State, one: Instruction, at: int) -> list[State]:
        """A pointer may hold several addresses: that of a variable's count, for example."""
        is_load = one.name.startswith("ld")
        register, where = one.operands if is_load else one.operands[::-1]
        low = POINTERS[where[0]]
        pair = state.registers[low:low + 2]
        if all(isinstance(byte, int) for byte in pair):
            return super().move(state, one, at)
        must(not where.endswith("+"), f"{at:x}: a pointer that is unknown goes on")
        must(not self.frame or all(a is b for a, b in zip(pair, self.asked, strict=True)),
             f"{at:x}: an address depends on what a tag is made of")
        more, number = int(where[2:] or 0), int(register[1:])
        if is_load:
            state.registers[number] = self.read(state, pair, more)
            state.loads += 1
            return [state]
        for address, when in self.choices(state, pair).items():
            must(address + more in state.memory, f"{at:x}: must not write {address + more:x}")
            state.memory[address + more] = chosen(when, state.registers[number],
                                                  state.memory[address + more])
        return [state]

    def choices(self, state: State, pair: Bytes) -> dict[int, Flag]:
        """All addresses that a pointer may hold, and when it holds each. A pointer that is not
        known must go on by the same number of bytes for each variable."""
        if isinstance(pair[0], int) and isinstance(pair[1], int):
            return {pair[0] | pair[1] << 8: True}
        pointer = joined(pair)
        asked = (pointer, *state.conditions)
        key = tuple(expression.get_id() for expression in asked)
        if key not in self.known:
            solver, found = z3.SolverFor("QF_BV"), {}
            solver.add(*state.conditions)
            while (answer := solver.check()) == z3.sat:
                byte, at = (solver.model().eval(unknown, model_completion=True).as_long()
                            for unknown in (self.variable, pointer))
                found[at] = byte
                solver.add(pointer != at)
                must(len(found) <= 65, f"{state.pc:x}: a pointer may point anywhere")
            must(answer == z3.unsat, "z3 cannot say where a pointer points")
            first, *others = sorted(found)
            stride = others[0] - first if others else 0
            follows = pointer == first + stride * z3.ZeroExt(8, self.variable - found[first])
            must(proved(follows, state), f"{state.pc:x}: a pointer does not follow the variable")
            # `asked` is kept, or z3 could give its numbers to something else.
            self.known[key] = {at: self.variable == found[at] for at in sorted(found)}, asked
        return self.known[key][0]

    def read(self, state: State, pair: Bytes, more: int) -> Byte:
        choices = self.choices(state, pair)
        wrong = [hex(at + more) for at in choices if at + more not in state.memory]
        must(not wrong, f"{state.pc:x}: must not read {wrong}")
        *others, last = choices
        value = state.memory[last + more]
        for at in others:
            value = chosen(choices[at], state.memory[at + more], value)
        return value

    # -- the hooks and the tag function

    def key(self, state: State) -> None:
        """Gives the master key."""
        low, high = state.registers[24:26]
        must(isinstance(low, int) and isinstance(high, int), "the key hook may write anywhere")
        at = int(low) | int(high) << 8
        must(state.sp + self.pushed < at and at + 15 <= self.frame, "the key goes elsewhere")
        state.hooks.append(("key", state.registers[22]))
        self.clobber(state)
        state.memory |= dict(zip(range(at, at + 16), self.master, strict=True))

    def store(self, state: State) -> None:
        r = state.registers
        number = [self.read(state, r[22:24], at) for at in range(3)]
        state.hooks.append(("store", r[24], number, state.memory.copy()))
        self.clobber(state)
        r[24] = self.stored
        state.conditions.append(z3.ULE(self.stored, 1))

    def permute(self, state: State, rounds: Rounds) -> None:
        """All turns of the loop at once: they were proved one by one."""
        must(state.registers[rounds.counter] == HALVES and state.registers[1] == 0,
             "the rounds begin in another way")
        here = slice(rounds.state, rounds.state + 16)
        made = unknown(f"permuted{len(self.permuted)}_", 16)
        self.permuted.append((state.registers[here], made))
        kept = state.registers.copy()
        self.clobber(state)
        for number in range(32):
            if number not in (0, rounds.counter, rounds.counter + 1):
                state.registers[number] = kept[number]
        state.registers[here] = made
        state.cycles += rounds.cycles
        state.pc = rounds.end

    def tag(self, state: State) -> None:
        """Follows the tag function from here to its end, and proves what it does. Then puts unknown
        bytes in the place of what it made."""
        packet, number_at, report_at = (state.registers[low:low + 2] for low in (24, 20, 18))
        label = state.registers[22]
        number = [self.read(state, number_at, at) for at in range(4)]
        four = [self.read(state, packet, at) for at in range(4, 8)]
        [report] = self.choices(state, report_at)
        table = [state.memory[report + at] for at in range(8, REPORT)] if report else []
        end = self.followed(state, number_at)
        blocks = [table[at:at + 16] for at in range(0, len(table), 16)]
        blocks.append(last_block(label, number, four))
        made = self.check_tag(state, end, label, blocks, report)
        cycles = end.cycles - state.cycles
        must(self.costs.setdefault(len(blocks), cycles) == cycles,
             "a tag of as many blocks takes another time")
        calls = sum(isinstance(hook, Tag) for hook in state.hooks)
        made = unknown(f"tag{calls}_", len(made))
        self.clobber(state)
        state.registers[22:26] = made[:4]
        state.memory |= {report + at: made[at] for at in range(4, len(made))}
        state.cycles, state.lowest = end.cycles, end.lowest
        state.hooks.append(Tag(label, number, four, table, made))

    def followed(self, state: State, number_at: Bytes) -> State:
        end, back = state.fork(), state.fork()
        end.hooks, home = [], self.pop_return(back)
        self.permuted, self.asked, self.frame = [], number_at, state.sp
        del self.hooks[self.tag_at]
        while (end.pc, end.sp) != (home, back.sp):
            [end] = self.step(end)
            must(end.cycles < state.cycles + 10**6, "the tag function does not return")
        self.hooks[self.tag_at], self.frame = self.tag, 0
        return end

    def check_tag(self, start: State, end: State, label: Byte, blocks: list[Bytes],
                  report: int) -> Bytes:
        """Proves what the tag function has made, and that it has changed nothing else."""
        permuted = iter(self.permuted)

        def permutation(block: Bytes) -> Bytes:
            given, made = next(permuted, ([], []))
            must(bool(given) and not feasible(differ(given, block)),
                 f"a block of a tag of {len(blocks)} is not as it should be")
            return made

        expected = tag(self.master, label, blocks, permutation)[:8 if report else 4]
        must(next(permuted, None) is None, "there are more blocks in a tag")
        made = end.registers[22:26] + [end.memory[report + at] for at in range(4, len(expected))]
        must(not feasible(differ(made, expected)), "a tag is not as it should be")
        must(len(end.hooks) == 1 and end.hooks[0][1] is label, "another key is asked for")
        written = {at for at, byte in end.memory.items() if start.memory.get(at) is not byte
                   and not end.lowest < at <= start.sp}
        must(written == {report + at for at in range(4, len(expected))},
             f"a tag writes where it should not: {sorted(map(hex, written))}")
        must(end.registers[1] == 0, "r1 is not zero")
        for number in KEPT:
            must(end.registers[number] is start.registers[number], f"r{number} is not kept")
        return expected


def differ(some: Bytes, others: Bytes) -> z3.BoolRef:
    return z3.Or(*(vector(a) != vector(b) for a, b in zip(some, others, strict=True)))


def equal(some: Bytes, others: Bytes) -> z3.BoolRef:
    return z3.And(*(vector(a) == vector(b) for a, b in zip(some, others, strict=True)))


def find_rounds(code: KeyedCode, top: int) -> Rounds:
    """Finds the loop of the half rounds in a run with numbers."""
    chance = random.Random(5)
    block, key = chance.randbytes(16), chance.randbytes(16)
    at = top - 200
    memory: dict[int, Byte] = dict(zip(range(at, at + 48), block + key + bytes(16), strict=True))
    start = State(code.permutation_at, top, [*bytes(32)], memory)
    start.registers[24:26] = split(at)
    code.push_return(start, HOME)
    code.loops.clear()
    [_] = explore(code, start)
    heads = [to for to, count in code.loops.items() if count == HALVES]
    must(len(heads) == 1, f"no loop turns {HALVES} times")
    [code.head] = heads
    [end] = explore(code, start)
    turns, code.head = end.heads, -1
    mixed = [*keyed.xor(keyed.xor(block, key), keyed.doubled(key))]
    states = [low for low in range(17) if turns[0].registers[low:low + 16] == mixed]
    counters = [low for low in range(16, 32)
                if [turn.registers[low] for turn in turns] == [*range(HALVES, 0, -1)]]
    must(len(states) == len(counters) == 1, "the registers of the rounds were not found")
    last = max(at for at in code.of(code.permutation_at)
               if code.instructions[at].target == heads[0] < at)
    return Rounds(heads[0], last + code.instructions[last].size, states[0], counters[0])


def check_rounds(code: KeyedCode, rounds: Rounds) -> None:
    """Proves that each turn of the loop is half a round, whatever the state is, and that it changes
    nothing else. Each turn begins as the one before has ended."""
    for left in range(HALVES, 0, -1):
        registers: Bytes = unknown("any", 32)
        registers[1], registers[rounds.counter] = 0, left
        start = State(rounds.head, 0, registers, {})
        code.forget_flags(start)
        code.frame, end = 1, start.fork()  # so that no branch may depend on the state
        while end is start or end.pc not in (rounds.head, rounds.end) or not end.cycles:
            [end] = code.step(end)
        code.frame = 0
        here = range(rounds.state, rounds.state + 16)
        words = half(words_of([registers[at] for at in here]), left % 2 == 1)
        must(not feasible(differ([end.registers[at] for at in here],
                                 [byte for word in words for byte in bytes_of(word)])),
             "a turn of the loop is not half a round")
        free = {0, rounds.counter, rounds.counter + 1, *here}
        must(all(end.registers[at] is registers[at] for at in range(2, 32) if at not in free)
             and end.registers[1] == 0 and end.registers[rounds.counter] == left - 1
             and not end.memory and end.sp == 0
             and end.pc == (rounds.head if left > 1 else rounds.end),
             "a turn of the loop changes more than its state")
        rounds.cycles += end.cycles


# ---- The agent.

@dataclass
class World:
    """An agent of which nothing is known, and a packet."""

    agent: int
    packet: int
    top: int  # of the stack
    alone: int
    state: Bytes
    bytes: Bytes
    length: Bytes  # low byte first, as in registers
    context: Bytes

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
        return [z3.Or(own == 0, z3.UGE(own, keyed.OWN_FIRST)) for own in self.owns()]

    def call(self, code: Code, function: int, *arguments: Bytes) -> State:
        registers: Bytes = unknown("r", 32)
        registers[1] = 0
        for number, pair in zip((24, 22, 20, 18), arguments, strict=False):
            registers[number:number + 2] = pair
        memory = dict(zip(range(self.agent, self.agent + len(self.state)), self.state, strict=True))
        memory |= dict(zip(range(self.packet, self.packet + 8), self.bytes, strict=True))
        state = State(function, self.top, registers, memory)
        code.push_return(state, HOME)
        return state


def a_world(agent: int, packet: int, top: int, alone: int) -> World:
    size = Keyed.REPORT + REPORT
    state = unknown("agent", size)
    for variable in range(alone):
        state += [*unknown(f"own{variable}_", 3), 0]
    return World(agent, packet, top, alone, state, unknown("packet", 8), unknown("length", 2),
                 unknown("context", 2))


def at_index(byte: z3.BitVecRef, first: int, values: Sequence[z3.BitVecRef]) -> z3.BitVecRef:
    """The value that byte 4 of a packet chooses. `first` chooses the first one."""
    result = values[-1]
    for number, value in enumerate(values[:-1]):
        result = z3.If(byte == first + number, value, result)
    return result


class Said:
    """What SPEC-keyed.md says of a packet: "What it takes"."""

    def __init__(self, world: World) -> None:
        p, owns = [*map(vector, world.bytes)], world.owns() or [z3.BitVecVal(0, 24)]
        kind, epoch = p[4], z3.Concat(*map(vector, world.epoch))
        self.eight = joined(world.length) == 8
        own, new = at_index(kind, keyed.IS_ANNOUNCE, owns), z3.Concat(*p[5:])
        self.announce = z3.And(
            self.eight, z3.UGE(kind, keyed.IS_ANNOUNCE),
            z3.ULT(kind, keyed.IS_ANNOUNCE + world.alone),
            z3.UGE(new, keyed.OWN_FIRST), z3.UGT(new, own))
        last = at_index(kind, keyed.IS_HEARTBEAT, [*map(vector, world.part(Keyed.LAST, 65))])
        self.counted = z3.And(
            self.eight, z3.UGE(kind, keyed.IS_HEARTBEAT), z3.ULE(kind, keyed.IS_REQUEST),
            z3.UGT(p[5], last))
        self.label = kind - z3.If(self.announce, z3.BitVecVal(keyed.IS_ANNOUNCE, 8),
                                  z3.BitVecVal(keyed.IS_HEARTBEAT, 8))
        own = at_index(kind, keyed.IS_HEARTBEAT, owns)
        self.number = z3.If(
            self.announce, z3.BitVecVal(0, 32),
            z3.If(z3.And(z3.ULT(self.label, world.alone), own != 0),
                  z3.Concat(own, z3.BitVecVal(0, 8)), epoch))
        self.is_request = z3.And(self.eight, kind == keyed.IS_REQUEST)

    def result(self, right: Flag, stored: Flag) -> z3.BitVecRef:
        """Right: its tag is. Stored: its number was."""
        def one_of(result: int) -> z3.BitVecRef:
            return z3.BitVecVal(result, 8)

        taken = z3.And(self.counted, right)
        return z3.If(self.is_request,
                     z3.If(taken, one_of(keyed.REPORT), one_of(keyed.BEACON)),
                     z3.If(taken, one_of(keyed.HEARTBEAT),
                           z3.If(z3.And(self.announce, right, stored), one_of(keyed.ANNOUNCE),
                                 one_of(keyed.REFUSED))))


def check_memory(state: State, start: State, world: World, expected: Bytes) -> None:
    """Proves what a path has made of the agent, and that it has written nothing else."""
    at = world.agent
    written = {where for where, byte in state.memory.items() if start.memory.get(where) is not byte}
    outside = {where for where in written if not (at <= where < at + len(world.state)
                                                  or state.lowest < where <= world.top)}
    must(not outside, f"writes where it should not: {sorted(map(hex, outside))}")
    both = [(state.memory[at + number], byte) for number, byte in enumerate(expected)
            if not vector(state.memory[at + number]).eq(vector(byte))]
    must(not both or proved(equal([a for a, _ in both], [b for _, b in both]), state),
         "the agent has not become what it should be")


def check_sent(hook: tuple[Any, ...], world: World, at: int, size: int,
               expected: dict[int, Byte]) -> None:
    name, context, pointer, length, memory = hook
    must(name == "send" and (pointer, length) == (split(at), split(size)), "sends something else")
    must(all(a is b for a, b in zip(context, world.context, strict=True)), "loses the context")
    must(all(memory[where] is expected[where] for where in range(at, at + size)),
         "what is sent is not what it should be")


def check_packet(code: KeyedCode, state: State, start: State, world: World, said: Said) -> None:
    """Proves one path through dumpulse_keyed_process."""
    check_return(state, start, world.top)
    result = state.registers[24]
    must(result in range(len(keyed.NAMES)), f"the result may be {result}")
    tags = [hook for hook in state.hooks if isinstance(hook, Tag)]
    hooks = [hook for hook in state.hooks if not isinstance(hook, Tag)]
    p, label = world.bytes, said.label
    must(said_so(state, tags, z3.Or(said.announce, said.counted)),
         "a tag is made of what should be refused before, or it is not")
    right: Flag = False
    if tags:
        right = equal(tags[0].made, p[:4])
        must(proved(z3.And(vector(tags[0].label) == label, not tags[0].table,
                           z3.Concat(*map(vector, tags[0].number)) == said.number,
                           equal(tags[0].four, p[4:])), state), "a tag of something else")
        check_compared(state, right)
    stores = [hook for hook in hooks if hook[0] == "store"]
    must(said_so(state, stores, z3.And(said.announce, right)),
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

    expected, others = world.state.copy(), [hook for hook in hooks if hook[0] != "store"]
    first, count = (keyed.IS_HEARTBEAT, p[5]) if result != keyed.ANNOUNCE else (
        keyed.IS_ANNOUNCE, 0)

    def put(at: int, label: int, byte: Byte) -> None:
        expected[at] = chosen(vector(p[4]) == first + label, byte, expected[at])

    if result in (keyed.HEARTBEAT, keyed.REPORT, keyed.ANNOUNCE):
        for at in range(65):
            put(Keyed.LAST + at, at, count)
    names = [hook[0] for hook in others]
    if result == keyed.HEARTBEAT:
        must(names == ["time"] and len(tags) == 1, "the clock hook is not called once")
        entry = [*code.clock[::-1], *p[6:]]
        for at in range(256):
            put(Keyed.REPORT + 8 + at, at // 4, entry[at % 4])
        check_clock(state, others[0][1], world)
    elif result == keyed.REPORT:
        must(names == ["send"] and len(tags) == 2, "the send hook is not called once")
        must(proved(z3.And(tags[1].label == keyed.READERS, equal(tags[1].number, world.epoch),
                           equal(tags[1].four, p[4:]),
                           equal(tags[1].table, world.part(Keyed.REPORT + 8, 256))), state),
             "the report's tag is one of something else")
        expected[Keyed.REPORT:Keyed.REPORT + 8] = tags[1].made
        check_sent(others[0], world, world.agent + Keyed.REPORT, REPORT, state.memory)
    elif result == keyed.BEACON:
        must(len(names) == 1, "the send hook is not called once")
        check_sent(others[0], world, world.agent, 8, start.memory)
    elif result == keyed.ANNOUNCE:
        must(not names and len(tags) == 1, "an announce calls another hook")
        for at in range(3 * world.alone):
            put(Keyed.REPORT + REPORT + at // 3 * 4 + at % 3, at // 3, p[5 + at % 3])
    else:
        must(not names, "a refused packet calls a hook")
    check_memory(state, start, world, expected)


def check_compared(state: State, right: z3.BoolRef) -> None:
    """Proves that all wrong tags take the same path, or the right one does: so the time does not
    depend on where a tag is wrong."""
    about = [condition for condition in state.conditions if "tag0_" in condition.sexpr()]
    others = [condition for condition in state.conditions
              if all(condition is not one for one in about)]
    same = right if feasible(*state.conditions, right) else z3.Not(right)
    must(not feasible(*others, same, z3.Not(z3.And(about))), "the time depends on a tag")


def said_so(state: State, done: list[Any], when: z3.BoolRef) -> bool:
    """Was it done exactly when it should have been?"""
    return proved(when if done else z3.Not(when), state)


def check_clock(state: State, then: dict[int, Byte], world: World) -> None:
    """When the clock is read, only the two bytes of the time are still to come."""
    times = {world.agent + Keyed.REPORT + 8 + 4 * at + byte for at in range(64) for byte in (0, 1)}
    must(all(then[at] is state.memory[at] for at in range(world.agent,
                                                          world.agent + len(world.state))
             if at not in times),
         "the entry is not as promised when the clock is read")


# ---- Ticks.

def find_counts(code: KeyedCode, world: World, function: int) -> int:
    """Where a turn of the loop begins that sets 65 counts to 0, found in a tick with numbers."""
    state: Bytes = [1] * len(world.state)
    numbers = World(world.agent, world.packet, world.top, world.alone, state, [0] * 8, [0, 0],
                    [0, 0])
    code.loops.clear()
    [_] = explore(code, numbers.call(code, function, split(world.agent), [0, 0]))
    heads = [at for at, count in code.loops.items() if count == 65]
    must(len(heads) == 1, "no loop sets 65 counts")
    return heads[0]


def merged(code: KeyedCode, states: list[State], common: int) -> State:
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
        result.registers = [chosen(way, a, b) for a, b in
                            zip(state.registers, result.registers, strict=True)]
        result.memory = {at: chosen(way, state.memory[at], byte)
                         for at, byte in result.memory.items()}
    if others:
        code.forget_flags(result)
        result.longer.append(others[-1].cycles - result.cycles)
        result.lowest = min(state.lowest for state in states)
    result.conditions = given
    return result


def ticked(code: KeyedCode, start: State) -> Iterator[State]:
    """Follows a tick to its ends. In the loop that sets the counts to 0, all ways through a turn
    become one, or there would be 2^32 of them."""
    states = [*turned(code, start)]
    while states:
        state = states.pop()
        if state.pc == HOME:
            state.registers[24] = settled(state.registers[24], state)
            yield state
            continue
        ends = [*turned(code, state)]
        again = [end for end in ends if end.pc == code.head]
        states += [merged(code, again, len(state.conditions))] if again else []
        states += [end for end in ends if end.pc != code.head]


def check_tick(code: KeyedCode, state: State, start: State, world: World) -> None:
    """Proves one path through dumpulse_keyed_tick."""
    check_return(state, start, world.top)
    result = state.registers[24]
    must(result in (0, 1), f"the result may be {result}")
    epoch = z3.Concat(*map(vector, world.epoch))
    ended, following = z3.UGE(epoch, keyed.EPOCH_LAST), epoch + 1
    stores = z3.And(z3.Not(ended), z3.URem(following, keyed.BLOCK) == 0)
    fails = z3.Or(ended, z3.And(stores, code.stored == 0))
    must(proved(fails if not result else z3.Not(fails), state), "a tick has another result")
    names = ["tag" if isinstance(hook, Tag) else hook[0] for hook in state.hooks]
    expected, now = world.state.copy(), bytes_of(z3.If(ended, epoch, following))[::-1]
    expected[Keyed.EPOCH:Keyed.EPOCH + 4] = now
    if (stored := "store" in names):
        label, number, memory = state.hooks[0][1:]
        must(proved(z3.And(vector(label) == keyed.BEACONS, equal(number, now[:3])), state),
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
    must(proved(z3.And(vector(made.label) == keyed.BEACONS, not made.table,
                       equal(made.number, now), equal(made.four, now)), state),
         "the beacon is of something else")
    expected[:4] = made.made
    for at in range(65):
        own = world.owns()[at] if at < world.alone else z3.BitVecVal(0, 24)
        expected[Keyed.LAST + at] = z3.If(own == 0, z3.BitVecVal(0, 8),
                                          vector(world.state[Keyed.LAST + at]))
    check_memory(state, start, world, expected)
    check_sent(state.hooks[-1], world, world.agent, 8, state.memory)


# ---- All of it.

@dataclass
class Followed:
    """An agent on a chip: how each call begins, and all paths to its end."""

    machine: Machine
    code: KeyedCode
    world: World
    start: State
    packets: list[State]
    ticks: list[State]
    tick_start: State

    def kinds(self) -> Iterator[tuple[str, State]]:
        """What becomes of what takes each path."""
        for state in self.packets:
            result = int(state.registers[24])
            tags = any(isinstance(hook, Tag) for hook in state.hooks)
            yield WRONG if tags and not result else keyed.NAMES[result], state
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


def followed(machine: Machine, alone: int, places: Sequence[tuple[int, int]]) -> Iterator[Followed]:
    """Follows an agent on a chip, with agent and packet at each of these places."""
    code, top = KeyedCode(machine), machine.ram + RAM_BYTES - 1
    rounds = find_rounds(code, top)
    check_rounds(code, rounds)
    code.rounds = rounds
    for agent, packet in places:
        world = a_world(agent, packet, top, alone)
        start = world.call(code, machine.symbols[PROCESS], split(agent), split(packet),
                           world.length, world.context)
        packets = list(explore(code, start))
        code.head = find_counts(code, world, machine.symbols[TICK])
        tick_start = world.call(code, machine.symbols[TICK], split(agent), world.context)
        ticks = list(ticked(code, tick_start))
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
        state = (chance.randbytes(4) + epoch.to_bytes(4, "big") +
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
            label = four[0] & 0x3F if four[0] != keyed.IS_REQUEST else keyed.READERS
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
        solver = z3.SolverFor("QF_BV")
        for symbols, numbers in (
                (world.state, state), (world.bytes, packet), (world.length, split(length)),
                (world.context, split(0x1234)), (it.code.clock, split(machine.now)),
                (unknown("tag0_", 4), tags[0][:4]), (unknown("tag1_", 8), tags[1]),
                ([it.code.stored], [not machine.numbers.fails])):
            solver.add(*(symbol == int(byte) for symbol, byte in
                         zip(symbols, numbers, strict=True) if not isinstance(symbol, int)))
        must(solver.check() == z3.sat, "the numbers of a run do not fit together")
        model = solver.model()
        taken = [path for path in paths
                 if all(map(z3.is_true, map(model.eval, path.conditions)))]
        must(len(taken) == 1, f"{packet.hex()} takes {len(taken)} paths")
        [path] = taken
        after = bytes(model.eval(vector(path.memory[world.agent + at])).as_long()
                      for at in range(size))
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
    for it in followed(machine, alone, places[alone > 0:]):
        said, world, code = Said(it.world), it.world, it.code
        given = world.given()
        for state in (*it.packets, *it.ticks):
            state.conditions = [*given, *state.conditions]
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
    [it] = followed(machine, 0, [own_place(machine, 0)])
    machine.close()
    return it.limits()


def show(limits: tuple[int, int]) -> str:
    return str(limits[0]) if limits[0] == limits[1] else f"{limits[0]}-{limits[1]}"


def main() -> None:
    row = "{:<11}{:>3}{:>6}{:>8}{:>10}{:>10}{:>7}{:>9}{:>9}{:>10}{:>6}{:>6}"
    print(row.format("with keys", "", "paths", "refused", WRONG, "heartbeat", "report", "beacon",
                     "announce", "tick", "stop", "stack"), flush=True)
    check_definition()
    tags = {}
    with ProcessPoolExecutor() as pool:
        for (name, alone), it in zip(BUILDS, pool.map(follow, *zip(*BUILDS, strict=True)),
                                     strict=True):
            cells = [show(it.limits[kind]) if kind in it.limits else "" for kind in KINDS]
            print(row.format(name, alone or "", it.paths, *cells, it.stack), flush=True)
            tags[name] = it.tags
    for name, (one, many) in tags.items():
        print(f"{name}: every tag of a packet takes {one} cycles, every one of a report {many}")
    print(EXPLAINED)


EXPLAINED = """\
Cycles without the hooks, as above. 32: with up to 32 nodes that only send. refused: before a tag is
made. wrong: for its tag, or as a number was not stored. beacon: the answer to a refused request.
stop: a tick that begins no epoch. Each path is proved to do what SPEC-keyed.md says, and each tag
to be Chaskey-12. No tag's time depends on a key, a packet or a table."""

if __name__ == "__main__":
    main()
