"""Makes DBC files, which tell CAN tools what each frame of Dumpulse has: one for all, and one with
the names of the example vehicle."""

import sys
from pathlib import Path

import client
from tools.programs import ROOT, run


def build(to: Path) -> list[Path]:
    path, named = to / "dumpulse.dbc", to / "vehicle.dbc"
    path.write_text(client.format_dbc())
    named.write_text(run([sys.executable, "client.py", "names", "examples/vehicle.ini", "--dbc"],
                         cwd=ROOT))
    return [path, named]
