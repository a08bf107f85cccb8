"""What does a verified message cost a node? Shows how long a battery lasts.

    make figures ONLY=lab-answer

    python -m lab.messages.answer [--target NAME] [--every TIME] [--battery NAME] [--sleep µA]
                         [--over MEDIUM] [--waits µA] [--bitrate N] [--all]
    python -m lab.messages.answer --choices

The counts are those of counts.tsv and of bench/budgets_keyed.tsv. The energy is a model."""

import argparse
import re
import sys
from dataclasses import dataclass, replace

from lab import arguments
from lab.arguments import number
from lab.messages import counts
from lab.messages.counts import Count
from lab.messages.energy import (BATTERIES, DAYS_A_YEAR, MEDIA, MODELS, SECONDS_A_YEAR, Medium,
                                 Sent, years)
from lab.messages.machines import MACHINES, Machine
from lab.messages.schemes import (ACCIDENT, EVERYWHERE, HEARTBEAT, NOT_AVR, REPLAY, SCHEMES, Scheme)
from tools.processors import budgets
from tools.programs import ROOT, as_program

MAKES = ("make", "sign", "send")  # The steps that a node takes for a message.
SHORTEST = 0.001  # seconds between two messages
SLEEP = 0.001, 1e6  # µA
BITRATE = 1e3, 1e6  # Range of a classical CAN bus, bit/s.
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
TOO_SLOW = "too slow"
AGENT = "ATmega328P, gcc 5.4"  # A target of bench/budgets.tsv.
# Where version 2 is measured, for each machine; and where another protocol needs two frames.
KEYED = ROOT / "bench" / "budgets_keyed.tsv"
KEYED_TARGETS = {"ATmega328P": AGENT, "Cortex-M0+": "Cortex-M0+, gcc 12.2",
                 "Cortex-M4": "Cortex-M4, gcc 12.2"}
TWO_FRAMES = {"CANopen Safety": [4, 4]}
ROW = "{:<19}{:<17.16}{:>4}{:>9}{:>9}{:>7}{:>7}{:>7}{:>6}  {}"


def seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|min|h|d)", text)
    value = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not SHORTEST <= value <= SECONDS_A_YEAR:
        raise argparse.ArgumentTypeError(
            f"{text!r}: it must be a time like 100ms, 1s, 10min, 2h or 1d, from 1ms to a year")
    return value


def in_its_unit(time: float) -> str:
    """As a person would ask for it: in the longest unit that leaves no rest."""
    whole = [name for name, length in UNITS.items() if time % length == 0]
    unit = whole[-1] if whole else "ms"
    return f"{time / UNITS[unit]:.10g} {unit}"


def target(text: str) -> str:
    for name in MODELS:
        if text.casefold() == name.casefold():
            return name
    names = ", ".join(MODELS)
    raise argparse.ArgumentTypeError(f"{text!r}: only {names} have a model of their energy; make "
                                     "figures ONLY=lab-published has a Cortex-M4's")


def short(number: int) -> str:
    """Six digits say enough of it; counts.tsv has them all."""
    millions = number / 1e6
    return f"{number:,}" if millions < 1 else f"{millions:,.{2 if millions < 100 else 0}f} M"


def micro(joules: float) -> str:
    """In microjoules, with at most 6 characters."""
    joules *= 1e6
    return (f"{joules / 1e6:.1f} J" if joules >= 99_999 else f"{joules:,.0f}" if joules >= 100 else
            f"{joules:.2g}" if joules < 1 else f"{joules:.1f}")


def of_heartbeat(scheme: Scheme, name: str, steps: tuple[str, ...],
                 all_counts: dict[tuple[str, ...], Count]) -> Count | None:
    """The count of a scheme's step for a heartbeat. If the step needs another step before it, the
    count has the deeper stack of the two: they use the same stack, one after the other."""
    for step in scheme.steps:
        key = scheme.name, scheme.by, step.name, str(HEARTBEAT), name
        if step.name in steps and (count := all_counts.get(key)):
            before = scheme.name, scheme.by, step.needs, name
            return replace(count, stack=max(
                candidate.stack for candidate in all_counts.values() if candidate is count or
                (candidate.scheme, candidate.by, candidate.step, candidate.target) == before))
    return None


def missing(count: Count, machine: Machine, flash: int = 0, ram: int = 0) -> str:
    """How many bytes of flash and RAM are missing if so many are taken already. "" if it fits."""
    assert machine.flash is not None and machine.ram is not None
    over = {"flash": count.flash + flash - machine.flash,
            "RAM": count.ram + count.stack + ram - machine.ram}
    return ", ".join(f"{what} +{by:,}" for what, by in over.items() if by > 0)


@dataclass(frozen=True)
class Way:
    """A way to send a heartbeat, by one program."""

    name: str
    by: str  # whose code
    family: str
    frames: list[int]  # bytes of each, on the medium
    count: int  # Instructions of making it, or cycles on AVR.
    flash: int
    refuses: str
    lacks: str = ""  # flash or RAM that the machine does not have
    portable: int | None = None  # the count of the same in portable C, if this is not it


def frames_of(size: int) -> list[int]:
    """CAN has at most 8 bytes in a frame; other media do not look at this."""
    return [8] * (size // 8) + [size % 8] * (size % 8 > 0)


def ours(name: str, all_counts: dict[tuple[str, ...], Count]) -> list[Way]:
    """Version 1, and a node of version 2 with all of its rules: it takes a beacon with every tenth
    heartbeat."""
    version_1 = all_counts["Dumpulse", "ours", "make_heartbeat", "8", name]
    version_2 = budgets.load(KEYED)[KEYED_TARGETS[name]]
    by = "ours asm" if name == "ATmega328P" else "ours"
    return [Way("Dumpulse version 1", "ours", "protocol", [8], version_1.mean, version_1.flash,
                ACCIDENT),
            Way("Dumpulse version 2", by, "protocol", [8],
                version_2["beat"] + version_2["hear"] // 10,
                version_2["node"], f"{REPLAY}, late")]


def ways(name: str) -> list[Way]:
    """Each program that protects a heartbeat on this machine."""
    all_counts = counts.read()
    programs = ours(name, all_counts)
    for scheme in SCHEMES:
        count = of_heartbeat(scheme, name, MAKES, all_counts) if scheme.against else None
        if count is not None:
            frames = TWO_FRAMES.get(scheme.name) or frames_of(HEARTBEAT + scheme.adds)
            programs.append(Way(scheme.name, scheme.author, scheme.family, frames, count.mean,
                                count.flash, scheme.against, missing(count, MACHINES[name])))
    return programs


def best(programs: list[Way]) -> list[Way]:
    """Of each scheme the program with the lowest count, beside the one in portable C."""
    chosen = []
    for name in dict.fromkeys(way.name for way in programs):
        same = [way for way in programs if way.name == name]
        first = min(same, key=lambda way: way.count)
        portable = [way.count for way in same
                    if (name, way.by) in PORTABLE and way.by != first.by]
        chosen.append(replace(first, portable=min(portable, default=None)))
    return chosen


PORTABLE = {(scheme.name, scheme.author) for scheme in SCHEMES
            if set(scheme.targets) in (set(EVERYWHERE), set(NOT_AVR)) and "tables" not in scheme.by}


@dataclass(frozen=True)
class Line:
    """What a way takes, and how long the battery lasts with it."""

    way: Way
    seconds: float  # The processor's time.
    joules: float  # The processor's energy.
    sent: Sent
    years: float
    notes: str


def lasting(line: Line, battery: str) -> str:
    """The years or days of the battery, as tables have them."""
    shelf = BATTERIES[battery].shelf
    return ("-" if line.notes == TOO_SLOW else f">{shelf:g} y" if line.years > shelf else
            f"{line.years:.1f} y" if line.years >= 1 else f"{line.years * DAYS_A_YEAR:.0f} d")


@dataclass(frozen=True)
class Setting:
    name: str
    every: float
    battery: str
    sleep: float
    medium: Medium
    bitrate: float
    waits: float  # µA between messages, of what sends

    def line(self, way: Way) -> Line:
        model = MODELS[self.name]
        joules = way.count * model.nanojoules * 1e-9
        took = way.count * model.per_count / model.hertz
        sent = self.medium.send(way.frames, self.bitrate, model)
        lasts = years(BATTERIES[self.battery], joules + sent.usual, self.every,
                      self.sleep + self.waits)
        notes = (TOO_SLOW if took + sent.seconds > self.every else
                 "no room" if way.lacks else way.refuses)
        return Line(way, took, joules, sent, lasts, notes)

    def shown(self, line: Line) -> str:
        way = line.way
        portable = "" if way.portable is None else short(way.portable)
        return ROW.format(way.name, way.by, sum(way.frames), short(way.count), portable,
                          f"{way.flash:,}", micro(line.joules), micro(line.sent.usual),
                          lasting(line, self.battery),
                          line.notes)

    def table(self, everything: bool) -> list[str]:
        unit = MACHINES[self.name].unit.replace("instructions", "instr.")
        every, battery = in_its_unit(self.every), BATTERIES[self.battery].name
        lines = [f"{self.name}, a heartbeat every {every} over {self.medium.title}, "
                 f"{battery}, {self.sleep:g} µA asleep",
                 f"and {self.waits:g} µA of what sends. A model.", "",
                 ROW.format("", "code", "bytes", unit, "portable", "flash", "µJ", "sent", "lasts",
                            "refuses")]
        for title, lot in self.lots(everything):
            lines += [title, *map(self.shown, lot)]
        return lines

    def lots(self, everything: bool) -> list[tuple[str, list[Line]]]:
        """The protocols in a fixed order, and then the tags, the cheapest first."""
        programs = ways(self.name)
        lines = [self.line(way) for way in (programs if everything else best(programs))]
        whole = [line for line in lines if line.way.family == "protocol"]
        tags = sorted((line for line in lines if line.way.family != "protocol"),
                      key=lambda line: line.joules + line.sent.usual)
        return [("whole protocols, with their counters:", whole),
                ("a checksum, a tag of 8 bytes or a signature alone:", tags)]


def setting_of(name: str, every: float = 1.0, battery: str = "cr2032", sleep: float | None = None,
               over: str = "can", bitrate: float = 500_000.0,
               waits: float | None = None) -> Setting:
    return Setting(name, every, battery, MODELS[name].sleep if sleep is None else sleep,
                   MEDIA[over], bitrate, MEDIA[over].waits if waits is None else waits)


COIN_CELL, SIGNED = "cr2032", "a signature"
WAYS = ("Dumpulse version 1", "Dumpulse version 2", "SecOC", "AES-128-CMAC", "MAVLink 2, signed",
        SIGNED)  # the columns of --choices
HEADS = ("version 1", "version 2", "SecOC", "AES tag", "MAVLink 2", SIGNED)
CHOICE = "{:<12}{:<8}" + "{:>12}" * len(WAYS)


def cheapest(name: str, over: str, every: float = 10.0) -> dict[str, Line]:
    """Each way on a chip; of the signatures the one that takes the least."""
    lines: dict[str, Line] = {}
    for _, lot in setting_of(name, every, COIN_CELL, over=over).lots(False):
        for line in lot:  # the cheapest first
            way = SIGNED if line.way.family == "signature" else line.way.name
            if way in WAYS:
                lines.setdefault(way, line)
    return lines


def counted(name: str) -> dict[str, Way]:
    """As cheapest(), by the count alone."""
    by_name: dict[str, Way] = {}
    for way in sorted(best(ways(name)), key=lambda way: way.count):
        by_name.setdefault(SIGNED if way.family == "signature" else way.name, way)
    return by_name


def choices() -> list[str]:
    lines = [f"How long {BATTERIES[COIN_CELL].name} lasts, with a heartbeat every 10 s. A model:",
             CHOICE.format("", "over", *HEADS)]
    for name in MODELS:
        for over in MEDIA:
            line_of = cheapest(name, over)
            lines.append(CHOICE.format(name if over == "can" else "", over,
                                       *(lasting(line_of[way], COIN_CELL) for way in WAYS)))
    lines += ["", "Work of the processor for one heartbeat. Counted:",
              CHOICE.format("", "", *HEADS)]
    for name in KEYED_TARGETS:
        works = counted(name)
        lines.append(CHOICE.format(name, MACHINES[name].unit.replace("instructions", "instr."),
                                   *(short(works[way].count) for way in WAYS)))
    return lines


def explained(setting: Setting) -> str:
    sent = setting.medium.send([8], setting.bitrate, MODELS[setting.name])
    shelf = BATTERIES[setting.battery].shelf
    return (f"\nprocessor: {MODELS[setting.name].source}.\n"
            f"sent: {setting.medium.source}.\n"
            f"    8 bytes take {micro(sent.least)} to {micro(sent.most)} µJ; the table has "
            f"{micro(sent.usual)}. Between messages it takes "
            f"{setting.waits:g} µA.\n"
            "portable: the same in portable C, if the code is not that. flash: of a node, in bytes."
            f"\n>{shelf:g} y: the battery does not keep longer than that. d: days.\n"
            "forged: by an attacker without the key. + old: and a replayed message.\n"
            "late: and a delayed message. forged by all: also by those who can verify.")


def main() -> None:
    parser = arguments.Parser("lab-answer", __doc__.partition("     ")[0])
    parser.add_argument("--target", type=target, default="ATmega328P",
                        help="atmega328p or cortex-m0+")
    parser.add_argument("--every", type=seconds, default=1.0, metavar="TIME",
                        help="100ms, 1s, 10min, 2h, 1d")
    parser.add_argument("--battery", choices=BATTERIES, default="cr2032")
    parser.add_argument("--sleep", type=number(*SLEEP, float), metavar="µA",
                        help="current between messages; if not given, that of the data sheet")
    parser.add_argument("--over", choices=MEDIA, default="can", help="what it is sent over")
    parser.add_argument("--waits", type=number(0, SLEEP[1], float), metavar="µA",
                        help="current of what sends, between messages; else that of data sheets")
    parser.add_argument("--bitrate", type=number(*BITRATE, float), default=500_000.0,
                        help="of the CAN bus, in bits a second")
    parser.add_argument("--all", action="store_true", help="every program, not only the best")
    parser.add_argument("--choices", action="store_true",
                        help="a few ways on each chip, over four media; without other options")
    options = parser.parse_args()
    if options.choices and len(sys.argv) > 2:
        parser.error("--choices takes no other option")
    if options.choices:
        print("\n".join(choices()))
        return
    setting = setting_of(options.target, options.every, options.battery, options.sleep,
                         options.over, options.bitrate, options.waits)
    print("\n".join(setting.table(options.all)))
    print(explained(setting))


if __name__ == "__main__":
    as_program(main, ".*")
