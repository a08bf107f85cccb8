"""Runs build() of packages/WORLD/make.py as a command: its files go into build/packages.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from packages.project import ROOT


class Failed(Exception):
    """A build or a test failed. The text has what it wrote."""


def arguments(what: str) -> argparse.ArgumentParser:
    """Returns a parser for the module that runs as a command, which makes `what`."""
    module = ".".join(Path(sys.argv[0]).resolve().relative_to(ROOT).with_suffix("").parts)
    return argparse.ArgumentParser(
        prog=f"python3 -m {module}",
        description=f"Writes {what} into build/packages, and prints the names of its files.")


def run(prog: str, build: Callable[[Path], list[Path]]) -> None:
    to = ROOT / "build" / "packages"
    try:
        to.mkdir(parents=True, exist_ok=True)
        made = build(to)
    except (Failed, OSError, subprocess.CalledProcessError) as why:
        raise SystemExit(f"{prog}: {why}") from None
    print(*made, sep="\n")


def main(build: Callable[[Path], list[Path]]) -> None:
    parser = arguments("this package")
    parser.parse_args()
    run(parser.prog, build)
