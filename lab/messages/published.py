"""Study 2's joules on a Cortex-M4, beside what the lab's counts predict.

    make figures ONLY=lab-published

It prints the fit, the outliers and the comparison.
Two lines through the origin are fitted to the published joules: one over all published cycles,
and one over the instructions of those operations that the lab has counted."""

import csv
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.messages import counts
from lab.messages.energy import MODELS
from tools.programs import as_program

FILE = Path(__file__).with_name("published-m4-energy.tsv")
TARGET = "Cortex-M4"
ALLOWED = (0.8, 1.25)  # of our modelled joules to the published ones
OUTLIER = 0.25  # joules that are farther than this share from a fit are named

# Why the work is not the same: a letter in the table, which is explained below it.
TRIES, NEWER, NOISE = "a", "b", "c"
REASONS = {
    TRIES: "a signature is tried until it is short enough. On average, that took 6.6 times in\n"
           "   Dilithium3 and 4.3 in Dilithium4. In the standard it takes 4.25 times in ML-DSA-44\n"
           "   and 5.1 in ML-DSA-65.",
    NEWER: "this is another program, of 2025, with fewer instructions. It makes keys with\n"
           "   integers, where the older one had floating-point numbers. For the rest it has more\n"
           "   assembly.",
    NOISE: "ML-KEM-512 has keys with more noise than Kyber512 had in 2019 (3, not 2), and hashes\n"
           "   more to make it.",
}
# Schemes that do the same work, or nearly: the published one, ours, and what differs. Names
# mislead: the standard's ML-DSA-44 has the security of the Dilithium3 of 2019, and ML-DSA-65 that
# of Dilithium4. ML-DSA-44 has a matrix of 4 by 4 polynomials, where Dilithium3 had 5 by 4.
# ML-DSA-65 has 6 by 5, as Dilithium4 had.
PAIRS = (
    ("ECDH-secp256r1", "ECDH P-256", "micro-ecc, assembly", ""),
    ("ECDH-secp256k1", "ECDH secp256k1", "micro-ecc, assembly", ""),
    ("ECDSA-secp256r1", "ECDSA P-256", "micro-ecc, assembly", ""),
    ("ECDSA-secp256k1", "ECDSA secp256k1", "micro-ecc, assembly", ""),
    ("Kyber512", "ML-KEM-512", "mlkem-native, assembly", NOISE),
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
    least: float
    most: float


def rows() -> Iterator[dict[str, str]]:
    """Each operation as the study had it, with its scheme and the sizes of that."""
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines, delimiter="\t"):
        told = {"scheme": row.pop("scheme"), "sizes": row.pop("sizes")}
        for operation, cell in row.items():
            if cell != "-":
                figures = zip(("cycles", "seconds", "watts", "joules"), cell.split(), strict=True)
                yield {**told, "operation": operation, **dict(figures)}


def published() -> list[Operation]:
    return [Operation(row["scheme"], row["operation"], int(row["cycles"]), float(row["joules"]))
            for row in rows() if row["operation"] != "TOTAL"]


def fit(pairs: list[tuple[float, float]]) -> Fit:
    """The fit of pairs of a count and its joules."""
    each = [joules / count * 1e9 for count, joules in pairs]
    return Fit(statistics.median(each), statistics.stdev(each) / statistics.mean(each),
               min(each), max(each))


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
            f"a cycle is the median; they vary by {line.spread:.1%}.",
            *wrapped(f"More than {OUTLIER:.0%} away from the median: ", named)]


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


def main() -> None:
    operations, rows = published(), counted()
    print("\n".join(by_cycles(operations)))
    same = [(instructions, operation.joules) for operation, instructions, differs in rows
            if not differs]
    if same:
        line = fit([(float(count), joules) for count, joules in same])
        each = cycles_each(rows)
        print(f"\nThe lab counts the instructions of {len(same)} of them: "
              f"{line.nanojoules:.3f} nJ an instruction is the\n"
              f"median, and the model of the lab; they lie from {line.least:.2f} to "
              f"{line.most:.2f} nJ, and vary by {line.spread:.1%}.\nAn instruction took "
              f"{min(each):.2f} to {max(each):.2f} cycles, {statistics.median(each):.2f} in the "
              "median.")
    print()
    print("\n".join(comparison(rows)))
    print("\n".join(f"{letter}: {reason}" for letter, reason in REASONS.items()))


if __name__ == "__main__":
    as_program(main)
