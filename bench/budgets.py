"""budgets.tsv: read, compared with what was measured, and kept from rising.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
from pathlib import Path

FILE = Path(__file__).with_name("budgets.tsv")
COLUMNS = ("bytes", "stack", "heartbeat", "report")
Budgets = dict[str, dict[str, int]]


def parse(text: str) -> Budgets:
    """A number for each target and column; "-" is no budget."""
    budgets: Budgets = {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        name, *cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            raise SystemExit(f"{FILE.name}: {name} needs {len(COLUMNS)} numbers")
        budgets[name] = {column: int(cell) for column, cell in zip(COLUMNS, cells, strict=True)
                         if cell != "-"}
    return budgets


def load() -> Budgets:
    return parse(FILE.read_text())


def over(measured: Budgets) -> list[str]:
    """A line for each figure over its budget, or without one."""
    budgets = load()
    lines = []
    for name, figures in measured.items():
        for column, figure in figures.items():
            budget = budgets.get(name, {}).get(column)
            if budget is None:
                lines.append(f"{name}: {column} {figure} has no budget in {FILE.name}")
            elif figure > budget:
                lines.append(f"{name}: {column} {figure}, over its budget of {budget}")
            elif figure < budget:
                print(f"{name}: {column} {figure}: lower its budget of {budget} to keep the gain")
    return lines


def raised() -> list[str]:
    """A line for each budget that a commit, or the work tree, raised or dropped."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=FILE.parent, capture_output=True,
                              text=True, check=False).stdout

    lines = []
    commits = git("log", "--reverse", "--format=%h", "--", FILE.name).split()
    versions = [(commit, parse(git("show", f"{commit}:./{FILE.name}"))) for commit in commits]
    versions.append(("the work tree", load()))
    for (_, before), (commit, after) in zip(versions, versions[1:], strict=False):
        for name, figures in before.items():
            for column, figure in figures.items():
                now = after.get(name, {}).get(column)
                if now is None or now > figure:
                    lines.append(f"{name}: {column} went from {figure} to {now} in {commit}")
    return lines


def enforce(measured: Budgets) -> None:
    """Ends the program, saying why, if a figure or a budget is not as it should be."""
    faults = over(measured) + raised()
    if faults:
        raise SystemExit("\n".join(faults))
