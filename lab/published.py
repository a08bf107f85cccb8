"""Study 2's joules on a Cortex-M4, beside what the lab's counts predict.     make lab-energy

    python -m lab.published          prints the fit, the outliers and the comparison
    python -m lab.published --draw   draws published.svg again

Two lines through the origin are fitted to the published joules: one over all published cycles,
and one over the instructions of those operations that the lab has counted.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import csv
import statistics
import sys
from dataclasses import dataclass
from math import log10
from pathlib import Path

from bench import figures
from bench.summary import FIRST, GREY, OURS
from lab import counts
from lab.energy import MODELS

FILE = Path(__file__).with_name("published-m4-energy.tsv")
PICTURE = Path(__file__).with_name("published.svg")
TARGET = "Cortex-M4"
ALLOWED = (0.8, 1.25)  # of our modelled joules to the published ones
# In pixels: of the picture, of a decade of joules, of one per cent.
WIDTH, HEIGHT, LEFT, MIDDLE, DECADE, PERCENT = 880, 400, 70, 238, 150, 2.3
LINES = (-50, -25, 0, 25, 50, 75)  # per cent; what is farther off than the last is drawn there
LOWEST = -4.2  # the decimal logarithm of the joules at its left edge
OUTLIER = 0.25  # of a fit: joules that are so far off are named

# Why the work is not the same: the letter in the table, and what it stands for below.
TRIES, NEWER = "a", "b"
REASONS = {
    TRIES: "a signature is tried until it is short enough. On average, that took 6.6 times in\n"
           "   Dilithium3 and 4.3 in Dilithium4. In the standard it takes 4.25 times in ML-DSA-44\n"
           "   and 5.1 in ML-DSA-65.",
    NEWER: "another program, of 2025, with fewer instructions. It makes keys with integers, where\n"
           "   the older one had floating-point numbers. For the rest it has more assembly.",
}
# What is the same work, or nearly: the published scheme, ours, and what differs. Names mislead: the
# standard's ML-DSA-44 has the security of the Dilithium3 of 2019, and ML-DSA-65 that of Dilithium4.
# The former has a matrix of 4 by 4 polynomials, where Dilithium3 had 5 by 4; the latter, 6 by 5, as
# Dilithium4 had.
PAIRS = (
    ("ECDH-secp256r1", "ECDH P-256", "micro-ecc, assembly", ""),
    ("ECDH-secp256k1", "ECDH secp256k1", "micro-ecc, assembly", ""),
    ("ECDSA-secp256r1", "ECDSA P-256", "micro-ecc, assembly", ""),
    ("ECDSA-secp256k1", "ECDSA secp256k1", "micro-ecc, assembly", ""),
    ("Kyber512", "ML-KEM-512", "mlkem-native, assembly", ""),
    ("Kyber768", "ML-KEM-768", "mlkem-native, assembly", ""),
    ("Kyber1024", "ML-KEM-1024", "mlkem-native, assembly", ""),
    ("Dilithium3", "ML-DSA-44", "mldsa-native, assembly", TRIES),
    ("Dilithium4", "ML-DSA-65", "mldsa-native, assembly", TRIES),
    ("Falcon-512", "FN-DSA-512", "c-fn-dsa, assembly", NEWER),
)
STEPS = {"KeyGen": "key", "Encaps": "encapsulate", "Decaps": "decapsulate", "Sign": "sign",
         "Verify": "verify"}


@dataclass(frozen=True)
class Operation:
    scheme: str
    name: str
    cycles: int
    joules: float


@dataclass(frozen=True)
class Fit:
    """joules = nanojoules · 1e-9 · count, the median over the operations."""

    nanojoules: float
    spread: float  # the coefficient of variation of the single ratios


def published() -> list[Operation]:
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return [Operation(row["scheme"], row["operation"], int(row["cycles"]), float(row["joules"]))
            for row in csv.DictReader(lines, delimiter="\t") if row["operation"] != "TOTAL"]


def fit(pairs: list[tuple[float, float]]) -> Fit:
    """Of counts and joules."""
    each = [joules / count * 1e9 for count, joules in pairs]
    return Fit(statistics.median(each), statistics.stdev(each) / statistics.mean(each))


def cycles_each(rows: list[tuple[Operation, int, str]]) -> list[float]:
    """Published cycles for each of our instructions, where the work is the same."""
    return [operation.cycles / count for operation, count, differs in rows if not differs]


def counted() -> list[tuple[Operation, int, str]]:
    """The published operations that the lab has counted, our instructions, and what differs."""
    known = counts.read()
    found: list[tuple[Operation, int, str]] = []
    for theirs, ours, by, differs in PAIRS:
        for operation in published():
            if operation.scheme == theirs:
                wanted = ours, by, STEPS[operation.name], TARGET
                matching = [count for count in known.values()
                            if (count.scheme, count.by, count.step, count.target) == wanted]
                if matching:  # of several lengths of the message the shortest, as the study's was
                    shortest = min(matching, key=lambda count: count.length)
                    found.append((operation, shortest.mean, differs))
    return found


def by_cycles(operations: list[Operation]) -> list[str]:
    line = fit([(operation.cycles, operation.joules) for operation in operations])
    schemes = {operation.scheme for operation in operations}
    far = sorted(((operation.joules * 1e9 / operation.cycles / line.nanojoules - 1, operation)
                  for operation in operations), key=lambda pair: -abs(pair[0]))
    named = [f"{operation.scheme} {operation.name} {off:+.0%}" for off, operation in far
             if abs(off) > OUTLIER]
    return [f"{len(operations)} operations of {len(schemes)} schemes: {line.nanojoules:.3f} nJ "
            f"a cycle, the median; they vary by {line.spread:.1%}.",
            *wrapped(f"More than {OUTLIER:.0%} off: ", named)]


def wrapped(head: str, words: list[str], width: int = 96) -> list[str]:
    lines, line = [], head
    for word in words or ["none"]:
        if len(line) + len(word) > width:
            lines.append(line.rstrip())
            line = "  "
        line += word + (", " if word != (words or ["none"])[-1] else ".")
    return [*lines, line]


def comparison(rows: list[tuple[Operation, int, str]]) -> list[str]:
    model = MODELS[TARGET].nanojoules
    lines = [f"{'published':<18}{'operation':<9}{'instructions':>13}{'model, µJ':>12}"
             f"{'published':>12}{'ratio':>7}{'nJ each':>9}{'cycles each':>13}"]
    in_order = sorted(rows, key=lambda row: (row[0].scheme, row[0].joules))
    for operation, instructions, differs in in_order:
        modelled = instructions * model * 1e-9
        ratio = modelled / operation.joules
        mark = "" if ALLOWED[0] <= ratio <= ALLOWED[1] else "  " + (differs or "not explained")
        lines.append(f"{operation.scheme:<18}{operation.name:<9}{instructions:>13,}"
                     f"{modelled * 1e6:>12,.1f}{operation.joules * 1e6:>12,.1f}{ratio:>7.2f}"
                     f"{operation.joules * 1e9 / instructions:>9.3f}"
                     f"{operation.cycles / instructions:>13.2f}{mark}")
    return lines


def dots(points: list[tuple[float, float]], colour: str, opacity: float = 0.7) -> list[str]:
    """Of joules, and of how far off the fit is."""
    lines = []
    for joules, off in points:
        x, style = LEFT + (log10(joules) - LOWEST) * DECADE, f'fill="{colour}" fill-opacity'
        if off * 100 <= LINES[-1]:
            lines.append(f'<circle cx="{x:.1f}" cy="{MIDDLE - off * PERCENT * 100:.1f}" r="3" '
                         f'{style}="{opacity}"/>')
        else:
            y = MIDDLE - LINES[-1] * PERCENT
            lines.append(f'<path d="M{x - 5:.1f} {y + 4:.1f}h10l-5 -9z" {style}="{opacity}"/>'
                         f'<text x="{x + 8:.1f}" y="{y + 15:.1f}">{off * 100:+.0f} %</text>')
    return lines


def picture(operations: list[Operation], rows: list[tuple[Operation, int, str]]) -> str:
    """How far the joules of each operation lie off the two fits."""
    by_cycle = fit([(operation.cycles, operation.joules) for operation in operations]).nanojoules
    model = MODELS[TARGET].nanojoules
    lines = [f'<text x="{LEFT}" y="20" font-weight="bold">'
             'How far published joules lie off a fit</text>',
             f'<circle cx="{LEFT + 4}" cy="36" r="3" fill="{FIRST}"/>'
             f'<text x="{LEFT + 14}" y="40">'
             f'joules for each cycle, all {len(operations)} operations</text>',
             f'<circle cx="{LEFT + 374}" cy="36" r="3" fill="{OURS}"/>'
             f'<text x="{LEFT + 384}" y="40">'
             f'for each instruction, the {len(rows)} that the lab counts; pale: other work</text>']
    for off in LINES:
        y = MIDDLE - off * PERCENT
        lines += [f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - 20}" y2="{y}" stroke="{GREY}" '
                  'stroke-opacity="0.4"/>',
                  f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{off:+d} %</text>']
    for power, name in enumerate(("0.1 mJ", "1 mJ", "10 mJ", "0.1 J", "1 J", "10 J"), start=-4):
        x = LEFT + (power - LOWEST) * DECADE
        lines.append(f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="middle">{name}</text>')
    lines += dots([(operation.joules, operation.joules * 1e9 / operation.cycles / by_cycle - 1)
                   for operation in operations], FIRST)
    for other_work, opacity in ((False, 0.7), (True, 0.4)):
        lines += dots([(operation.joules, operation.joules * 1e9 / instructions / model - 1)
                       for operation, instructions, differs in rows
                       if bool(differs) == other_work], OURS, opacity)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif" font-size="13" fill="{GREY}">')
    return "\n".join([head, *lines, "</svg>", ""])


def main() -> None:
    if sys.argv[1:] not in ([], ["--draw"]):
        raise SystemExit("usage: python3 -m lab.published [--draw]")
    operations, rows = published(), counted()
    print("\n".join(by_cycles(operations)))
    same = [(instructions, operation.joules) for operation, instructions, differs in rows
            if not differs]
    if same:
        line = fit([(float(count), joules) for count, joules in same])
        each = cycles_each(rows)
        print(f"\nThe lab counts the instructions of {len(same)} of them: "
              f"{line.nanojoules:.3f} nJ an instruction, the median;\n"
              f"they vary by {line.spread:.1%}. An instruction took {min(each):.2f} to "
              f"{max(each):.2f} cycles, {statistics.median(each):.2f} in the median.")
    print()
    print("\n".join(comparison(rows)))
    print("\n".join(f"{letter}: {reason}" for letter, reason in REASONS.items()))
    figures.keep_picture(PICTURE, picture(operations, rows), again=bool(sys.argv[1:]))


if __name__ == "__main__":
    main()
