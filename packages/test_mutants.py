"""Do the tests of the packages notice mistakes? Each line of mutants.tsv has one.

A test must pass in a copy of the sources, and fail there with each of its mistakes: its columns are
the test, the file, what to replace in it, and by what: - is nothing. SPDX-License-Identifier: MIT
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from packages import project, release
from packages.cmake import consumers

MUTANTS: dict[str, list[list[str]]] = {}
for line in Path(__file__).with_name("mutants.tsv").read_text().splitlines():
    test, *mutant = line.split("\t")
    MUTANTS.setdefault(test, []).append(mutant)


@pytest.fixture(scope="module", name="tree")
def fixture_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = consumers.copy(tmp_path_factory.mktemp("mutants") / "dumpulse")
    (tree / "build").mkdir()
    for name in release.FETCHED:
        if (release.BUILD / name).is_dir():
            (tree / "build" / name).symlink_to((release.BUILD / name).resolve())
    return tree


def passes(tree: Path, test: str) -> bool:
    # -B: a module that was compiled in the second in which it changed would be used again.
    done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p",
                           "no:cacheprovider", "-p", "tests.support.tiers", f"packages/{test}"],
                          cwd=tree, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode in (0, 1), done.stdout
    return done.returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("test", MUTANTS)
def test_mistakes_are_noticed(tree: Path, test: str) -> None:
    assert passes(tree, test), "it fails without a mistake"
    survivors = []
    for file, old, new in MUTANTS[test]:
        path = tree / file
        text = path.read_text()
        assert old in text, f"{file} has no {old}"
        path.write_text(text.replace(old, new if new != "-" else ""))
        if passes(tree, test):
            survivors.append((file, old, new))
        path.write_text(text)
    assert not survivors, survivors


def test_each_mistake_can_be_made() -> None:
    for mutants in MUTANTS.values():
        for file, old, new in mutants:
            assert old != new and old in (project.ROOT / file).read_text(), (file, old)
