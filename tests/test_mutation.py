"""Does tests/mutants.py break programs as it says, and are its results true?
SPDX-License-Identifier: MIT"""

import sys
from pathlib import Path

import pytest

from tests import mutants, mutation
from tests.mutation import KILLED, LATE, STILLBORN, SURVIVED, Limits, Mutant, Stillborn, Verdict
from tests.support.programs import wait_until

C_SOURCE = """\
/* a + b is a comment, and so is: if (a) x = 1; */
static int sum(const int *from, int count) /* - */
{
    int total = 0;

    for (int i = 0; i < count; i++)
        total += from[i];
    if (count == 300 && total)
        total = FLAG | "a + b"[0];
    (void)puts("x = 1;");
    return total;
}
"""
C_CHANGES = {
    "int total = 0;": {"int total = 1;"},
    "for (int i = 0; i < count; i++)": {
        "for (int i = 1; i < count; i++)", "for (int i = 0; i <= count; i++)",
        "for (int i = 0; i > count; i++)", "for (int i = 0; i < count; i--)"},
    "total += from[i];": {"total -= from[i];", "total = from[i];", ";"},
    "if (count == 300 && total)": {
        "if (count != 300 && total)", "if (count == 600 && total)", "if (count == 300 || total)",
        "if (!(count == 300 && total))"},
    'total = FLAG | "a + b"[0];': {
        'total = FLAG & "a + b"[0];', 'total = "a + b"[0];', 'total = FLAG | "a + b"[1];', ";"},
    '(void)puts("x = 1;");': {";"},
}
PYTHON_SOURCE = '''\
"""A + B is a text."""
def most(*values: int | None, least: int = 1) -> int:
    # a + b
    found = -least * 2
    for value in values:
        if value is None or value in (4, 5):
            continue
        found = max(found, value, key=abs)
    return found if not values else found + 300
'''
PYTHON_CHANGES = {
    "def most(*values: int | None, least: int = 1) -> int:": {
        "def most(*values: int | None, least: int = 0) -> int:"},
    "found = -least * 2": {"found = -least + 2", "found = -least * 3"},
    "if value is None or value in (4, 5):": {
        "if value is None and value in (4, 5):", "if not (value is None or value in (4, 5)):",
        "if value is None or value in (5, 5):", "if value is None or value in (4, 4):"},
    "continue": {"pass"},
    "found = max(found, value, key=abs)": {"found = max(found, value)"},
    "return found if not values else found + 300": {
        "return found if values else found + 300",
        "return found if not (not values) else found + 300",
        "return found if not values else found - 300",
        "return found if not values else found + 600"},
}


def changes_of(mutants: list[Mutant]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for mutant in mutants:
        found.setdefault(mutant.before, set()).add(mutant.after)
    return found


def test_the_changes_of_c() -> None:
    mutants = mutation.c_mutants("toy.c", C_SOURCE)
    assert changes_of(mutants) == C_CHANGES
    for mutant in mutants:  # its line is right, and all other lines are unchanged
        lines, before = mutant.text.split("\n"), C_SOURCE.split("\n")
        assert lines[mutant.line - 1].strip() == mutant.after and len(lines) == len(before)
        assert [line for number, line in enumerate(lines, 1) if number != mutant.line] == \
            [line for number, line in enumerate(before, 1) if number != mutant.line]
    assert changes_of(mutation.c_mutants("toy.c", C_SOURCE,
                                         C_SOURCE.index("    if"))) == dict(
                                             list(C_CHANGES.items())[3:])
    thorough = changes_of(mutation.c_mutants("toy.c", C_SOURCE,
                                             thorough=True))["if (count == 300 && total)"]
    assert {"if (count == 299 && total)", "if (count == 301 && total)"} < thorough


def test_the_changes_of_python() -> None:
    mutants = mutation.python_mutants("toy.py", PYTHON_SOURCE)
    assert changes_of(mutants) == PYTHON_CHANGES
    for mutant in mutants:
        compile(mutant.text, mutant.file, "exec")


def test_the_places_of_python_are_those_of_characters() -> None:
    (mutant,) = mutation.python_mutants("toy.py", 'print("é", "ü", end="")\n')[1:]
    assert mutant.after == 'print("é", "ü")'


# ---- Verdicts -----------------------------------------------------------------------------

TOY = """\
#include <unistd.h>
int main(void)
{
    volatile int spare = 7;
    int left = 3, steps = 0;
    while (left > 0) {
        left -= 1;
        steps += 1;
    }
    return steps == 3 ? 0 : spare;
}
"""
TOY_MUTANTS = {  # mutants, and the verdict that each must get
    KILLED: ("left = 3,", "left = 4,"),
    SURVIVED: ("spare = 7", "spare = 8"),
    LATE: ("left -= 1;", ";"),
    STILLBORN: ("steps += 1;", "step += 1;"),
}


def toy(change: tuple[str, str]) -> Mutant:
    assert TOY.count(change[0]) == 1
    line = TOY[:TOY.index(change[0])].count("\n")
    text = TOY.replace(*change)
    return Mutant("toy.c", line + 1, TOY.split("\n")[line].strip(), text.split("\n")[line].strip(),
                  text)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    monkeypatch.setattr(mutation, "PROCESSOR_FLOOR", 1)
    monkeypatch.setattr(mutation, "WALL_FLOOR", 20)
    return Limits({"toy": (0.01, 0.01)})


def toy_verdict(limits: Limits, mutant: Mutant, folder: Path) -> Verdict:
    (folder / "toy.c").write_text(mutant.text)
    try:
        mutation.compiled(["gcc", "-O0", "-w", "toy.c", "-o", "toy"], 60, folder)
    except Stillborn:
        return STILLBORN, "gcc"
    return mutation.run_step("toy", ["./toy"], limits, folder), "toy"


@pytest.mark.slow
@pytest.mark.parametrize("verdict", mutation.VERDICTS)
def test_verdicts(limits: Limits, tmp_path: Path, verdict: str) -> None:
    assert toy_verdict(limits, toy(TOY_MUTANTS[verdict]), tmp_path)[0] == verdict


def test_one_that_waits_for_ever_is_late_and_leaves_nobody_behind(
        limits: Limits, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mutation, "WALL_FLOOR", 1)
    script = f"sleep 1000 & echo $! >{tmp_path}/child; wait"
    assert mutation.run_step("toy", ["bash", "-c", script], limits, tmp_path) == LATE
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")

    def is_dead() -> bool:
        try:
            return child.read_text().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(is_dead, "the child is killed")


def test_a_step_that_cannot_be_run_is_no_verdict(limits: Limits, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="status 3"):
        mutation.run_step("toy", ["bash", "-c", "exit 3"], limits, tmp_path, no_verdict=[3])
    assert mutation.run_step("toy", ["bash", "-c", "exit 1"], limits, tmp_path,
                             no_verdict=[3]) == KILLED
    assert mutation.run_step("toy", ["bash", "-c", "kill $$"], limits, tmp_path,
                             no_verdict=[3]) == KILLED


def test_a_compiler_that_is_slow_or_ill_is_no_stillbirth(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not compiled in 0 s"):
        mutation.compiled(["sleep", "1000"], 0.2, tmp_path)
    with pytest.raises(SystemExit, match="the compiler failed"):
        mutation.compiled(["bash", "-c", "echo 'no space left' >&2; exit 1"], 60, tmp_path)


def campaign(limits: Limits, folder: Path, verdicts: list[str],
             known: dict[tuple[str, str, str], str],
             least: float = 0.0) -> list[str]:
    mutants = [toy(TOY_MUTANTS[verdict]) for verdict in verdicts]
    return mutation.campaign("toy", mutants, mutants, known, [folder],
                             lambda mutant, folder, patient: toy_verdict(limits, mutant, folder),
                             least)


@pytest.mark.slow
def test_what_a_campaign_says(limits: Limits, tmp_path: Path,
                              capsys: pytest.CaptureFixture[str]) -> None:
    survivor, killed = (toy(TOY_MUTANTS[verdict]) for verdict in (SURVIVED, KILLED))
    assert campaign(limits, tmp_path, list(mutation.VERDICTS), {survivor.key: "it is spare"}) == []
    assert ("toy: of 3 mutants 1 killed and 1 timed out (toy 2); 1 survived, of "
            "which 1 are explained: "
            "66.7% noticed; 1 did not compile") in capsys.readouterr().out
    assert campaign(limits, tmp_path, [SURVIVED],
                    {}) == ["toy: 1 survivors above are not explained"]
    assert "toy.c:4: no test notices\n    volatile int spare = 7;\n    volatile int spare = 8;" in \
        capsys.readouterr().err
    assert campaign(limits, tmp_path, [KILLED], {killed.key: "a mistake"}) == [
        "a listed survivor is noticed now: toy.c | int left = 3, steps = 0; | int left "
        "= 4, steps = 0;"]
    assert campaign(limits, tmp_path, [KILLED], {("toy.c", "gone;", ";"): "it was there once"}) == [
        "a listed survivor does not survive any more: toy.c | gone; | ;"]
    assert campaign(limits, tmp_path, [KILLED, SURVIVED], {survivor.key: "it is spare"}, 0.9) == [
        "toy: 50.0% noticed, where 90% should be"]


def test_what_contradicts_the_list_is_tested_again_with_patience(tmp_path: Path) -> None:
    mutant = toy(TOY_MUTANTS[SURVIVED])
    asked: list[bool] = []

    def verdict(mutant: Mutant, folder: Path, patient: bool) -> Verdict:
        asked.append(patient)
        return (SURVIVED if patient else KILLED), "toy"

    assert mutation.campaign("toy", [mutant], [mutant], {mutant.key: "why"}, [tmp_path],
                             verdict) == []
    assert asked == [False, True]


def test_samples() -> None:
    """The same seed chooses the same mutants, another seed chooses others. A new line elsewhere in
    the source does not change the choice."""
    every = mutation.c_mutants("toy.c", C_SOURCE)
    chosen = mutation.sample(every, 1, 6)
    assert len(chosen) == 6 and chosen == mutation.sample(every, 1,
                                                          6) != mutation.sample(every, 2, 6)
    assert mutation.sample(every, 1, None) == mutation.sample(every, 1, 1000) == every
    longer = mutation.c_mutants("toy.c", C_SOURCE.replace("    int total",
                                                          "    more();\n    int total"))
    assert len(longer) == len(every) + 1
    kept = {mutant.key for mutant in mutation.sample(longer, 1, 6)} & {mutant.key
                                                                       for mutant in chosen}
    assert len(kept) >= 5


# ---- Lists --------------------------------------------------------------------------------

@pytest.mark.slow
def test_a_sample_names_mutants_that_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    """Each row needs a mutant. A line that has changed is an error, and not one mutant less."""
    for subject in ("server", "client"):
        monkeypatch.setattr(sys, "argv", ["mutants", subject, "--sample", "--list"])
        mutants.main()
    assert len(capsys.readouterr().out.splitlines()) >= len(mutation.rows(mutants.SAMPLE))
    file = tmp_path / "sample.tsv"
    file.write_text("client.py\tPORT = 9060\tPORT = 9061\ttests/test_client.py\n")
    monkeypatch.setattr(mutants, "SAMPLE", file)
    with pytest.raises(SystemExit, match="no mutant is this; choose another: client.py | PORT = "
                       "9060 | PORT = 9061"):
        mutants.main()


def test_no_row_of_the_survivors_is_stale() -> None:
    """Who changes a line must learn that from `make test`, not after an hour of mutants."""
    keys = {mutant.key for subject in mutants.SUBJECTS.values() for mutant in subject().mutants()}
    assert not [key for key in mutation.rows(mutants.SURVIVORS) if key not in keys]
