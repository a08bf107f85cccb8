"""What each firmware image takes of its chip, and of its time.

    make size             flash, RAM and the bound on the stack: python3 -m bench.firmware --size
    make firmware-size    these, and what was seen while it ran

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

from bench import awake, budgets, figures, stack
from bench.size import sections
from sim.boards import BOARDS, SENDER, Line
from sim.targets import ROOT
from tests.servers import built

BUDGETS = ROOT / "bench" / "firmware.tsv"
SIZES = {"flash": "{:>6}", "ram": "{:>6}", "bound": "{:>7}"}  # the columns, and their widths
COLUMNS = SIZES | {"stack": "{:>7}", "heartbeat": "{:>11}", "junk": "{:>8}", "report": "{:>10}"}
CAN = "can_avr"
# By ELF's name of the machine: what shows its code, where an image begins, and the bytes that an
# interrupt itself pushes beyond what its function reports.
MACHINES = {"EM_AVR": ("avr-objdump", "main", 0),
            "EM_ARM": ("arm-none-eabi-objdump", "reset", 32),
            "EM_RISCV": ("riscv64-unknown-elf-objdump", "start", 0)}
RETURN = 2  # bytes that a call pushes on these AVRs, and an interrupt


def machine(image: Path) -> tuple[str, str, int]:
    with image.open("rb") as stream:
        return MACHINES[ELFFile(stream)["e_machine"]]


def by_pointer(what: str, operands: str) -> bool:
    """Does it go where no instruction says? A return does not count."""
    return (what in ("icall", "ijmp") or what in ("bx", "blx") and operands != "lr"
            or what in ("jr", "jalr") and "<" not in operands or operands.startswith("pc,"))


def leaves_stack_alone(body: list[tuple[int, str, str]]) -> bool:
    """Does a function of an AVR neither push nor call, nor write to the stack pointer?"""
    return not any(what in ("push", "call", "rcall") or what == "out" and operands.startswith(("0x3d", "0x3e"))
                   for _, what, operands in body)


def bound(image: Path, report: Path) -> int:
    """The most bytes of stack: of the loop, at its deepest, and of the interrupt that takes most, as
    none of them lets in another."""
    objdump, begin, pushed = machine(image)
    code, frame = stack.code(objdump, image), stack.frames(report)
    for name, body in code.items():
        if any(by_pointer(what, operands) for _, what, operands in body):
            raise SystemExit(f"{image}: no bound on the stack: {name} calls by a pointer")
    graph = stack.calls(code)
    if objdump == "avr-objdump":  # avr-libc's functions, and those that are naked, have no report
        needed = {name for caller in frame.keys() & graph.keys() for name in graph[caller]} - frame.keys()
        vectors = {name for name in code if name.startswith("__vector_")} - frame.keys()
        frame |= {name: RETURN for name in needed | vectors if not graph[name] and leaves_stack_alone(code[name])}
    called = {name for caller in frame.keys() & graph.keys() for name in graph[caller]}
    interrupts = (frame.keys() & graph.keys()) - called - {begin}
    for name in sorted(interrupts):
        if any(what == "sei" for _, what, _ in code[name]):
            raise SystemExit(f"{image}: no bound on the stack: {name} lets in other interrupts")
    loop = stack.depth(begin, graph, frame)
    if pushed:
        loop += -loop % 8  # to which a Cortex-M aligns what it pushes
    return loop + pushed + max(stack.depth(name, graph, frame) for name in interrupts)


def sizes(name: str) -> dict[str, int]:
    image = Path(built(f"build/firmware/{name}.elf"))
    parts = sections(image)
    return {"flash": parts["code"] + parts["rodata"] + parts["data"], "ram": parts["data"] + parts["bss"],
            "bound": bound(image, Path(built(f"build/firmware/{name}.su")))}


def ran(name: str) -> dict[str, int]:
    """What was seen while it ran."""
    if name == CAN:
        return awake.cycles(awake.on_bus)
    if name == SENDER.name:
        with Line(SENDER) as line:
            line.receive(2 * 8)
            return {"stack": line.end(at_once=True)["stack"]}
    board = BOARDS[name]
    if board.mcu:
        return awake.cycles(awake.on_line(board))
    return awake.instructions(board, machine(board.image())[0])


def main() -> None:
    columns = SIZES if sys.argv[1:] == ["--size"] else COLUMNS
    measured: budgets.Budgets = {}
    row = "{:<18}" + "".join(COLUMNS[column] for column in columns)
    print(row.format("image", *columns))
    for name in (*BOARDS, SENDER.name, CAN):
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
