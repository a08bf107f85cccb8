"""How much flash, RAM and stack each firmware image takes. An image in which one interrupt can come
while another is served has no bound on its stack.

    make figures ONLY=firmware-size

What ends in a reset does not count as an interrupt here, because a reset clears the memory:
- an interrupt of an AVR that has no function
- the faults and the NMI of a Cortex-M, which are endless loops
If one of these comes within an interrupt, it may write below the bound on the stack. No program
here sets the priority of an interrupt, so none comes within another one that does not let it in."""

import struct
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from firmware.simulators.boards import BOARDS, Board
from tools.processors import budgets, memory
from tools.processors.memory import Code, sections
from tools.processors.targets import TARGETS
from tools.programs import as_program, built

BUDGETS = Path(__file__).with_name("budgets.tsv")
COLUMNS = ("flash", "ram", "bound")
ROW = "{:<18}{:>6}{:>6}{:>7}"
# Bytes that a Cortex-M pushes at an interrupt, at a multiple of 8. No compiler reports them.
EXCEPTION = 32


@dataclass(frozen=True)
class Chip:
    objdump: str
    begin: str  # the function in which an image begins, with an empty stack


AVR = Chip("avr-objdump", "main")
CORTEX_M = Chip("arm-none-eabi-objdump", "reset")
CHIPS = {"EM_AVR": AVR, "EM_ARM": CORTEX_M}
STACK_POINTER = ("0x3d", "0x3e", "0x005d", "0x005e")  # an AVR's addresses for out, and for sts
RETURN = 2  # bytes that these AVRs push at a call and at an interrupt
FIRST_INTERRUPT = 15  # SysTick, behind the faults and the NMI in a Cortex-M's table


def chip_of(image: Path) -> Chip:
    with image.open("rb") as stream:
        return CHIPS[ELFFile(stream)["e_machine"]]


def assembly_frames(code: Code) -> dict[str, int]:
    """The stacks of an AVR's functions that push registers only at their beginning, or after they
    have moved their argument, and do not write to the stack pointer. What they call or jump to
    comes in addition. The compiler does not report assembly, avr-libc's functions and naked ones.
    """
    stacks = {}
    for name, body in code.items():
        words = body[1:] if body[0][1] == "movw" else body
        pushes = next((i for i, (_, what, _) in enumerate(words) if what != "push"), 0)
        if not any(what == "push" or what in ("out", "sts")
                   and operands.lower().startswith(STACK_POINTER)
                   for _, what, operands in words[pushes:]):
            stacks[name] = RETURN + pushes
    return stacks


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
        if any(what in ("sei", "cpsie") for _, what, _ in code[name]):
            raise no_bound(image, f"{name} lets in other interrupts")


def bound(image: Path, report: Path) -> int:
    """The most bytes of stack: the loop's at its deepest, and those of the interrupt that takes
    most, as no interrupt lets in another. This leaves out what ends in a reset."""
    chip = chip_of(image)
    code, frame = memory.code(chip.objdump, image), memory.frames(report)
    memory.refuse_pointers(image, code, code)
    graph = memory.calls(code)
    served = handlers(image, code)
    refuse_nesting(image, code, memory.reached(served, graph))
    if chip is AVR:
        frame = assembly_frames(code) | frame
    loop = memory.depth(chip.begin, graph, frame)
    if chip is CORTEX_M:
        loop += EXCEPTION + -loop % 8
    return loop + max((memory.depth(name, graph, frame) for name in served), default=0)


def sizes(board: Board) -> dict[str, int]:
    image = board.image()
    parts = sections(image)
    return {"flash": parts["code"] + parts["rodata"] + parts["data"],
            "ram": parts["data"] + parts["bss"],
            "bound": bound(image, Path(built(f"build/firmware/{board.name}.su")))}


def main() -> None:
    measured: budgets.Budgets = {}
    print(ROW.format("image", *COLUMNS))
    for name, board in BOARDS.items():
        measured[name] = sizes(board)
        print(ROW.format(name, *measured[name].values()))
    print("Bytes; ram is without the stack. bound: the most that the stack can take, which is the "
          "sum of\nthe deepest chain of calls and of the interrupt that takes most.")
    compilers = {target.objdump: target for target in TARGETS.values()}
    made_by = {name: compilers[chip_of(board.image()).objdump] for name, board in BOARDS.items()}
    budgets.enforce(measured, COLUMNS, BUDGETS, made_by)


if __name__ == "__main__":
    as_program(main)
