"""The AVR: its instructions, and what it holds, with unknown bytes.

Code of an image runs here step by step. If a branch can go both ways, both are followed."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3
from elftools.elf.elffile import ELFFile

from proof.avr.symbols import (Byte, Bytes, Flag, add, bit, both, choose, feasible, halve, is_zero,
                               join, must, negate, split, subtract, unknown, vector)
from tools.processors.machine import CHANGED, SEND, TIME, Machine
from tools.programs import run

RAM_BYTES = 512  # of the smallest chip
HOME = 0x1FFE  # the address that the function returns to; it has no code and is no hook
# Cycles from the data sheets. Calls and returns take one more if the program counter has three
# bytes. Branches and skips that are taken cost more: see branch() and skip().
CYCLES = dict.fromkeys(("add adc sub subi sbc sbci and andi or eor cp cpc cpi dec lsr ror "
                        "mov movw ldi brne breq brcc brcs cpse").split(), 1)
CYCLES |= dict.fromkeys("adiw sbiw ld ldd st std push pop rjmp".split(), 2)
CYCLES |= {"lpm": 3, "jmp": 3, "rcall": 3, "call": 4, "ret": 4}
POINTERS = {"X": 26, "Y": 28, "Z": 30}
# By avr-gcc's ABI, a function must keep the first registers and may change the others. Register 1
# holds zero.
KEPT = (*range(2, 18), 28, 29)
CLOBBERED = (0, *range(18, 28), 30, 31)
# Where `memory` has the bytes behind unknown pointers: no real address has more than 16 bits.
WATCHER, ENTRY, SEEN, LINE = 0x10000, 0x20000, 0x30000, 0x40000
# Up to this number of loads, z3 is asked which ways a branch can go. After that, which is in the
# sum of the report, a short forward branch counts as one that can go both ways.
LOADS_ASKED = 8


@dataclass
class Instruction:
    name: str
    operands: list[str]
    size: int
    target: int = 0


@dataclass
class State:
    pc: int
    sp: int
    registers: Bytes
    memory: dict[int, Byte]
    carry: Flag = False
    zero: Flag = False
    conditions: list[z3.BoolRef] = field(default_factory=list)
    cycles: int = 0
    longer: list[int] = field(default_factory=list)  # cycles of each branch that was merged
    loads: int = 0
    lowest: int = 0xFFFF  # of the stack pointer
    hooks: list[tuple[Any, ...]] = field(default_factory=list)
    heads: list[State] = field(default_factory=list)  # as it was at each turn of the loop

    def fork(self) -> State:
        other = copy.copy(self)
        other.registers, other.memory = self.registers.copy(), self.memory.copy()
        other.conditions, other.longer = self.conditions.copy(), self.longer.copy()
        other.hooks, other.heads = self.hooks.copy(), self.heads.copy()
        return other


def proved(claim: Flag, state: State) -> bool:
    return not feasible(*state.conditions, negate(claim))


def find_written(state: State, start: State) -> set[int]:
    """Returns the addresses that have changed since `start`."""
    return {at for at, byte in state.memory.items() if start.memory.get(at) is not byte}


def check_written(state: State, start: State, own: Collection[int], top: int) -> list[int]:
    """Proves that a path writes nowhere else than into `own` and its stack, which begins at `top`.
    Returns where in `own` it writes."""
    written = sorted(find_written(state, start))
    outside = [hex(at) for at in written if at not in own and not state.lowest < at <= top]
    must(not outside, f"writes where it should not: {outside}")
    return [at for at in written if at in own]


@dataclass
class Place:
    """Bytes behind a pointer that is unknown."""

    at: int  # in `memory`
    size: int
    pointer: z3.BitVecRef


class Code:
    """The machine code of an image, as objdump reads it. It runs this code step by step."""

    def __init__(self, machine: Machine, pushed: int) -> None:
        self.hooks = {machine.symbols[TIME]: self.time, machine.symbols[SEND]: self.send,
                      machine.symbols[CHANGED]: self.changed}
        self.pushed = pushed  # bytes of a return address
        with machine.image.open("rb") as file:
            text = ELFFile(file).get_section_by_name(".text")
            self.flash: bytes = text.data()
            self.sizes = {symbol["st_value"]: symbol["st_size"] for symbol in
                          ELFFile(file).get_section_by_name(".symtab").iter_symbols()
                          if symbol["st_info"]["type"] == "STT_FUNC"}
        self.instructions: dict[int, Instruction] = {}
        for line in run(["avr-objdump", "-d", machine.image]).splitlines():
            found = re.fullmatch(r" *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t(\w+)(?:\t([^;]*))?.*",
                                 line)
            if found:
                at, code, name, operands = found.groups()
                words = [word.strip() for word in (operands or "").split(",") if word.strip()]
                one = Instruction(name, words, len(code.split()))
                if words and words[-1].startswith("."):
                    one.target = int(at, 16) + 2 + int(words[-1][1:]) & 0x1FFF  # 8 KB of flash wrap
                elif name in ("call", "jmp"):
                    one.target = int(words[0], 16)
                self.instructions[int(at, 16)] = one
        # The clock's answer.
        self.clock: Bytes = [z3.BitVec("time_low", 8), z3.BitVec("time_high", 8)]
        request = machine.symbols.get("request")  # the watch does not have it
        self.constant = range(0) if request is None else range(request, request + 8)
        self.places: list[Place] = []  # if there are any, all pointers but the stack's are unknown
        self.head = -1  # where a turn of the sum's loop begins
        self.visited: set[int] = set()
        self.loops: Counter[int] = Counter()  # jumps backwards, by the address that they go to
        self.clobbers = 0

    def call(self, function: int, top: int, memory: dict[int, Byte], *arguments: Bytes) -> State:
        """Returns how a call of a function begins. The stack begins at `top`."""
        registers = unknown("r", 32)
        registers[1] = 0
        for number, pair in zip((24, 22, 20, 18, 16, 14), arguments, strict=False):
            registers[number:number + 2] = pair
        state = State(function, top, registers, memory)
        self.push_return(state, HOME)
        return state

    def of(self, function: int) -> Iterator[int]:
        """Where the instructions of a function are."""
        end = function + self.sizes[function]
        return (at for at in self.instructions if function <= at < end)

    # -- the hooks: they are answered here, and change all registers that a function may change

    def time(self, state: State) -> None:
        state.hooks.append(("time", state.memory.copy()))
        self.clobber(state)
        state.registers[24:26] = self.clock

    def send(self, state: State) -> None:
        r = state.registers
        state.hooks.append(("send", r[24:26], r[22:24], r[20:22], state.memory.copy()))
        self.clobber(state)

    def changed(self, state: State) -> None:
        r = state.registers
        state.hooks.append(("changed", r[24:26], r[22], r[20], r[18], state.memory.copy()))
        self.clobber(state)

    def clobber(self, state: State) -> None:
        self.clobbers += 1
        for number in CLOBBERED:
            state.registers[number] = z3.BitVec(f"clobbered_{self.clobbers}_{number}", 8)
        state.carry = z3.Bool(f"clobbered_{self.clobbers}_c")
        state.zero = z3.Bool(f"clobbered_{self.clobbers}_z")

    # -- memory

    def push(self, state: State, value: Byte) -> None:
        state.memory[state.sp] = value
        state.sp -= 1
        state.lowest = min(state.lowest, state.sp)

    def pop(self, state: State) -> Byte:
        state.sp += 1
        return state.memory.pop(state.sp)  # from now on, an interrupt may overwrite it

    def push_return(self, state: State, address: int) -> None:
        for byte in range(self.pushed):
            self.push(state, address // 2 >> 8 * byte & 0xFF)

    def pop_return(self, state: State) -> int:
        words = 0
        for _ in range(self.pushed):
            byte = self.pop(state)
            must(isinstance(byte, int), "a return address was overwritten")
            words = words << 8 | int(byte)
        return words * 2

    def fork_at(self, state: State, low: int) -> list[State]:
        """Returns a state for each address that a pair of registers may hold."""
        pair = state.registers[low:low + 2]
        if self.places or all(isinstance(byte, int) for byte in pair):
            return [state]
        address = join(pair)
        solver, states = z3.SolverFor("QF_BV"), []
        solver.add(*state.conditions)
        while solver.check() == z3.sat:
            value = solver.model().eval(address, model_completion=True).as_long()
            other = state.fork()
            other.conditions.append(address == value)
            other.registers[low:low + 2] = [value & 0xFF, value >> 8]
            states.append(other)
            solver.add(address != value)
            must(len(states) <= 256, f"{state.pc:x}: a pointer may point anywhere")
        must(solver.check() == z3.unsat, "z3 cannot say where a pointer points")
        return states

    def locate(self, state: State, low: int, more: int, *, in_flash: bool = False) -> int:
        """Returns where `memory` has what a pair of registers points to, `more` bytes further on.
        An unknown pointer must be proved to lie at one certain byte of a place."""
        pair = state.registers[low:low + 2]
        if not self.places:
            return (int(pair[0]) | int(pair[1]) << 8) + more & 0xFFFF
        for place in self.places:
            if in_flash == (place.at == LINE):
                offset = z3.simplify(join(pair) + more - place.pointer)
                for number in range(place.size):
                    if not feasible(z3.simplify(offset != number)):  # on any path
                        return place.at + number
        raise SystemExit(f"paths: {state.pc:x}: points outside of what is its own")

    # -- control flow

    def step(self, state: State) -> list[State]:
        """Returns the states after one instruction: several, if there are several ways."""
        if state.pc in self.hooks:
            self.hooks[state.pc](state)
            state.pc = self.pop_return(state)
            return [state]
        self.visited.add(state.pc)
        one = self.instructions[state.pc]
        must(one.name in CYCLES,
             f"{state.pc:x}: {one.name} is an instruction that is not known here")
        if state.pc == self.head:
            state.heads = [*state.heads, state.fork()]
        state.cycles += CYCLES[one.name]
        if one.name in ("brne", "breq", "brcc", "brcs"):
            flag = state.zero if one.name in ("brne", "breq") else state.carry
            return self.branch(state, flag if one.name in ("breq", "brcs") else negate(flag), one)
        if one.name == "cpse":
            return self.skip(state, one)
        at, state.pc = state.pc, state.pc + one.size
        if one.name in ("ld", "ldd", "st", "std"):
            return self.move(state, one, at)
        if one.name in ("rjmp", "jmp"):
            self.count_loop(one, at)
            state.pc = one.target
        elif one.name in ("rcall", "call"):
            state.cycles += self.pushed - 2
            self.push_return(state, state.pc)
            state.pc = one.target
        elif one.name == "ret":
            state.cycles += self.pushed - 2
            state.pc = self.pop_return(state)
        else:
            self.compute(state, one)
        return [state]

    def outcomes(self, state: State, condition: Flag) -> tuple[bool, bool]:
        if isinstance(condition, bool):
            return condition, not condition
        return (feasible(*state.conditions, condition),
                feasible(*state.conditions, z3.Not(condition)))

    def part(self, state: State, condition: Flag, outcomes: tuple[bool, bool],
               then: int, then_cycles: int, otherwise: int) -> list[State]:
        """Returns a state for each way that is possible."""
        states = []
        for is_possible, here, pc, cycles in (
                (outcomes[0], condition, then, then_cycles),
                (outcomes[1], negate(condition), otherwise, 0)):
            if is_possible:
                other = state.fork() if all(outcomes) else state
                other.pc = pc
                other.cycles += cycles
                if not isinstance(here, bool):
                    other.conditions.append(here)
                states.append(other)
        return states

    def count_loop(self, one: Instruction, at: int) -> None:
        if one.target < at:
            self.loops[one.target] += 1

    def branch(self, state: State, taken: Flag, one: Instruction) -> list[State]:
        after = state.pc + one.size
        self.count_loop(one, state.pc)
        if state.loads > LOADS_ASKED and not isinstance(taken, bool) \
                and self.is_straight(after, one.target):
            return [self.merge(state, taken, after, one.target)]
        return self.part(state, taken, self.outcomes(state, taken), one.target, 1, after)

    def skip(self, state: State, one: Instruction) -> list[State]:
        first = state.registers[int(one.operands[0][1:])]
        skips = is_zero(subtract(first, state.registers[int(one.operands[1][1:])])[0])
        after = state.pc + one.size
        skipped = self.instructions[after].size
        return self.part(state, skips, self.outcomes(state, skips), after + skipped, skipped // 2,
                           after)

    def is_straight(self, start: int, end: int) -> bool:
        """Are there only additions and subtractions between two addresses?"""
        return start < end <= start + 8 and all(
            self.instructions[at].name in ("add", "adc", "subi", "sbci", "adiw", "sbiw")
            for at in range(start, end, 2))

    def merge(self, state: State, taken: z3.BoolRef, start: int, end: int) -> State:
        """Returns one state for both ways of a short forward branch."""
        other = state.fork()
        other.pc = start
        while other.pc != end:
            [other] = self.step(other)
        state.pc = end
        state.cycles += 1  # taken
        state.registers = [choose(taken, a, b) for a, b in
                           zip(state.registers, other.registers, strict=True)]
        state.carry = z3.If(taken, state.carry, other.carry)
        state.zero = z3.If(taken, state.zero, other.zero)
        must(other.cycles >= state.cycles, "a branch costs more when it is taken")
        state.longer.append(other.cycles - state.cycles)
        return state

    # -- loads, stores and arithmetic

    def move(self, state: State, one: Instruction, at: int) -> list[State]:
        """Loads and stores."""
        register, where = one.operands if one.name.startswith("ld") else one.operands[::-1]
        found = re.fullmatch(r"([XYZ])(\+?)([0-9]*)", where)
        assert found, f"{at:x}: {one}"
        low, number = POINTERS[found[1]], int(register[1:])
        states = self.fork_at(state, low)
        for each in states:
            address = self.locate(each, low, int(found[3] or 0))
            if one.name.startswith("ld"):
                must(address in each.memory, f"{at:x}: must not read {address:x}")
                each.registers[number] = each.memory[address]
                each.loads += 1
            else:
                each.memory[address] = each.registers[number]
            if found[2] and not found[3]:
                self.advance(each, low)
        return states

    def advance(self, state: State, low: int) -> None:
        """Adds 1 to a pointer. No flag changes."""
        pair = state.registers[low:low + 2]
        if self.places:
            state.registers[low:low + 2] = halve(z3.simplify(join(pair) + 1))
        else:
            state.registers[low:low + 2] = split((int(pair[0]) | int(pair[1]) << 8) + 1 & 0xFFFF)

    def compute(self, state: State, one: Instruction) -> None:
        r, words, name = state.registers, one.operands, one.name
        d = int(words[0][1:]) if words and words[0].startswith("r") else 0
        if name in ("add", "adc", "sub", "subi", "sbc", "sbci", "cp", "cpc", "cpi"):
            second = r[int(words[1][1:])] if words[1].startswith("r") else int(words[1], 0)
            with_carry = name in ("adc", "sbc", "sbci", "cpc")
            operate = add if name.startswith("ad") else subtract
            result, carry = operate(r[d], second, state.carry if with_carry else False)
            keeps_zero = name in ("sbc", "sbci", "cpc")  # they leave the zero flag, or clear it
            state.zero = both(state.zero, is_zero(result)) if keeps_zero else is_zero(result)
            state.carry = carry
            if not name.startswith("cp"):
                r[d] = result
        elif name in ("adiw", "sbiw"):
            operate = add if name == "adiw" else subtract
            low, carry = operate(r[d], int(words[1], 0))
            high, carry = operate(r[d + 1], 0, carry)
            r[d:d + 2] = [low, high]
            state.carry, state.zero = carry, both(is_zero(low), is_zero(high))
        elif name == "dec":  # which leaves the carry as it was
            r[d], _ = subtract(r[d], 1)
            state.zero = is_zero(r[d])
        elif name in ("lsr", "ror"):
            came = state.carry if name == "ror" else False
            state.carry = bit(r[d], 0)
            r[d] = r[d] >> 1 if isinstance(r[d], int) else z3.LShR(r[d], 1)
            if came is not False:
                r[d] |= 0x80 if came is True else z3.If(came, vector(0x80), vector(0))
            state.zero = is_zero(r[d])
        elif name in ("mov", "movw"):
            source, count = int(words[1][1:]), 1 if name == "mov" else 2
            r[d:d + count] = r[source:source + count]
        elif name == "ldi":
            r[d] = int(words[1], 0)
        elif name == "eor" and words[0] == words[1]:
            r[d], state.zero = 0, True
        elif name in ("eor", "or", "and", "andi"):
            second = int(words[1], 0) if name == "andi" else r[int(words[1][1:])]
            r[d] = (r[d] ^ second if name == "eor" else r[d] | second if name == "or" else
                    r[d] & second)
            state.zero = is_zero(r[d])
        elif name == "lpm":
            r[d] = self.read_flash(state, words[1:])
        elif name == "push":
            self.push(state, r[d])
        elif name == "pop":
            r[d] = self.pop(state)
        else:
            raise SystemExit(f"proof/avr does not know {one}")

    def read_flash(self, state: State, words: list[str]) -> Byte:
        must(words in (["Z"], ["Z+"]) and
             bool(self.places or all(isinstance(byte, int) for byte in state.registers[30:32])),
             "reads flash in a way that is not known here")
        address = self.locate(state, 30, 0, in_flash=True)
        must(bool(self.places) or address in self.constant,
             f"reads flash at {address:x}, which is not the request")
        if words == ["Z+"]:
            self.advance(state, 30)
        return state.memory[address] if self.places else self.flash[address]


def explore(code: Code, start: State) -> Iterator[State]:
    """Follows every path from `start` to the return. Yields the last state of each."""
    states = [start.fork()]
    while states:
        must(len(states) < 1000, "there are too many paths: a loop depends on unknown bytes")
        state = states.pop()
        if state.pc == HOME:
            yield state
        else:
            states += code.step(state)


def follow_turn(code: Code, start: State) -> Iterator[State]:
    """Follows a turn to its ends: at the beginning of the loop, or where the function returns."""
    states = code.step(start.fork())
    while states:
        must(len(states) < 100, "a turn of the loop has no end")
        state = states.pop()
        if state.pc in (code.head, HOME):
            yield state
        else:
            states += code.step(state)


def check_return(state: State, start: State, top: int) -> None:
    must(state.sp == top, "the stack pointer is not back")
    must(state.registers[1] == 0, "r1 is not zero")
    for number in KEPT:
        must(state.registers[number] is start.registers[number], f"r{number} is not kept")


def cover_all(states: list[State], *given: z3.BoolRef) -> None:
    must(not feasible(*given, *(z3.Not(z3.And(state.conditions)) for state in states)),
         "something takes no path")


def check_reached(code: Code, *functions: int) -> None:
    unreached = {at for function in functions for at in code.of(function)} - code.visited
    must(not unreached, f"code that is never reached: {sorted(map(hex, unreached))}")


def evaluate(byte: Byte, numbers: z3.ModelRef) -> int:
    return byte if isinstance(byte, int) else int(numbers.eval(byte).as_long())


def find_taken(paths: Iterable[State],
                numbers: Iterable[tuple[Sequence[Byte], Sequence[int]]]
               ) -> tuple[State, z3.ModelRef]:
    """Puts numbers in the place of unknown bytes. Returns the one path that they take, and what
    evaluate() needs to say what becomes of them there."""
    solver = z3.SolverFor("QF_BV")
    for symbols, values in numbers:
        solver.add(*(symbol == value for symbol, value in zip(symbols, values, strict=True)
                     if not isinstance(symbol, int)))
    must(solver.check() == z3.sat, "the numbers of a run do not fit together")
    assignment = solver.model()
    taken = [path for path in paths
             if all(map(z3.is_true, map(assignment.eval, path.conditions)))]
    must(len(taken) == 1, f"a run takes {len(taken)} paths")
    return taken[0], assignment
