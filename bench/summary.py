"""Makes the first table and the three pictures of performance.md: what a packet costs.

    make figures ONLY=summary          prints the table; fails if summary.svg shows other figures
    python3 -m bench.summary --draw    draws summary.svg again

The tables size, cost and instructions have kept the figures of this library: make runs them before.
SPDX-License-Identifier: MIT"""

import sys
from math import comb, inf, log10
from pathlib import Path

from bench import figures
from bench.charts import FIRST, OURS, ROW_HEIGHT, TOP, bars, document
from bench.reliability.programs import BITS, HEARTBEATS, by_flips, stored_rows
from tests.support.programs import as_program

PICTURE = Path(__file__).with_name("summary.svg")
AVR, M0, M3, RV = ("ATmega328P, gcc 5.4", "Cortex-M0+, gcc 12.2", "Cortex-M3, gcc 12.2",
                   "rv32imc, gcc 12.2")

# What is compared, the first implementation's figure, and where to find ours. The figures of the
# first implementation were published or measured elsewhere, with the same compilers. No command
# here prints them.
ROWS = (
    ("ATmega328P", "agent, bytes", 323, ("size", AVR, "bytes")),
    ("", "a heartbeat, cycles", 252, ("cost", AVR, "heartbeat")),
    ("", "a report, cycles", 5805, ("cost", AVR, "report")),
    ("", "stack, bytes", 16, ("cost", AVR, "stack")),
    ("Cortex-M0+", "agent, bytes", 225, ("size", M0, "bytes")),
    ("", "a heartbeat, instructions", 89, ("cost", M0, "heartbeat")),
    ("", "a report, instructions", 2516, ("cost", M0, "report")),
    ("Cortex-M3", "agent, bytes", 205, ("size", M3, "bytes")),
    ("", "a heartbeat, instructions", 72, ("cost", M3, "heartbeat")),
    ("RISC-V, rv32", "a heartbeat, instructions", 90, ("cost", RV, "heartbeat")),
    ("", "a report, instructions", 1955, ("cost", RV, "report")),
    ("UDP, amd64", "a heartbeat, instructions", 128,
     ("instructions", "another heartbeat", "amd64 queued")),
    ("", "a report, instructions", 5227, ("instructions", "1 report", "amd64 queued")),
)

PACKETS = ("heartbeat", "sum", "variable", "magic", "length")
PACKET_NAMES = {"heartbeat": "a heartbeat", "sum": "a wrong checksum",
                "variable": "a variable above 63",
                "magic": "something else, 8 bytes", "length": "another length"}
Figures = figures.Figures


def most(figure: str) -> int:
    """Returns the upper end of a range like 3493-3621."""
    return int(figure.rpartition("-")[2])


def table(measured: Figures) -> list[str]:
    lines = [f"{'':<14}{'':<28}{'first implementation':>20}{'this one':>10}{'ratio':>8}"]
    for target, what, first, key in ROWS:
        ours = most(measured[key])
        lines.append(f"{target:<14}{what:<28}{first:>20,}{ours:>10,}{ours / first:>8.2f}")
    return lines


def sizes(measured: Figures) -> list[tuple[str, float, str, str]]:
    """Rows for each target with each of its compilers."""
    first = {target: value for target, what, value, _ in ROWS if what == "agent, bytes"}
    rows: list[tuple[str, float, str, str]] = []
    for target in ("ATmega328P", "Cortex-M0+", "Cortex-M3", "Cortex-M4", "rv32imc", "amd64"):
        if target in first:
            rows.append((f"{target}, first one", first[target], str(first[target]), FIRST))
        rows += [(row, int(figure), figure, OURS)
                 for (command, row, column), figure in measured.items()
                 if (command, column) == ("size", "bytes") and row.startswith(f"{target}, ")]
    return rows


def packets(measured: Figures) -> list[tuple[str, float, str, str]]:
    return [(PACKET_NAMES[kind], most(measured["cost", M0, kind]), measured["cost", M0, kind], OURS)
            for kind in PACKETS]


def mistakes() -> list[tuple[str, float, str, str]]:
    """Rows for 1 to 8 flipped bits: how many damaged heartbeats come, on average, until one is
    taken for another. The length of a bar is the number of digits."""
    found = by_flips(stored_rows("adler"))
    until = {flips: comb(BITS, flips) * HEARTBEATS / found[flips] if found[flips] else inf
             for flips in range(1, 9)}
    longest = max(log10(number) for number in until.values() if number < inf)
    return [(f"{flips} bit{'s' * (flips > 1)} flipped", min(log10(number), longest),
             f"{number:,.0f}" if number < inf else "never", OURS)
            for flips, number in until.items()]


def draw(measured: Figures) -> str:
    panels = [("What an agent adds to a firmware, in bytes", sizes(measured)),
              ("What a packet takes on a Cortex-M0+, in instructions", packets(measured)),
              ("Damaged heartbeats until one is taken for another; the bars show the number of "
               "digits", mistakes())]
    lines, top = list[str](), TOP
    for title, rows in panels:
        lines += bars(title, rows, top, margin=150)
        top += len(rows) * ROW_HEIGHT + TOP + 16
    return document(top - TOP, lines)


def main() -> None:
    measured = figures.parse("".join(figures.kept(command).read_text()
                                     for command in ("size", "cost", "instructions")))
    print("\n".join(table(measured)))
    figures.keep_picture(PICTURE, draw(measured), again=bool(sys.argv[1:]))


if __name__ == "__main__":
    as_program(main, "(--draw)?")
