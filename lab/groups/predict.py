"""Predicts what a scheme costs on a chip: counts of operations, times what one costs there.

    python -m lab.groups.predict [--scheme NAME] [--messages N] [--target NAME]
    python -m lab.groups.predict --measure [--only WORDS] [--write]

The counts follow the algorithm of the library, from the curve and the numbers alone. The costs of
one operation are measured, and kept in bridge.tsv with the measured wholes. README.md is its
page. SPDX-License-Identifier: MIT"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench import figures
from bench.charts import FIRST, INK, LEFT, OURS, ROW_HEIGHT, TOP, WIDTH, document, text
from bench.processors.targets import say_strangers, strangers
from lab.groups.bridges import BRIDGES, LEVELS, SAMPLES, Bridge, Whole
from lab.messages import counts, machines
from lab.messages.machines import MACHINES
from lab.messages.schemes import Step
from tests.support.programs import as_program

FILE = Path(__file__).with_name("bridge.tsv")
PICTURE = Path(__file__).with_name("predict.svg")
HEAD = ("# What one operation costs, and what is made of it: instructions, or cycles on AVR.\n"
        "# ONLY=lab-bridge ARGS=--write makes this file. An operation is the mean of several, and\n"
        "# of what is made of them, each sample stands there.\n"
        + "\t".join(("library", "what", *MACHINES)) + "\n")
NONE = "-"  # was measured
WHOLES = {whole.name for bridge in BRIDGES for whole in bridge.wholes}

Costs = dict[str, float]  # of operations and wholes
Kept = dict[tuple[str, str], Costs]  # by bridge and target


# -- measuring -------------------------------------------------------------------------------------
def measure(bridge: Bridge, target: str) -> Costs:
    """All operations and wholes, in one image, less what an empty operation takes."""
    scheme = bridge.scheme
    step = Step("operations", bridge.runs(target), (0,))
    for machine in counts.chips(target):
        image = counts.Builder(scheme, machine, target).image(step, 0)
        size = machines.size(image)
        if size.flash > (machine.flash or size.flash) or size.ram > (machine.ram or size.ram):
            continue
        try:
            runs = [run.cost for run in machine.runs(image)]
            break
        except machines.DoesNotFit:
            continue
    else:
        raise SystemExit(f"lab: {bridge.name} fits no chip like the {target}")
    found: Costs = {}
    for number, name in enumerate(bridge.operations):
        found[name] = fmean(runs[number * bridge.repeat:(number + 1) * bridge.repeat])
    for number, cost in enumerate(runs[len(bridge.operations) * bridge.repeat:]):
        sample, whole = divmod(number, len(bridge.wholes))
        found[f"{bridge.wholes[whole].name} {sample}"] = cost
    nothing = found.pop(bridge.operations[0])
    return {name: round(cost - nothing, 1) for name, cost in found.items()}


def parse(text: str) -> Kept:
    """The first line names the machines, each of which has a column."""
    found: Kept = {}
    head, *lines = [line for line in text.splitlines() if line and not line.startswith("#")] or [""]
    for line in lines:
        try:
            bridge, name, *cells = line.split("\t")
            for target, cell in zip(head.split("\t")[2:], cells, strict=True):
                for number, cost in enumerate(cell.split(" ") if cell != NONE else ()):
                    found.setdefault((bridge, target), {})[
                        f"{name} {number}" if name in WHOLES else name] = float(cost)
        except ValueError as fault:
            raise ValueError(f"{line!r} is no line of costs") from fault
    return found


def read() -> Kept:
    return parse(FILE.read_text()) if FILE.exists() else {}


def written(kept: Kept) -> str:
    lines = []
    for bridge in dict.fromkeys(bridge.name for bridge in BRIDGES):
        rows: dict[str, dict[str, list[str]]] = {}  # by operation or whole, and target
        for target in MACHINES:
            for name, cost in kept.get((bridge, target), {}).items():
                whole = name.rpartition(" ")[0]
                row = rows.setdefault(whole if whole in WHOLES else name, {})
                row.setdefault(target, []).append(f"{cost:.1f}")
        lines += ["\t".join((bridge, name, *(" ".join(row.get(target, [NONE]))
                                             for target in MACHINES))) + "\n"
                  for name, row in rows.items()]
    return HEAD + "".join(lines)


def as_figures(kept: Kept) -> figures.Figures:
    return {("lab-bridge", f"{bridge} on {target}", name): f"{cost:.1f}"
            for (bridge, target), costs in kept.items() for name, cost in costs.items()}


# -- predicting ------------------------------------------------------------------------------------
MUST = {"group": 1.0, "field": 2.0}  # per cent
WAYS = {  # each way to predict, for the table and for the picture
    "group": "by group operation",
    "field": "by field operation",
    "multiplications": "multiplications alone",
    "wNAF": "a textbook's wNAF",
    "bit by bit": "a textbook, bit by bit",
    "one ratio": "one ratio from amd64",
}


def priced(count: Counter[str], costs: Costs) -> float:
    if missing := sorted(set(count) - set(costs)):
        raise SystemExit(f"lab: there is no cost of: {', '.join(missing)}")
    return sum(number * costs[name] for name, number in count.items())


@dataclass(frozen=True)
class Prediction:
    """Of a whole on a target: the means over its samples."""

    bridge: str
    target: str
    whole: str
    measured: float
    by: dict[str, float]  # of WAYS

    def error(self, way: str) -> float:
        """In per cent of what is measured."""
        return 100 * (self.by[way] / self.measured - 1)

    def misses(self) -> list[str]:
        return [f"{self.whole} of {self.bridge} on {self.target}: {WAYS[way]} misses by "
                f"{self.error(way):+.2f} %, and must not by more than {most:g} %"
                for way, most in MUST.items() if abs(self.error(way)) > most]


def samples(whole: Whole, costs: Costs) -> list[tuple[Counter[str], float]]:
    """The count of group operations in each sample, and what the sample took."""
    return [(whole.counts(number), costs[name]) for number in range(SAMPLES)
            if (name := f"{whole.name} {number}") in costs]


def predicted(bridge: Bridge, target: str, whole: Whole, kept: Kept) -> Prediction:
    costs = kept[bridge.name, target]
    known = samples(whole, costs)
    by = {way: fmean(priced(level(bridge, count), costs) for count, _ in known)
          for way, level in LEVELS.items()}
    for way, counted in bridge.textbook(whole, len(known)).items():
        by[way] = priced(counted, costs) / len(known)
    if target != "amd64":
        by["one ratio"] = one_ratio(bridge, whole, kept, costs, len(known))
    return Prediction(bridge.name, target, whole.name, fmean(cost for _, cost in known), by)


def one_ratio(bridge: Bridge, whole: Whole, kept: Kept, costs: Costs, number: int) -> float:
    """The whole on amd64, times the ratio of one multiplication there and here."""
    there = kept[bridge.on_amd64, "amd64"]
    return fmean(there[f"{whole.name} {sample}"] for sample in range(number)) * (
        costs[bridge.multiplication] / there[bridge.multiplication])


def predictions(kept: Kept) -> list[Prediction]:
    return [predicted(bridge, target, whole, kept) for bridge in BRIDGES
            for target in bridge.targets for whole in bridge.wholes
            if samples(whole, kept[bridge.name, target])]


def worst(known: list[Prediction]) -> dict[str, float]:
    """By way, the largest error, without its sign."""
    return {way: max((abs(each.error(way)) for each in known if way in each.by), default=0.0)
            for way in WAYS}


def table(known: list[Prediction]) -> Iterator[str]:
    heads = "".join(f"{head:>6}" for head in ("group", "field", "mults", "wNAF", "bits", "ratio"))
    yield f"{'':<52}{'measured':>11}  error in per cent, predicted by"
    yield f"{'library':<26}{'machine':<11}{'step':<15}{'':>11}{heads}"
    last = ""
    for each in known:
        name = f"{each.bridge:<26}{each.target:<11}"
        errors = "".join(f"{each.error(way):>+6.1f}" if way in each.by else f"{'-':>6}"
                         for way in WAYS)
        yield f"{name if name != last else '':<37}{each.whole:<15}{each.measured:>11,.0f}{errors}"
        last = name
    most = "".join(f"{error:>6.1f}" for error in worst(known).values())
    yield f"{'the largest error':<63}{most}"


def picture(known: list[Prediction]) -> str:
    """A dot for each step on each machine: how far the prediction is off, in per cent."""
    shown, right = range(-60, 41, 20), 90  # per cent; room for the largest error
    scale = (WIDTH - LEFT - right) / (shown[-1] - shown[0])
    base = TOP + len(WAYS) * ROW_HEIGHT
    lines = [text(LEFT, TOP - 16, "How far the model's predictions are off: each step on "
                  "each machine", bold=True)]
    for mark in shown:
        x = LEFT + (mark - shown[0]) * scale
        lines += [f'<line x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{base}" stroke="{INK}" '
                  f'stroke-opacity="{0.8 if mark == 0 else 0.25}"/>',
                  text(x, base + 16, f"{mark:+d} %" if mark else "0 %", "middle")]
    for number, (way, most) in enumerate(worst(known).items()):
        y, colour = TOP + number * ROW_HEIGHT + 8, OURS if way in MUST else FIRST
        lines.append(text(LEFT - 8, y + 4, WAYS[way], "end"))
        lines += [f'<circle cx="{LEFT + (each.error(way) - shown[0]) * scale:.1f}" cy="{y}" r="4" '
                  f'fill="{colour}" fill-opacity="0.5"/>' for each in known if way in each.by]
        lines.append(text(WIDTH - right + 12, y + 4, f"to {most:.1f} %"))
    return document(base + 28, lines)


def receipt(bridge: Bridge, target: str, whole: Whole, costs: Costs) -> Iterator[str]:
    """What a whole is made of, and what that takes together."""
    known = samples(whole, costs) or [(whole.counts(0), 0.0)]
    total = sum((count for count, _ in known), Counter[str]())
    sums = {way: priced(LEVELS[way](bridge, total), costs) / len(known) for way in MUST}
    yield f"{whole.name}, {bridge.name}, on {target}:"
    for name, number in sorted(total.items(), key=lambda item: -item[1] * costs.get(item[0], 0)):
        cost = priced(Counter({name: 1}), costs)
        times = number / len(known)
        yield (f"  {name:<28}{times:>10,.{0 if times == int(times) else 1}f} ×{cost:>14,.1f} ="
               f"{times * cost:>16,.0f}")
    for way, together in sums.items():
        yield f"  {WAYS[way]:<57}{together:>14,.0f}"
    if measured := fmean(cost for _, cost in known):
        errors = " and ".join(f"{100 * (together / measured - 1):+.2f} %"
                              for together in sums.values())
        yield f"  {'measured; so the predictions differ by ' + errors:<57}{measured:>14,.0f}"


# -- commands --------------------------------------------------------------------------------------
def chosen(only: str, target: str) -> list[tuple[Bridge, str]]:
    return [(bridge, name) for bridge in BRIDGES for name in bridge.targets
            if only.casefold() in bridge.name.casefold() and target in ("", name)]


def measure_all(only: str, target: str, *, write: bool) -> None:
    work = chosen(only, target)
    for bridge, _ in work:
        for code in bridge.scheme.code:
            code.folder.exists()  # fetched before any two of them want it
    measured: Kept = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for pair, costs in zip(work, pool.map(lambda pair: measure(*pair), work), strict=True):
            print(f"lab: {pair[0].name} on {pair[1]}", file=sys.stderr)
            measured[pair[0].name, pair[1]] = costs
    before = read()
    if write:
        FILE.write_text(written(before | measured))
        return
    if apart := strangers():
        say_strangers(apart)
        return
    compared = {key: costs for key, costs in before.items() if key in measured}
    if moved := figures.moved(as_figures(compared), as_figures(measured)):
        raise SystemExit("\n".join(moved))
    print(f"lab: {len(measured)} images measure as in {FILE.name}")


def known_target(name: str) -> str:
    """Also in short: m4, m0, avr. Capitals may be small."""
    short = {"m4": "Cortex-M4", "m0": "Cortex-M0+", "m0+": "Cortex-M0+", "avr": "ATmega328P"}
    return (short | {machine.casefold(): machine for machine in MACHINES}).get(
        name.casefold(), name)


def kept_in(file: Path) -> Kept:
    """Costs that somebody else may have measured."""
    try:
        found = parse(file.read_text())
    except (OSError, ValueError) as fault:
        raise SystemExit(f"lab: {file}: {fault}") from fault
    if any(not 0 < cost < 1e15 for costs in found.values() for cost in costs.values()):
        raise SystemExit(f"lab: {file}: a cost must be more than 0, and a number of instructions")
    return found


def predict_scheme(scheme: str, messages: int, target: str, kept: Kept) -> None:
    receipts = ["\n".join(receipt(bridge, name, whole, kept[bridge.name, name]))
                for bridge in BRIDGES if scheme in bridge.schemes
                for name in dict.fromkeys(at for on, at in kept if on == bridge.name)
                if target in ("", name) for whole in bridge.schemes[scheme](messages)]
    if not receipts:
        raise SystemExit(f"lab: no operation of {scheme} was measured on {target}")
    print("\n\n".join(receipts))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="lab/run predict", description="Predicts what a scheme costs on a chip, from counts "
        "of operations and from what one operation costs there.")
    add = parser.add_argument
    add("--scheme", choices=sorted({name for bridge in BRIDGES for name in bridge.schemes}),
        help="this scheme alone, with its receipt")
    add("--messages", type=int, default=1, metavar="N", help="that ps18 signs at once; 1")
    add("--target", default="", metavar="NAME", help="this machine alone: m4, avr, Cortex-M4, …")
    add("--costs", type=Path, metavar="FILE",
        help="with --scheme: what operations cost on your own chip; its lines are as in "
        "lab/groups/bridge.tsv")
    add("--draw", action="store_true", help="draw predict.svg again")
    add("--measure", action="store_true", help="measure again, and compare with bridge.tsv")
    add("--write", action="store_true", help="measure again, and write bridge.tsv")
    add("--only", default="", metavar="WORDS", help="measure what has these words in its name")
    options = parser.parse_args()
    target = known_target(options.target)
    measuring = options.measure or options.write
    if not 1 <= options.messages <= 1000:
        parser.error(f"a signature is of 1 to 1000 messages, not {options.messages}")
    for fault, words in (  # an option that does nothing would mislead
            (options.messages > 1 and options.scheme != "ps18",
             "--messages goes with --scheme ps18"),
            (options.costs and not options.scheme, "--costs goes with --scheme"),
            (options.only and not measuring, "--only goes with --measure or --write"),
            (options.scheme and (measuring or options.draw),
             "--scheme goes without --measure, --write and --draw"),
            (options.draw and measuring, "--draw goes without --measure and --write"),
            (options.draw and target, "the picture is of all machines: --draw goes without "
             "--target")):
        if fault:
            parser.error(words)
    if measuring:
        if not chosen(options.only, target):
            parser.error(f"no library has {options.only!r} in its name on {target or 'a machine'}")
        measure_all(options.only, target, write=options.write)
    elif options.scheme:
        predict_scheme(options.scheme, options.messages, target, kept_in(options.costs or FILE))
    else:
        known = [each for each in predictions(read()) if target in ("", each.target)]
        if not known:
            parser.error(f"nothing was measured on {target}; there are {', '.join(MACHINES)}")
        if options.draw:
            PICTURE.write_text(picture(known))
        print("\n".join(table(known)))
        if missed := [line for each in known for line in each.misses()]:
            raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    as_program(main, ".*")
