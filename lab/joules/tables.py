"""Reads the logs of the power sandwich, and makes tables of them.

    lab/run tables LOGS… [--tsv FILE]

The joules of an operation are watts × cycles / clock: the watts are those of its measurement, the
cycles are what the board counted. Signatures are sorted by the joules of a verification, key
agreements by the total. What cannot be used is reported, with its file and line, and left out.

A line of a log has the seconds since the run began, its sender, and the text. `note` is the driver:

    0.000 note: sandwich 1          a run begins; then scheme, run, seed and image
    9.120 note: measure k           what follows belongs to a measurement …
    9.121 to meter: start
    9.500 to target: k
   19.700 meter: 5017-06
   20.300 note: measured k          … which went well, or: failed, and why
   80.002 note: complete            nothing is missing"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import mean

from tools.programs import as_program

MEASURED = "measured, PowerShield"
SIMULATED = "not measured: the board was simulated"
BEGINS, COMPLETE = "sandwich 1", "complete"
LINE = re.compile(r" *\d{1,9}\.\d{3} (to meter|meter|to target|target|note): (.*)")
LARGEST = 16 << 20  # bytes of a log that is read; a run has about 40 KB
# A PowerShield gives at most 50 mA, and sees no less than 100 nA.
LEAST_WATTS, MOST_WATTS = Fraction(1, 10**9), Fraction(1)
FINISHED, COUNT = "Acquisition completed", "Number of samples"
# At most 7 digits and an exponent of 2, so that no sample makes a number of a million digits.
SAMPLE = re.compile(r"(\d{1,7})([+-]\d{1,2})")
# Of the summary: "Acquisition time: 10000-03", or the like with a point and a unit.
SUMMARY = re.compile(r"(Acquisition time|Number of samples): *(\d{1,9}(?:\.\d{1,9})?)"
                     r"([+-]\d{1,2})? *(s|ms|us)?")
UNITS = {"": 0, "s": 0, "ms": -3, "us": -6}
# What the console is asked for: a letter and the operations whose cycles it then says.
KEM = {"a": ("KeyGen", "Encaps", "Decaps", "Total"), "k": ("KeyGen",), "e": ("Encaps",),
       "d": ("Decaps",)}
SIGNATURE = {"a": ("KeyGen", "Sign", "Verify", "Total"), "k": ("KeyGen",), "s": ("Sign",),
             "v": ("Verify",)}
IDLE, TEST = "z", "t"

NAMED = re.compile(r"(SystemCoreClock|CLOCK_SOURCE|COUNTED|CRYPTO_[A-Z]+) +(\S.*)")
END = re.compile(r"\[END\] \d{1,9} milliseconds, n=(\d{1,9}) \((\d{1,9}) errors\)")
RESULT = re.compile(r"\*\*\* ([A-Z][A-Za-z]+) +(\d{1,12}) (\S+)")
# A name that is that of a file, too.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")


class Trouble(Exception):
    """A meter or a board has sent what is no measurement; another attempt may help."""


@dataclass(frozen=True)
class Entry:
    number: int  # Line number in the file.
    who: str
    text: str


def printable(raw: bytes) -> str:
    """Only ASCII that changes nothing on a terminal, without the NULs that a PowerShield strews."""
    text = raw.replace(b"\0", b"").strip().decode("latin-1")
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if " " <= character <= "~" else f"\\x{ord(character):02x}"
                   for character in text)


def read(path: Path) -> list[Entry]:
    """The lines of a log; what is none is left out. Raises OSError."""
    with path.open("rb") as file:
        lines = file.read(LARGEST).split(b"\n")[:-1]  # the last one may be cut
    return [Entry(number, match[1], match[2]) for number, line in enumerate(lines, start=1)
            if (match := LINE.fullmatch(printable(line)))]


def sample(text: str) -> Fraction | None:
    """The joules of a sample, if it is one."""
    match = SAMPLE.fullmatch(text)
    return Fraction(f"{match[1]}e{match[2]}") if match else None


def watts_of(lines: Iterable[str]) -> Fraction:
    """Of what the meter sent from its TimeStamp to its "Acquisition completed"."""
    samples: list[Fraction] = []
    summary: dict[str, Fraction] = {}
    begun = ended = finished = False
    first_stamp = ""  # the TimeStamp
    width = 0  # Characters of a sample.
    for line in lines:
        if line.startswith("TimeStamp"):
            # The same one may come twice, before the samples. A later one says how far they are.
            # Any other is of a second acquisition.
            stamp = line.partition(",")[0]
            if ended or (begun and (stamp < first_stamp or (stamp == first_stamp and samples))):
                raise Trouble("a second TimeStamp comes before the end of the first")
            begun, first_stamp = True, stamp
        elif FINISHED in line:
            finished = True
        elif match := SUMMARY.search(line):
            summary[match[1]] = Fraction(f"{match[2]}e{int(match[3] or 0) + UNITS[match[4] or '']}")
        elif not begun or "PowerShield >" in line:
            continue
        elif line == "end":
            ended = True
        elif not ended:
            if (joules := sample(line)) is None:
                raise Trouble(f'"{line[:40]}" is no sample')
            width = width or len(line)
            if len(line) != width:
                raise Trouble(f'"{line[:40]}" is as long as no other sample: it may be cut')
            samples.append(joules)
    if not begun:
        raise Trouble("it has no TimeStamp: no trigger came")
    if not ended or not finished:
        raise Trouble(f"it breaks off after {len(samples)} samples")
    seconds, count = summary.get("Acquisition time"), summary.get("Number of samples")
    if seconds is None or count is None:
        raise Trouble("its summary lacks the time or the number of samples")
    if seconds <= 0:
        raise Trouble("its time is 0 s")
    if count != len(samples):
        raise Trouble(f"it has {len(samples)} samples, and says {float(count):g}")
    watts = sum(samples, Fraction(0)) / seconds
    if not LEAST_WATTS <= watts <= MOST_WATTS:
        raise Trouble(f"it makes {float(watts):.3g} W, which no board takes")
    return watts


@dataclass(frozen=True)
class Board:
    """What it says of itself."""

    hertz: int
    name: str  # The scheme's name.
    secret: int  # bytes
    public: int
    sent: int  # Bytes of a ciphertext; 0 for a signature scheme.
    output: int  # Bytes of a signature or a shared secret.
    counted: str = "cycles"

    @property
    def letters(self) -> dict[str, tuple[str, ...]]:
        return KEM if self.sent else SIGNATURE

    @property
    def sizes(self) -> str:
        rest = f"ct={self.sent}, ss={self.output}" if self.sent else f"sl={self.output}"
        return f"sk={self.secret}, pk={self.public}, {rest}"


def board(lines: Iterable[str]) -> Board:
    """From what it says after a reset."""
    values = {match[1]: match[2] for line in lines if (match := NAMED.match(line))}

    def number(name: str, least: int = 1) -> int:
        text = values.get(name, "")
        if not re.fullmatch(r"\d{1,10}", text) or int(text) < least:
            raise Trouble(f'the board says "{text[:40]}" for {name}' if text else
                           f"the board says no {name}")
        return int(text)

    name = values.get("CRYPTO_ALGNAME", "")
    if not NAME.fullmatch(name):
        raise Trouble(f'the board says "{name[:40]}" for CRYPTO_ALGNAME' if name else
                       "the board says no CRYPTO_ALGNAME")
    sent = number("CRYPTO_CIPHERTEXTBYTES") if "CRYPTO_CIPHERTEXTBYTES" in values else 0
    return Board(number("SystemCoreClock", 1_000_000), name, number("CRYPTO_SECRETKEYBYTES"),
                 number("CRYPTO_PUBLICKEYBYTES"), sent, number("CRYPTO_BYTES"),
                 values.get("COUNTED", "cycles"))


def measured(lines: Iterable[str], letter: str, about: Board) -> dict[str, int]:
    """The mean cycles (or instructions) of each operation, of what it sends of one measurement."""
    ends: list[re.Match[str]] = []
    counts: dict[str, int] = {}
    for line in lines:
        if match := END.fullmatch(line):
            ends.append(match)
        elif match := RESULT.fullmatch(line):
            if match[3] != about.name:
                raise Trouble(f"the board speaks of {match[3][:40]}, and is {about.name}")
            if match[1] in counts:
                raise Trouble(f"the board says {match[1]} twice")
            counts[match[1]] = int(match[2])
    if len(ends) != 1:
        raise Trouble(f"the board says {len(ends)} ends of one measurement")
    runs, errors = map(int, ends[0].groups())
    if errors:
        raise Trouble(f"the board made {errors} errors")
    expected = about.letters.get(letter, ())
    if set(counts) != set(expected):
        raise Trouble(f"the board gives {', '.join(sorted(counts)) or 'no counts'}, not "
                       f"{', '.join(expected) or 'none'}")
    if expected and (not runs or min(counts.values()) == 0):
        raise Trouble("the board has measured nothing")
    return counts


def measurement(entries: Sequence[Entry], letter: str, about: Board
                ) -> tuple[Fraction, dict[str, int]]:
    """What was sent between two notes: the meter's watts, 0 of a test, and the board's counts.
    Raises Trouble."""
    watts = Fraction(0) if letter == TEST else watts_of(
        entry.text for entry in entries if entry.who == "meter")
    return watts, measured([entry.text for entry in entries if entry.who == "target"], letter,
                           about)


@dataclass(frozen=True)
class One:
    """A measurement of one operation, in one run."""

    board: Board
    run: str
    operation: str
    cycles: int
    watts: Fraction

    @property
    def seconds(self) -> Fraction:
        return Fraction(self.cycles, self.board.hertz)

    @property
    def joules(self) -> Fraction:
        return self.watts * self.seconds


def parse(path: Path) -> tuple[list[One], list[str]]:
    """The measurements of a log, and what is wrong with it. Each measurement is what stands between
    its notes `measure` and `measured`: whatever is lost, doubled or moved in it makes it no
    measurement, as the meter and the board both count what they send."""
    try:
        entries = read(path)
    except OSError as error:
        return [], [f"{path}: {error.strerror}"]
    notes = [(index, *entry.text.partition(" ")[::2]) for index, entry in enumerate(entries)
             if entry.who == "note"]
    if not notes or entries[notes[0][0]].text != BEGINS:
        return [], [f"{path}: it is no log of a run"]
    first = next((index for index, word, _ in notes if word == "measure"), len(entries))
    try:
        about = board(entry.text for entry in entries[:first] if entry.who == "target")
    except Trouble as trouble:
        return [], [f"{path}: {trouble}: the run is left out"]
    run = next((rest for _, word, rest in notes if word == "run"), "?")
    whole = any(word == COMPLETE for _, word, _ in notes)
    measurements: list[One] = []
    complaints = [] if whole else [f"{path}: the run is not complete"]
    left = {*about.letters, IDLE}  # Letters without a measurement.
    for (begin, word, letter), (end, then, _) in zip(notes, notes[1:]):
        if word != "measure" or then == "failed" or letter not in left:
            continue
        where = f"{path}:{entries[begin].number}"
        try:
            if (then, entries[end].text.partition(" ")[2]) != ("measured", letter):
                raise Trouble("it has no end")
            watts, counts = measurement(entries[begin:end], letter, about)
        except Trouble as trouble:
            complaints.append(f"{where}: measurement {letter}: {trouble}: left out")
            continue
        left.discard(letter)
        names = {"a": ("Total",), IDLE: ("Idle",)}.get(letter, tuple(counts))
        measurements += [One(about, run, name, counts.get(name, 0), watts) for name in names]
    if whole and left:
        complaints.append(f"{path}: the run lacks {', '.join(sorted(left))}")
    return measurements, complaints


@dataclass(frozen=True)
class Row:
    """An operation, as the mean of its runs."""

    board: Board
    operation: str
    runs: int
    cycles: Fraction
    watts: Fraction
    joules: Fraction
    spread: Fraction  # Range of the joules, as a share of their mean.

    @property
    def seconds(self) -> Fraction:
        return self.cycles / self.board.hertz


def rows(measurements: Iterable[One]) -> dict[str, dict[str, Row]]:
    """By scheme and operation."""
    grouped: dict[tuple[str, str], list[One]] = {}
    for result in measurements:
        grouped.setdefault((result.board.name, result.operation), []).append(result)
    by_scheme: dict[str, dict[str, Row]] = {}
    for (name, operation), ones in grouped.items():
        joules = [result.joules for result in ones]
        of_all = mean(joules)
        spread = (max(joules) - min(joules)) / of_all if of_all else Fraction(0)
        by_scheme.setdefault(name, {})[operation] = Row(
            ones[0].board, operation, len(ones), mean([Fraction(result.cycles) for result in ones]),
            mean([result.watts for result in ones]), of_all, spread)
    return by_scheme


def in_unit(joules: Fraction) -> str:
    """In µJ, mJ or J, with three decimals."""
    for unit, exponent in (("µJ", 6), ("mJ", 3)):
        if round(joules * 10**exponent, 3) < 1000:
            return f"{float(joules * 10**exponent):,.3f} {unit}"
    return f"{float(joules):,.3f} J"


def table(title: str, operations: Sequence[str], by: str,
          schemes: dict[str, dict[str, Row]]) -> list[str]:
    """Sorted by one operation; what lacks that comes last."""
    def key(name: str) -> tuple[bool, Fraction, str]:
        row = schemes[name].get(by)
        return row is None, row.joules if row else Fraction(0), name

    width = max(map(len, schemes))
    lines = [title, f"{'':<{width}}" + "".join(f"{name:>14}" for name in operations) +
             "  runs  spread"]
    for name in sorted(schemes, key=key):
        has = schemes[name]
        cells = [in_unit(has[operation].joules) if operation in has else "-"
                 for operation in operations]
        shown = [has[operation] for operation in operations if operation in has]
        if not shown:
            continue
        min_runs, max_runs = min(row.runs for row in shown), max(row.runs for row in shown)
        runs = str(max_runs) if min_runs == max_runs else f"{min_runs}-{max_runs}"
        spread = f"{float(max(row.spread for row in shown)):8.1%}" if max_runs > 1 else f"{'-':>8}"
        lines.append(f"{name:<{width}}" + "".join(f"{cell:>14}" for cell in cells) +
                     f"{runs:>6}{spread}")
    return lines


def tables(schemes: dict[str, dict[str, Row]]) -> list[str]:
    """The two tables, and what is to know about them."""
    lines: list[str] = []
    for kem, title, letters, by in (
            (False, "Signatures, by the joules of a verification", SIGNATURE, "Verify"),
            (True, "Key agreement, by the joules of all three", KEM, "Total")):
        of_kind = {name: has for name, has in schemes.items()
                   if bool(next(iter(has.values())).board.sent) == kem}
        if of_kind:
            lines += [*table(title, letters["a"], by, of_kind), ""]
    every = [row for has in schemes.values() for row in has.values()]
    if any(row.board.counted != "cycles" for row in every):
        lines.append(f"{SIMULATED}. Its counts are instructions, and no joule here is real.")
    else:
        lines.append(f"{MEASURED}: watts of 10 s × cycles / clock. What the board takes anyway is "
                     "in them.")
    if idle := [float(row.watts) * 1000 for row in every if row.operation == "Idle"]:
        lines.append(f"While the core sleeps, the board takes {min(idle):.1f} to {max(idle):.1f} "
                     "mW.")
    lines.append("Spread: the most less the least of the runs, as a share of the mean; that of the "
                 "worst operation.")
    return lines


def tsv(schemes: dict[str, dict[str, Row]]) -> str:
    """A line for each operation, as study 2 published them, with runs and spread."""
    lines = ["\t".join(("scheme", "sizes", "operation", "cycles", "seconds", "watts", "joules",
                        "runs", "spread", "label"))]
    for name, has in schemes.items():
        for operation, row in has.items():
            label = MEASURED if row.board.counted == "cycles" else SIMULATED
            lines.append("\t".join((
                name, row.board.sizes, operation.upper() if operation == "Total" else operation,
                str(round(row.cycles)), *(f"{float(value):.6g}" for value in (
                    row.seconds, row.watts, row.joules)), str(row.runs),
                f"{float(row.spread):.6f}", label)))
    return "\n".join(lines) + "\n"


def command(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="lab/run tables", description="Makes tables of the logs of the power sandwich.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80))
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOGS", help="the logs of all runs")
    parser.add_argument("--tsv", type=Path, metavar="FILE",
                        help="a line for each operation, with tabs, into this file")
    options = parser.parse_args(words)
    measurements: list[One] = []
    complaints: list[str] = []
    for path in options.logs:
        ones, faults = parse(path)
        measurements += ones
        complaints += faults
    for complaint in complaints:
        print(f"tables: {complaint}", file=sys.stderr)
    if not measurements:
        print("tables: the logs hold no measurement", file=sys.stderr)
        return 1 if any(path.exists() for path in options.logs) else 2
    schemes = rows(measurements)
    print("\n".join(tables(schemes)))
    if options.tsv:
        options.tsv.write_text(tsv(schemes))
    return 1 if complaints else 0


def main() -> None:
    sys.exit(command())


if __name__ == "__main__":
    as_program(main, ".*")
