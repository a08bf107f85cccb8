"""Makes a package: its files go into build/packages.

    python3 -m packages.making rust            # one of WORLDS
    python3 -m packages.making dbc 18ff0000    # what it shall know more"""

import argparse
import importlib
import subprocess
from collections.abc import Callable
from pathlib import Path

from packages.project import ROOT, version
from tools.programs import as_program

# Packages that are one file, in which @version@ is the version. The others have a make.py.
ONE_FILE = {"micropython": "dumpulse.py", "wireshark": "dumpulse.lua"}
WORLDS = sorted([*ONE_FILE, *(path.parent.name for path in ROOT.glob("packages/*/make.py"))])


class Failed(Exception):
    """A build or a test failed. The text has what it wrote."""


def builder(name: str) -> Callable[..., list[Path]]:
    """Returns the function that writes a package into a folder."""
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
    parser.add_argument("base", nargs="?", help="of dbc: the first CAN identifier, in 3 "
                        "hexadecimal digits, or 8 if identifiers have 29 bits")
    parser.add_argument("reports", nargs="?", help="of dbc: the same for reports and requests, if "
                        "it is another one")
    options = parser.parse_args()
    bases = [base for base in (options.base, options.reports) if base]
    to = ROOT / "build" / "packages"
    try:
        to.mkdir(parents=True, exist_ok=True)
        files = builder(options.package)(to, *(bases if options.package == "dbc" else ()))
    except (Failed, OSError, subprocess.CalledProcessError) as why:
        raise SystemExit(f"packages.making: {options.package}: {why}") from None
    print(*files, sep="\n")


if __name__ == "__main__":
    # Not this module's main(): what builds fail with is packages.making.Failed, by this name.
    as_program(importlib.import_module("packages.making").main, ".*")
