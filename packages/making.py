"""Makes a package: its files go into build/packages.

    python3 -m packages.making rust            # each folder with a make.py is one
    python3 -m packages.making dbc 18ff0000    # what it shall know more

SPDX-License-Identifier: MIT"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from packages.project import ROOT, version


class Failed(Exception):
    """A build or a test failed. The text has what it wrote."""


def worlds() -> dict[str, ModuleType]:
    """Returns the modules packages/WORLD/make.py by the names of their worlds."""
    return {path.parent.name: importlib.import_module(f"packages.{path.parent.name}.make")
            for path in sorted((ROOT / "packages").glob("*/make.py"))}


def with_version(text: Path) -> Callable[[Path], list[Path]]:
    """Returns a build() for a package that is one file, in which @version@ is the version."""
    def build(to: Path) -> list[Path]:
        made = to / text.name
        made.write_text(text.read_text().replace("@version@", version()))
        return [made]
    return build


def main() -> int:
    names = [path.parent.name for path in sorted((ROOT / "packages").glob("*/make.py"))]
    parser = argparse.ArgumentParser(prog="python3 -m packages.making",
                                     description="Writes a package into build/packages, and prints "
                                     "the names of its files.")
    parser.add_argument("package", choices=names)
    parser.add_argument("base", nargs="?", help="of dbc: the first CAN identifier, in 3 "
                        "hexadecimal digits, or 8 if identifiers have 29 bits")
    parser.add_argument("reports", nargs="?", help="of dbc: the same for reports and requests, if "
                        "it is another one")
    options = parser.parse_args()
    bases = [base for base in (options.base, options.reports) if base]
    to = ROOT / "build" / "packages"
    try:
        to.mkdir(parents=True, exist_ok=True)
        build = importlib.import_module(f"packages.{options.package}.make").build
        made = build(to, *bases) if options.package == "dbc" else build(to)
    except (Failed, OSError, subprocess.CalledProcessError) as why:
        print(f"packages.making: {options.package}: {why}", file=sys.stderr)
        return 1
    print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    # Not this module's main(): what builds fail with is packages.making.Failed, by this name.
    sys.exit(importlib.import_module("packages.making").main())
