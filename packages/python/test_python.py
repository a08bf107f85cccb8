"""The package for Python, as users have it."""

import email
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


def environment(folder: Path) -> Path:
    """Makes a clean environment of Debian's Python. Returns its Python."""
    run("/usr/bin/python3", "-m", "venv", folder)
    return folder / "bin" / "python"


@pytest.mark.long
@pytest.mark.parametrize("which", PACKAGES)
def test_the_wheel_has_all_and_the_source_distribution_makes_it(tmp_path: Path,
                                                                which: str) -> None:
    maker = PACKAGES[which]
    for folder in ("made", "again"):
        (tmp_path / folder).mkdir()
    sdist, wheel = sorted(maker.build(tmp_path / "made"), key=lambda path: path.suffix != ".gz")
    tree = maker.tree(tmp_path / "tree")
    with zipfile.ZipFile(wheel) as packed:
        names = {re.sub(r".*\.data/data/", "", name) for name in packed.namelist()}
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(packed.read(metadata))
    assert {name for name in names if ".dist-info/" not in name} == {
        str(path.relative_to(tree)) for path in tree.glob("*/**/*") if path.is_file()}
    assert [fields[name] for name in ("Name", "Version", "Requires-Python", "Summary")] == [
        maker.OWN["name"], maker.OWN["version"], f">={maker.OWN['python']}", maker.OWN["summary"]]
    assert (fields["Requires-Dist"] is None) == (which == "client")
    assert fields["License-Expression"] == project.LICENSE
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path)
    (again,) = make.run_build(tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path / "again",
                              "--wheel")
    assert again.name == wheel.name and again.read_bytes() == wheel.read_bytes()
