"""Makes the module for MicroPython: the file with its version.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

from pathlib import Path

from packages import making, project

MODULE = Path(__file__).resolve().parent / "dumpulse.py"


def build(to: Path) -> list[Path]:
    path = to / MODULE.name
    path.write_text(MODULE.read_text().replace("@version@", project.version()))
    return [path]


if __name__ == "__main__":
    making.main(build)
