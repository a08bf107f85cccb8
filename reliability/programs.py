"""What the C programs of this folder print; `make` has built them, and run the slow ones.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
from functools import cache

from sim.targets import BUILD

HEARTBEATS = 2**22  # all of them
BITS = 64  # of one
Rows = list[list[str]]


def cells(text: str) -> Rows:
    return [line.split("\t") for line in text.splitlines()]


def program_rows(program: str, *arguments: str) -> Rows:
    """Its stderr is for whoever waits for it."""
    done = subprocess.run([BUILD / "reliability" / program, *arguments], stdout=subprocess.PIPE,
                          text=True, check=True)
    return cells(done.stdout)


@cache
def stored_rows(name: str) -> Rows:
    """What `make build/reliability/NAME.tsv` has stored."""
    return cells((BUILD / "reliability" / f"{name}.tsv").read_text())


def searched() -> dict[int, list[int]]:
    """By the number of flips, what fewbits.c found."""
    return {int(flips): list(map(int, counts)) for flips, *counts in stored_rows("fewbits")}


def by_flips(rows: Rows) -> dict[int, int]:
    """Pairs of heartbeats that differ in so many bits, as distances.c counts them."""
    return {int(row[1]): int(row[2]) for row in rows if row[0] == "flips"}


def by_burst(rows: Rows, order: str) -> dict[int, int]:
    """Those whose differing bits span so many; order: "high" or "low" bit of a byte first."""
    return {int(row[2]): int(row[3]) for row in rows if row[:2] == ["burst", order]}
