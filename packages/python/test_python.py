"""The package for Python, as users have it."""

import email
import functools
import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from packages import project
from packages.fleet import make as fleet
from packages.python import make


def run(*command: str | Path, fails: bool = False) -> str:
    """Runs a command far from the tree. Returns what it prints."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    ended = subprocess.run(command, cwd="/", env=kept, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    assert (ended.returncode != 0) == fails, ended.stdout
    return ended.stdout


PACKAGES = {"client": make, "fleet": fleet}


# ---------------------------------------------------------------- with the tools of PyPI


@functools.cache
def pythons() -> dict[tuple[int, int], Path]:
    """The Pythons at hand that the package is for, by version."""
    places = [*Path.home().glob(".pyenv/versions/*/bin"),
              *map(Path, os.environ["PATH"].split(os.pathsep)), Path("/usr/bin")]
    found: dict[tuple[int, int], Path] = {}
    for place in places:
        for python in [place / "python3", *place.glob("python3.?"), *place.glob("python3.??")]:
            asked = python.exists() and subprocess.run(
                [python, "-c", "import sys, ensurepip; print(*sys.version_info[:2])"], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if asked and asked.returncode == 0:
                major, minor = map(int, asked.stdout.split())
                found.setdefault((major, minor), python)
    return {version: found[version] for version in sorted(found) if version >= (3, 9)}


def environment(python: Path, folder: Path) -> Path:
    """A clean environment. Returns its Python."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def checks(tree: Path, *files: Path) -> email.message.Message:
    """Runs the checkers of PyPI, and looks whether the wheel has all of the tree. Returns its
    fields."""
    run(make.TOOLS / "twine", "check", "--strict", *files)
    (wheel,) = (file for file in files if file.suffix == ".whl")
    run(make.TOOLS / "check-wheel-contents", wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = {re.sub(r".*\.data/data/", "", name) for name in archive.namelist()}
        (fields,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(fields))
    wanted = {str(path.relative_to(tree)) for path in tree.glob("*/**/*") if path.is_file()}
    assert wanted == {name for name in names if ".dist-info/" not in name}
    return told


@pytest.mark.long
@pytest.mark.parametrize("which", PACKAGES)
def test_checkers_find_nothing(tmp_path: Path, which: str) -> None:
    """And the source distribution makes the same wheel."""
    maker = PACKAGES[which]
    for folder in ("made", "again"):
        (tmp_path / folder).mkdir()
    sdist, wheel = sorted(maker.build(tmp_path / "made"), key=lambda path: path.suffix != ".gz")
    fields = checks(maker.tree(tmp_path / "tree"), wheel, sdist)
    assert [fields[name] for name in ("Name", "Version", "Requires-Python", "Summary")] == [
        maker.OWN["name"], maker.OWN["version"], f">={maker.OWN['python']}", maker.OWN["summary"]]
    assert (fields["Requires-Dist"] is None) == (which == "client")
    assert fields["License-Expression"] == project.LICENSE
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path)
    (again,) = make.run_build(tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path / "again",
                              "--wheel")
    assert again.name == wheel.name and again.read_bytes() == wheel.read_bytes()


