"""Makes the DBC file, which tells CAN tools what each frame of Dumpulse has."""

from pathlib import Path

import client
from packages.making import Failed

BASE = "680"


def text(base: str = BASE, reports: str = "") -> str:
    try:
        heartbeats, others = client.parse_base(base), client.parse_base(reports or base)
    except client.BadUsage as error:
        raise Failed(str(error)) from error
    return client.format_dbc(base=heartbeats, reports=others)


def build(to: Path, base: str = BASE, reports: str = "") -> list[Path]:
    path = to / "dumpulse.dbc"
    path.write_text(text(base, reports))
    return [path]
