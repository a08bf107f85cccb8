"""The storm finds what is wrong, and tells it the same way each time.
SPDX-License-Identifier: MIT"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.storm import planted
from tests.support.programs import ROOT, built

STORIES = ("--from", "1", "--count", "12")
README = ROOT / "tests" / "storm" / "README.md"


def tell(program: str | Path, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True).stdout


def trace(output: str) -> str:
    (found,) = re.findall(r"trace ([0-9a-f]{16})$", output, re.M)
    return str(found)


def test_all_mistakes_can_be_planted() -> None:
    table = planted.read_table()
    assert len({planted.plant(mistake) for mistake in table}) == len(table) >= 30


@pytest.mark.slow
def test_two_compilers_tell_the_same_stories(tmp_path: Path) -> None:
    other = tmp_path / "storm"
    subprocess.run(["clang", "-O0", *planted.FLAGS, "-w", *planted.sources(), *planted.wraps(),
                    "-o", other], cwd=ROOT, check=True)
    assert trace(tell(built("build/storm"), *STORIES)) == trace(tell(other, *STORIES))


@pytest.mark.slow
def test_a_mistake_is_told_as_the_smallest_story(tmp_path: Path) -> None:
    """It ends with the fault that shows the mistake, and can be told again."""
    (mistake,) = [one for one in planted.read_table() if "an announce is taken" in one.what]
    program = planted.build(mistake, tmp_path)
    output = tell(program, "--from", "1", "--count", "100")
    story = re.search(r"smallest story in which it is not:\n((?: +\d+:\d\d  .*\n)+)", output)
    assert story is not None and "the power of its machine fails" in story[1]
    again = re.search(r"make storm SEED=(\d+) LEFT_OUT=([0-9a-f]+)\)", output)
    assert again is not None
    told = tell(program, "--seed", again[1], "--left-out", again[2])
    (wrong,) = re.findall(r"WRONG: (.*)", told)
    assert f"seed {again[1]}: {wrong}\n" in output


@pytest.mark.slow
def test_the_page_has_the_bounds() -> None:
    bounds = tell(built("build/storm"), "--bounds").splitlines()
    table = re.findall(r"^\| (\d+) \| (.*) \|$", README.read_text(), re.M)
    assert [f"{ms:>6} ms  {what}" for ms, what in table] == bounds
