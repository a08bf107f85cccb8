"""Makes a package: its files go into build/packages.

    python3 -m packages.making rust    # one of WORLDS"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from packages.project import ROOT, version
from tools.programs import as_program, run

# Packages that are one file, in which @version@ is the version. The others but dbc have a make.py.
ONE_FILE = {"micropython": "dumpulse.py", "wireshark": "dumpulse.lua"}
WORLDS = sorted([*ONE_FILE, "dbc", *(path.parent.name for path in ROOT.glob("packages/*/make.py"))])


class Failed(Exception):
    """A build or a test failed. The text has what it wrote."""


def build_dbc(to: Path) -> list[Path]:
    """Writes two DBC files, one with the names of the example vehicle."""
    files = {"dumpulse.dbc": "/dev/null", "vehicle.dbc": "examples/vehicle.ini"}
    for name, names in files.items():
        (to / name).write_text(run([sys.executable, "client.py", "names", names, "--dbc"],
                                   cwd=ROOT))
    return [to / name for name in files]


def builder(name: str) -> Callable[[Path], list[Path]]:
    """Returns the function that writes a package into a folder."""
    if name == "dbc":
        return build_dbc
    if name not in ONE_FILE:
        return importlib.import_module(f"packages.{name}.make").build  # type: ignore[no-any-return]

    def build(to: Path) -> list[Path]:
        written = to / ONE_FILE[name]
        text = (ROOT / "packages" / name / written.name).read_text()
        written.write_text(text.replace("@version@", version()))
        return [written]
    return build


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m packages.making",
                                     description="Writes a package into build/packages, and prints "
                                     "the names of its files.")
    parser.add_argument("package", choices=WORLDS)
    options = parser.parse_args()
    to = ROOT / "build" / "packages"
    try:
        to.mkdir(parents=True, exist_ok=True)
        files = builder(options.package)(to)
    except (Failed, OSError, subprocess.CalledProcessError) as why:
        raise SystemExit(f"packages.making: {options.package}: {why}") from None
    print(*files, sep="\n")


if __name__ == "__main__":
    # Not this module's main(): what builds fail with is packages.making.Failed, by this name.
    as_program(importlib.import_module("packages.making").main, ".*")
