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
from packages.python import make


def run(*command: str | Path, fails: bool = False) -> str:
    """Runs a command far from the tree. Returns what it prints."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    ended = subprocess.run(command, cwd="/", env=kept, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    assert (ended.returncode != 0) == fails, ended.stdout
    return ended.stdout


def environment(folder: Path) -> Path:
    """Makes a clean environment of Debian's Python. Returns its Python."""
    run("/usr/bin/python3", "-m", "venv", folder)
    return folder / "bin" / "python"


@pytest.mark.long
def test_the_wheels_have_all_and_the_source_distributions_make_them(tmp_path: Path) -> None:
    for folder in ("made", "again"):
        (tmp_path / folder).mkdir()
    made = make.build(tmp_path / "made")
    for which, own in (("client", make.OWN), ("fleet", make.OWN_OF_FLEET)):
        name = f"{own['name'].replace('-', '_')}-{own['version']}"
        sdist, wheel = sorted((path for path in made if path.name.startswith(name)),
                              key=lambda path: path.suffix != ".gz")
        tree = make.TREES[which](tmp_path / which)
        with zipfile.ZipFile(wheel) as packed:
            names = {re.sub(r".*\.data/data/", "", name) for name in packed.namelist()}
            (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            fields = email.message_from_bytes(packed.read(metadata))
        assert {name for name in names if ".dist-info/" not in name} == {
            str(path.relative_to(tree)) for path in tree.glob("*/**/*") if path.is_file()}
        assert [fields[name] for name in ("Name", "Version", "Requires-Python", "Summary")] == [
            own["name"], own["version"], f">={own['python']}", own["summary"]]
        assert (fields["Requires-Dist"] is None) == (which == "client")
        assert fields["License-Expression"] == project.LICENSE
        with tarfile.open(sdist) as archive:
            archive.extractall(tmp_path)
        (again,) = make.run_build(tmp_path / name, tmp_path / "again", "--wheel")
        assert again.name == wheel.name and again.read_bytes() == wheel.read_bytes()
