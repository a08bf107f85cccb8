"""Each fault of the harness once, with the fleet that users start."""

import argparse

import pytest

from dumpulse_fleet.tests.harness import run


@pytest.mark.slow
@pytest.mark.parametrize("fault, pair", [
    *((fault, False) for fault in run.FAULTS), *((fault, True) for fault in ("kill", "hang"))])
def test_people_are_told_once_and_in_time_and_nothing_that_is_false(fault: str, pair: bool) -> None:
    text, result = run.outside(argparse.Namespace(agents=100, speed=10.0, pair=pair), fault, 2)
    if "void" in result["found"]:
        pytest.skip(text)
    assert not result["found"], text
