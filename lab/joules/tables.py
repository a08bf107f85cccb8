"""Makes tables of the logs of the power sandwich.

    lab/run tables LOGS… [--tsv FILE]

The joules of an operation are watts × cycles / clock: the watts are those of its measurement, the
cycles are what the board counted. Signatures are sorted by the joules of a verification, key
agreements by the total. What cannot be used is said, with its file and line, and left out."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from lab.joules import log, powershield, target
from lab.joules.console import Trouble
from lab.joules.log import Entry
from tools.programs import as_program

MEASURED = "measured, PowerShield"
SIMULATED = "not measured: the board was simulated"


@dataclass(frozen=True)
class One:
    """A measurement of one operation, in one run."""

    board: target.Board
    run: str
    operation: str
    cycles: int
    watts: Fraction
    where: str  # file and line
    whole: bool  # the run was completed

    @property
    def seconds(self) -> Fraction:
        return Fraction(self.cycles, self.board.hertz)

    @property
    def joules(self) -> Fraction:
        return self.watts * self.seconds


@dataclass
class Run:
    """A run as it stands in a log, before it is understood."""

    begins: int  # number of its first line
    notes: dict[str, str] = field(default_factory=dict)
    banner: list[str] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)  # letters
    measurements: list[tuple[int, str, list[Entry]]] = field(default_factory=list)
    whole: bool = False


def runs_of(path: Path, entries: Iterable[Entry]) -> tuple[list[Run], list[str]]:
    runs: list[Run] = []
    complaints: list[str] = []
    letter, begun, heard = "", 0, list[Entry]()  # of the measurement that is being read

    def broken(line: int, why: str) -> None:
        if letter:
            complaints.append(f"{path}:{begun}: measurement {letter} has no end{why}: left out")

    early = 0
    for entry in entries:
        word, _, rest = entry.text.partition(" ")
        if entry.who == "note" and entry.text == log.BEGINS:
            broken(entry.number, ", as another run begins")
            letter = ""
            if runs:
                complaints.append(f"{path}:{entry.number}: a second run begins" +
                                  ("" if runs[-1].whole else ", and the first has no end"))
            runs.append(Run(entry.number))
        elif not runs:
            early = early or entry.number
        elif entry.who != "note":
            if letter:
                heard.append(entry)
            elif entry.who == "target" and not runs[-1].measurements:
                runs[-1].banner.append(entry.text)
        elif word == "measure":
            broken(entry.number, ", as another begins")
            letter, begun, heard = rest[:20] or "?", entry.number, []
            runs[-1].begun.add(letter)
        elif word == "measured":
            if letter != rest:
                complaints.append(f"{path}:{entry.number}: measurement {rest[:20]} ends, and has "
                                  "not begun: left out")
                runs[-1].begun.add(rest)
            else:
                runs[-1].measurements.append((begun, letter, heard))
            letter = ""
        elif word == "failed":
            letter = ""  # the driver has said why, and has tried again
        elif entry.text == log.COMPLETE:
            broken(entry.number, ", as the run ends")
            letter, runs[-1].whole = "", True
        else:
            runs[-1].notes.setdefault(word, rest)
    broken(0, "")
    if early:
        complaints.append(f"{path}:{early}: no run has begun yet: left out")
    if runs and not runs[-1].whole:
        complaints.append(f"{path}: the run that begins in line {runs[-1].begins} is not complete")
    return runs, complaints


def parse(path: Path) -> tuple[list[One], list[str]]:
    """The measurements of a log, and what is wrong with it."""
    entries, complaints = log.read(path)
    runs, more = runs_of(path, entries)
    complaints += more
    found: list[One] = []
    for run in runs:
        try:
            about = target.board(run.banner)
        except Trouble as trouble:
            complaints.append(f"{path}:{run.begins}: {trouble}: the run is left out")
            continue
        complaints += [f"{path}:{run.begins}: the run has no measurement {letter}"
                       for letter in (*about.letters, target.IDLE)
                       if run.whole and letter not in run.begun]
        for line, letter, heard in run.measurements:
            if letter == target.TEST:
                continue
            try:
                seen = powershield.acquisition(
                    entry.text for entry in heard if entry.who == "meter")
                said = target.measured(
                    (entry.text for entry in heard if entry.who == "target"), letter, about)
            except Trouble as trouble:
                complaints.append(f"{path}:{line}: measurement {letter}: {trouble}: left out")
                continue
            names = {"a": ("Total",), target.IDLE: ("Idle",)}.get(letter, tuple(said.counts))
            found += [One(about, run.notes.get("run", "?"), name, said.counts.get(name, 0),
                          seen.watts, f"{path}:{line}", run.whole) for name in names]
    if not runs and not complaints:
        complaints.append(f"{path}: it is no log of a run")
    return found, complaints


def once(found: Iterable[One]) -> tuple[list[One], list[str]]:
    """Of several measurements of the same operation in the same run the one that counts: that of a
    complete run, and then the first."""
    kept: dict[tuple[str, str, str], One] = {}
    complaints: list[str] = []
    for one in sorted(found, key=lambda one: not one.whole):
        key = one.board.name, one.run, one.operation
        first = kept.setdefault(key, one)
        if first is not one and one.whole:
            complaints.append(f"{one.where}: {key[2]} of {key[0]} in run {key[1]} is in "
                              f"{first.where}, too: the first counts")
    return list(kept.values()), complaints


@dataclass(frozen=True)
class Row:
    """An operation, as the mean of its runs."""

    board: target.Board
    operation: str
    runs: int
    cycles: Fraction
    watts: Fraction
    joules: Fraction
    spread: Fraction  # of the joules: the most less the least, as a share of the mean

    @property
    def seconds(self) -> Fraction:
        return self.cycles / self.board.hertz


def mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def rows(found: Iterable[One]) -> dict[str, dict[str, Row]]:
    """By scheme and operation."""
    grouped: dict[tuple[str, str], list[One]] = {}
    for one in found:
        grouped.setdefault((one.board.name, one.operation), []).append(one)
    by_scheme: dict[str, dict[str, Row]] = {}
    for (name, operation), ones in grouped.items():
        joules = [one.joules for one in ones]
        of_all = mean(joules)
        spread = (max(joules) - min(joules)) / of_all if of_all else Fraction(0)
        by_scheme.setdefault(name, {})[operation] = Row(
            ones[0].board, operation, len(ones), mean([Fraction(one.cycles) for one in ones]),
            mean([one.watts for one in ones]), of_all, spread)
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
        own = [has[operation] for operation in operations if operation in has]
        if not own:
            continue
        least, most = min(row.runs for row in own), max(row.runs for row in own)
        runs = str(most) if least == most else f"{least}-{most}"
        spread = f"{float(max(row.spread for row in own)):8.1%}" if most > 1 else f"{'-':>8}"
        lines.append(f"{name:<{width}}" + "".join(f"{cell:>14}" for cell in cells) +
                     f"{runs:>6}{spread}")
    return lines


def tables(schemes: dict[str, dict[str, Row]]) -> list[str]:
    """The two tables, and what is to know about them."""
    lines: list[str] = []
    for kem, title, letters, by in (
            (False, "Signatures, by the joules of a verification", target.SIGNATURE, "Verify"),
            (True, "Key agreement, by the joules of all three", target.KEM, "Total")):
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


def write(path: Path, text: str) -> bool:
    try:
        path.write_text(text)
    except OSError as error:
        print(f"tables: {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


def number(value: Fraction) -> str:
    """With three decimals in its unit, of a thousandth each, as study 2 published its figures."""
    exponent = next((each for each in (0, 3) if round(value * 10**each, 3) >= 1), 6)
    digits = exponent + 3
    whole = round(value * 10**digits)
    return f"{whole // 10**digits}.{whole % 10**digits:0{digits}d}".rstrip("0").rstrip(".")


def tsv(schemes: dict[str, dict[str, Row]]) -> str:
    """A line for each operation, as study 2 published them, with runs and spread."""
    lines = ["\t".join(("scheme", "sizes", "operation", "cycles", "seconds", "watts", "joules",
                        "runs", "spread", "label"))]
    for name, has in schemes.items():
        for operation, row in has.items():
            label = MEASURED if row.board.counted == "cycles" else SIMULATED
            lines.append("\t".join((
                name, row.board.sizes, operation.upper() if operation == "Total" else operation,
                str(round(row.cycles)), number(row.seconds), number(row.watts),
                number(row.joules), str(row.runs), f"{float(row.spread):.6f}", label)))
    return "\n".join(lines) + "\n"


def command(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="lab/run tables", description="Makes tables of the logs of the power sandwich.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80))
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOGS", help="the logs of all runs")
    parser.add_argument("--tsv", type=Path, metavar="FILE",
                        help="a line for each operation, with tabs, into this file")
    options = parser.parse_args(words)
    found: list[One] = []
    complaints: list[str] = []
    for path in options.logs:
        ones, more = parse(path)
        found += ones
        complaints += more
    found, more = once(found)
    for complaint in complaints + more:
        print(f"tables: {complaint}", file=sys.stderr)
    if not found:
        print("tables: the logs hold no measurement", file=sys.stderr)
        return 1 if any(path.exists() for path in options.logs) else 2
    schemes = rows(found)
    print("\n".join(tables(schemes)))
    right = not complaints + more
    if options.tsv:
        right &= write(options.tsv, tsv(schemes))
    return 0 if right else 1


def main() -> None:
    sys.exit(command())


if __name__ == "__main__":
    as_program(main, ".*")
