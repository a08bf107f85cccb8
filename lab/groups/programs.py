"""Runs programs of group operations on the counting group, and compares with the original's counts.

    python -m lab.groups.programs [FILE]       make figures ONLY=lab-programs ARGS=FILE

A line of the file is a program and, after a tab, the counts that it should have; without them,
this prints the counts, as the original makes them. Before the first semicolon of a program are the
order of the group, the algorithms for a power and for a product, the window, and the window of
precomputation. Then steps follow:

    W v    the element whose logarithm is v         T i w  precompute result i with window w
    N      the neutral element                      C i    compute result i
    O i j  result i times result j                  Q i    serialise result i
    I i    the inverse of result i
    P i k  the k-th power of result i

W, N, O, I and P each make the next result; the first is number 0. Counts are operations,
inversions and squarings in total; the same outside of exponentiations; exponentiations; terms of
each multi-exponentiation; serialisations. If a third column has counts, they are the right ones,
and those before them are not.

The first line of a file may name its
columns. Lines that begin with # are remarks."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import arguments
from lab.groups.opcount import Counts, CountingError, Element, Group
from tools.programs import as_program

FILE = Path(__file__).with_name("oracle.tsv")
CountsRow = tuple[Any, ...]


def known_counts(text: str) -> CountsRow:
    try:
        return tuple(ast.literal_eval(text))
    except (SyntaxError, TypeError, ValueError) as fault:
        raise CountingError(f"{text[:60]!r} are no counts") from fault


@dataclass(frozen=True)
class Row:
    """A program."""

    program: str
    original: str = ""
    corrected: str = ""  # The right counts, where those of the original are wrong.

    @property
    def expected(self) -> CountsRow | None:
        text = self.corrected or self.original
        return known_counts(text) if text else None

    def counted(self, **changes: Any) -> CountsRow:
        return run(self.program, **changes)[1].row()


def rows(file: Path) -> Iterator[Row]:
    lines = [line for line in file.read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    for number, line in enumerate(lines):
        first, *columns = line.split("\t")
        if ";" in first:
            yield Row(first, *columns[:1], *(text for text in columns[1:2] if text.startswith("(")))
        elif number or re.search(r"\d", first):  # else it names the columns
            raise CountingError(f"{line[:60]!r} is no program")


def step(group: Group, results: list[Element], words: list[str]) -> None:
    name, *numbers = words

    def result(i: int) -> Element:
        if not 0 <= i < len(results):
            raise CountingError(f"{' '.join(words)!r}: there is no result {i} yet")
        return results[i]

    actions: dict[str, tuple[int, Callable[..., object]]] = {
        "W": (1, lambda v: results.append(group.element(v))),
        "N": (0, lambda: results.append(group.neutral())),
        "O": (2, lambda i, j: results.append(result(i) * result(j))),
        "I": (1, lambda i: results.append(result(i).inv())),
        "P": (2, lambda i, k: results.append(result(i) ** k)),
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
        results: list[Element] = []
        for words in steps:
            step(group, results, words.split() or [""])
    except ValueError as fault:
        raise CountingError(f"{program[:60]!r}…: {fault}") from fault
    return results, group.counts(allow_pending=True)


def main() -> None:
    parser = arguments.Parser(
        "lab-programs", "Counts what programs of group operations do, and compares with what the "
        "original counted.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE,
                        help="its lines are as in lab/groups/oracle.tsv")
    file = parser.parse_args().file
    try:
        counted = [(row, row.expected, row.counted(as_original=True), row.counted())
                   for row in rows(file)]
    except (OSError, ValueError) as fault:
        parser.error(str(fault))
    if not counted:
        parser.error(f"{file} has no program")
    compared = differing = apart = 0
    for row, expected, as_original, ours in counted:
        apart += ours != as_original
        if expected is None:
            print(row.program, as_original, *[f"here {ours}"] * (ours != as_original), sep="\t")
            continue
        compared += 1
        if as_original != expected:
            differing += 1
            print(f"differs: {row.program}\n  must be {expected}\n  is      {as_original}")
    print(f"{compared - differing} of {compared} lines with counts are right.")
    if apart:
        print(f"In {apart} the original counts a power times a known factor as nothing outside;\n"
              "here it is an exponentiation and an operation.")
    if differing:
        raise SystemExit(1)


if __name__ == "__main__":
    as_program(main, ".*")
