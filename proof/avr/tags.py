"""Follows the tag function of an agent with keys on AVR, and proves that it is Chaskey-12.

The tag function runs with an unknown master key, label, number, packet and table. This
program proves that it computes Chaskey-12 as ISO/IEC 29192-6 defines it, with the key of the label,
as spec/keyed.md says. Where a round begins, the state is replaced by 16 unknown bytes. One turn of
the loop is proved to be half a round. So each question for z3 is small. The definition used is
compared with spec/keyed.py on numbers, which passes the vectors of spec/chaskey12.tsv. In the tag
function, a branch must never depend on an unknown byte, and an address only on which number was
asked for. So its cycles depend on the number of blocks alone. SPDX-License-Identifier: MIT"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import z3

from bench.processors.machine import KEY, STORE, Machine
from proof.avr.machine import (HOME, KEPT, POINTERS, Code, Instruction, State, check_written,
                               explore, proved)
from proof.avr.symbols import (Byte, Bytes, Flag, choose, differ, feasible, join, must, split,
                               unknown, vector)
from spec import keyed

TAG, PERMUTATION = "dumpulse_tag_", "chaskey"
HALVES = 24  # of the 12 rounds
TABLE_BLOCKS = 16
REPORT = 264
Words = tuple[z3.BitVecRef, z3.BitVecRef, z3.BitVecRef, z3.BitVecRef]
Permutation = Callable[[Bytes], Bytes]


def half(words: Words, second: bool) -> Words:
    """Half a round. At its end, a and c change places."""
    a, b, c, d = words
    a, c = a + b, c + d
    b = z3.RotateLeft(b, 7 if second else 5) ^ a
    d = z3.RotateLeft(d, 13 if second else 8) ^ c
    return c, b, z3.RotateLeft(a, 16), d


def round_of(words: Words) -> Words:
    """As spec/keyed.py has it."""
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
        words = round_of(words)
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
    """Two halves are a round, for all states. On numbers, all is as in spec/keyed.py."""
    words: Words = words_of(unknown("word", 16))
    must(not feasible(z3.Or(*(x != y for x, y in zip(half(half(words, False), True),
                                                     round_of(words), strict=True)))),
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
             "the definition of a tag is not that of spec/keyed.py")


@dataclass
class Rounds:
    """The loop of the half rounds: where it begins and ends, the registers of state and counter."""

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
            state.memory[address + more] = choose(when, state.registers[number],
                                                  state.memory[address + more])
        return [state]

    def choices(self, state: State, pair: Bytes) -> dict[int, Flag]:
        """All addresses that a pointer may hold, and when it holds each. A pointer that is not
        known must go on by the same number of bytes for each variable."""
        if isinstance(pair[0], int) and isinstance(pair[1], int):
            return {pair[0] | pair[1] << 8: True}
        pointer = join(pair)
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
            value = choose(choices[at], state.memory[at + more], value)
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
        end = self.follow_tag(state, number_at)
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

    def follow_tag(self, state: State, number_at: Bytes) -> State:
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
        more = range(report + 4, report + len(expected))
        must(check_written(end, start, more, start.sp) == [*more],
             "a tag is not written as a whole")
        must(end.registers[1] == 0, "r1 is not zero")
        for number in KEPT:
            must(end.registers[number] is start.registers[number], f"r{number} is not kept")
        return expected


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
