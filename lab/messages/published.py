"""Study 2's joules on a Cortex-M4, and the instructions that the lab counts of the same schemes.

    make figures ONLY=lab-published

Power differs between algorithms, and hardly within one. Neither cycles nor joules follow from
instructions well enough to predict those of another scheme, so the lab predicts neither."""

import csv
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.messages import counts
from tools.programs import as_program

FILE = Path(__file__).with_name("published-m4-energy.tsv")
TARGET = "Cortex-M4"
CLOSE = 0.10  # a model that is not this close to schemes that it has not seen is no model
# The published scheme, and the lab's that does the same work, by the same code or another.
PAIRS = (
    ("ECDH-secp256r1", "ECDH P-256", "micro-ecc, assembly"),
    ("ECDH-secp256k1", "ECDH secp256k1", "micro-ecc, assembly"),
    ("ECDSA-secp256r1", "ECDSA P-256", "micro-ecc, assembly"),
    ("ECDSA-secp256k1", "ECDSA secp256k1", "micro-ecc, assembly"),
)
STEPS = {"KeyGen": "key", "Encaps": "encapsulate", "Decaps": "decapsulate", "Sign": "sign",
         "Verify": "verify"}


@dataclass(frozen=True)
class Operation:
    scheme: str
    name: str
    cycles: int
    watts: float
    joules: float


def published() -> list[Operation]:
    """Without the totals."""
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return [Operation(row["scheme"], name, int(cycles), float(watts), float(joules))
            for row in csv.DictReader(lines, delimiter="\t") for name in STEPS
            if row[name] != "-" for cycles, _, watts, joules in [row[name].split()]]


def counted() -> list[tuple[Operation, int]]:
    """The published operations of PAIRS, with the instructions that the lab counts: of several
    lengths of the message those of the shortest, as the study's was."""
    by_length = sorted(counts.read().values(), key=lambda count: count.length)
    return [(operation, next(count.mean for count in by_length if (
                count.scheme, count.by, count.step, count.target) == (
                    ours, by, STEPS[operation.name], TARGET)))
            for theirs, ours, by in PAIRS for operation in published()
            if operation.scheme == theirs]


def variation(numbers: list[float]) -> float:
    return statistics.stdev(numbers) / statistics.mean(numbers)


def errors(rows: list[tuple[Operation, int]]) -> list[float]:
    """Of the cycles of each scheme, predicted by the cycles an instruction of the others."""
    return [statistics.median(reference.cycles / count for reference, count in rows
                              if reference.scheme != operation.scheme) * instructions
            / operation.cycles - 1 for operation, instructions in rows]


def lines() -> Iterator[str]:
    operations, rows = published(), counted()
    watts = {name: [row.watts * 1e3 for row in operations if row.scheme == name]
             for name in dict.fromkeys(row.scheme for row in operations)}
    means = list(map(statistics.mean, watts.values()))
    yield (f"{len(operations)} operations of {len(watts)} schemes: {min(means):.1f} to "
           f"{max(means):.1f} mW by scheme, {statistics.median(means):.1f} mW in the median.\n")
    yield (f"{'published':<18}{'operation':<11}{'cycles':>11}{'mW':>7}{'µJ':>11}"
           f"{'instructions':>14}{'cycles each':>13}{'nJ each':>9}")
    for row, count in rows:
        yield (f"{row.scheme:<18}{row.name:<11}{row.cycles:>11,}{row.watts * 1e3:>7.1f}"
               f"{row.joules * 1e6:>11,.1f}{count:>14,}{row.cycles / count:>13.2f}"
               f"{row.joules * 1e9 / count:>9.2f}")
    off = errors(rows)
    yield (f"\nOf these {len(rows)}, joules vary by "
           f"{variation([row.joules / row.cycles for row, _ in rows]):.1%} for a cycle, and by "
           f"{variation([row.joules / count for row, count in rows]):.1%} for an instruction.")
    yield (f"Cycles that are predicted from instructions by the other schemes are off by "
           f"{min(off):+.0%} to {max(off):+.0%}:\n{sum(abs(error) <= CLOSE for error in off)} of "
           f"{len(off)} are within {CLOSE:.0%}. So the lab predicts no cycles and no joules here.")
    yield "\nOther schemes, mW by operation:"
    paired = {theirs for theirs, _, _ in PAIRS}
    for name, powers in watts.items():
        if name not in paired:
            yield f"{name:<28}" + " ".join(f"{power:5.1f}" for power in powers)


def main() -> None:
    print("\n".join(lines()))


if __name__ == "__main__":
    as_program(main)
