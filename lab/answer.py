"""What does a verified message cost a node? Schemes, by years of battery.     make lab-answer

    python -m lab.answer [--target NAME] [--every TIME] [--battery NAME] [--sleep µA]
                         [--bitrate N]
    python -m lab.answer --fits
    python -m lab.answer --draw

The counts are those of counts.tsv. The energy is a model. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path

from bench import figures
from bench.charts import FIRST, INK, OURS, ROW_HEIGHT, TOP, bars, document
from lab import counts
from lab.counts import Count
from lab.energy import BATTERIES, MODELS, SECONDS_A_YEAR, Model, years
from lab.schemes import HEARTBEAT, SCHEMES, Scheme
from lab.targets import MACHINES, Machine

MAKES = ("make", "sign")  # what a node does for each message
VERIFIES = ("accept", "verify")  # and who hears it
SHORTEST = 0.001  # seconds between two messages
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
PICTURE = Path(__file__).with_name("answer.svg")
TOO_SLOW = "too slow"
MARGIN = 110  # pixels right of the longest bar, for its number
AGENT = "ATmega328P, gcc 5.4"  # of bench/figures.tsv


def seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|min|h)", text)
    value = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not SHORTEST <= value <= SECONDS_A_YEAR:
        raise argparse.ArgumentTypeError(
            f"{text}: a time is wanted, like 100ms, 1s, 10min or 2h; at least 1ms, at most a year")
    return value


def target(text: str) -> str:
    for name in MODELS:
        if text.casefold() == name.casefold():
            return name
    known = " and ".join(MODELS)
    raise argparse.ArgumentTypeError(f"{text}: there is a model of the energy of {known}")


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-6 <= value <= 1e12:  # with what is farther off, years or shares overflow
        raise argparse.ArgumentTypeError(
            f"{text}: a number above 0 is wanted, from 0.000001 to 1e12")
    return value


def can_bits(message: int) -> int:
    """On the bus: frames of at most 8 bytes with short identifiers, the most bits that stuffing can
    add, and 3 bits between frames."""
    whole, rest = divmod(message, 8)
    return sum(47 + 8 * size + (33 + 8 * size) // 4 for size in [8] * whole + [rest] * (rest > 0))


def of_heartbeat(scheme: Scheme, name: str, steps: tuple[str, ...],
                 known: dict[tuple[str, ...], Count]) -> Count | None:
    """With the stack of the deeper of two steps, if the step needs another one: it is the same
    stack, at another time."""
    for step in scheme.steps:
        key = scheme.name, scheme.by, step.name, str(HEARTBEAT), name
        if step.name in steps and (count := known.get(key)):
            return replace(count, stack=max(other.stack for other in known.values() if (
                other.scheme, other.by, other.target) == (scheme.name, scheme.by, name)
                and other.step in (step.name, step.needs)))
    return None


def missing(count: Count, machine: Machine, flash: int = 0, ram: int = 0) -> str:
    """By how much it does not fit beside what has so much flash and RAM already; "" if it fits."""
    assert machine.flash is not None and machine.ram is not None
    over = {"flash": count.flash + flash - machine.flash,
            "RAM": count.ram + count.stack + ram - machine.ram}
    return ", ".join(f"{what} +{by:,}" for what, by in over.items() if by > 0)


def ranked(name: str, every: float, battery: str, sleep: float,
           bitrate: float) -> list[tuple[float, str, str]]:
    """By years of battery: these, the scheme, its line."""
    known = counts.read()
    rows = [row(scheme, count, MODELS[name], every, battery, sleep, bitrate)
            for scheme in SCHEMES if scheme.against
            and (count := of_heartbeat(scheme, name, MAKES, known)) is not None]
    return sorted(rows, key=lambda row: -row[0])


def answer(name: str, every: float, battery: str, sleep: float, bitrate: float) -> list[str]:
    unit = MACHINES[name].unit
    head = [f"{name}, a heartbeat every {every:g} s, {BATTERIES[battery].name}, "
            f"{sleep:g} µA asleep.", "",
            f"{'':<33}{'bytes':>5}{unit:>13}{'ms':>10}{'bus':>8}{'µJ':>10}{'years':>6}  against"]
    return head + [line for _, _, line in ranked(name, every, battery, sleep, bitrate)]


def picture() -> str:
    """The years, on the machine and with the battery that are asked for if nothing is said."""
    schemes = {scheme.title: scheme for scheme in SCHEMES}
    colours = {"signature": FIRST, "MAC": OURS}
    rows = ranked("ATmega328P", 1.0, "cr2032", MODELS["ATmega328P"].sleep, 500_000)
    best: dict[str, tuple[str, float, str, str]] = {}  # the best program of each scheme
    for lasts, title, line in rows:
        name, family = schemes[title].name, schemes[title].family
        label = TOO_SLOW if line.endswith(TOO_SLOW) else f"{lasts:.2f}"
        best.setdefault(name, (name, lasts, label, colours.get(family, INK)))
    shown = list(best.values())
    return document(TOP + len(shown) * ROW_HEIGHT + 12, bars(
        "Years of a CR2032: an ATmega328P sends a heartbeat each second, checked in these ways",
        shown, TOP, MARGIN))


def row(scheme: Scheme, count: Count, model: Model, every: float, battery: str, sleep: float,
        bitrate: float) -> tuple[float, str, str]:
    message = HEARTBEAT + scheme.adds
    joules = count.mean * model.nanojoules * 1e-9
    took = count.mean * model.per_count / model.hertz
    lasts = years(BATTERIES[battery], joules, every, sleep)
    share = can_bits(message) / bitrate / every
    over = missing(count, MACHINES[count.target])
    notes = (TOO_SLOW if took > every else "the bus is too slow" if share > 1 else
             f"no room: {over}" if over else scheme.against)
    return lasts, scheme.title, (
        f"{scheme.title:<33}{message:>5}{count.mean:>13,}{took * 1e3:>10,.2f}{share:>8.3%}"
        f"{joules * 1e6:>10,.2f}{'-' if took > every else f'{lasts:.2f}':>6}  {notes}")


def fits() -> list[str]:
    """What an ATmega328P has room for beside the agent: its 260 bytes of RAM and its own stack."""
    known = counts.read()
    own = figures.parse(figures.FILE.read_text())
    flash = int(own["size", AGENT, "bytes"])
    ram = 260 + int(own["cost", AGENT, "stack"])
    machine = MACHINES["ATmega328P"]
    lines = [f"Beside the agent, which takes {flash} bytes of flash and {ram} of RAM, "
             "on an ATmega328P:",
             f"{'':<33}{'step':<9}{'flash':>8}{'RAM':>7}{'stack':>7}"]
    for scheme in SCHEMES:
        count = of_heartbeat(scheme, machine.name, VERIFIES, known)
        if count is not None:
            over = missing(count, machine, flash, ram)
            lines.append(f"{scheme.title:<33}{count.step:<9}{count.flash:>8,}{count.ram:>7,}"
                         f"{count.stack:>7,}  " + (f"no room: {over}" if over else "fits"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="make lab-answer", description=__doc__.partition("\n")[0])
    parser.add_argument("--target", type=target, default="ATmega328P",
                        help="atmega328p or cortex-m4")
    parser.add_argument("--every", type=seconds, default=1.0, metavar="TIME",
                        help="100ms, 1s, 10min, 2h")
    parser.add_argument("--battery", choices=BATTERIES, default="cr2032")
    parser.add_argument("--sleep", type=positive, metavar="µA",
                        help="between messages; else the data sheet's")
    parser.add_argument("--bitrate", type=positive, default=500_000.0,
                        help="of the CAN bus")
    parser.add_argument("--fits", action="store_true",
                        help="what an ATmega328P has room for beside the agent; alone")
    parser.add_argument("--draw", action="store_true", help="draw answer.svg again; alone")
    options = parser.parse_args()
    if (options.draw or options.fits) and len(sys.argv) > 2:
        parser.error("--draw and --fits take no other option")
    if options.fits:
        print("\n".join(fits()))
        return
    sleep = MODELS[options.target].sleep if options.sleep is None else options.sleep
    print("\n".join(answer(options.target, options.every, options.battery, sleep,
                           options.bitrate)))
    print(f"\nms and µJ are a model: {MODELS[options.target].source}.\n"
          "The bus and its transceiver take energy, too; it is not in these figures. "
          "Forgery: by anybody\n"
          "who has not the key. Forgery by all: by those who can verify, too.")
    if sys.argv[1:] in ([], ["--draw"]):
        figures.keep_picture(PICTURE, picture(), again=options.draw)


if __name__ == "__main__":
    main()
