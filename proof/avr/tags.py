"""Follows all that makes a tag on AVR, and proves that it is Chaskey-12.

The functions that make a tag, compare one, and make a label's key run with an unknown key, label,
number, packet and table. This program proves that they compute Chaskey-12 as ISO/IEC 29192-6
defines it, of the block that spec/keyed.md says. Where a round begins, the state is replaced by 16
unknown bytes. One turn of the loop is proved to be half a round. So each question for z3 is small.
The definition used is compared with spec/keyed.py on numbers, which passes the vectors of
spec/chaskey12.tsv. No address may depend on an unknown byte, and no branch, but the last one of the
comparison. So cycles depend on nothing but the function."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import z3

from proof.avr.machine import (HOME, RAM_BYTES, Code, State, check_reached, check_return,
                               check_written, explore, proved)
from proof.avr.symbols import (Byte, Bytes, Flag, differ, equal, feasible, must, split, unknown,
                               vector)
from spec import keyed
from tools.processors.machine import KEY, Machine, load

TAG, RIGHT, REPORT_TAG = "dumpulse_tag_", "dumpulse_right_", "dumpulse_report_tag_"
MAKE, LABEL_KEY, PERMUTATION = "dumpulse_make_", "dumpulse_label_key", "dumpulse_permute_"
PARTS = (TAG, RIGHT, MAKE, REPORT_TAG, LABEL_KEY, "dumpulse_start_tag_", "dumpulse_double_",
         "dumpulse_last_", PERMUTATION)
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


def last_block(label: Byte, number: Bytes, four: Bytes) -> Bytes:
    """The number has its low byte first."""
    return [label] * 8 + number + four


def check_definition() -> None:
    """Two halves are a round, for all states. On numbers, all is as in spec/keyed.py."""
    words: Words = words_of(unknown("word", 16))
    must(not feasible(z3.Or(*(x != y for x, y in zip(half(half(words, False), True),
                                                     round_of(words), strict=True)))),
         "two halves are not a round")
    chance = random.Random(4)

    def on_numbers(block: Bytes) -> Bytes:
        return [z3.simplify(byte) for byte in permute(block)]

    def agrees(key: bytes, blocks: list[Bytes], said: bytes) -> bool:
        made = chaskey([*key], blocks, on_numbers)
        return bytes(z3.simplify(vector(byte)).as_long() for byte in made) == said

    for count in (0, TABLE_BLOCKS):
        master, table, four = (chance.randbytes(size) for size in (16, 16 * count, 4))
        label, number, generation = chance.randrange(65), chance.randbytes(4), chance.randrange(256)
        keys = keyed.Keys(master, generations={label: generation})
        blocks: list[Bytes] = [[*table[at:at + 16]] for at in range(0, len(table), 16)]
        must(agrees(master, [[label] * 15 + [generation]], keys.of(label)) and
             agrees(keys.of(label), [*blocks, last_block(label, [*number], [*four])],
                    keys.tag(label, int.from_bytes(number, "little"), four, table)),
             "the definition of a tag is not that of spec/keyed.py")


@dataclass
class Rounds:
    """The loop of the half rounds: where it begins and ends, the registers of state and counter."""

    head: int
    end: int
    state: int
    counter: int
    cycles: int = 0  # of all turns


class TagCode(Code):
    """The key hook gives an unknown key. No branch and no address may depend on unknown bytes."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, machine.target.return_address)
        self.machine = machine
        self.hooks |= {machine.symbols[KEY]: self.give_key}
        self.key = unknown("key", 16)
        self.rounds: Rounds | None = None
        self.permuted: list[tuple[Bytes, Bytes]] = []  # what went into each permutation, and out
        self.may_branch = set(self.of(machine.symbols[RIGHT]))

    def step(self, state: State) -> list[State]:
        if self.rounds and state.pc == self.rounds.head:
            self.permute(state, self.rounds)
            return [state]
        return super().step(state)

    def outcomes(self, state: State, condition: Flag) -> tuple[bool, bool]:
        must(isinstance(condition, bool) or state.pc in self.may_branch,
             f"{state.pc:x}: a branch depends on what a tag is made of")
        return super().outcomes(state, condition)

    def is_straight(self, start: int, end: int) -> bool:
        """No branch is merged."""
        return False

    def fork_at(self, state: State, low: int) -> list[State]:
        must(all(isinstance(byte, int) for byte in state.registers[low:low + 2]),
             f"{state.pc:x}: an address depends on what a tag is made of")
        return [state]

    def give_key(self, state: State) -> None:
        low, high = state.registers[24:26]
        must(isinstance(low, int) and isinstance(high, int), "the key hook may write anywhere")
        at = int(low) | int(high) << 8
        must(at > state.sp + self.pushed, "the key goes elsewhere")
        state.hooks.append(("key", state.registers[22]))
        self.clobber(state)
        state.memory |= dict(zip(range(at, at + 16), self.key, strict=True))

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

    def expected(self, key: Bytes, blocks: list[Bytes]) -> Bytes:
        """Chaskey-12 by the definition, if these blocks are what was permuted, in this order."""
        permuted = iter(self.permuted)

        def permutation(block: Bytes) -> Bytes:
            given, made = next(permuted, ([], []))
            must(bool(given) and not feasible(differ(given, block)),
                 f"a block of a tag of {len(blocks)} is not as it should be")
            return made

        made = chaskey(key, blocks, permutation)
        must(next(permuted, None) is None, "there are more blocks in a tag")
        return made


def find_rounds(code: TagCode, top: int) -> Rounds:
    """Finds the loop of the half rounds in a run with numbers."""
    chance = random.Random(5)
    block = chance.randbytes(16)
    at = top - 200
    memory: dict[int, Byte] = dict(zip(range(at, at + 16), block, strict=True))
    start = State(code.machine.symbols[PERMUTATION], top, [*bytes(32)], memory)
    start.registers[24:26] = split(at)
    code.push_return(start, HOME)
    code.loops.clear()
    [_] = explore(code, start)
    heads = [to for to, count in code.loops.items() if count == HALVES]
    must(len(heads) == 1, f"no loop turns {HALVES} times")
    [code.head] = heads
    [end] = explore(code, start)
    turns, code.head = end.heads, -1
    states = [low for low in range(17) if turns[0].registers[low:low + 16] == [*block]]
    counters = [low for low in range(16, 32)
                if [turn.registers[low] for turn in turns] == [*range(HALVES, 0, -1)]]
    must(len(states) == len(counters) == 1, "the registers of the rounds were not found")
    last = max(at for at in code.of(code.machine.symbols[PERMUTATION])
               if code.instructions[at].target == heads[0] < at)
    return Rounds(heads[0], last + code.instructions[last].size, states[0], counters[0])


def check_rounds(code: TagCode, rounds: Rounds) -> None:
    """Proves that each turn of the loop is half a round, whatever the state is, and that it changes
    nothing else. Each turn begins as the one before has ended."""
    for left in range(HALVES, 0, -1):
        registers: Bytes = unknown("any", 32)
        registers[1], registers[rounds.counter] = 0, left
        start = State(rounds.head, 0, registers, {})
        code.forget_flags(start)
        end = start.fork()
        while end is start or end.pc not in (rounds.head, rounds.end) or not end.cycles:
            [end] = code.step(end)
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


@dataclass
class Followed:
    """The cycles and the stack of each function that is called with something to make a tag of."""

    code: TagCode
    top: int  # of the stack
    costs: dict[str, tuple[int, int]]

    def follow(self, name: str, memory: dict[int, Byte], own: range, *arguments: Bytes
               ) -> list[State]:
        """Follows a call to its ends, which may write only into `own` and their stack. All cost
        the same, wherever the arguments point."""
        code = self.code
        code.permuted = []
        start = code.call(code.machine.symbols[name], self.top, memory, *arguments)
        ends = list(explore(code, start))
        for end in ends:
            check_return(end, start, self.top)
            must(check_written(end, start, own, self.top) == [*own], f"{name} leaves bytes out")
            cost = end.cycles, self.top - end.lowest
            must(self.costs.setdefault(name, cost) == cost, f"the time of {name} depends on a tag")
        return ends


def check_tags(it: Followed, packet: int, report: int) -> None:
    """Proves what each function makes, with its packet, and its report or key, at these places."""
    code = it.code
    label, number, sent = z3.BitVec("label", 8), unknown("number", 4), unknown("packet", 8)
    memory: dict[int, Byte] = dict(zip(range(packet, packet + 8), sent, strict=True))
    table = unknown("table", 16 * TABLE_BLOCKS)
    last = [last_block(label, number, sent[4:])]
    arguments = split(packet), [label, z3.BitVec("any", 8)], number[2:], number[:2]

    [end] = it.follow(TAG, memory, range(0), *arguments)
    made = code.expected(code.key, last)[:4]
    must(not feasible(differ(end.registers[22:26], made)), "a tag is not as it should be")
    must([*end.hooks] == [("key", label)], "another key is asked for")

    ends = it.follow(RIGHT, memory, range(0), *arguments)
    right = equal(code.expected(code.key, last)[:4], sent[:4])
    must(len(ends) == 2, "the time depends on a tag")
    for end in ends:
        must(end.registers[24] in (0, 1) and [*end.hooks] == [("key", label)] and
             proved(right if end.registers[24] else z3.Not(right), end),
             "a tag is not compared as it should be")

    own = range(packet, packet + 4)
    [end] = it.follow(MAKE, memory, own, *arguments)
    made = code.expected(code.key, last)[:4]
    must([*end.hooks] == [("key", label)]
         and not feasible(differ([end.memory[at] for at in own], made)),
         "a packet gets another tag")

    memory |= dict(zip(range(report + 8, report + REPORT), table, strict=True))
    [end] = it.follow(REPORT_TAG, memory, range(report, report + 8), split(packet), number[2:],
                      number[:2], split(report))
    blocks = [table[at:at + 16] for at in range(0, len(table), 16)]
    made = code.expected(code.key, [*blocks, last_block(keyed.READER_LABEL, number, sent[4:])])
    must(not feasible(differ([end.memory[report + at] for at in range(8)], made[:8])),
         "the tag of a report is not as it should be")
    must([*end.hooks] == [("key", keyed.READER_LABEL)], "another key is asked for")

    own, generation = range(report, report + 16), z3.BitVec("generation", 8)
    [end] = it.follow(LABEL_KEY, dict(zip(own, code.key, strict=True)), own, split(report),
                      [label, z3.BitVec("any", 8)], [generation, z3.BitVec("any", 8)])
    made = code.expected(code.key, [[label] * 15 + [generation]])
    must(not end.hooks and not feasible(differ([end.memory[at] for at in own], made)),
         "a label's key is not as it should be")


def check_simulated(it: Followed) -> None:
    """Checks that simavr makes the tags of spec/keyed.py, in the same cycles and stack."""
    machine, chance = it.code.machine, random.Random(6)
    packet, report = machine.agent, machine.agent + 8
    for number in range(12):
        keys = machine.keys = keyed.Keys(chance.randbytes(16))
        label, generation, epoch = chance.randrange(65), number, chance.randrange(2**32)
        four, table = chance.randbytes(4), chance.randbytes(16 * TABLE_BLOCKS)
        sent = keys.packet(label, epoch, four)
        wrong = bytes((sent[0] ^ (number % 2), *sent[1:]))
        machine.write(packet, wrong + bytes(8) + table)
        words = epoch >> 16, epoch & 0xFFFF
        calls = {TAG: machine.call(TAG, packet, label, *words)}
        made = machine.read(22, 4)
        calls[RIGHT] = machine.call(RIGHT, packet, label, *words)
        calls[MAKE] = machine.call(MAKE, packet, label, *words)
        must(machine.read(packet, 8) == sent, f"{machine.target.name}: {sent.hex()} is not made")
        calls[REPORT_TAG] = machine.call(REPORT_TAG, packet, *words, report)
        answer = machine.read(report, REPORT)
        machine.write(report, keys.master)
        calls[LABEL_KEY] = machine.call(LABEL_KEY, report, label, generation)
        must(made == sent[:4] and calls[RIGHT].result == (wrong == sent)
             and answer == keys.report(table, epoch, sent)
             and machine.read(report, 16) == keyed.label_key(keys.master, label, generation)
             and {part: (call.cost, call.stack) for part, call in calls.items()} == it.costs,
             f"{machine.target.name}: {wrong.hex()}, label {label}, number {epoch:x}: not the same "
             f"in simavr: {calls}")


def follow(name: str) -> dict[str, tuple[int, int]]:
    """Proves on one chip that all tags are Chaskey-12. Returns cycles and bytes of stack."""
    machine = load(name, "dumpulse_keyed.c")
    code, top = TagCode(machine), machine.ram + 2 * RAM_BYTES - 1
    code.rounds = find_rounds(code, top)
    rounds, code.rounds = code.rounds, None
    check_rounds(code, rounds)
    code.rounds = rounds
    it = Followed(code, top, {})
    for packet, report in ((machine.ram + 1, machine.ram + 0x5B),
                           (machine.ram + 0xF9, machine.ram + 0x105)):
        check_tags(it, packet, report)
    check_reached(code, *(machine.symbols[part] for part in PARTS))
    check_simulated(it)
    machine.close()
    return it.costs
