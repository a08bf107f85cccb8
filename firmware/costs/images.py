"""How much flash, RAM and stack each firmware image takes.

    make figures ONLY=firmware-size"""

from pathlib import Path

from firmware.costs import interrupts
from firmware.costs.interrupts import AVR, CORTEX_M, chip_of
from firmware.simulators.boards import BOARDS, Board
from tools.processors import budgets, memory
from tools.processors.memory import sections
from tools.processors.targets import TARGETS
from tools.programs import as_program, built

BUDGETS = Path(__file__).with_name("budgets.tsv")
COLUMNS = ("flash", "ram", "bound")
ROW = "{:<18}{:>6}{:>6}{:>7}"
# Bytes that a Cortex-M pushes at an interrupt, at a multiple of 8. No compiler reports them.
EXCEPTION = 32


def bound(image: Path, report: Path) -> int:
    """The most bytes of stack: the loop's at its deepest, and those of the interrupt that takes
    most, as no interrupt lets in another. This leaves out what ends in a reset;
    firmware/costs/interrupts.py lists it."""
    chip = chip_of(image)
    code, frame = memory.code(chip.objdump, image), memory.frames(report)
    memory.refuse_pointers(image, code, code)
    graph = memory.calls(code)
    served = interrupts.handlers(image, code)
    interrupts.refuse_nesting(image, code, memory.reached(served, graph))
    if chip is AVR:
        frame = interrupts.assembly_frames(code) | frame
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
