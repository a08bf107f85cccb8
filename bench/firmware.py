"""What each firmware image takes of its chip, and of its time.

    make size             flash, RAM and the bound on the stack: python3 -m bench.firmware --size
    make firmware-size    these, and what was seen while it ran

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench import awake, budgets, figures, interrupts, stack
from bench.interrupts import AVR, CORTEX_M, chip_of
from bench.size import sections
from sim.boards import BOARDS, SENDER, Line
from sim.programs import built
from sim.targets import ROOT

BUDGETS = ROOT / "bench" / "firmware.tsv"
SIZES = {"flash": "{:>6}", "ram": "{:>6}", "bound": "{:>7}"}  # the columns, and their widths
COLUMNS = SIZES | {"stack": "{:>7}", "heartbeat": "{:>11}", "junk": "{:>8}", "report": "{:>10}"}
CAN, CAN_29 = "can_avr", "can_avr-29"  # the second with identifiers of 29 bits; its runs are the tests'
RETURN = 2  # bytes that a call pushes on these AVRs, and an interrupt
EXCEPTION = 32  # bytes that a Cortex-M pushes, aligned to 8, beyond what the interrupt's function reports


def bound(image: Path, report: Path) -> int:
    """The most bytes of stack: of the loop, at its deepest, and of the interrupt that takes most, as
    none of them lets in another. What ends in a reset is not in it: bench/interrupts.py says what."""
    chip = chip_of(image)
    code, frame = stack.code(chip.objdump, image), stack.frames(report)
    stack.refuse_pointers(image, code, code)
    graph = stack.calls(code)
    found = interrupts.found(image, code)
    interrupts.refuse_nesting(image, code, graph, found, stack.reached([chip.begin], graph))
    if chip is AVR:  # avr-libc's functions, and those that are naked, have no report
        frame = {name: RETURN for name, body in code.items() if interrupts.leaves_stack_alone(body)} | frame
    loop = stack.depth(chip.begin, graph, frame)
    if chip is CORTEX_M:
        loop += EXCEPTION + -loop % 8
    return loop + max(stack.depth(name, graph, frame) for name in found)


def sizes(name: str) -> dict[str, int]:
    image = Path(built(f"build/firmware/{name}.elf"))
    parts = sections(image)
    return {"flash": parts["code"] + parts["rodata"] + parts["data"], "ram": parts["data"] + parts["bss"],
            "bound": bound(image, Path(built(f"build/firmware/{name}.su")))}


def ran(name: str) -> dict[str, int]:
    """What was seen while it ran."""
    if name == CAN:
        return awake.cycles(awake.on_bus)
    if name == CAN_29:
        return {}
    if name == SENDER.name:
        with Line(SENDER) as line:
            line.receive(2 * 8)
            return {"stack": line.end(at_once=True)["stack"]}
    board = BOARDS[name]
    if board.mcu:
        return awake.cycles(awake.on_line(board))
    return awake.instructions(board, chip_of(board.image()).objdump)


def main() -> None:
    columns = SIZES if sys.argv[1:] == ["--size"] else COLUMNS
    measured: budgets.Budgets = {}
    row = "{:<18}" + "".join(COLUMNS[column] for column in columns)
    print(row.format("image", *columns))
    for name in (*BOARDS, SENDER.name, CAN, CAN_29):
        measured[name] = sizes(name)
        if columns is COLUMNS:
            measured[name] |= ran(name)
        print(row.format(name, *(measured[name].get(column, "-") for column in columns)))
        if measured[name].get("stack", 0) > measured[name]["bound"]:
            raise SystemExit(f"{name}: its stack was deeper than the bound")
    print("Bytes; ram without the stack. bound: of the stack, the compiler's for each function, summed\n"
          "along the deepest chain of calls, and that of the interrupt that takes most.")
    if columns is COLUMNS:
        print("stack: the deepest in these runs. heartbeat, junk, report: what 8 bytes take, at full speed,\n"
              "awake, interrupts and waking up included: AVR cycles, else instructions; a report's are all\n"
              "until it is out.")
        figures.keep("firmware-size", measured)
    budgets.enforce(measured, tuple(columns), BUDGETS)


if __name__ == "__main__":
    main()
