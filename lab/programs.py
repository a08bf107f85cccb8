"""Runs programs of group operations on the counting group, and compares with the original's counts.

    python -m lab.programs [FILE]       make lab-programs ARGS=FILE

A line of the file is a program and, after a tab, the counts that it should have; without them,
this prints the counts. Before the first semicolon of a program are the order of the group, the
algorithms for a power and for a product, the window, and the window of precomputation. Then steps
follow:

    W v    the element whose logarithm is v         T i w  precompute result i with window w
    N      the neutral element                      C i    compute result i
    O i j  result i times result j                  Q i    serialise result i
    I i    the inverse of result i
    P i k  the k-th power of result i

W, N, O, I and P each make the next result; the first is number 0. Counts are operations,
inversions and squarings in total; the same outside of exponentiations; exponentiations; terms of
each multi-exponentiation; serialisations. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import arguments
from lab.opcount import Counts, CountingError, Element, Group

FILE = Path(__file__).with_name("oracle") / "programs.tsv"


@dataclass(frozen=True)
class Row:
    program: str
    original: str = ""
    right: str = ""  # where the original is wrong


def rows(file: Path) -> Iterator[Row]:
    for line in file.read_text().splitlines():
        program, *counts = line.split("\t")
        if ";" in program and not line.startswith("#"):
            yield Row(program, *(known for known in counts[:2] if known.startswith("(")))


def step(group: Group, made: list[Element], words: list[str]) -> None:
    name, *numbers = words

    def result(i: int) -> Element:
        if not 0 <= i < len(made):
            raise CountingError(f"{' '.join(words)!r}: there is no result {i} yet")
        return made[i]

    actions: dict[str, tuple[int, Callable[..., object]]] = {
        "W": (1, lambda v: made.append(group.element(v))),
        "N": (0, lambda: made.append(group.neutral())),
        "O": (2, lambda i, j: made.append(result(i) * result(j))),
        "I": (1, lambda i: made.append(result(i).inv())),
        "P": (2, lambda i, k: made.append(result(i) ** k)),
        "T": (2, lambda i, window: result(i).precompute(window)),
        "C": (1, lambda i: result(i).compute()),
        "Q": (1, lambda i: result(i).serialize()),
    }
    if len(numbers) != actions.get(name, (-1,))[0]:
        raise CountingError(f"{' '.join(words)!r} is no step of a program")
    actions[name][1](*map(int, numbers))


def run(program: str, **changes: Any) -> tuple[list[Element], Counts]:
    """All results, and the counts. A program may leave results that nobody computes."""
    head, *steps = program.split(";")
    try:
        order, power, product, window, precomputed = head.split()
        group = Group(int(order), power=power, product=product, window=int(window),
                      precomputed=int(precomputed), **changes)
        made: list[Element] = []
        for words in steps:
            step(group, made, words.split() or [""])
    except ValueError as fault:
        raise CountingError(f"{program[:60]!r}…: {fault}") from fault
    return made, group.counts(allow_pending=True)


def main() -> None:
    parser = arguments.Parser(
        "lab-programs", "Counts what programs of group operations do, and compares with what the "
        "original counted.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    file = parser.parse_args().file
    try:
        known = list(rows(file))
        counted = [(row, run(row.program, as_original=True)[1].row(), run(row.program)[1].row())
                   for row in known]
    except (OSError, CountingError) as fault:
        parser.error(str(fault))
    wrong = same = apart = 0
    for row, as_original, ours in counted:
        if not row.original:
            print(f"{row.program}\t{ours}")
            continue
        wanted = ast.literal_eval(row.right or row.original)
        if as_original != wanted:
            wrong += 1
            print(f"differs: {row.program}\n  must be {wanted}\n  is      {as_original}")
        same += as_original == wanted
        apart += ours != as_original
    print(f"{same} of {same + wrong} programs have the right counts. In {apart} of them the "
          "original\ncounts a power times a known factor as nothing outside; here it is an "
          "exponentiation\nand an operation.")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
