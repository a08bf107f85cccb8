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
table is proved by induction over the turns of its loop: see check_sums. SPDX-License-Identifier:
MIT
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
from sim.machine import SEND, TIME, Machine, load
from sim.targets import TARGETS, run

AGENT = "dumpulse_process_packet"
KINDS = ("refused", "heartbeat", "report", "record")  # the index of the first three is the result
RAM_BYTES = 512  # of the smallest chip
HOME = 0x1FFE  # the address that the function returns to; it has no code and is no hook

Byte: TypeAlias = "int | z3.BitVecRef"
Flag: TypeAlias = "bool | z3.BoolRef"

# Cycles from the data sheets. Calls and returns take one more if the program counter has three
# bytes. Branches and skips that are taken cost more: see branch() and skip().
CYCLES = dict.fromkeys(("add adc sub subi sbc sbci and andi or eor cp cpc cpi dec mov movw ldi "
                        "brne breq brcc brcs cpse").split(), 1)
CYCLES |= dict.fromkeys("adiw sbiw ld ldd st std push pop rjmp mul".split(), 2)
CYCLES |= {"lpm": 3, "jmp": 3, "rcall": 3, "call": 4, "ret": 4}
POINTERS = {"X": 26, "Y": 28, "Z": 30}
# By avr-gcc's ABI, a function must keep the first registers and may change the others. Register 1
# holds zero.
KEPT = (*range(2, 18), 28, 29)
CLOBBERED = (0, *range(18, 28), 30, 31)

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


class Code:
    """The machine code of an image, as objdump reads it. It runs this code step by step."""

    def __init__(self, machine: Machine, pushed: int) -> None:
        self.hooks = {machine.symbols[TIME]: self.time, machine.symbols[SEND]: self.send}
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
        self.constant = range(machine.symbols["request"], machine.symbols["request"] + 8)
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

    def pointed(self, state: State, low: int) -> list[State]:
        """Returns a state for each address that a pair of registers may hold."""
        pair = state.registers[low:low + 2]
        if all(isinstance(byte, int) for byte in pair):
            return [state]
        address = z3.Concat(vector(pair[1]), vector(pair[0]))
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
        first, second = (state.registers[int(word[1:])] for word in one.operands)
        after = state.pc + one.size
        skipped = self.instructions[after].size
        equal = is_zero(subtract(first, second)[0])
        return self.parted(state, equal, self.outcomes(state, equal), after + skipped, skipped // 2,
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
            pair = each.registers[low:low + 2]
            pointer = int(pair[0]) | int(pair[1]) << 8  # pointed() has made these numbers
            address = (pointer + int(found[3] or 0)) & 0xFFFF
            if one.name.startswith("ld"):
                must(address in each.memory, f"{at:x}: must not read {address:x}")
                each.registers[number] = each.memory[address]
                each.loads += 1
            else:
                each.memory[address] = each.registers[number]
            if found[2] and not found[3]:
                each.registers[low:low + 2] = [pointer + 1 & 0xFF, pointer + 1 >> 8 & 0xFF]
        return states

    def compute(self, state: State, one: Instruction) -> None:
        r, words, name = state.registers, one.operands, one.name
        d = int(words[0][1:]) if words else 0
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
        elif name in ("mov", "movw"):
            source, count = int(words[1][1:]), 1 if name == "mov" else 2
            r[d:d + count] = r[source:source + count]
        elif name == "ldi":
            r[d] = int(words[1], 0)
        elif name == "eor" and words[0] == words[1]:
            r[d], state.zero = 0, True
        elif name in ("eor", "or"):
            second = r[int(words[1][1:])]
            r[d] = r[d] ^ second if name == "eor" else r[d] | second
            state.zero = is_zero(r[d])
        elif name == "lpm":
            must(words[1:] == ["Z"] and all(isinstance(byte, int) for byte in r[30:32]),
                 "reads flash in a way that is not known here")
            address = int(r[30]) | int(r[31]) << 8
            must(address in self.constant, f"reads flash at {address:x}, which is not the request")
            r[d] = self.flash[address]
        elif name == "push":
            self.push(state, r[d])
        elif name == "pop":
            r[d] = self.pop(state)
        else:
            raise SystemExit(f"proof/avr.py does not know {one}")


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
    eight = z3.Concat(vector(world.length[1]), vector(world.length[0])) == 8
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


def check_frame(state: State, start: State, world: World) -> list[int]:
    """Proves that a path has changed nothing that it must keep. Returns the offsets of the table
    that were written."""
    must(state.sp == world.top, "the stack pointer is not back")
    must(state.registers[1] == 0, "r1 is not zero")
    for number in KEPT:
        must(state.registers[number] is start.registers[number], f"r{number} is not kept")
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
            start.registers[low:low + 2] = [z3.Extract(7, 0, value), z3.Extract(15, 8, value)]
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
    """Follows a turn to its ends: at the beginning of the loop, or at the report's hook."""
    states = code.step(start)
    while states:
        must(len(states) < 100, "a turn of the loop has no end")
        state = states.pop()
        if state.pc == code.head or state.hooks:
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
    unreached = {at for function in (agent_code, record_code)
                 for at in code.of(function)} - code.visited
    must(not unreached, f"code that no packet reaches: {sorted(map(hex, unreached))}")
    check_executor(code, world, machine, states, extra)
    machine.close()
    limits = {kind: bounds(states, extra) for kind, states in found.items()}
    every = [state for each in found.values() for state in each]
    return len(every), [*limits.values()], max(world.top - state.lowest for state in every)


def cover_all(states: list[State]) -> None:
    must(not feasible(*(z3.Not(z3.And(state.conditions)) for state in states)),
         "something takes no path")


def main() -> None:
    names = [target.name for target in TARGETS.values() if target.machine == "Avr"]
    parser = argparse.ArgumentParser(prog="proof.avr", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--chip", action="append", choices=names,
                        help="only this chip (repeatable); default: all")
    names = parser.parse_args().chip or names
    row = "{:<11}{:>7}" + "{:>11}" * len(KINDS) + "{:>7}"
    print(row.format("target", "paths", *KINDS, "stack"), flush=True)
    with ProcessPoolExecutor() as pool:
        for name, (paths, limits, stack) in zip(names, pool.map(follow, names), strict=True):
            cells = (f"{low}-{high}" if low < high else str(low) for low, high in limits)
            print(row.format(name, paths, *cells, stack), flush=True)
    print("Cycles without the hooks: the least and the most that any packet takes, whatever the "
          "table\nholds. stack: the most bytes, with return addresses. Each path is proved to do "
          "what SPEC.md says.")


if __name__ == "__main__":
    main()
