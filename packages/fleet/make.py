"""Makes the wheel and the source distribution of dumpulse-fleet.   SPDX-License-Identifier: MIT

    python3 -m packages.fleet.make    writes them into build/packages

In the repository, the folders `fleet` and `client.py` are modules of their own. Nobody wants such
short names among the modules of an installed Python, so both are inside dumpulse_fleet there.
"""

from __future__ import annotations

import re
from pathlib import Path

from packages import making, project
from packages.python.make import build_tree, write_tree

SUMMARY = "Asks thousands of Dumpulse agents, and says what changed"
FLEET = project.ROOT / "fleet"
# What is for those who have the repository: it needs a C compiler, or other files.
NOT_INSTALLED = ("bench", "demo", "fake", "simulator")
COPIED = {
    "LICENSE": "LICENSE",
    "man/dumpulse-fleet.1": "share/man/man1/dumpulse-fleet.1",
    "systemd/dumpulse-fleet.service": "lib/systemd/system/dumpulse-fleet.service",
    "examples/vehicle.ini": "share/doc/dumpulse-fleet/examples/vehicle.ini",
    "packages/fleet/package/README.md": "README.md",
    "packages/fleet/package/pyproject.toml": "pyproject.toml",
}
# The imports of the repository, and the same in the package.
IMPORTS = ((r"^( *)from fleet(?=[. ])", r"\1from dumpulse_fleet"),
           (r"^( *)from client import ", r"\1from dumpulse_fleet.client import "),
           (r"^( *)import client$", r"\1from dumpulse_fleet import client"))


def modules() -> dict[str, Path]:
    """The files of Python by their names in the package."""
    found = {path.name: path for path in sorted(FLEET.glob("*.py"))
             if path.stem not in NOT_INSTALLED}
    return {f"dumpulse_fleet/{name}": path
            for name, path in {**found, "client.py": project.ROOT / "client.py"}.items()}


def installed(text: str) -> str:
    """A module of the repository, as it is in the package."""
    for here, there in IMPORTS:
        text = re.sub(here, there, text, flags=re.M)
    return text.replace("python3 -m fleet", "python3 -m dumpulse_fleet")


def tree(to: Path) -> Path:
    """Writes the package as a folder that any tool for Python packages can build."""
    files = {name: project.ROOT / source for source, name in COPIED.items()}
    for folder, name in (("wall", "dumpulse_fleet/wall"),
                         ("examples", "share/doc/dumpulse-fleet/examples")):
        files |= {f"{name}/{path.name}": path for path in sorted((FLEET / folder).iterdir())}
    texts = {name: path.read_text() for name, path in files.items()}
    return write_tree(to, texts | {name: installed(path.read_text())
                                   for name, path in modules().items()}, SUMMARY)


def build(to: Path) -> list[Path]:
    return build_tree(tree, to)


if __name__ == "__main__":
    making.main(build)
