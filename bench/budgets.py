"""Reads budgets.tsv and files like it, compares them with the figures that were measured, and keeps
the budgets from rising. SPDX-License-Identifier: MIT"""

import subprocess
import textwrap
from collections.abc import Collection, Mapping
from pathlib import Path

from bench.processors.targets import Target, say_strangers, strangers

FILE = Path(__file__).with_name("budgets.tsv")
HEAD = "# target\t"  # this line continues with the names of the columns
RAISED, EACH = "raised", "*"
Budgets = dict[str, dict[str, int]]
Reasons = dict[tuple[str, str], tuple[int, str, str]]  # by name and column: from, to, why


def parse(text: str) -> Budgets:
    """Returns a number for each name and column. A cell "-" means that there is no budget. If the
    file has a column for the compiler, a name is "target, compiler"."""
    budgets: Budgets = {}
    columns: list[str] = []
    for line in text.splitlines():
        if line.startswith(HEAD):
            columns = line.removeprefix(HEAD).split("\t")
        if line.startswith(("#", RAISED)) or not line.strip():
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


def parse_reasons(text: str) -> Reasons:
    """Reads the lines "raised, name, column, from, to, why". Each says why a budget is higher than
    it has once been, or of several columns, between commas. With the name "*", it says so for every
    name: "from" is how much higher they may be at most, or 0 if the column is gone, and "to" is
    "-"."""
    reasons: Reasons = {}
    for line in text.splitlines():
        if line.startswith(RAISED):
            try:
                _, name, columns, before, after, why = line.split("\t")
                for column, low, high in zip(columns.split(", "), before.split(", "),
                                             after.split(", "), strict=True):
                    reasons[name, column] = int(low), high, why
                if not why.strip():
                    raise ValueError
            except ValueError:
                raise SystemExit(
                    "budgets: a line of a raised budget needs a name, a column, from, to and "
                    f"why:\n{line}") from None
    return reasons


def load(file: Path = FILE) -> Budgets:
    return parse(file.read_text())


def over(measured: Budgets, columns: tuple[str, ...], file: Path,
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
            elif figure > budget:
                lines.append(f"{name}: {column} {figure}, over its budget of {budget}")
            elif figure < budget:
                lines.append(f"{name}: {column} {figure}: lower its budget of {budget} to keep the "
                             "gain")
    return lines


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=FILE.parent, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise SystemExit(f"budgets: git {words[0]} failed:\n{done.stderr}")
    return done.stdout


def lowest(file: Path) -> dict[tuple[str, str], tuple[int, str]]:
    """Returns, by name and column, the lowest budget in the history of the file, and its commit."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    now = load(file)
    for commit in git("log", "--format=%h", "--", file.name).split():
        for name, figures in parse(git("show", f"{commit}:./{file.name}")).items():
            if name not in now:  # before there was a column for the compiler: the first one
                name = next((key for key in now if key.startswith(f"{name}, ")), name)
            for column, figure in figures.items():
                if figure < found.get((name, column), (figure + 1, ""))[0]:
                    found[name, column] = figure, commit
    return found


def raised(file: Path) -> list[str]:
    """Returns a line for each budget that is higher than it has once been, or is gone, and for
    which the file gives no reason. Also returns a line for each reason that no such budget
    needs."""
    if not (FILE.parent.parent / ".git").exists():
        print("budgets: their history was not checked: this is not a git checkout")
        return []
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        print("budgets: their history was not checked: this is a shallow clone")
        return []
    now, reasons = load(file), parse_reasons(file.read_text())
    lines, needed = [], set()
    for (name, column), (figure, commit) in lowest(file).items():
        today = now.get(name, {}).get(column)
        shared = reasons.get((EACH, column))
        explained = shared and (figure < today <= figure + shared[0] if today is not None
                                else shared[0] == 0)
        if explained and (name, column) not in reasons:
            needed.add((EACH, column))
            continue
        before, after, _ = reasons.pop((name, column), (None, None, None))
        if (today is None or today > figure) != (before is not None):
            lines.append(
                f"{name}: the budget for {column} was {figure} in {commit}: it may only go up, or "
                f"away, with a line of reason in {file.name}" if before is None else
                f"{name}: {column} has not gone up: its reason in {file.name} can go")
        elif before is not None and \
                (before, after) != (figure, "-" if today is None else str(today)):
            lines.append(
                f"{name}: {column} went from {figure} to {today}: the reason in {file.name} says "
                f"from {before} to {after}")
    return lines + [f"{name}: {column} has a reason in {file.name} that no budget needs"
                    for name, column in reasons.keys() - needed]


def enforce(measured: Budgets, columns: tuple[str, ...], file: Path = FILE,
            made_by: Mapping[str, Target] | None = None, *, partly: bool = False) -> None:
    """Prints which budgets have gone up, and why. Ends the program with a message if a figure or a
    budget is wrong. Figures of other compilers are not compared, and it says so.
    made_by: the target of each name, where a name is no target's key, or where some are left out.
    partly: only some targets were measured; then their figures are all that is compared."""
    told: dict[tuple[str, str], list[str]] = {}  # by name and reason
    for (name, column), (before, after, why) in parse_reasons(file.read_text()).items():
        if column in columns:
            told.setdefault((name, why), []).append(
                f"{column} by {before}" if name == EACH else f"{column} from {before} to {after}")
    for (name, why), which in told.items():
        name = "each, at most" if name == EACH else name
        print(textwrap.fill(f"raised: {name}: {', '.join(which)}: {why}", 96,
                            subsequent_indent="    ", break_on_hyphens=False))
    not_compared = strangers(made_by)
    say_strangers(not_compared)
    left_out = {*load(file)} - {*measured} if partly else set()
    faults = over(measured, columns, file, {*not_compared, *left_out}) + raised(file)
    if faults:
        raise SystemExit("\n".join(faults))
