"""What does a verified message cost a node? Shows how long a battery lasts.

    make figures ONLY=lab-answer

    python -m lab.messages.answer [--target NAME] [--every TIME] [--battery NAME] [--sleep µA]
                         [--bitrate N]
    python -m lab.messages.answer --fits
    python -m lab.messages.answer --draw

The counts are those of counts.tsv. The energy is a model. SPDX-License-Identifier: MIT"""

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench import budgets, figures
from bench.charts import FIRST, INK, OURS, ROW_HEIGHT, TOP, bars, document
from bench.processors.targets import TARGETS
from lab import arguments
from lab.messages import counts
from lab.messages.counts import Count
from lab.messages.energy import BATTERIES, MODELS, SECONDS_A_YEAR, Model, years
from lab.messages.machines import MACHINES, Machine
from lab.messages.schemes import HEARTBEAT, SCHEMES, Scheme
from tests.support.programs import as_program

MAKES = ("make", "sign")  # what a node does for each message
VERIFIES = ("accept", "verify")  # what the agent does for each message
SHORTEST = 0.001  # seconds between two messages
SLEEP = 0.001, 1e6  # µA
BITRATE = 1e3, 1e6  # of a classical CAN bus
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
PICTURE = Path(__file__).with_name("answer.svg")
TOO_SLOW = "too slow"
MARGIN = 110  # pixels right of the longest bar, for its number
AGENT, NEWER = "ATmega328P, gcc 5.4", "ATmega328P, gcc 14.2"  # of bench/budgets.tsv
EMPTY = 156  # bytes of flash of a program that does nothing: interrupt vectors, and what starts it


def seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|min|h)", text)
    value = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not SHORTEST <= value <= SECONDS_A_YEAR:
        raise argparse.ArgumentTypeError(
            f"{text!r}: it must be a time like 100ms, 1s, 10min or 2h, from 1ms to a year")
    return value


def target(text: str) -> str:
    for name in MODELS:
        if text.casefold() == name.casefold():
            return name
    known = " and ".join(MODELS)
    raise argparse.ArgumentTypeError(f"{text!r}: only {known} have a model of their energy")


def number(least: float, most: float) -> Callable[[str], float]:
    def between(text: str) -> float:
        value = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else -1.0
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r}: it must be a number from {least:g} to {most:,.0f}")
        return value
    return between


def can_bits(message: int) -> int:
    """The bits of a message on the bus: in frames of at most 8 bytes with short identifiers, with
    the most bits that stuffing can add, and 3 bits between frames."""
    whole, rest = divmod(message, 8)
    return sum(47 + 8 * size + (33 + 8 * size) // 4 for size in [8] * whole + [rest] * (rest > 0))


def of_heartbeat(scheme: Scheme, name: str, steps: tuple[str, ...],
                 known: dict[tuple[str, ...], Count]) -> Count | None:
    """The count of a scheme's step for a heartbeat. If the step needs another step before it, the
    count has the deeper stack of the two: they use the same stack, one after the other."""
    for step in scheme.steps:
        key = scheme.name, scheme.by, step.name, str(HEARTBEAT), name
        if step.name in steps and (count := known.get(key)):
            return replace(count, stack=max(other.stack for other in known.values() if (
                other.scheme, other.by, other.target) == (scheme.name, scheme.by, name)
                and other.step in (step.name, step.needs)))
    return None


def missing(count: Count, machine: Machine, flash: int = 0, ram: int = 0) -> str:
    """How many bytes of flash and RAM are missing if so many are taken already. "" if it fits."""
    assert machine.flash is not None and machine.ram is not None
    over = {"flash": count.flash + flash - machine.flash,
            "RAM": count.ram + count.stack + ram - machine.ram}
    return ", ".join(f"{what} +{by:,}" for what, by in over.items() if by > 0)


def ranked(name: str, every: float, battery: str, sleep: float,
           bitrate: float) -> list[tuple[float, str, str]]:
    """The schemes by years of battery, longest first: the years, the scheme, its line."""
    known = counts.read()
    rows = [row(scheme, count, MODELS[name], every, battery, sleep, bitrate)
            for scheme in SCHEMES if scheme.against
            and (count := of_heartbeat(scheme, name, MAKES, known)) is not None]
    return sorted(rows, key=lambda row: -row[0])


def answer(name: str, every: float, battery: str, sleep: float, bitrate: float) -> list[str]:
    unit = MACHINES[name].unit
    head = [f"{name}, a heartbeat every {every:.10g} s, {BATTERIES[battery].name}, "
            f"{sleep:g} µA asleep.", "",
            f"{'':<33}{'bytes':>5}{unit:>13}{'ms':>10}{'bus':>8}{'µJ':>11}{'years':>8}  against"]
    return head + [line for _, _, line in ranked(name, every, battery, sleep, bitrate)]


def picture() -> str:
    """The years on the default machine, with the default battery."""
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
        "Years of a CR2032, a model: an ATmega328P sends a heartbeat each second, checked so",
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
        f"{scheme.title:<33}{message:>5}{count.mean:>13,}{took * 1e3:>10,.2f}"
        f"{'>100%' if share > 1 else f'{share:.3%}':>8}{joules * 1e6:>11,.2f}"
        f"{'-' if took > every else f'{lasts:.2f}':>8}  {notes}")


def fits() -> list[str]:
    """What an ATmega328P has room for beside the agent: its 260 bytes of RAM and its own stack."""
    known = counts.read()
    own = budgets.load()
    flash = own[AGENT]["bytes"]
    ram = 260 + own[AGENT]["stack"] + TARGETS["ATmega328P"].return_address
    machine = MACHINES["ATmega328P"]
    lines = [f"Beside the agent, which takes {flash} bytes of flash and {ram} of RAM, "
             "on an ATmega328P:",
             f"{'':<33}{'step':<9}{'flash':>8}{'RAM':>7}{'stack':>7}"]
    for scheme in SCHEMES:
        count = of_heartbeat(scheme, machine.name, VERIFIES, known)
        if count is not None:
            over = missing(count, machine, flash + EMPTY, ram)
            lines.append(f"{scheme.title:<33}{count.step:<9}{count.flash:>8,}{count.ram:>7,}"
                         f"{count.stack:>7,}  " + (f"no room: {over}" if over else "fits"))
    newer = own[NEWER]["bytes"]
    return [*lines, "", f"A program that does nothing takes {EMPTY} bytes of flash beside these.",
            f"avr-gcc 14.2 makes {newer} bytes of the agent: {newer / flash - 1:.0%} more."]


def main() -> None:
    parser = arguments.Parser("lab-answer", __doc__.partition("     ")[0])
    parser.add_argument("--target", type=target, default="ATmega328P",
                        help="atmega328p or cortex-m4")
    parser.add_argument("--every", type=seconds, default=1.0, metavar="TIME",
                        help="100ms, 1s, 10min, 2h")
    parser.add_argument("--battery", choices=BATTERIES, default="cr2032")
    parser.add_argument("--sleep", type=number(*SLEEP), metavar="µA",
                        help="current between messages; if not given, that of the data sheet")
    parser.add_argument("--bitrate", type=number(*BITRATE), default=500_000.0,
                        help="of the CAN bus, in bits a second")
    parser.add_argument("--fits", action="store_true",
                        help="what an ATmega328P has room for beside the agent; without other "
                             "options")
    parser.add_argument("--draw", action="store_true",
                        help="draw answer.svg again; without other options")
    options = parser.parse_args()
    if (options.draw or options.fits) and len(sys.argv) > 2:
        parser.error("--draw and --fits take no other option")
    if options.fits:
        print("\n".join(fits()))
        return
    sleep = MODELS[options.target].sleep if options.sleep is None else options.sleep
    print("\n".join(answer(options.target, options.every, options.battery, sleep, options.bitrate)))
    print(f"\nms and µJ are a model: {MODELS[options.target].source}.\n"
          "The bus and its transceiver take energy, too; it is not in these figures. "
          "forgery: the tag\n"
          "protects from everybody who does not have the key. forgery by all: also from those who "
          "can\nverify.")
    if sys.argv[1:] in ([], ["--draw"]):
        figures.keep_picture(PICTURE, picture(), again=options.draw)


if __name__ == "__main__":
    as_program(main)
