"""Are the budgets kept, and does one go up only with a reason?   SPDX-License-Identifier: MIT"""

import dataclasses
import subprocess
from pathlib import Path

import pytest

from bench import budgets, keyed, pages
from bench.processors import targets
from bench.processors.targets import EVERY, TARGETS, Target, strangers
from tests.support.programs import ROOT

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
    table = commit(tmp_path, HEAD + "chip\tgcc 5\t90\t4\nchip\tclang 1\t120\t4\n")
    monkeypatch.setattr(budgets, "FILE", table)
    return table


def test_budgets_are_of_a_target_and_a_compiler(file: Path) -> None:
    assert budgets.load(file) == {"chip, gcc 5": {"bytes": 90, "stack": 4},
                                  "chip, clang 1": {"bytes": 120, "stack": 4}}
    assert budgets.raised(file) == []
    measured = {"chip, gcc 5": {"bytes": 90}, "chip, clang 1": {"bytes": 121}}
    assert budgets.over(measured, ("bytes",),
                        file) == ["chip, clang 1: bytes 121, over its budget of 120"]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "fault"), [
    ("chip\tgcc 5\t91\t4\nchip\tclang 1\t120\t4\n", "chip, gcc 5: the budget for bytes was 90"),
    ("chip\tgcc 5\t90\t4\nchip\tclang 1\t-\t4\n", "chip, clang 1: the budget for bytes was 120"),
    ("chip\tgcc 5\t90\t4\n", "chip, clang 1: the budget for bytes was 120"),
    ("chip\tgcc 5\t91\t4\nchip\tclang 1\t120\t4\nraised\tchip, gcc 5\tbytes\t90\t92\twhy\n",
     "says from 90 to 92"),
    ("chip\tgcc 5\t89\t4\nchip\tclang 1\t120\t4\nraised\tchip, gcc 5\tbytes\t90\t89\twhy\n",
     "reason in .* can go"),
    ("chip\tgcc 5\t90\t4\nchip\tclang 1\t120\t4\nraised\tchip, gcc 6\tbytes\t90\t91\twhy\n",
     "that no budget needs"),
    ("chip\tgcc 5\t93\t4\nchip\tclang 1\t120\t4\nraised\t*\tbytes\t2\t-\twhy\n",
     "chip, gcc 5: the budget for bytes was 90"),
    ("chip\tgcc 5\t90\t4\nchip\tclang 1\t120\t4\nraised\t*\tbytes\t2\t-\twhy\n",
     "that no budget needs")])
def test_a_budget_that_goes_up_needs_a_reason(file: Path, rows: str, fault: str) -> None:
    file.write_text(HEAD + rows)
    with pytest.raises(SystemExit, match=fault):
        budgets.enforce({}, (), file)


@pytest.mark.slow
def test_a_budget_goes_up_with_a_reason(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(HEAD + "chip\tgcc 5\t91\t4\n"
                    "raised\tchip, gcc 5\tbytes\t90\t91\ta byte was wrong\n"
                    "raised\tchip, clang 1\tbytes, stack\t120, 4\t-, -\tnobody has it\n")
    budgets.enforce(budgets.load(file), ("bytes", "stack"), file)
    assert capsys.readouterr().out == (
        "raised: chip, gcc 5: bytes from 90 to 91: a byte was wrong\n"
        "raised: chip, clang 1: bytes from 120 to -, stack from 4 to -: nobody has it\n")
    file.write_text(HEAD + "chip\tgcc 5\t92\t4\nchip\tclang 1\t121\t4\n"
                    "raised\t*\tbytes\t2\t-\ttwo bytes at most, everywhere\n")
    budgets.enforce({}, (), file)
    file.write_text(HEAD + "chip\tgcc 5\t91\t4\n"
                    "raised\tchip, gcc 5\tbytes\t90\t91\ta byte was wrong\n")
    assert budgets.parse_reasons(file.read_text())["chip, gcc 5",
                                                   "bytes"] == (90, "91", "a byte was wrong")


@pytest.mark.parametrize("rest", ["bytes\t90\t91", "bytes\t90\t91\t ", "bytes, stack\t90\t91\twhy",
                                  "bytes\tx\t91\twhy"])
def test_a_reason_is_whole(rest: str) -> None:
    with pytest.raises(SystemExit, match="needs a name, a column, from, to and why"):
        budgets.parse_reasons(f"{HEAD}raised\tchip, gcc 5\t{rest}\n")


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Says what system this is: Debian 13, or what a test writes."""
    os_release = tmp_path / "os-release"
    os_release.write_text(DEBIAN_13)
    monkeypatch.setattr(targets, "OS_RELEASE", os_release)
    return os_release


DEBIAN_12, DEBIAN_13 = ('PRETTY_NAME="a name"\nVERSION_ID="%d"\nID=debian\n' % number
                        for number in (12, 13))
OWN = dataclasses.replace(TARGETS["amd64"], by=TARGETS["amd64"].by_here)
MADE_BY = {"chip, gcc 5": dataclasses.replace(OWN, by="gcc 1.0"), "chip, clang 1": OWN}
WHY = f"the figures are of gcc 1.0, and this is {OWN.version()}"


def test_figures_of_another_compiler_are_said_not_to_be_compared(
        file: Path, release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = {"chip, gcc 5": {"bytes": 91}, "chip, clang 1": {"bytes": 120}}
    budgets.enforce(measured, ("bytes",), file, MADE_BY)
    assert capsys.readouterr().out == f"not compared, as {WHY}: chip, gcc 5\n"
    with pytest.raises(SystemExit, match=r"^chip, clang 1: bytes 121, over its budget of 120$"):
        budgets.enforce(measured | {"chip, clang 1": {"bytes": 121}}, ("bytes",), file, MADE_BY)
    release.unlink()  # the same if nothing says what system it is
    assert strangers(MADE_BY) == {"chip, gcc 5": WHY}


def test_in_debian_12_another_compiler_is_a_mistake(file: Path, release: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    release.write_text(DEBIAN_12)
    with pytest.raises(SystemExit, match=f"^chip, gcc 5: {WHY}, in Debian 12$"):
        budgets.enforce({}, ("bytes",), file, MADE_BY)
    monkeypatch.setattr(Target, "version", lambda _: "gcc 99.0.1")
    monkeypatch.setattr(pages, "output", lambda _: pytest.fail("measured nevertheless"))
    monkeypatch.setattr("sys.argv", ["pages", "--check"])
    with pytest.raises(SystemExit, match="ATmega328P, gcc 5.4: the figures are of gcc 5.4, and "
                                         "this is gcc 99.0.1, in Debian 12"):
        pages.main()


def test_pages_of_another_compiler(release: Path, monkeypatch: pytest.MonkeyPatch,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    """What the compilers make is printed, the rest compared, and nothing written."""
    printed = {match["target"]: match[0].split("\n", 2)[2].removesuffix("```")
               for name in pages.PAGES for match in pages.BLOCK.finditer((ROOT / name).read_text())}
    printed |= dict.fromkeys(pages.COMPILED, "another figure\n")
    monkeypatch.setattr(pages, "output", lambda target: printed[target])
    monkeypatch.setattr(Target, "version", lambda _: "gcc 99.0.1")
    monkeypatch.setattr("sys.argv", ["pages", "--check"])
    pages.main()
    said = capsys.readouterr().out
    assert said.count("\nanother figure\n") == len(pages.COMPILED)
    assert said.endswith(f" passed, 0 failed, {len(pages.COMPILED)} not compared\n")
    printed["accepted"] = "another number\n"
    with pytest.raises(SystemExit, match=r"\+another number"):
        pages.main()
    monkeypatch.setattr("sys.argv", ["pages"])
    with pytest.raises(SystemExit, match="^pages: only with Debian 12's compilers"):
        pages.main()


@pytest.mark.slow
def test_each_target_has_budgets_of_the_compiler_that_is_here() -> None:
    assert list(budgets.load()) == [target.key for target in EVERY.values()]
    assert {target.by for target in EVERY.values()} == {"gcc 5.4", "gcc 7.3", "gcc 14.2",
                                                        "gcc 12.2", "clang 14.0"}
    here = {target.key for target in EVERY.values()
            if not target.version().startswith(f"{target.by}.")}
    assert set(strangers()) == here  # in Debian 12 there are none, or this has failed
    assert set(TARGETS) == {name for name, target in EVERY.items() if name == target.name}


def test_what_keys_must_cost_at_most() -> None:
    """The table `keyed` keeps each must, and a figure that does not is found by its name."""
    measured = budgets.load(keyed.FILE)
    version_1 = {target: most["bytes"] for target, most in budgets.load().items()}
    lines, faults = keyed.musts(measured, version_1)
    assert faults == [] and len(lines) == 2 + len(keyed.MUSTS)
    for what, target, columns, most in keyed.MUSTS:
        for column in columns:
            column, *others = column.split("+")
            above = most + 1 + (version_1[target] if columns == ("agent",) else 0) - \
                sum(measured[target][other] for other in others)
            worse = {**measured, target: {**measured[target], column: above}}
            assert f"{what}, {target}: {most + 1} must be at most {most}" in \
                keyed.musts(worse, version_1)[1]
