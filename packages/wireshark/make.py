"""Makes the dissector for Wireshark: the script with its version.   SPDX-License-Identifier: MIT

    python3 -m packages.wireshark.make    writes it into build/packages
"""

from __future__ import annotations

from pathlib import Path

from packages import making, project

SCRIPT = Path(__file__).resolve().parent / "dumpulse.lua"


def build(to: Path) -> list[Path]:
    path = to / SCRIPT.name
    path.write_text(SCRIPT.read_text().replace("@version@", project.version()))
    return [path]


if __name__ == "__main__":
    making.main(build)
