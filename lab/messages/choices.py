"""What to take for which node: a few ways on three chips, over four media.

    make figures ONLY=lab-choices

SPDX-License-Identifier: MIT"""

from lab.messages import answer
from lab.messages.answer import TOO_SLOW, Line
from lab.messages.energy import BATTERIES, MODELS
from tests.support.programs import as_program

EVERY, BATTERY = 10.0, "cr2032"
SIGNED = "a signature"
WAYS = ("Dumpulse version 1", "Dumpulse version 2", "SecOC", "AES-128-CMAC", "MAVLink 2, signed",
        SIGNED)  # the columns
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


def main() -> None:
    print("\n".join(tables()))


if __name__ == "__main__":
    as_program(main)
