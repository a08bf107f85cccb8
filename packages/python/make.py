"""Makes the wheel and the source distribution for PyPI."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from packages import archive, project
from tools import manual

HERE = Path(__file__).resolve().parent
VERSION = project.FORMS["python"](project.version())
TOOLS = project.ROOT / "build" / "venv-packages" / "bin"
# Where each file of the project goes.
COPIED = {
    "client.py": "dumpulse/__init__.py",
    "LICENSE": "LICENSE",
    "packages/python/README.md": "README.md",
}
# What is only in the package. The empty file tells type checkers that there are types.
ADDED = {"dumpulse/__main__.py": '''\
"""python -m dumpulse is the command."""

import sys

from . import main

sys.argv[0] = "dumpulse"  # help and errors begin with this name
main()
''', "dumpulse/py.typed": ""}


# What the manifest says of this package alone.
OWN = {"name": project.NAME, "version": VERSION, "summary": project.SUMMARY, "python": "3.9",
       "package": "dumpulse", "module": "dumpulse", "dependencies": "", "extras": "",
       "classifiers": '"Environment :: Console", "Operating System :: OS Independent", '
       '"Typing :: Typed"'}


def write_tree(to: Path, texts: Mapping[str, str], own: Mapping[str, str]) -> Path:
    """Writes a package as a folder that any tool for Python packages can build. Fills the fields
    of its manifest."""
    fields = {
        **own, "license": project.LICENSE, "team": project.TEAM, "email": project.EMAIL,
        "url": project.URL, "repository": project.REPOSITORY, "changes": project.changes(),
        "keywords": json.dumps(project.KEYWORDS)[1:-1]}
    manifest = (HERE / "manifest.toml").read_text()
    manifest = re.sub(r"@(\w+)@", lambda field: fields[field[1]], manifest)
    for name, text in {**texts, "pyproject.toml": manifest}.items():
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return to


def tree(to: Path) -> Path:
    return write_tree(to, ADDED | {
        "share/man/man1/dumpulse.1": manual.manual(),
        **{name: (project.ROOT / source).read_text() for source, name in COPIED.items()}}, OWN)


def run_build(source: Path, to: Path, *options: str) -> list[Path]:
    """Builds the files of a folder, as `python -m build` does for everybody."""
    before = {*to.iterdir()}
    subprocess.run([TOOLS / "python", "-m", "build", "--no-isolation", *options, "--outdir", to,
                    source], check=True, stdout=sys.stderr,
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(archive.build_time())})
    return sorted({*to.iterdir()} - before)


def build_tree(tree_of: Callable[[Path], Path], to: Path) -> list[Path]:
    """Builds the package whose folder this function writes."""
    with tempfile.TemporaryDirectory() as folder:
        source = tree_of(Path(folder))
        new = Path(folder) / "new"
        new.mkdir()
        return [Path(shutil.copy(path, to)) for path in run_build(source, new)]


def build(to: Path) -> list[Path]:
    return build_tree(tree, to)
