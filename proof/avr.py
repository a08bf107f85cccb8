"""Follows every path of the compiled agent on AVR, with all 2^64 packets at once.     make paths

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
table is proved by induction over the turns of its loop: see check_sums.

The watch is followed, too: one look at a line, where the line, the entry, the RAM, the time and all
pointers are unknown. It is proved that the look does what dumpulse_watch.h says, and that the next
one begins as this one did. See follow_watch. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import argparse
import copy
import random
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import z3
from elftools.elf.elffile import ELFFile

from sim import model
from sim import watch as rules
from sim.machine import CHANGED, SEND, TIME, Machine, Watching, load
from sim.targets import TARGETS, run

AGENT = "dumpulse_process_packet"
WATCH = "dumpulse_watch_lines_"
KINDS = ("refused", "heartbeat", "report", "record")  # the index of the first three is the result
RAM_BYTES = 512  # of the smallest chip
HOME = 0x1FFE  # the address that the function returns to; it has no code and is no hook

Byte: TypeAlias = "int | z3.BitVecRef"
Flag: TypeAlias = "bool | z3.BoolRef"

# Cycles from the data sheets. Calls and returns take one more if the program counter has three
# bytes. Branches and skips that are taken cost more: see branch() and skip().
CYCLES = dict.fromkeys(("add adc sub subi sbc sbci and andi or eor cp cpc cpi inc dec mov movw ldi "
                        "brne breq brcc brcs brpl cpse sbrc sbrs in out cli").split(), 1)
CYCLES |= dict.fromkeys("adiw sbiw ld ldd st std push pop rjmp mul".split(), 2)
CYCLES |= {"lpm": 3, "jmp": 3, "rcall": 3, "call": 4, "ret": 4}
STACK_LOW, STACK_HIGH, FLAGS = 0x3D, 0x3E, 0x3F  # ports
POINTERS = {"X": 26, "Y": 28, "Z": 30}
# By avr-gcc's ABI, a function must keep the first registers and may change the others. Register 1
# holds zero.
KEPT = (*range(2, 18), 28, 29)
CLOBBERED = (0, *range(18, 28), 30, 31)

# Where `memory` has the bytes behind unknown pointers: no real address has more than 16 bits.
WATCHER, ENTRY, SEEN, LINE = 0x10000, 0x20000, 0x30000, 0x40000

# All that is added to the second sum is at most 256 + 256 * 257 / 2 * 255. Each reduction takes
# 65521 off again, so there are at most this many.
REDUCTIONS_MAX = (256 + 256 * 257 // 2 * 255) // 65521
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
    registers: list[Byte]
    memory: dict[int, Byte]
    carry: Flag = False
    zero: Flag = False
    signed: Byte = 0  # the last result: its highest bit is the negative flag
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


def vector(value: Byte) -> z3.BitVecRef:
    return z3.BitVecVal(value, 8) if isinstance(value, int) else value


def joined(pair: list[Byte]) -> z3.BitVecRef:
    return z3.Concat(vector(pair[1]), vector(pair[0]))


def halves(both: z3.BitVecRef) -> list[Byte]:
    return [z3.Extract(7, 0, both), z3.Extract(15, 8, both)]


def add(a: Byte, b: Byte, carry: Flag = False) -> tuple[Byte, Flag]:
    if isinstance(a, int) and isinstance(b, int) and isinstance(carry, bool):
        return (a + b + carry) & 0xFF, a + b + carry > 0xFF
    one = z3.If(carry, z3.BitVecVal(1, 9), z3.BitVecVal(0, 9))
    total = z3.ZeroExt(1, vector(a)) + z3.ZeroExt(1, vector(b)) + one
    return z3.Extract(7, 0, total), z3.Extract(8, 8, total) == 1


def subtract(a: Byte, b: Byte, borrow: Flag = False) -> tuple[Byte, Flag]:
    if isinstance(a, int) and isinstance(b, int) and isinstance(borrow, bool):
        return (a - b - borrow) & 0xFF, a - b - borrow < 0
    one = z3.If(borrow, z3.BitVecVal(1, 9), z3.BitVecVal(0, 9))
    total = z3.ZeroExt(1, vector(a)) - z3.ZeroExt(1, vector(b)) - one
    return z3.Extract(7, 0, total), z3.Extract(8, 8, total) == 1


def bit(a: Byte, number: int) -> Flag:
    return bool(a >> number & 1) if isinstance(a, int) else z3.Extract(number, number, a) == 1


def is_zero(a: Byte) -> Flag:
    return a == 0


def both(a: Flag, b: Flag) -> Flag:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return z3.And(a, b)


def negated(a: Flag) -> Flag:
    return not a if isinstance(a, bool) else z3.Not(a)


def chosen(when: z3.BoolRef, a: Byte, b: Byte) -> Byte:
    same = a == b if isinstance(a, int) and isinstance(b, int) else a is b
    return a if same else z3.If(when, vector(a), vector(b))


def must(true: bool, message: str) -> None:
    if not true:
        raise SystemExit(f"paths: {message}")


ANSWERS: dict[tuple[int, ...], tuple[bool, tuple[Flag, ...]]] = {}


def feasible(*conditions: Flag) -> bool:
    """Can all of them be true? The turns of a loop ask the same again and again, so answers are
    kept. As long as an expression is in use, z3 has one copy of it: its number identifies it."""
    key = tuple(c if isinstance(c, bool) else c.get_id() for c in conditions)
    if key not in ANSWERS:
        solver = z3.SolverFor("QF_BV")
        solver.add(*conditions)
        answer = solver.check()
        must(answer != z3.unknown, f"z3 cannot say: {solver.reason_unknown()}")
        ANSWERS[key] = bool(answer == z3.sat), conditions
    return ANSWERS[key][0]


def proved(claim: Flag, state: State) -> bool:
    return not feasible(*state.conditions, negated(claim))


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
        self.clock: list[Byte] = [z3.BitVec("time_low", 8), z3.BitVec("time_high", 8)]
        request = machine.symbols.get("request")  # the watch does not have it
        self.constant = range(0) if request is None else range(request, request + 8)
        self.places: list[Place] = []  # if there are any, all pointers but the stack's are unknown
        self.head = -1  # where a turn of the sum's loop begins
        self.visited: set[int] = set()
        self.loops: Counter[int] = Counter()  # jumps backwards, by the address that they go to
        self.clobbers = 0

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
        self.forget_flags(state)

    def forget_flags(self, state: State) -> None:
        self.clobbers += 1
        state.carry = z3.Bool(f"clobbered_{self.clobbers}_c")
        state.zero = z3.Bool(f"clobbered_{self.clobbers}_z")
        state.signed = z3.BitVec(f"clobbered_{self.clobbers}_s", 8)

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

    def pointed(self, state: State, low: int) -> list[State]:
        """Returns a state for each address that a pair of registers may hold."""
        pair = state.registers[low:low + 2]
        if self.places or all(isinstance(byte, int) for byte in pair):
            return [state]
        address = joined(pair)
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

    def located(self, state: State, low: int, more: int, *, in_flash: bool = False) -> int:
        """Returns where `memory` has what a pair of registers points to, `more` bytes further on.
        An unknown pointer must be proved to lie at one certain byte of a place."""
        pair = state.registers[low:low + 2]
        if not self.places:
            return (int(pair[0]) | int(pair[1]) << 8) + more & 0xFFFF
        for place in self.places:
            if in_flash == (place.at == LINE):
                offset = z3.simplify(joined(pair) + more - place.pointer)
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
            return self.branch(state, flag if one.name in ("breq", "brcs") else negated(flag), one)
        if one.name == "brpl":
            return self.branch(state, negated(bit(state.signed, 7)), one)
        if one.name in ("cpse", "sbrc", "sbrs"):
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

    def parted(self, state: State, condition: Flag, outcomes: tuple[bool, bool],
               then: int, then_cycles: int, otherwise: int) -> list[State]:
        """Returns a state for each way that is possible."""
        states = []
        for is_possible, here, pc, cycles in (
                (outcomes[0], condition, then, then_cycles),
                (outcomes[1], negated(condition), otherwise, 0)):
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
            return [self.merged(state, taken, after, one.target)]
        return self.parted(state, taken, self.outcomes(state, taken), one.target, 1, after)

    def skip(self, state: State, one: Instruction) -> list[State]:
        first = state.registers[int(one.operands[0][1:])]
        if one.name == "cpse":
            skips = is_zero(subtract(first, state.registers[int(one.operands[1][1:])])[0])
        else:
            is_set = bit(first, int(one.operands[1]))
            skips = is_set if one.name == "sbrs" else negated(is_set)
        after = state.pc + one.size
        skipped = self.instructions[after].size
        return self.parted(state, skips, self.outcomes(state, skips), after + skipped, skipped // 2,
                           after)

    def is_straight(self, start: int, end: int) -> bool:
        """Are there only additions and subtractions between two addresses?"""
        return start < end <= start + 8 and all(
            self.instructions[at].name in ("add", "adc", "subi", "sbci", "adiw", "sbiw")
            for at in range(start, end, 2))

    def merged(self, state: State, taken: z3.BoolRef, start: int, end: int) -> State:
        """Returns one state for both ways of a short forward branch."""
        other = state.fork()
        other.pc = start
        while other.pc != end:
            [other] = self.step(other)
        state.pc = end
        state.cycles += 1  # taken
        state.registers = [chosen(taken, a, b) for a, b in
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
        states = self.pointed(state, low)
        for each in states:
            address = self.located(each, low, int(found[3] or 0))
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
            state.registers[low:low + 2] = halves(z3.simplify(joined(pair) + 1))
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
            state.carry, state.signed = carry, result
            if not name.startswith("cp"):
                r[d] = result
        elif name in ("adiw", "sbiw"):
            operate = add if name == "adiw" else subtract
            low, carry = operate(r[d], int(words[1], 0))
            high, carry = operate(r[d + 1], 0, carry)
            r[d:d + 2] = [low, high]
            state.carry, state.zero = carry, both(is_zero(low), is_zero(high))
            state.signed = high
        elif name in ("inc", "dec"):  # which leave the carry as it was
            r[d], _ = (add if name == "inc" else subtract)(r[d], 1)
            state.zero, state.signed = is_zero(r[d]), r[d]
        elif name in ("mov", "movw"):
            source, count = int(words[1][1:]), 1 if name == "mov" else 2
            r[d:d + count] = r[source:source + count]
        elif name == "ldi":
            r[d] = int(words[1], 0)
        elif name == "eor" and words[0] == words[1]:
            r[d], state.zero, state.signed = 0, True, 0
        elif name in ("eor", "or", "and", "andi"):
            second = int(words[1], 0) if name == "andi" else r[int(words[1][1:])]
            r[d] = (r[d] ^ second if name == "eor" else r[d] | second if name == "or" else
                    r[d] & second)
            state.zero, state.signed = is_zero(r[d]), r[d]
        elif name == "lpm":
            must(words[1:] in (["Z"], ["Z+"]) and
                 bool(self.places or all(isinstance(byte, int) for byte in r[30:32])),
                 "reads flash in a way that is not known here")
            address = self.located(state, 30, 0, in_flash=True)
            must(bool(self.places) or address in self.constant,
                 f"reads flash at {address:x}, which is not the request")
            r[d] = state.memory[address] if self.places else self.flash[address]
            if words[1] == "Z+":
                self.advance(state, 30)
        elif name == "push":
            self.push(state, r[d])
        elif name == "pop":
            r[d] = self.pop(state)
        elif name == "in":
            r[d] = self.read_port(state, int(words[1], 0))
        elif name == "out":
            self.write_port(state, int(words[0], 0), r[int(words[1][1:])])
        elif name == "cli":
            pass  # nothing here interrupts
        else:
            raise SystemExit(f"proof/avr.py does not know {one}")

    def read_port(self, state: State, port: int) -> Byte:
        must(port in (STACK_LOW, STACK_HIGH, FLAGS), f"reads port {port:#x}")
        if port == FLAGS:
            return z3.BitVec("flags", 8)
        return state.sp & 0xFF if port == STACK_LOW else state.sp >> 8

    def write_port(self, state: State, port: int, value: Byte) -> None:
        """The stack pointer is written as avr-gcc does it: first its high byte, and the flags,
        which were read just before."""
        must(port in (STACK_LOW, STACK_HIGH, FLAGS), f"writes port {port:#x}")
        if port == FLAGS:
            must(not isinstance(value, int) and value.eq(z3.BitVec("flags", 8)),
                 "writes flags that it has not read")
            self.forget_flags(state)
            return
        must(isinstance(value, int), "the stack pointer depends on unknown bytes")
        if port == STACK_HIGH:
            state.sp = int(value) << 8 | state.sp & 0xFF
            return
        state.sp = state.sp & 0xFF00 | int(value)
        state.lowest = min(state.lowest, state.sp)
        for at in [at for at in state.memory if state.lowest < at <= state.sp]:
            del state.memory[at]  # from now on, an interrupt may overwrite it


# ---- What is proved.

@dataclass
class World:
    """The unknown bytes, and their addresses."""

    agent: int
    packet: int
    top: int  # of the stack
    table: list[Byte]
    bytes: list[Byte]
    length: list[Byte]  # low byte first, as in registers
    context: list[Byte]

    def call(self, code: Code, function: int, *arguments: list[Byte]) -> State:
        registers: list[Byte] = list(z3.BitVecs([f"r{n}" for n in range(32)], 8))
        registers[1] = 0
        for number, pair in zip((24, 22, 20, 18), arguments, strict=False):
            registers[number:number + 2] = pair
        memory = dict(zip(range(self.agent, self.agent + 260), self.table, strict=True))
        memory |= dict(zip(range(self.packet, self.packet + 8), self.bytes, strict=True))
        state = State(function, self.top, registers, memory)
        code.push_return(state, HOME)
        return state

    def process(self, code: Code, function: int) -> State:
        return self.call(code, function, split(self.agent), split(self.packet), self.length,
                         self.context)


def split(number: int) -> list[Byte]:
    return [number & 0xFF, number >> 8]


def unknown(prefix: str, count: int) -> list[Byte]:
    return [z3.BitVec(f"{prefix}{n}", 8) for n in range(count)]


def settled(byte: Byte, state: State) -> Byte:
    """The number, where a byte can only be one: what was found to be zero is returned as zero."""
    if not isinstance(byte, int):
        solver = z3.SolverFor("QF_BV")
        solver.add(*state.conditions)
        must(solver.check() == z3.sat, "there is no such path")
        value = solver.model().eval(byte, model_completion=True).as_long()
        if proved(byte == value, state):
            return int(value)
    return byte


def explore(code: Code, start: State) -> Iterator[State]:
    """Follows every path from `start` to the return. Yields the last state of each."""
    states = [start.fork()]
    while states:
        must(len(states) < 1000, "there is no end of paths: a loop depends on unknown bytes")
        state = states.pop()
        if state.pc == HOME:
            state.registers[24] = settled(state.registers[24], state)
            yield state
        else:
            states += code.step(state)


def wide(byte: Byte) -> z3.BitVecRef:
    return z3.ZeroExt(24, vector(byte))


def specified(world: World) -> tuple[z3.BoolRef, z3.BoolRef]:
    """Is the packet a heartbeat? Is it a request? This repeats SPEC.md. Over 4 bytes the sums are
    at most 4 + 10 * 255, so they are never reduced."""
    p = world.bytes
    eight = joined(world.length) == 8
    a: z3.BitVecRef = z3.BitVecVal(1, 32)
    b: z3.BitVecRef = z3.BitVecVal(0, 32)
    for byte in p[4:]:
        a = a + wide(byte)
        b = b + a
    checksum = wide(p[0]) << 24 | wide(p[1]) << 16 | wide(p[2]) << 8 | wide(p[3])
    heartbeat = z3.And(eight, vector(p[4]) == model.MAGIC, z3.ULT(vector(p[5]), 64),
                       checksum == (b << 16 | a))
    return heartbeat, z3.And(eight,
                             *(vector(x) == y for x, y in zip(p, model.REQUEST, strict=True)))


def check_return(state: State, start: State, top: int) -> None:
    must(state.sp == top, "the stack pointer is not back")
    must(state.registers[1] == 0, "r1 is not zero")
    for number in KEPT:
        must(state.registers[number] is start.registers[number], f"r{number} is not kept")


def check_frame(state: State, start: State, world: World) -> list[int]:
    """Proves that a path has changed nothing that it must keep. Returns the offsets of the table
    that were written."""
    check_return(state, start, world.top)
    written = {at for at, byte in state.memory.items() if start.memory.get(at) is not byte}
    outside = [at for at in written if not (world.agent <= at < world.agent + 260
                                            or state.lowest < at <= world.top)]
    must(not outside, f"writes where it should not: {sorted(map(hex, outside))}")
    return sorted(at - world.agent for at in written if at < world.agent + 260)


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
    fixed = replace(world, table=[*bytes(4), *numbers], bytes=[*model.REQUEST], length=split(8))
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
    many cycles longer.
    """
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
            start.registers[low:low + 2] = halves(value)
        start.memory[world.agent + 4 + number] = byte
        start.loads = 0  # so that no branch is merged
        start.cycles = 0
        # Before the last byte, a is at most 1 + 255 * 255. b + 15 is always from 15 to 65535.
        start.conditions = [a >= 1, z3.ULE(a, 1 + 255 * 255), z3.UGE(b, 15)]
        ends = [one for one in turned(code, start)]
        shortest = min(one.cycles for one in ends)
        for one in ends:
            if one.cycles > shortest:
                must(proved(z3.UGE(total, 65521), one), "a turn is longer and reduces nothing")
                longest = max(longest, one.cycles - shortest)
            if one.hooks:
                must(number == 255, "the loop ends early")
                stored = [wide(one.memory[world.agent + at]) for at in range(4)]
                now_b, now_a = stored[0] << 8 | stored[1], stored[2] << 8 | stored[3]
            else:
                must(number < 255, "the loop ends late")
                must(all(byte == one.registers[at]
                         for at, byte in enumerate(turns[number + 1].registers)
                         if isinstance(byte, int)
                         and at not in (first, first + 1, second, second + 1)),
                     "a turn does not end as the next one begins")
                now_b, now_a = ((wide(one.registers[low + 1]) << 8 | wide(one.registers[low])) -
                less
                                for low, less in ((second, 15), (first, 0)))
            must(proved(z3.And(now_a == next_a, now_b == next_b), one),
                 "a turn of the loop is not a step of Adler-32")
    must(len(report.longer) <= 256 and set(report.longer) <= {longest},
         "a branch was merged elsewhere")
    return longest


def turned(code: Code, start: State) -> Iterator[State]:
    """Follows a turn to its ends: at the beginning of the loop, or where the function returns."""
    states = code.step(start.fork())
    while states:
        must(len(states) < 100, "a turn of the loop has no end")
        state = states.pop()
        if state.pc in (code.head, HOME):
            yield state
        else:
            states += code.step(state)


def check_executor(code: Code, world: World, machine: Machine, found: list[State],
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
        solver = z3.SolverFor("QF_BV")
        for symbols, numbers in ((world.table, table), (world.bytes, packet),
                                 (world.length, split(length)),
                                 (world.context, split(0x1234)), (code.clock, split(machine.now))):
            solver.add(*(symbol == number for symbol, number in zip(symbols, numbers, strict=True)))
        solver.check()
        assignment = solver.model()

        def value(byte: Byte) -> int:
            return byte if isinstance(byte, int) else assignment.eval(byte).as_long()

        taken = [state for state in found
                 if all(map(z3.is_true, map(assignment.eval, state.conditions)))]
        must(len(taken) == 1, f"{packet.hex()} takes {len(taken)} paths")
        [state] = taken
        after = bytes(value(state.memory[world.agent + at]) for at in range(260))
        stack, depth = world.top - state.lowest, call.stack
        least, most = bounds(taken, extra)
        must((value(state.registers[24]), after, stack) ==
             (call.result, machine.read(world.agent, 260), depth)
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
    check_executor(code, world, machine, states, extra)
    machine.close()
    limits = {kind: bounds(states, extra) for kind, states in found.items()}
    every = [state for each in found.values() for state in each]
    return len(every), [*limits.values()], max(world.top - state.lowest for state in every)


def cover_all(states: list[State], *given: z3.BoolRef) -> None:
    must(not feasible(*given, *(z3.Not(z3.And(state.conditions)) for state in states)),
         "something takes no path")


def check_reached(code: Code, *functions: int) -> None:
    unreached = {at for function in functions for at in code.of(function)} - code.visited
    must(not unreached, f"code that is never reached: {sorted(map(hex, unreached))}")


# ---- The watch.

@dataclass
class Watched:
    """A watch of which nothing is known, and what one look may read. Low bytes are first in
    pointers and in the line, and high bytes in the entry and in the RAM."""

    top: int  # of the stack
    watcher: list[Byte] = field(default_factory=lambda: unknown("watcher", 2))
    agent: list[Byte] = field(default_factory=lambda: unknown("agent", 2))
    now: list[Byte] = field(default_factory=lambda: unknown("now", 2))
    known: list[Byte] = field(default_factory=lambda: unknown("known", 5))  # table, RAM, count
    line: list[Byte] = field(default_factory=lambda: unknown("line", 8))
    entry: list[Byte] = field(default_factory=lambda: unknown("entry", 4))
    seen: list[Byte] = field(default_factory=lambda: unknown("seen", 3))

    @property
    def variable(self) -> z3.BitVecRef:
        return vector(self.line[0]) & 63

    def places(self) -> list[Place]:
        entry = joined(self.agent) + 4 + 4 * z3.ZeroExt(8, self.variable)
        return [Place(WATCHER, 5, joined(self.watcher)), Place(ENTRY, 4, entry),
                Place(SEEN, 3, joined(self.known[2:4])), Place(LINE, 8, joined(self.known[:2]))]

    def start(self, code: Code, function: int) -> State:
        registers: list[Byte] = unknown("r", 32)
        registers[1] = 0
        registers[20:26] = [*self.now, *self.agent, *self.watcher]
        state = State(function, self.top, registers, {
            place.at + number: byte
            for place, its in zip(self.places(), (self.known, self.entry, self.seen, self.line),
                                  strict=True) for number, byte in enumerate(its)})
        code.push_return(state, HOME)
        return state


def specified_look(world: Watched) -> list[z3.BitVecRef]:
    """The RAM of a line after a look. This repeats dumpulse_watch.h: STATES and TIME. All limits in
    the line are higher by 64 than those of its text, and so are the ages here. So a timestamp that
    is up to 64 ticks ahead of now has a small age."""
    high, low, _, value = map(vector, world.entry)
    was, later = vector(world.seen[2]), joined(world.now) + rules.AHEAD
    heard, before = z3.Concat(high, low), z3.Concat(*map(vector, world.seen[:2]))
    waits = z3.And(z3.ULE(was, rules.MISSING), *(vector(byte) == 0 for byte in world.entry))
    grace, late, dead = (joined(world.line[at:at + 2]) for at in (0, 4, 6))
    lowest, span = map(vector, world.line[2:4])
    age = later - heard

    def one_of(state: int) -> z3.BitVecRef:
        return z3.BitVecVal(state, 8)

    state = z3.If(
        waits, z3.If(z3.UGT(later - before, grace), one_of(rules.MISSING), was), z3.If(
            z3.UGT(age, dead), one_of(rules.DEAD), z3.If(
                z3.And(z3.UGE(was, rules.LATE), heard == before), was, z3.If(
                    z3.UGT(age, late), one_of(rules.LATE), z3.If(
                        z3.ULE(value - lowest, span), one_of(rules.ALIVE),
                        one_of(rules.OUT_OF_RANGE))))))
    return [*(z3.If(waits, vector(old), new)
              for old, new in zip(world.seen, (high, low), strict=False)), state]


def check_look(state: State, head: State, start: State, world: Watched,
               saved: set[int]) -> None:
    """Proves one path through a turn of the loop: what it does, and that the next turn begins as
    this one did, one line further on, or that the function returns after the last line."""
    written = {at for at, byte in state.memory.items() if head.memory.get(at) is not byte}
    must(written <= set(range(SEEN, SEEN + 3)),
         f"writes where it should not: {sorted(map(hex, written))}")
    # The last condition is about the count. Without it this shows more, and z3 is asked only once
    # for the two ends of a path: at the next line, and after the last one.
    look = replace(state, conditions=state.conditions[:-1])
    after = [vector(state.memory[SEEN + at]) for at in range(3)]
    must(proved(z3.And(*(a == b for a, b in zip(after, specified_look(world), strict=True))),
                look), "the RAM of the line is not as it should be")
    changed = after[2] != vector(world.seen[2])
    must(len(state.hooks) < 2, "the hook is called twice")
    must(proved(changed if state.hooks else z3.Not(changed), look),
         "the hook is not called exactly when the state changes")
    for _, context, variable, was, now, memory in state.hooks:
        must(proved(z3.And(joined(context) == joined(world.agent), variable == world.variable,
                           vector(was) == vector(world.seen[2]), vector(now) == after[2]), look),
             "the hook is told something else")
        must(all(memory[SEEN + at] is state.memory[SEEN + at] for at in range(3)),
             "the hook is called before the RAM is as it stays")
    last = vector(world.known[4]) == 1
    if state.pc == HOME:
        must(proved(last, state), "the loop ends early")
        check_return(state, start, world.top)
        return
    must(proved(z3.Not(last), state), "the loop ends late")
    must(state.sp == head.sp and head.memory.keys() == state.memory.keys(),
         "a turn leaves the stack as it was not")
    expected = head.registers.copy()
    for pair, size in ((world.known[:2], 8), (world.known[2:4], 3), (world.known[4:], -1)):
        [low] = [at for at in (1, *KEPT) if head.registers[at] is pair[0]] or [0]
        must(low > 0 and all(a is b for a, b in zip(pair, head.registers[low:], strict=False)),
             "no register that the hook keeps has a pointer or the count")
        expected[low:low + len(pair)] = halves(joined([*pair, 0][:2]) + size)[:len(pair)]
    differs = [at for at in (1, *KEPT)
               if at not in saved and state.registers[at] is not expected[at]
               and not proved(vector(state.registers[at]) == vector(expected[at]), state)]
    must(not differs, f"a turn does not end as the next one begins: registers {differs}")


def check_simulated(machine: Machine, world: Watched, ends: list[State]) -> None:
    """Checks that simavr, the Python model and the path that is taken say the same of a look."""
    chance, watching = random.Random(3), Watching(machine)

    def number() -> int:
        return chance.choice([0, 1, 64, 65, 100, 65535, chance.randrange(65536)])

    for _ in range(60):
        one = rules.Line(number(), chance.randrange(256), chance.randrange(256), number(), number())
        entries = [chance.randbytes(4) for _ in range(model.VARIABLES)]
        heard, now = number(), number()
        entry = entries[one.variable] = heard.to_bytes(2, "big") + \
            chance.choice([bytes(2), chance.randbytes(2)])
        watch = rules.Watch([one], chance.choice([heard, number()]))
        watch.states = [chance.randrange(6)]
        machine.write(machine.agent, bytes(4) + b"".join(entries))
        watching.start([one], seen := watch.seen())
        call, changes = watching.look(now), watch.look(entries, now)
        assignment = z3.SolverFor("QF_BV")
        for symbols, numbers in (
                (world.watcher, split(watching.watcher)), (world.agent, split(machine.agent)),
                (world.now, split(now)), (world.line, one.packed("<")), (world.entry, entry),
                (world.seen, seen),
                (world.known, machine.read(watching.watcher, 5))):
            assignment.add(*(a == b for a, b in zip(symbols, numbers, strict=True)))
        assignment.check()
        taken = [state for state in ends
                 if all(map(z3.is_true, map(assignment.model().eval, state.conditions)))]
        must(len(taken) == 1, f"a look takes {len(taken)} paths")
        [state] = taken
        after = bytes(assignment.model().eval(vector(state.memory[SEEN + at])).as_long()
                      for at in range(3))
        must(after == watch.seen() == watching.known()[:3] and
             [*call.hooks] == [("changed", machine.agent, *change) for change in changes] and
             (call.cost, call.stack, len(call.hooks)) ==
             (state.cycles, world.top - state.lowest, len(state.hooks)),
             f"{machine.target.name}: {one}, {entry.hex()}, {seen.hex()}, now {now}: not the same "
             f"in simavr: {call}")


def follow_watch(name: str) -> tuple[int, list[tuple[int, int]], int]:
    """Proves by induction over the lines, on one chip, what dumpulse_watch_lines_() does. Where a
    look begins, nothing is known but the stack and the registers that a hook keeps. Returns how
    many paths there are, the cycles of a look that changes nothing, of one that does, and of the
    rest of the call, and bytes of stack."""
    machine = load(name, "dumpulse_watch.c")
    code = Code(machine, pushed=machine.target.return_address)
    function = machine.symbols[WATCH]
    world = Watched(machine.ram + RAM_BYTES - 1)
    code.places = world.places()
    loops = {one.target for at in code.of(function)
             if 0 < (one := code.instructions[at]).target < at
             and one.name not in ("call", "rcall")}
    must(len(loops) == 1, f"the watch has {len(loops)} loops")
    [code.head] = loops
    start = world.start(code, function)
    heads = list(turned(code, start))
    must(len(heads) == 1 and heads[0].pc == code.head and not heads[0].hooks,
         "the watch does more than to begin its loop")
    [head] = heads
    # A saved register that holds nothing yet may hold anything at the next turn, too.
    saved = {at for at in KEPT if head.registers[at] is start.registers[at]
             and any(byte is start.registers[at] for byte in head.memory.values())}
    for number in {*CLOBBERED, *saved}:
        head.registers[number] = z3.BitVec(f"any_{number}", 8)
    head.carry, head.zero = z3.Bool("any_carry"), z3.Bool("any_zero")
    head.memory = {at: byte for at, byte in head.memory.items() if not WATCHER <= at < ENTRY}
    head.loads = 0  # so that no branch is merged
    given = z3.ULE(vector(world.seen[2]), rules.DEAD)
    head.conditions = [given]
    ends = list(turned(code, head))
    for state in ends:
        check_look(state, head, start, world, saved)
        must(not state.longer, "a branch was merged")
    cover_all(ends, given)
    check_reached(code, function)
    check_simulated(machine, world, [state for state in ends if state.pc == HOME])
    machine.close()
    limits, rest = [], []
    for changes in (False, True):
        turns, lasts = ([state.cycles - head.cycles for state in ends
                         if bool(state.hooks) == changes and (state.pc == HOME) == last]
                        for last in (False, True))
        limits.append((min(turns), max(turns)))
        rest += [head.cycles + most(lasts) - most(turns) for most in (min, max)]
    return (len(ends), [*limits, (min(rest), max(rest))],
            world.top - min(state.lowest for state in ends))


def follow_watches(names: list[str]) -> list[tuple[int, list[tuple[int, int]], int]]:
    """All in one process: most of what z3 is asked is the same on all chips. See ANSWERS."""
    return [follow_watch(name) for name in names]


def main() -> None:
    names = [target.name for target in TARGETS.values() if target.machine == "Avr"]
    parser = argparse.ArgumentParser(prog="proof.avr", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--chip", action="append", choices=names,
                        help="only this chip (repeatable); default: all")
    names = parser.parse_args().chip or names
    row = "{:<11}{:>7}" + "{:>11}" * len(KINDS) + "{:>7}" + "{:>8}" * 3 + "{:>6}"
    print(row.format("target", "paths", *KINDS, "stack", "look", "change", "rest", "deep"),
          flush=True)
    with ProcessPoolExecutor() as pool:
        watches = pool.submit(follow_watches, names)
        for number, agent in enumerate(pool.map(follow, names)):
            watch = watches.result()[number]
            cells = [cell for _, limits, stack in (agent, watch) for cell in (
                *(f"{low}-{high}" if low < high else str(low) for low, high in limits), stack)]
            print(row.format(names[number], agent[0] + watch[0], *cells), flush=True)
    print("Cycles without the hooks: the least and the most that any packet takes, whatever the "
          "table\nholds. stack: the most bytes, with return addresses. Each path is proved to do "
          "what SPEC.md says.\nlook: dumpulse_watch(), for a line whose state does not change; "
          "change: for one whose state does;\nrest: for all but its lines; deep: its stack. Each "
          "path is proved to do what dumpulse_watch.h says.")


if __name__ == "__main__":
    main()
