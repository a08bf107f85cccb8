"""Makes DBC files, which tell CAN tools what each frame of Dumpulse has: one for all, and one with
the names of the example vehicle."""

import sys
from pathlib import Path

import client
from packages.making import Failed
from tools.programs import ROOT, run

BASE = "680"


def text(base: str = BASE, reports: str = "") -> str:
    try:
        heartbeats, others = client.parse_base(base), client.parse_base(reports or base)
    except client.BadUsage as error:
        raise Failed(str(error)) from error
    return client.format_dbc(base=heartbeats, reports=others)


def build(to: Path, base: str = BASE, reports: str = "") -> list[Path]:
    path, named = to / "dumpulse.dbc", to / "vehicle.dbc"
    path.write_text(text(base, reports))
    named.write_text(run([sys.executable, "client.py", "names", "examples/vehicle.ini", "--dbc",
                          "--base", base], cwd=ROOT))
    return [path, named]
