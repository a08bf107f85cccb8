"""Says whether two runs of lab/measure differ, and by how much.              lab/compare A B

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.joules import measuring, results, uncertainty
from lab.joules.measure import seed
from lab.joules.results import Run, Turn, Unreadable
from lab.joules.uncertainty import Value


def values(run: Run, turns: list[Turn]) -> list[Value]:
    net = run.unit.endswith(results.NET)
    return measuring.values(measuring.whole(turns, net), net)


def compared(a: Run, ours: list[Value], b: Run, theirs: list[Value], chosen: int) -> list[str]:
    lines = []
    for name, run, some in (("A", a, ours), ("B", b, theirs)):
        lines.append(measuring.row(measuring.Quantity(
            name, "J", uncertainty.interval(some, run.seed))))
    found = uncertainty.interval(theirs, chosen, ours)
    lines.append(measuring.row(measuring.Quantity("B - A", "J", found)))
    base = uncertainty.mean_of([value.value for value in uncertainty.without_outliers(ours)])
    share = f", {found.mean / base:+.1%} of A" if base > 0 else ""
    if not found.known:
        lines.append(f"Fewer than {uncertainty.LEAST} turns cannot tell whether A and B differ.")
    elif found.holds_zero:
        lines.append("A and B do not differ by what these turns could see: the difference may be "
                     "zero.")
    else:
        more = "more" if found.mean > 0 else "less"
        lines.append(f"B takes {more} than A: by "
                     f"{measuring.scaled(abs(found.mean), 'J')}{share}.")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="lab/compare", description="Says whether two runs of lab/measure differ, and by how "
        "much. They must be alike in " + ", ".join(results.ALIKE) + ".")
    parser.add_argument("a", type=Path, metavar="A", help="a file of results")
    parser.add_argument("b", type=Path, metavar="B", help="another one")
    parser.add_argument("--seed", type=seed, help="of the bootstrap; else a random one")
    options = parser.parse_args()
    chosen = uncertainty.seed() if options.seed is None else options.seed
    try:
        (a, ours, one), (b, theirs, other) = map(results.read, (options.a, options.b))
        if one or other:
            raise Unreadable("these are times of lab/profile; runs of lab/measure can be compared")
        if apart := results.differences(a, b):
            raise Unreadable("A and B are not alike, so nothing follows from comparing them:\n  "
                             + "\n  ".join(apart))
        each = values(a, ours), values(b, theirs)
        for file, some in zip((options.a, options.b), each, strict=True):
            if not some:
                raise Unreadable(f"{file} has no complete turn")
    except Unreadable as fault:
        print(f"lab/compare: {fault}", file=sys.stderr)
        raise SystemExit(2) from None
    print(f"{a.operation}, {a.unit}: {a.label} with {a.meter}.\n"
          f"The means, and where they lie with a certainty of 95 % (bootstrap, seed {chosen}):\n")
    print("\n".join(compared(a, each[0], b, each[1], chosen)))
