"""What to take for which node: a few ways on three chips, over four media.

    make figures ONLY=lab-choices

    python -m lab.messages.choices [--draw]   the same, and draws choices.svg and often.svg again

SPDX-License-Identifier: MIT"""

import sys
from pathlib import Path

from bench import figures
from bench.charts import (
    COLOURS, FIRST, INK, OURS, ROW_HEIGHT, TOP, WIDTH, Axis, Series, bars, document, panel)
from lab.messages import answer
from lab.messages.answer import TOO_SLOW, Line
from lab.messages.energy import BATTERIES, MEDIA, MODELS
from tests.support.programs import as_program

PICTURE = Path(__file__).with_name("choices.svg")
OFTEN = Path(__file__).with_name("often.svg")
MARGIN = 110  # pixels right of the longest bar, for its number
EVERY, BATTERY = 10.0, "cr2032"
# Of the pictures; CHIP and MARKS are of often.svg alone.
CHIP, MEDIUM, MARKS = "Cortex-M0+", "nrf", (1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 86400.0)
SIGNED = "a signature"
# The columns, and the colour of each in the picture.
WAYS = {"Dumpulse version 1": INK, "Dumpulse version 2": OURS, "SecOC": OURS, "AES-128-CMAC": OURS,
        "MAVLink 2, signed": OURS, SIGNED: FIRST}
CURVES = {"Dumpulse version 1": INK, "Dumpulse version 2": OURS, "MAVLink 2, signed": COLOURS[2],
          SIGNED: FIRST}
HEADS = ("version 1", "version 2", "SecOC", "AES tag", "MAVLink 2", SIGNED)
ROW = "{:<12}{:<8}" + "{:>12}" * len(WAYS)


def lines(name: str, over: str, every: float = EVERY) -> dict[str, Line]:
    """Each way on a chip; of the signatures the one that takes the least."""
    found: dict[str, Line] = {}
    for _, lot in answer.setting_of(name, every, BATTERY, over=over).lots(False):
        for line in lot:  # the cheapest first
            way = SIGNED if line.way.family == "signature" else line.way.name
            if way in WAYS:
                found.setdefault(way, line)
    return found


def years(line: Line) -> str:
    shelf = BATTERIES[BATTERY].shelf
    return ("-" if line.notes == TOO_SLOW else f">{shelf:g}" if line.years > shelf else
            f"{line.years:.2f}")


def tables() -> list[str]:
    made = [f"Years of {BATTERIES[BATTERY].name}, with a heartbeat every {EVERY:g} s. A model:",
            ROW.format("", "over", *HEADS)]
    for name in MODELS:
        for over in ("can", "uart", "nrf", "lora"):
            found = lines(name, over)
            made.append(ROW.format(name if over == "can" else "", over,
                                   *(years(found[way]) for way in WAYS)))
    made += ["", "Milliseconds of the processor for one heartbeat. A model:",
             ROW.format("", "", *HEADS)]
    for name in MODELS:
        found = lines(name, "nothing")
        made.append(ROW.format(name, "", *(f"{found[way].seconds * 1e3:,.3f}" for way in WAYS)))
    return made


def picture() -> str:
    shown, top = [], TOP
    for name in MODELS:
        rows = [(head, 0.0 if line.notes == TOO_SLOW else line.years, years(line), WAYS[way])
                for head, (way, line) in zip(HEADS, sorted(lines(name, MEDIUM).items(), key=lambda
                                                           item: list(WAYS).index(item[0])),
                                             strict=True)]
        shown += bars(f"{name}: years of a CR2032, a heartbeat every {EVERY:g} s over "
                      f"{MEDIA[MEDIUM].title}. A model", rows, top, MARGIN)
        top += len(rows) * ROW_HEIGHT + TOP
    return document(top - 20, shown)


def often() -> str:
    """Years for each pause between two heartbeats, from a second to a day."""
    times = [10 ** (step / 8) for step in range(40)]
    shelf, found = BATTERIES[BATTERY].shelf, [lines(CHIP, MEDIUM, every) for every in times]
    return document(360, panel(
        0, 0, WIDTH, 360, f"How often? Years of a CR2032: {CHIP}, over {MEDIA[MEDIUM].title}. "
        "A model", [
            Series(way, [(every, min(line[way].years, shelf)) for every, line
                         in zip(times, found, strict=True) if line[way].notes != TOO_SLOW],
                   colour, line=True) for way, colour in CURVES.items()],
        Axis("from one heartbeat to the next", answer.in_its_unit, True, ticks=MARKS),
        Axis(logarithmic=True)))


def main() -> None:
    print("\n".join(tables()))
    for path, drawn in ((PICTURE, picture()), (OFTEN, often())):
        figures.keep_picture(path, drawn, again=bool(sys.argv[1:]))


if __name__ == "__main__":
    as_program(main, "(--draw)?")
