"""Reads budgets.tsv and files like it, and compares them with the figures that were measured."""

from collections.abc import Collection, Mapping
from pathlib import Path

from tools.processors.targets import Target, say_strangers, strangers
from tools.programs import ROOT

FILE = ROOT / "bench" / "budgets.tsv"
HEAD = "# target\t"  # this line continues with the names of the columns
Budgets = dict[str, dict[str, int]]


def parse(text: str) -> Budgets:
    """Returns a number for each name and column. A cell "-" means that there is no budget. If the
    file has a column for the compiler, a name is "target, compiler"."""
    budgets: Budgets = {}
    columns: list[str] = []
    for line in text.splitlines():
        if line.startswith(HEAD):
            columns = line.removeprefix(HEAD).split("\t")
        if line.startswith("#") or not line.strip():
            continue
        name, *cells = line.split("\t")
        if len(cells) != len(columns):
            raise SystemExit(f"budgets: {name} needs {len(columns)} cells")
        if columns[0] == "compiler":
            name, cells = f"{name}, {cells[0]}", cells[1:]
        budgets[name] = {column: int(cell)
                         for column, cell in zip(columns[-len(cells):], cells, strict=True)
                         if cell != "-"}
    return budgets


def load(file: Path = FILE) -> Budgets:
    return parse(file.read_text())


def differing(measured: Budgets, columns: tuple[str, ...], file: Path,
              not_compared: Collection[str] = ()) -> list[str]:
    """Returns a line for each figure that is not its budget, has none, or was not measured: who
    reads a budget knows the figure."""
    budgets = load(file)
    lines = []
    for name in budgets | measured:
        if name in not_compared:
            continue
        for column in columns:
            figure = measured.get(name, {}).get(column)
            budget = budgets.get(name, {}).get(column)
            if figure is None and budget is None:
                continue
            if figure is None:
                lines.append(f"{name}: {column} has a budget, and was not measured")
            elif budget is None:
                lines.append(f"{name}: {column} {figure} has no budget in {file.name}")
            elif figure != budget:
                lines.append(f"{name}: {column} {figure} is not its budget of {budget}")
    return lines


def enforce(measured: Budgets, columns: tuple[str, ...], file: Path = FILE,
            made_by: Mapping[str, Target] | None = None, *, partly: bool = False) -> None:
    """Ends the program with a message if a figure is not its budget. Figures of other compilers are
    not compared, and it says so.
    made_by: the target of each name, where a name is no target's key, or where some are left out.
    partly: only some targets were measured; then their figures are all that is compared."""
    not_compared = strangers(made_by)
    say_strangers(not_compared)
    left_out = {*load(file)} - {*measured} if partly else set()
    if faults := differing(measured, columns, file, {*not_compared, *left_out}):
        raise SystemExit("\n".join(faults))
