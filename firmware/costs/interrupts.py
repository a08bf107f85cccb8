"""Finds the interrupts of a firmware image, and refuses an image in which one interrupt can come
while another is served.

What ends in a reset does not count as an interrupt here, because a reset clears the memory:
- an interrupt of an AVR that has no function
- the faults and the NMI of a Cortex-M, which must be endless loops, and of a CH32V003
If one of these comes within an interrupt, it may write below the bound on the stack."""

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tools.processors import memory
from tools.processors.memory import Code, Graph

Words = list[tuple[str, str]]  # instructions and their operands


@dataclass(frozen=True)
class Chip:
    objdump: str
    begin: str  # the function in which an image begins, with an empty stack


AVR = Chip("avr-objdump", "main")
CORTEX_M = Chip("arm-none-eabi-objdump", "reset")
RISCV = Chip("riscv64-unknown-elf-objdump", "start")
CHIPS = {"EM_AVR": AVR, "EM_ARM": CORTEX_M, "EM_RISCV": RISCV}
# How gcc changes the stack pointer of an AVR. It writes to SREG only what it was before, and
# interrupts are off until then.
FRAMES = [("in", "r0, 0x3f"), ("cli", ""), ("out", "0x3e, r29"), ("out", "0x3f, r0")]
SREG, STACK_POINTER = ("0x3f", "0x005f"), ("0x3d", "0x3e", "0x005d", "0x005e")  # of out, and of sts
FIRST_INTERRUPT = 15  # in a Cortex-M's table: SysTick. The faults and the NMI come before it
# The registers of a Cortex-M's priorities. After a reset all are equal, so no interrupt comes
# within another.
SYSTEM = range(0xE000E000, 0xE000F000)
PRIORITIES = (*range(0xE000E400, 0xE000E800), *range(0xE000ED18, 0xE000ED24))


def chip_of(image: Path) -> Chip:
    with image.open("rb") as stream:
        return CHIPS[ELFFile(stream)["e_machine"]]


def words_of(body: list[tuple[int, str, str]]) -> Words:
    """Instructions without addresses and without objdump's comments."""
    return [(what, operands.partition(";")[0].strip().lower()) for _, what, operands in body]


def writes(what: str, operands: str, registers: tuple[str, ...]) -> bool:
    """Does an instruction of an AVR write to one of these registers?"""
    return what in ("out", "sts") and operands.startswith(registers)


def leaves_stack_alone(body: list[tuple[int, str, str]], others: set[int]) -> bool:
    """Does a function of an AVR use the stack only to return? It may end with a jump to one of the
    others. These are known to use it only to return."""
    goals = {memory.goal(operands) for _, _, operands in body} - {None}
    _, last, operands = body[-1]
    ends = last in ("ret", "reti") or last in memory.JUMPS and memory.goal(operands) in others
    return (ends and goals <= {at for at, _, _ in body} | others
            and not any(what in ("push", "pop", "call", "rcall")
                        or writes(what, operands, STACK_POINTER)
                        for what, operands in words_of(body)))


def leave_stack_alone(code: Code) -> set[str]:
    """The functions that use the stack only to return. avr-libc 2.2's memmove jumps to memcpy."""
    found: set[str] = set()
    while more := {name for name, body in code.items() if name not in found
                   and leaves_stack_alone(body, {code[other][0][0] for other in found})}:
        found |= more
    return found


def only_calls(body: list[tuple[int, str, str]]) -> bool:
    """Does a function of an AVR leave only by its last instruction, and never pop?"""
    own = {at for at, _, _ in body}
    goals = {memory.goal(operands) for _, what, operands in body if what not in ("call", "rcall")}
    return body[-1][1] == "ret" and goals - {None} <= own and \
        not any(what in ("pop", "ret", "reti") for _, what, _ in body[:-1])


def pushes(code: Code) -> dict[str, int]:
    """How many bytes the functions of an AVR push that push registers only at their beginning, or
    after they have moved their argument, or none. From then on, they change the stack's depth only
    by calls and as they return."""
    found = {}
    for name, body in code.items():
        words = words_of(body)
        words = words[1:] if words[0][0] == "movw" else words
        first = next((at for at, (what, _) in enumerate(words) if what != "push"), 0)
        ends = first or only_calls(body)
        if ends and not any(what == "push" or writes(what, operands, STACK_POINTER)
                            for what, operands in words[first:]):
            found[name] = first
    return found


def restores(words: Words) -> Words:
    """Returns how an interrupt of an AVR ends if it begins as gcc's do, or else nothing. It writes
    to SREG only the value from before, and interrupts are off until then. Since gcc 8, any register
    may hold SREG, and there may be code behind the end."""
    for before, after in (([("push", "r1")], [("pop", "r1")]), ([], [])):
        register = [*words, ("", "")][len(before)][1]
        saves = [*before, ("push", register), ("in", f"{register}, 0x3f"), ("push", register)]
        if words[:len(saves)] == saves:
            return [("pop", register), ("out", f"0x3f, {register}"), ("pop", register), *after,
                    ("reti", "")]
    return []


def no_bound(image: Path, why: str) -> SystemExit:
    return SystemExit(f"{image}: no bound on the stack: {why}")


def in_table(image: Path) -> list[int]:
    """The addresses in a Cortex-M's table of interrupts. 0: no function."""
    with image.open("rb") as stream:
        file = ELFFile(stream)
        symbols = file.get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        (table,) = symbols.get_symbol_by_name("vectors")
        section = file.get_section(table["st_shndx"])
        begin = table["st_value"] - section["sh_addr"]
        data = section.data()[begin:begin + table["st_size"]]
    return [word & ~1 for word, in struct.iter_unpack("<I", data)]


def found(image: Path, code: Code) -> set[str]:
    """The functions that interrupts call."""
    chip = chip_of(image)
    names: set[str | None]
    if chip is RISCV:  # only an interrupt has an mret
        names = {name for name, body in code.items() if any(what == "mret" for _, what, _ in body)}
    else:
        entries: dict[int | None, str] = {body[0][0]: name for name, body in code.items()}
        if chip is AVR:  # the first vector is the reset's
            names = {entries.get(memory.goal(operands))
                     for _, what, operands in code["__vectors"][1:]
                     if what in ("jmp", "rjmp")} - {"__bad_interrupt"}
        else:
            table = in_table(image)
            for name in {entries[at] for at in table[2:FIRST_INTERRUPT] if at}:
                begin = code[name][0][0]
                if not all(what in memory.JUMPS and memory.goal(operands) == begin
                           for _, what, operands in code[name]):
                    raise no_bound(
                        image, f"{name} comes within interrupts, and is not an endless loop")
            names = {entries.get(at) for at in table[FIRST_INTERRUPT:] if at}
    functions = {name for name in names if name}
    if functions != names or (not functions and chip is not AVR):  # an AVR may do without any
        raise no_bound(image, "its interrupts were not found")
    return functions


def lets_in(chip: Chip, body: list[tuple[int, str, str]], interrupt: bool) -> bool:
    """Can this function, which an interrupt calls or is, turn interrupts on?"""
    words = words_of(body)
    if chip is RISCV:
        return any(what.startswith("csr") and what != "csrr" and "mstatus" in operands
                   for what, operands in words)
    if chip is CORTEX_M:
        return any(what.startswith(("cpsie", "msr")) for what, _ in words)
    ending = restores(words) if interrupt else []
    return any(what == "sei" or writes(what, operands, SREG)
               and words[max(at - 3, 0):at + 1] != FRAMES
               and not (ending and words[at - 1:at - 1 + len(ending)] == ending)
               for at, (what, operands) in enumerate(words))


def sets_priorities(body: list[tuple[int, str, str]]) -> bool:
    """Is a constant in a Cortex-M's function the address of a priority, or is it one together with
    what an instruction adds to its address or to a register?"""
    def numbers(lines: list[tuple[int, str, str]]) -> set[int]:
        return {int(number, 0) for _, _, operands in lines
                for number in re.findall(r"(?:#|^)(0x[0-9a-f]+|\d+)", operands)} | {0}

    added = numbers([line for line in body if line[1].startswith("add") or "[" in line[2]])
    return any(base + offset in PRIORITIES for base in numbers(body) & set(SYSTEM)
               for offset in added)


def refuse_nesting(image: Path, code: Code, graph: Graph, interrupts: set[str],
                   loop: set[str]) -> None:
    """An interrupt must not call another one, and no function that it calls may turn interrupts on.
    loop: all functions that the loop calls."""
    chip = chip_of(image)
    served = memory.reached(interrupts, graph)
    for name in sorted(served | loop):
        if called := graph.get(name, set()) & interrupts:
            raise no_bound(image, f"{name} calls {min(called)}, an interrupt")
    for name in sorted(served & code.keys()):
        if lets_in(chip, code[name], name in interrupts):
            raise no_bound(image, f"{name} lets in other interrupts")
    if chip is CORTEX_M:
        for name, body in code.items():
            if sets_priorities(body):
                raise no_bound(image, f"{name} sets an interrupt's priority")
