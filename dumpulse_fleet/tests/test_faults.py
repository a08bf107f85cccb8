"""Each fault of the harness once, with the fleet that users start; and the bounds of the manual."""

import argparse
import re

import pytest

from dumpulse_fleet.tests.harness import run
from tools.programs import ROOT

PAIRS = ("kill", "hang")


@pytest.mark.slow
@pytest.mark.parametrize("fault, pair", [
    *((fault, False) for fault in run.FAULTS), *((fault, True) for fault in PAIRS)])
def test_people_are_told_once_and_in_time_and_nothing_that_is_false(fault: str, pair: bool) -> None:
    text, found = run.outside(argparse.Namespace(agents=100, speed=10.0, pair=pair), fault, 2)
    if found["void"]:
        pytest.skip(text)
    assert not found, text


def test_the_manual_quotes_the_bounds() -> None:
    """Those of a run, with the default of `wait`."""
    page = (ROOT / "dumpulse_fleet" / "README.md").read_text()
    (rounds, told), = re.findall(
        r"most `misses` \+ (\d+)\s+periods\s[^-]* most (\d+) s later", page)
    assert run.NOTICED == (run.MISSES + int(rounds)) * run.PERIOD
    assert run.DUE - run.NOTICED + run.LATE == int(told) + 3 * (run.WAIT - 30)
