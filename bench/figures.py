"""Keeps what a command has measured, for the commands that show it again or compare it.

If DUMPULSE_FIGURES is in the environment, it names another folder to keep the figures in: tests use
that. SPDX-License-Identifier: MIT"""

import datetime
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from tests.support.programs import BUILD

Figures = dict[tuple[str, str, str], str]  # by command, row and column


def kept(command: str) -> Path:
    return Path(os.environ.get("DUMPULSE_FIGURES", BUILD / "figures")) / f"{command}.tsv"


def keep(command: str, table: Mapping[str, Mapping[str, object]]) -> None:
    """Keeps the figures that a command has just measured."""
    file = kept(command)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{command}\t{row}\t{column}\t{figure}\n"
                            for row, cells in table.items() for column, figure in cells.items()))


def parse(text: str) -> Figures:
    rows = (line.split("\t") for line in text.splitlines())
    return {(command, row, column): figure for command, row, column, figure in rows}


def keep_picture(file: Path, picture: str, again: bool) -> None:
    """If `again`, writes the picture to the file. Otherwise ends the program if the file shows
    something else."""
    if again:
        file.write_text(picture)
    elif not file.exists() or file.read_text() != picture:
        raise SystemExit(f"{file.name} does not show these figures: make pages draws it again")


def moved(before: Figures, now: Figures) -> list[str]:
    """Returns a line for each figure that has changed."""
    return [f"ONLY={command}: {row}: {column} was {before.get(key, 'not there')} "
            f"and is {now.get(key, 'not there')}"
            for key in before | now if before.get(key) != now.get(key)
            for command, row, column in [key]]


def stamp() -> str:
    """When and where a figure was measured that differs from day to day and between machines."""
    found = [line.split(":", 1)[1].strip()
             for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith(("model name", "Model"))]
    load = os.getloadavg()[0]
    return (f"{datetime.date.today()}, {os.cpu_count()} cores of "
            f"{found[0] if found else platform.machine()}, "
            f"Linux {platform.release().split('-')[0]},\nload {load:.1f}. These figures are noisy. "
            "No test depends on them.")
