"""Makes tables of the logs of the power sandwich.

    lab/run tables LOGS… [--tsv FILE]

The joules of an operation are watts × cycles / clock: the watts are those of its measurement, the
cycles are what the board counted. Signatures are sorted by the joules of a verification, key
agreements by the total. What cannot be used is said, with its file and line, and left out."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


def parse(path: Path) -> tuple[list[One], list[str]]:
    """The measurements of a log, and what is wrong with it. Each measurement is what stands between
    its notes `measure` and `measured`: whatever is lost, doubled or moved in it makes it no
    measurement, as the meter and the board both count what they send."""
    try:
        entries = log.read(path)
    except OSError as error:
        return [], [f"{path}: {error.strerror}"]
    starts = [index for index, entry in enumerate(entries)
              if (entry.who, entry.text) == ("note", log.BEGINS)]
    found: list[One] = []
    complaints = [] if starts else [f"{path}: it is no log of a run"]
    for begin, end in zip(starts, [*starts[1:], len(entries)]):
        ones, more = parse_run(path, entries[begin:end])
        found += ones
        complaints += more
    return found, complaints


def parse_run(path: Path, entries: Sequence[Entry]) -> tuple[list[One], list[str]]:
    notes = [(index, *entry.text.partition(" ")[::2]) for index, entry in enumerate(entries)
             if entry.who == "note"]
    first = next((index for index, word, _ in notes if word == "measure"), len(entries))
    try:
        about = target.board(entry.text for entry in entries[:first] if entry.who == "target")
    except Trouble as trouble:
        return [], [f"{path}:{entries[0].number}: {trouble}: the run is left out"]
    run = next((rest for _, word, rest in notes if word == "run"), "?")
    whole = any(word == log.COMPLETE for _, word, _ in notes)
    found: list[One] = []
    complaints = [] if whole else [f"{path}:{entries[0].number}: the run is not complete"]
    left = {*about.letters, target.IDLE}  # what nobody has measured
    for (begin, word, letter), (end, then, _) in zip(notes, notes[1:]):
        if word != "measure" or then == "failed" or letter not in left:
            continue
        where = f"{path}:{entries[begin].number}"
        heard = entries[begin:end]
        try:
            if (then, entries[end].text.partition(" ")[2]) != ("measured", letter):
                raise Trouble("it has no end")
            seen = powershield.acquisition(each.text for each in heard if each.who == "meter")
            said = target.measured((each.text for each in heard if each.who == "target"), letter,
                                   about)
        except Trouble as trouble:
            complaints.append(f"{where}: measurement {letter}: {trouble}: left out")
            continue
        left.discard(letter)
        names = {"a": ("Total",), target.IDLE: ("Idle",)}.get(letter, tuple(said.counts))
        found += [One(about, run, name, said.counts.get(name, 0), seen.watts, where, whole)
                  for name in names]
    if whole and left:
        complaints.append(f"{path}:{entries[0].number}: the run lacks {', '.join(sorted(left))}")
    return found, complaints


def once(found: Iterable[One]) -> list[One]:
    """Of several measurements of the same operation in the same run the first of a complete run."""
    kept: dict[tuple[str, str, str], One] = {}
    for one in sorted(found, key=lambda one: not one.whole):
        kept.setdefault((one.board.name, one.run, one.operation), one)
    return list(kept.values())


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
    found: list[One] = []
    complaints: list[str] = []
    for path in options.logs:
        ones, more = parse(path)
        found += ones
        complaints += more
    found = once(found)
    for complaint in complaints:
        print(f"tables: {complaint}", file=sys.stderr)
    if not found:
        print("tables: the logs hold no measurement", file=sys.stderr)
        return 1 if any(path.exists() for path in options.logs) else 2
    schemes = rows(found)
    print("\n".join(tables(schemes)))
    if options.tsv:
        options.tsv.write_text(tsv(schemes))
    return 1 if complaints else 0


def main() -> None:
    sys.exit(command())


if __name__ == "__main__":
    as_program(main, ".*")
