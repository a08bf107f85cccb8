"""Runs build() of packages/WORLD/make.py as a command: its files go into build/packages.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from packages.project import ROOT


def main(build: Callable[[Path], list[Path]]) -> None:
    if len(sys.argv) > 1:
        print(f"{sys.argv[0]}: it takes no argument", file=sys.stderr)
        raise SystemExit(2)
    to = ROOT / "build" / "packages"
    to.mkdir(parents=True, exist_ok=True)
    print(*build(to), sep="\n")
