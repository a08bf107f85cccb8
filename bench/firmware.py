"""What each firmware image takes of its chip, and of its time.     make firmware-size

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from bench import budgets
from bench.size import sections
from bench.stack import frames
from sim.boards import BOARDS, SENDER, Board, Line
from sim.targets import ROOT
from tests.model import REQUEST, heartbeat

BUDGETS = ROOT / "bench" / "firmware.tsv"
COLUMNS = ("flash", "ram", "stack", "heartbeat", "junk", "report")
EXCEPTION = 32  # bytes that a Cortex-M pushes itself; on RISC-V the trap's frame has all
FEW, MANY = 200, 1000  # packets; the difference of two runs has no start-up in it


def awake(board: Board, packets: list[bytes], reports: int = 0) -> tuple[int, int]:
    """Cycles not asleep in a run, and the deepest stack in bytes."""
    with Line(board, script=b"".join(packets)) as line:
        line.receive(260 * reports)
        counted = line.end()
    return counted["cycles"] - counted["asleep"], counted["stack"]


def simulated(board: Board) -> dict[str, int]:
    """What simavr counts: cycles of everything, interrupts and waking up included."""
    beats = [heartbeat(number % 64, 76, number % 256) for number in range(MANY)]
    junk = [b"\x55" * 8] * MANY
    found = {name: round((awake(board, packets)[0] - awake(board, packets[:FEW])[0]) / (MANY - FEW))
             for name, packets in (("heartbeat", beats), ("junk", junk))}
    asked, stack = awake(board, [*beats, REQUEST], 1)
    return found | {"report": asked - awake(board, beats)[0], "stack": stack}


def bound(board: Board) -> int:
    """No function calls itself, and no interrupt another: all frames together are enough."""
    image = board.image()
    depth = sum(sum(frames(report).values()) for report in image.parent.glob(f"{image.name}-*.su"))
    return depth + (EXCEPTION if "mps2" in board.name else 0)


def main() -> None:
    measured: budgets.Budgets = {}
    row = "{:<18}{:>6}{:>6}{:>7}{:>11}{:>8}{:>10}"
    print(row.format("image", *COLUMNS))
    for board in (*BOARDS.values(), SENDER):
        parts = sections(board.image())
        figures = {"flash": parts["code"] + parts["rodata"] + parts["data"],
                   "ram": parts["data"] + parts["bss"]}
        if board is SENDER:
            with Line(board) as line:
                line.receive(2 * 8)
                figures["stack"] = line.end(at_once=True)["stack"]
        else:
            figures |= simulated(board) if board.mcu else {"stack": bound(board)}
        measured[board.name] = figures
        print(row.format(board.name, *(figures.get(column, "-") for column in COLUMNS)))
    print("flash, ram, stack: bytes; ram without the stack. heartbeat, junk, report: cycles awake for\n"
          "8 bytes, at full speed, interrupts included; a report's are all until it is out. stack: on\n"
          "AVR the deepest in these runs; else a bound, all frames of the image and an interrupt's.")
    budgets.enforce(measured, COLUMNS, BUDGETS)


if __name__ == "__main__":
    main()
