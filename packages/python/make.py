"""Makes the wheels and the source distributions of the client and of the fleet, for PyPI.

In the repository, dumpulse_fleet/client.py is a link to the client. In the package, it stands for
the module of the package dumpulse: whoever has both has one client."""

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
       '"Topic :: System :: Monitoring", "Typing :: Typed"'}
# From the oldest version that is tested to the next one that may break things.
NEEDS = ("aiohttp>=3.14,<4", "bcrypt>=4.0,<6", f"dumpulse=={VERSION}", "numpy>=1.26,<3",
         "pydantic>=2.12,<3", "PyYAML>=6.0.1,<7")
OWN_OF_FLEET = {
    "name": "dumpulse-fleet", "version": project.FORMS["python"](project.version("fleet")),
    "python": "3.11", "package": "dumpulse_fleet",
    "summary": "Polls thousands of Dumpulse agents, and reports changes",
    "module": "dumpulse_fleet.__main__", "dependencies": json.dumps(NEEDS)[1:-1],
    "extras": 'apprise = ["apprise>=1.9,<3"]',
    "classifiers": '"Development Status :: 3 - Alpha", '
    '"Environment :: No Input/Output (Daemon)", "Environment :: Web Environment", '
    '"Framework :: aiohttp", "Operating System :: POSIX :: Linux", '
    '"Topic :: System :: Networking :: Monitoring"'}
FLEET = project.ROOT / "dumpulse_fleet"
# What is for those who have the repository: it needs a C compiler, or other files.
NOT_INSTALLED = ("tests", "simulation")
COPIED_TO_FLEET = {
    "LICENSE": "LICENSE",
    "dumpulse_fleet/dumpulse-fleet.1": "share/man/man1/dumpulse-fleet.1",
    "dumpulse_fleet/dumpulse-fleet.service": "lib/systemd/system/dumpulse-fleet.service",
    "examples/vehicle.ini": "share/doc/dumpulse-fleet/examples/vehicle.ini",
    "packages/fleet/README.md": "README.md",
}
CLIENT_OF_FLEET = '''"""The module dumpulse, as the fleet calls it."""

import sys

import dumpulse

sys.modules[__name__] = dumpulse
'''


# The fields between at signs have values of their own in each package.
MANIFEST = '''\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "@name@"
version = "@version@"
description = "@summary@"
readme = "README.md"
license = "@license@"
license-files = ["LICENSE*"]
requires-python = ">=@python@"
authors = [{ name = "@team@", email = "@email@" }]
keywords = [@keywords@]
classifiers = ["Programming Language :: Python :: 3", @classifiers@]
dependencies = [@dependencies@]
optional-dependencies = {@extras@}
scripts = { @name@ = "@module@:main" }
urls = { Homepage = "@url@", Repository = "@repository@", Changelog = "@changes@" }

[tool.hatch.build]
packages = ["@package@"]

[tool.hatch.build.targets.sdist]
only-include = ["@package@", "lib", "share"]

[tool.hatch.build.targets.wheel.shared-data]
"lib" = "lib"
"share" = "share"
'''


def write_tree(to: Path, texts: Mapping[str, str], own: Mapping[str, str]) -> Path:
    """Writes a package as a folder that any tool for Python packages can build. Fills the fields
    of its manifest."""
    fields = {
        **own, "license": project.LICENSE, "team": project.TEAM, "email": project.EMAIL,
        "url": project.URL, "repository": project.REPOSITORY, "changes": project.changes(),
        "keywords": json.dumps(project.KEYWORDS)[1:-1]}
    manifest = re.sub(r"@(\w+)@", lambda field: fields[field[1]], MANIFEST)
    for name, text in {**texts, "pyproject.toml": manifest}.items():
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return to


def client_tree(to: Path) -> Path:
    return write_tree(to, ADDED | {
        "share/man/man1/dumpulse.1": manual.manual(),
        **{name: (project.ROOT / source).read_text() for source, name in COPIED.items()}}, OWN)


def modules() -> dict[str, Path]:
    """The files of Python by their names in the package."""
    return {f"dumpulse_fleet/{path.relative_to(FLEET)}": path
            for path in sorted(FLEET.rglob("*.py"))
            if path.relative_to(FLEET).parts[0] not in NOT_INSTALLED}


def fleet_tree(to: Path) -> Path:
    """Writes the package as a folder that any tool for Python packages can build."""
    files = {name: project.ROOT / source for source, name in COPIED_TO_FLEET.items()}
    for folder, name in (("web/wall", "dumpulse_fleet/web/wall"),
                         ("examples", "share/doc/dumpulse-fleet/examples")):
        files |= {f"{name}/{path.name}": path for path in sorted((FLEET / folder).iterdir())}
    texts = {name: path.read_text() for name, path in (files | modules()).items()}
    return write_tree(to, texts | {"dumpulse_fleet/client.py": CLIENT_OF_FLEET}, OWN_OF_FLEET)


def run_build(source: Path, to: Path, *options: str) -> list[Path]:
    """Builds the files of a folder, as `python -m build` does for everybody."""
    before = {*to.iterdir()}
    subprocess.run([TOOLS / "python", "-m", "build", "--no-isolation", *options, "--outdir", to,
                    source], check=True, stdout=sys.stderr,
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(archive.build_time())})
    return sorted({*to.iterdir()} - before)


TREES: dict[str, Callable[[Path], Path]] = {"client": client_tree, "fleet": fleet_tree}


def build(to: Path) -> list[Path]:
    files: list[Path] = []
    for tree in TREES.values():
        with tempfile.TemporaryDirectory() as folder:
            source = tree(Path(folder))
            new = Path(folder) / "new"
            new.mkdir()
            files += [Path(shutil.copy(path, to)) for path in run_build(source, new)]
    return files
