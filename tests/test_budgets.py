"""Are the budgets kept, and does one go up only with a reason?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench import budgets
from sim.targets import EVERY, TARGETS

HEAD = "# target\tcompiler\tbytes\tstack\n"
OLD = "# target\tbytes\tstack\nchip\t100\t4\n"  # before there was a column for the compiler


def commit(folder: Path, text: str) -> Path:
    """Commits another version of the table to the folder's history."""
    file = folder / "bench" / "budgets.tsv"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    for words in (["init", "-q"], ["add", "."],
                  ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return file


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with a history: 100 bytes, then 90, then what a test commits."""
    commit(tmp_path, OLD)
    place = commit(tmp_path, HEAD + "chip\tgcc 5\t90\t4\nchip\tclang 1\t120\t4\n")
    monkeypatch.setattr(budgets, "FILE", place)
    return place


def test_budgets_are_of_a_target_and_a_compiler(file: Path) -> None:
    assert budgets.load(file) == {"chip, gcc 5": {"bytes": 90, "stack": 4},
                                  "chip, clang 1": {"bytes": 120, "stack": 4}}
    assert budgets.raised(file) == []
    measured = {"chip, gcc 5": {"bytes": 90}, "chip, clang 1": {"bytes": 121}}
    assert budgets.over(measured, ("bytes",),
                        file) == ["chip, clang 1: bytes 121, over its budget of 120"]


@pytest.mark.parametrize(("rows", "fault"), [
    ("chip\tgcc 5\t91\t4\nchip\tclang 1\t120\t4\n", "chip, gcc 5: the budget for bytes was 90"),
    ("chip\tgcc 5\t90\t4\nchip\tclang 1\t-\t4\n", "chip, clang 1: the budget for bytes was 120"),
    ("chip\tgcc 5\t90\t4\n", "chip, clang 1: the budget for bytes was 120"),
    ("chip\tgcc 5\t91\t4\nchip\tclang 1\t120\t4\nraised\tchip, gcc 5\tbytes\t90\t92\twhy\n",
     "says from 90 to 92"),
    ("chip\tgcc 5\t91\t4\nchip\tclang 1\t120\t4\nraised\tchip, gcc 5\tbytes\t91\t91\twhy\n",
     "says from 91 to 91"),
    ("chip\tgcc 5\t89\t4\nchip\tclang 1\t120\t4\nraised\tchip, gcc 5\tbytes\t90\t89\twhy\n",
     "reason in .* can go"),
    ("chip\tgcc 5\t90\t4\nchip\tclang 1\t120\t4\nraised\tchip, gcc 6\tbytes\t90\t91\twhy\n",
     "never had a budget")])
def test_a_budget_that_goes_up_needs_a_reason(file: Path, rows: str, fault: str) -> None:
    file.write_text(HEAD + rows)
    with pytest.raises(SystemExit, match=fault):
        budgets.enforce({}, (), file)


def test_a_budget_goes_up_with_a_reason(file: Path) -> None:
    file.write_text(HEAD + "chip\tgcc 5\t91\t4\n"
                    "raised\tchip, gcc 5\tbytes\t90\t91\ta byte was wrong\n"
                    "raised\tchip, clang 1\tbytes\t120\t-\tnobody has it\n"
                    "raised\tchip, clang 1\tstack\t4\t-\tthe same\n")
    budgets.enforce({}, (), file)
    assert budgets.parse_reasons(file.read_text())["chip, gcc 5",
                                                   "bytes"] == (90, "91", "a byte was wrong")


@pytest.mark.parametrize("line", ["raised\tchip, gcc 5\tbytes\t90\t91",
                                  "raised\tchip, gcc 5\tbytes\t90\t91\t ",
                                  "raised\tchip, gcc 5\tbytes\tx\t91\twhy"])
def test_a_reason_is_whole(line: str) -> None:
    with pytest.raises(SystemExit, match="needs a name, a column, from, to and why"):
        budgets.parse_reasons(HEAD + line + "\n")


def test_each_target_has_budgets_of_the_compiler_that_is_here() -> None:
    assert list(budgets.load()) == [target.key for target in EVERY.values()]
    assert {target.by for target in EVERY.values()} == {"gcc 5.4", "gcc 7.3", "gcc 14.2",
                                                        "gcc 12.2", "clang 14.0"}
    for target in EVERY.values():
        assert target.version().startswith(f"{target.by}."), target.key
    assert set(TARGETS) == {name for name, target in EVERY.items() if name == target.name}
