"""Finds the interrupts of a firmware image, and refuses an image in which one interrupt can come
while another is served.

What ends in a reset does not count as an interrupt here, because a reset clears the memory:
- an interrupt of an AVR that has no function
- the faults and the NMI of a Cortex-M, which are endless loops, and of a CH32V003
If one of these comes within an interrupt, it may write below the bound on the stack. No program
here sets the priority of an interrupt, so none comes within another one that does not let it in."""

import struct
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tools.processors import memory
from tools.processors.memory import Code

Words = list[tuple[str, str]]  # instructions and their operands


@dataclass(frozen=True)
class Chip:
    objdump: str
    begin: str  # the function in which an image begins, with an empty stack


AVR = Chip("avr-objdump", "main")
CORTEX_M = Chip("arm-none-eabi-objdump", "reset")
RISCV = Chip("riscv64-unknown-elf-objdump", "start")
CHIPS = {"EM_AVR": AVR, "EM_ARM": CORTEX_M, "EM_RISCV": RISCV}
STACK_POINTER = ("0x3d", "0x3e", "0x005d", "0x005e")  # an AVR's addresses for out, and for sts
FIRST_INTERRUPT = 15  # SysTick, behind the faults and the NMI in a Cortex-M's table


def chip_of(image: Path) -> Chip:
    with image.open("rb") as stream:
        return CHIPS[ELFFile(stream)["e_machine"]]


def words_of(body: list[tuple[int, str, str]]) -> Words:
    """Instructions without addresses and without objdump's comments."""
    return [(what, operands.partition(";")[0].strip().lower()) for _, what, operands in body]


def moves_stack(what: str, operands: str) -> bool:
    """Does an instruction of an AVR write to the stack pointer?"""
    return what in ("out", "sts") and operands.startswith(STACK_POINTER)


def leaves_stack_alone(body: list[tuple[int, str, str]], others: set[int]) -> bool:
    """Does a function of an AVR use the stack only to return? It may end with a jump to one of the
    others. These are known to use it only to return."""
    goals = {memory.goal(operands) for _, _, operands in body} - {None}
    _, last, operands = body[-1]
    ends = last in ("ret", "reti") or last in memory.JUMPS and memory.goal(operands) in others
    return (ends and goals <= {address for address, _, _ in body} | others
            and not any(what in ("push", "pop", "call", "rcall")
                        or moves_stack(what, operands)
                        for what, operands in words_of(body)))


def leave_stack_alone(code: Code) -> set[str]:
    """The functions that use the stack only to return. avr-libc 2.2's memmove jumps to memcpy."""
    names: set[str] = set()
    while new := {name for name, body in code.items() if name not in names
                   and leaves_stack_alone(body, {code[callee][0][0] for callee in names})}:
        names |= new
    return names


def only_calls(body: list[tuple[int, str, str]]) -> bool:
    """Does a function of an AVR leave only by its last instruction, and never pop?"""
    addresses = {address for address, _, _ in body}
    goals = {memory.goal(operands) for _, what, operands in body if what not in ("call", "rcall")}
    return body[-1][1] == "ret" and goals - {None} <= addresses and \
        not any(what in ("pop", "ret", "reti") for _, what, _ in body[:-1])


def pushes(code: Code) -> dict[str, int]:
    """How many bytes the functions of an AVR push that push registers only at their beginning, or
    after they have moved their argument, or none. From then on, they change the stack's depth only
    by calls and as they return."""
    pushed = {}
    for name, body in code.items():
        words = words_of(body)
        words = words[1:] if words[0][0] == "movw" else words
        first = next((index for index, (what, _) in enumerate(words) if what != "push"), 0)
        ends = first or only_calls(body)
        if ends and not any(what == "push" or moves_stack(what, operands)
                            for what, operands in words[first:]):
            pushed[name] = first
    return pushed


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


def handlers(image: Path, code: Code) -> set[str]:
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
            names = {entries.get(address) for address in table[FIRST_INTERRUPT:] if address}
    functions = {name for name in names if name}
    if functions != names or (not functions and chip is not AVR):  # an AVR may do without any
        raise no_bound(image, "its interrupts were not found")
    return functions


def refuse_nesting(image: Path, code: Code, served: set[str]) -> None:
    """served: all functions that interrupts call. None may turn interrupts on."""
    for name in sorted(served & code.keys()):
        if any(what in ("sei", "cpsie") or what in ("csrs", "csrw") and "mstatus" in operands
               for _, what, operands in code[name]):
            raise no_bound(image, f"{name} lets in other interrupts")
