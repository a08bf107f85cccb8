"""Makes the wheel and the source distribution of dumpulse-fleet.

In the repository, dumpulse_fleet/client.py is a link to the client. In the package, it stands for
the module of the package dumpulse: whoever has both has one client."""

import json
from pathlib import Path

from packages import project
from packages.python.make import VERSION, build_tree, write_tree

# From the oldest version that is tested to the next one that may break things.
NEEDS = ("aiohttp>=3.14,<4", "bcrypt>=4.0,<6", f"dumpulse=={VERSION}", "numpy>=1.26,<3",
         "pydantic>=2.12,<3", "PyYAML>=6.0.1,<7")
OWN = {"name": "dumpulse-fleet", "version": project.FORMS["python"](project.version("fleet")),
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
COPIED = {
    "LICENSE": "LICENSE",
    "dumpulse_fleet/dumpulse-fleet.1": "share/man/man1/dumpulse-fleet.1",
    "dumpulse_fleet/dumpulse-fleet.service": "lib/systemd/system/dumpulse-fleet.service",
    "examples/vehicle.ini": "share/doc/dumpulse-fleet/examples/vehicle.ini",
    "packages/fleet/README.md": "README.md",
}
CLIENT = '''"""The module dumpulse, as the fleet calls it."""

import sys

import dumpulse

sys.modules[__name__] = dumpulse
'''


def modules() -> dict[str, Path]:
    """The files of Python by their names in the package."""
    return {f"dumpulse_fleet/{path.relative_to(FLEET)}": path
            for path in sorted(FLEET.rglob("*.py"))
            if path.relative_to(FLEET).parts[0] not in NOT_INSTALLED}


def tree(to: Path) -> Path:
    """Writes the package as a folder that any tool for Python packages can build."""
    files = {name: project.ROOT / source for source, name in COPIED.items()}
    for folder, name in (("web/wall", "dumpulse_fleet/web/wall"),
                         ("examples", "share/doc/dumpulse-fleet/examples")):
        files |= {f"{name}/{path.name}": path for path in sorted((FLEET / folder).iterdir())}
    texts = {name: path.read_text() for name, path in (files | modules()).items()}
    return write_tree(to, texts | {"dumpulse_fleet/client.py": CLIENT}, OWN)


def build(to: Path) -> list[Path]:
    return build_tree(tree, to)
