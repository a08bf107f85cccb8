"""Are the verdicts of tests/mutants.py counted, and are its lists up to date?"""

from pathlib import Path

import pytest

from tests import mutants, mutation
from tests.mutation import KILLED, LATE, SURVIVED


def test_a_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A survivor that is not explained, one that is noticed, and a row of no mutant are faults."""
    every = mutation.c_mutants("toy.c", "int f(int a)\n{\n    a -= 1;\n    return a == 3;\n}\n")
    killed, late, survivor = chosen = every[:3]
    verdicts = {killed.key: KILLED, late.key: LATE, survivor.key: SURVIVED}

    def faults(reasons: dict[tuple[str, str, str], str], least: float,
               is_strict: bool = True) -> list[str]:
        return mutation.campaign("toy", every, chosen, reasons, [tmp_path], lambda mutant, *_: (
            verdicts[mutant.key], "toy"), least, is_strict)

    assert faults({survivor.key: "why"}, 0.5) == []
    assert "of 3 mutants 1 killed and 1 timed out (toy 2); 1 survived" in capsys.readouterr().out
    assert faults({killed.key: "x", ("toy.c", "a", "b"): "y"}, 0.9) == [
        "toy: 1 survivors above are not explained",
        f"a listed survivor is noticed now: {' | '.join(killed.key)}",
        "a listed survivor does not survive any more: toy.c | a | b",
        "toy: 66.7% noticed, where 90% should be"]
    assert faults({}, 0.5, is_strict=False) == []
    assert faults({}, 0.9, is_strict=False) == ["toy: 66.7% noticed, where 90% should be"]


def test_no_row_of_the_survivors_and_the_sample_is_stale() -> None:
    """Who changes a line must learn that from `make test`, not after an hour of mutants."""
    keys = {mutant.key for subject in mutants.SUBJECTS.values() for mutant in subject().mutants()}
    rows = {**mutation.rows(mutants.SURVIVORS), **mutation.rows(mutants.SAMPLE)}
    assert not [key for key in rows if key not in keys]
