"""The package for Python, as users have it."""

import email
import functools
import json
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
from spec import model
from tools.servers import Server



def run(*command: str | Path, fails: bool = False) -> str:
    """Runs a command far from the tree. Returns what it prints."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    ended = subprocess.run(command, cwd="/", env=kept, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    assert (ended.returncode != 0) == fails, ended.stdout
    return ended.stdout


MODULE = """
import sys, dumpulse
agent = dumpulse.Agent(sys.argv[1])
agent.beat(variable=9, sender=1, value=99)
print(dumpulse.heartbeat(3, 76, 9).hex(), [entry.value for entry in agent.ask(timeout=30.0)])
"""


def use(python: Path) -> None:
    """Talks to a real agent with the command, with `python -m dumpulse`, and with the module."""
    ways: list[tuple[str | Path, ...]] = [(python.parent / "dumpulse",), (python, "-m", "dumpulse")]
    with Server("--bind", "127.0.0.1") as server:
        agent = f"127.0.0.1:{server.port}"
        for at, called in enumerate(ways):
            run(*called, "set", agent, str(7 + at), "230", "--sender", "76")
            assert run(*called, "--version") == project.shown("dumpulse")
            assert run(*called, "nonsense", "--x", fails=True).startswith("dumpulse: ")
        shown = json.loads(run(*ways[1], agent, "--json", "--timeout", "30s"))
        beat, values = run(python, "-c", MODULE, agent).split(maxsplit=1)
        counters = server.stop()
    heard = {each["variable"]: (each["sender"], each["value"]) for each in shown["variables"]
             if each.get("value") is not None}
    assert heard == {7: (76, 230), 8: (76, 230)}, shown
    assert bytes.fromhex(beat) == model.heartbeat(3, 76, 9)
    assert json.loads(values)[7:10] == [230, 230, 99]
    assert counters["heartbeats"] == 3 and counters["reports"] >= 2  # a slow machine asks again


PACKAGES = {"client": make, "fleet": fleet}


@pytest.mark.parametrize("which", PACKAGES)
def test_the_page_has_no_link_into_the_project(tmp_path: Path, which: str) -> None:
    PACKAGES[which].tree(tmp_path)
    assert (tmp_path / "dumpulse" / "py.typed").exists() or which == "fleet"  # mypy looks for it
    assert not re.search(r"\]\((?!#)", (tmp_path / "README.md").read_text())


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


@pytest.fixture(scope="module", name="wheel")
def fixture_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make.build(tmp_path_factory.mktemp("made"))
    return next(path for path in made if path.suffix == ".whl")


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


@pytest.mark.long
@pytest.mark.parametrize("which", [0, -1], ids=["oldest", "newest"])
def test_it_works_where_it_is_installed(tmp_path: Path, which: int, wheel: Path) -> None:
    python = environment([*pythons().values()][which], tmp_path / "env")
    run(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
    use(python)
    share = tmp_path / "env" / "share"
    assert '"\\-\\-confirm"' in (share / "man" / "man1" / "dumpulse.1").read_text()
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "dumpulse")
    assert not [path for path in (tmp_path / "env").rglob("*dumpulse*") if path.is_file()]
