"""budgets.tsv and its like: read, compared with what was measured, and kept from rising.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
from pathlib import Path

FILE = Path(__file__).with_name("budgets.tsv")
HEAD = "# target\t"  # then the names of the columns
RISE = "# rise\t"  # then target, column, the most that it may be now, and why it had to rise
Budgets = dict[str, dict[str, int]]


def parse(text: str) -> Budgets:
    """A number for each target and column; "-" is no budget."""
    budgets: Budgets = {}
    columns: list[str] = []
    for line in text.splitlines():
        if line.startswith(HEAD):
            columns = line.removeprefix(HEAD).split("\t")
        if line.startswith("#") or not line.strip():
            continue
        name, *cells = line.split("\t")
        if len(cells) != len(columns):
            raise SystemExit(f"budgets: {name} needs {len(columns)} numbers")
        budgets[name] = {column: int(cell) for column, cell in zip(columns, cells, strict=True)
                         if cell != "-"}
    return budgets


def rises(text: str) -> dict[tuple[str, str], int]:
    """The budgets that had to rise, by target and column: how far."""
    found = {}
    for line in text.splitlines():
        if line.startswith(RISE):
            name, column, figure, why = [*line.removeprefix(RISE).split("\t", 3), "", "", ""][:4]
            if not figure.isdigit() or not why.strip():
                raise SystemExit(f"budgets: a rise needs target, column, figure and why: {line}")
            found[name, column] = int(figure)
    return found


def load(file: Path = FILE) -> Budgets:
    return parse(file.read_text())


def over(measured: Budgets, columns: tuple[str, ...], file: Path) -> list[str]:
    """A line for each figure over its budget, or without one, or not measured."""
    budgets = load(file)
    lines = []
    for name in budgets | measured:
        for column in columns:
            figure = measured.get(name, {}).get(column)
            budget = budgets.get(name, {}).get(column)
            if figure is None and budget is None:
                continue
            if figure is None:
                lines.append(f"{name}: {column} has a budget, and was not measured")
            elif budget is None:
                lines.append(f"{name}: {column} {figure} has no budget in {file.name}")
            elif figure > budget:
                lines.append(f"{name}: {column} {figure}, over its budget of {budget}")
            elif figure < budget:
                print(f"{name}: {column} {figure}: lower its budget of {budget} to keep the gain")
    return lines


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=FILE.parent, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise SystemExit(f"budgets: git {words[0]} failed:\n{done.stderr}")
    return done.stdout


def raised(file: Path) -> list[str]:
    """A line for each budget that is above the lowest that it has ever been, or gone; a rise, with its reason,
    excuses it from what came before that."""
    if not (FILE.parent.parent / ".git").exists():
        print("budgets: their history was not checked: this is not a git checkout")
        return []
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        print("budgets: their history was not checked: this is a shallow clone")
        return []
    now, risen = load(file), rises(file.read_text())
    lines = []
    for commit in git("log", "--format=%h", "--", file.name).split():
        then = git("show", f"{commit}:./{file.name}")
        later = dict(risen.items() - rises(then).items())
        for name, figures in parse(then).items():
            for column, figure in figures.items():
                limit = max(figure, later.get((name, column), 0))
                if now.get(name, {}).get(column, limit + 1) > limit:
                    lines.append(f"{name}: the budget for {column} was {figure} in {commit}: "
                                 "budgets only go down")
    return lines


def enforce(measured: Budgets, columns: tuple[str, ...], file: Path = FILE) -> None:
    """Ends the program, saying why, if a figure or a budget is not as it should be."""
    faults = over(measured, columns, file) + raised(file)
    if faults:
        raise SystemExit("\n".join(faults))
