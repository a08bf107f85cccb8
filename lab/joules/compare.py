"""Says whether two results of the lab differ, and by how much.                  lab/run compare A B
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.joules import measuring, results, uncertainty
from lab.joules.measure import seed
from lab.joules.results import Run, Unreadable
from lab.joules.uncertainty import Value


@dataclass(frozen=True)
class Measured:
    """What a run says."""

    run: Run
    alike: dict[str, str]  # what another run must have in common, by its name
    values: dict[str, tuple[str, list[Value]]]  # by what was measured: its unit, and each turn
    turn: str = "turn"


def alike(run: Run) -> dict[str, str]:
    return {name: getattr(run, name) for name in results.ALIKE}


def of_measure(file: Path) -> Measured:
    run, turns, times = results.read(file)
    if times:
        raise Unreadable("these are times of lab/run profile, which measures each operation once, "
                         "and so cannot tell a difference from chance. lab/run measure "
                         "--operation NAME "
                         "measures several times")
    net = run.unit.endswith(results.NET)
    found = measuring.values(measuring.whole(turns, net), net)
    if not found:
        raise Unreadable(f"{file} has no complete turn")
    return Measured(run, alike(run), {run.unit: ("J", found)})


def of_formats(file: Path) -> Measured:
    """Of each format the time of a fetch, and its joules if there was a meter."""
    from lab.joules import formats  # both need the library of every format
    from lab.messages.codecs import CODECS
    plan, done = formats.read(file)
    values: dict[str, tuple[str, list[Value]]] = {}
    for name in dict.fromkeys(plan.order):
        some = [result for result in done if result.format == name]
        title = CODECS[name].title
        if not some:
            raise Unreadable(f"{file} has no result of {title}")
        values[f"{title}, s a fetch"] = "s", [
            Value(sum(result.seconds) / plan.fetches) for result in some]
        if plan.name:
            values[f"{title}, {plan.unit}"] = "J", [
                Value(net.value / plan.fetches, net.bound / plan.fetches)
                for result in some if (net := result.net())]
    return Measured(plan, {**alike(plan), "formats": ", ".join(sorted({*plan.order})),
                           "fetches": f"{plan.fetches:,}"}, values, "round")


# By the kind of the first line: whose results these are, and what reads them.
KINDS = {"run": ("lab/run measure", of_measure), "formats": ("lab/run formats", of_formats)}


def kind_of(file: Path) -> str:
    kind = next((found.get("kind") for _, found in results.lines_of(file)), None)
    if kind not in KINDS:
        raise Unreadable(f"{file} has no results of "
                         + ", ".join(name for name, _ in KINDS.values()))
    return str(kind)


def compared(a: Measured, b: Measured, what: str, chosen: int) -> list[str]:
    unit, ours = a.values[what]
    theirs = b.values[what][1]
    lines = []
    for name, run, some in (("A", a.run, ours), ("B", b.run, theirs)):
        lines.append(measuring.row(measuring.Quantity(
            name, unit, uncertainty.interval(some, run.seed))))
    found = uncertainty.interval(theirs, chosen, ours)
    lines.append(measuring.row(measuring.Quantity("B - A", unit, found)))
    base = uncertainty.mean_of([value.value for value in uncertainty.without_outliers(ours)])
    share = f", {found.mean / base:+.1%} of A" if base > 0 else ""
    if not found.known:
        lines.append(f"Fewer than {uncertainty.LEAST} {a.turn}s cannot tell whether A and B "
                     "differ.")
    elif found.holds_zero:
        lines.append(f"A and B do not differ by what these {a.turn}s could see: the difference may "
                     "be zero.")
    else:
        more = "more" if found.mean > 0 else "less"
        lines.append(f"B takes {more} than A: by "
                     f"{measuring.scaled(abs(found.mean), unit)}{share}.")
    return lines


def head(a: Run, b: Run, chosen: int) -> list[str]:
    what = f"joules {a.label} with {a.meter}" if a.meter != "none" else \
        "times alone, as there was no meter"
    return [f"{a.operation}: {what}.",
            *(f"Another version: {name}, {b.versions.get(name)} instead of {version}."
              for name, version in a.versions.items() if b.versions.get(name) != version),
            f"The means, and where they lie with a certainty of 95 % (bootstrap, seed {chosen}):"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="lab/run compare",
        description="Says whether two results of lab/run measure or formats differ, and by how "
        "much. They must be alike in " + ", ".join(results.ALIKE) + "; those of lab/run formats "
        "also in formats and fetches.")
    parser.add_argument("a", type=Path, metavar="A", help="a file of results")
    parser.add_argument("b", type=Path, metavar="B", help="another one")
    parser.add_argument("--seed", type=seed, help="of the bootstrap; else a random one")
    options = parser.parse_args()
    chosen = uncertainty.seed() if options.seed is None else options.seed
    try:
        kinds = [kind_of(file) for file in (options.a, options.b)]
        if kinds[0] != kinds[1]:
            raise Unreadable("A and B are not alike: they are of "
                             + " and of ".join(KINDS[kind][0] for kind in kinds))
        a, b = map(KINDS[kinds[0]][1], (options.a, options.b))
        apart = [f"{name}: {ours!r} is not {b.alike[name]!r}"
                 for name, ours in a.alike.items() if ours != b.alike[name]]
        if apart:
            raise Unreadable("A and B are not alike, so nothing follows from comparing them:\n  "
                             + "\n  ".join(apart))
    except Unreadable as fault:
        print(f"lab/run compare: {fault}", file=sys.stderr)
        raise SystemExit(2) from None
    print("\n".join(head(a.run, b.run, chosen)))
    for what in a.values:
        print("\n" + "\n".join([f"{what}:", *compared(a, b, what, chosen)]))
