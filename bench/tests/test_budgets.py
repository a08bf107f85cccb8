"""Are the budgets kept?"""

import dataclasses
from pathlib import Path

import pytest

from bench import pages
from tools.processors import budgets, targets
from tools.processors.targets import EVERY, TARGETS, Target, strangers

HEAD = "# target\tcompiler\tbytes\tstack\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    table = tmp_path / "budgets.tsv"
    table.write_text(HEAD + "chip\tgcc 5\t90\t4\nchip\tclang 1\t120\t4\n")
    return table


@pytest.mark.parametrize(("measured", "faults"), [
    ({"chip, gcc 5": {"bytes": 90}, "chip, clang 1": {"bytes": 120}}, []),
    ({"chip, gcc 5": {"bytes": 89}, "chip, clang 1": {"bytes": 121}},
     ["chip, gcc 5: bytes 89 is not its budget of 90",
      "chip, clang 1: bytes 121 is not its budget of 120"]),
    ({"chip, gcc 5": {"bytes": 90}}, ["chip, clang 1: bytes has a budget, and was not measured"]),
    ({"chip, gcc 5": {"bytes": 90}, "chip, clang 1": {"bytes": 120}, "chip, gcc 6": {"bytes": 9}},
     ["chip, gcc 6: bytes 9 has no budget in budgets.tsv"])])
def test_a_budget_is_exact(file: Path, measured: budgets.Budgets, faults: list[str]) -> None:
    assert budgets.differing(measured, ("bytes",), file) == faults


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
    with pytest.raises(SystemExit, match=r"^chip, clang 1: bytes 121 is not its budget of 120$"):
        budgets.enforce(measured | {"chip, clang 1": {"bytes": 121}}, ("bytes",), file, MADE_BY)
    release.unlink()  # An unknown system is treated like Debian 13.
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


@pytest.mark.slow
def test_each_target_has_budgets_of_the_compiler_that_is_here() -> None:
    assert list(budgets.load()) == [target.key for target in EVERY.values()]
    assert {target.by for target in EVERY.values()} == {"gcc 5.4", "gcc 7.3", "gcc 12.2",
                                                        "clang 14.0"}
    here = {target.key for target in EVERY.values()
            if not target.version().startswith(f"{target.by}.")}
    assert set(strangers()) == here  # Debian 12 has none: there this line fails.
    assert set(TARGETS) == {name for name, target in EVERY.items() if name == target.name}
