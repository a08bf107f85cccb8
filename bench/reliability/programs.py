"""Reads what the C programs of this folder print. `make` builds and runs the slow ones."""

import subprocess
from functools import cache
from pathlib import Path

from tools.programs import built

HEARTBEATS = 2**22  # all valid ones
BITS = 64  # Length of a heartbeat.
Rows = list[list[str]]


def cells(text: str) -> Rows:
    return [line.split("\t") for line in text.splitlines()]


def program_rows(program: str, *arguments: str) -> Rows:
    """Runs a program. Its stderr goes to the user, who waits for it."""
    done = subprocess.run([built(f"build/reliability/{program}"), *arguments],
                          stdout=subprocess.PIPE, text=True, check=True)
    return cells(done.stdout)


@cache
def stored_rows(name: str) -> Rows:
    """Reads what `make build/reliability/NAME.tsv` stores."""
    return cells(Path(built(f"build/reliability/{name}.tsv")).read_text())


def searched() -> dict[int, list[int]]:
    """What fewbits.c found, by the number of flips."""
    return {int(flips): list(map(int, counts)) for flips, *counts in stored_rows("fewbits")}


def by_flips(rows: Rows) -> dict[int, int]:
    """The pairs that distances.c has counted, by the number of bits in which they differ."""
    return {int(row[1]): int(row[2]) for row in rows if row[0] == "flips"}


def by_burst(rows: Rows, order: str) -> dict[int, int]:
    """The pairs by the length of the burst in which they differ. order: which bit of a byte comes
    first, "high" or "low"."""
    return {int(row[2]): int(row[3]) for row in rows if row[:2] == ["burst", order]}
