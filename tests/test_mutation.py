"""Are the verdicts of tests/mutants.py true, and are its lists up to date?"""

import sys
from pathlib import Path

import pytest

from tests import mutants, mutation
from tests.mutation import KILLED, LATE, STILLBORN, SURVIVED, Limits, Mutant, Stillborn, Verdict

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
TOY_MUTANTS = {  # the line, the changed line, and the verdict that each must get
    ("int left = 3, steps = 0;", "int left = 3, steps = 1;"): KILLED,
    ("volatile int spare = 7;", "volatile int spare = 6;"): SURVIVED,
    ("left -= 1;", ";"): LATE,
}


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    monkeypatch.setattr(mutation, "PROCESSOR_FLOOR", 1)
    monkeypatch.setattr(mutation, "WALL_FLOOR", 20)
    return Limits({"toy": (0.01, 0.01)})


def toy_verdict(limits: Limits, text: str, folder: Path) -> Verdict:
    (folder / "toy.c").write_text(text)
    try:
        mutation.compiled(["gcc", "-O0", "-w", "toy.c", "-o", "toy"], 60, folder)
    except Stillborn:
        return STILLBORN, "gcc"
    return mutation.run_step("toy", ["./toy"], limits, folder), "toy"


@pytest.mark.slow
def test_a_campaign(limits: Limits, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A survivor that is not explained, one that is noticed, and a row of no mutant are faults."""
    every = mutation.c_mutants("toy.c", TOY)
    chosen = [mutant for mutant in every if (mutant.before, mutant.after) in TOY_MUTANTS]
    assert len(chosen) == len(TOY_MUTANTS)

    def verdict(mutant: Mutant, folder: Path, patient: bool) -> Verdict:
        return toy_verdict(limits, mutant.text, folder)

    killed, survivor = ("toy.c", *list(TOY_MUTANTS)[0]), ("toy.c", *list(TOY_MUTANTS)[1])
    assert mutation.campaign("toy", every, chosen, {survivor: "spare"}, [tmp_path], verdict) == []
    assert "of 3 mutants 1 killed and 1 timed out (toy 2); 1 survived" in capsys.readouterr().out
    assert mutation.campaign("toy", every, chosen, {killed: "x", ("toy.c", "a", "b"): "y"},
                             [tmp_path], verdict, 0.9) == [
        "toy: 1 survivors above are not explained",
        f"a listed survivor is noticed now: {' | '.join(killed)}",
        "a listed survivor does not survive any more: toy.c | a | b",
        "toy: 66.7% noticed, where 90% should be"]
    assert toy_verdict(limits, TOY.replace("steps += 1", "step += 1"), tmp_path)[0] == STILLBORN


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
