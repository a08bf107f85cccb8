"""Makes DBC files, which tell CAN tools what each frame of Dumpulse has: one for all, and one with
the names of the example vehicle."""

import subprocess
import sys
from pathlib import Path

import client
from packages.making import Failed
from packages.project import ROOT

BASE = "680"
NAMES = "client.py", "names", "examples/vehicle.ini", "--dbc", "--base"


def text(base: str = BASE, reports: str = "") -> str:
    try:
        heartbeats, others = client.parse_base(base), client.parse_base(reports or base)
    except client.BadUsage as error:
        raise Failed(str(error)) from error
    return client.format_dbc(base=heartbeats, reports=others)


def build(to: Path, base: str = BASE, reports: str = "") -> list[Path]:
    path, named = to / "dumpulse.dbc", to / "vehicle.dbc"
    path.write_text(text(base, reports))
    named.write_text(subprocess.run([sys.executable, *NAMES, base], cwd=ROOT, text=True,
                                    stdout=subprocess.PIPE, check=True).stdout)
    return [path, named]
