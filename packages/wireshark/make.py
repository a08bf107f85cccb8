"""Makes the dissector for Wireshark: the script with its version.   SPDX-License-Identifier: MIT

    python3 -m packages.wireshark.make    writes it into build/packages
"""

from __future__ import annotations

import sys
from pathlib import Path

from packages import project

SCRIPT = Path(__file__).resolve().parent / "dumpulse.lua"


def build(to: Path) -> list[Path]:
    path = to / SCRIPT.name
    path.write_text(SCRIPT.read_text().replace("@version@", project.version()))
    return [path]


def main() -> int:
    to = project.ROOT / "build" / "packages"
    to.mkdir(parents=True, exist_ok=True)
    print(*build(to), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
