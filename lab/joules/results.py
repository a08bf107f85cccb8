"""What was measured, as lines of JSON: first how, then each turn as soon as it is over.

So a break, a Ctrl-C or an empty battery costs one turn, and a run can be gone on with. The first
line has the kind `run`, the others `turn`. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from lab.joules.meters import Energy
from sim.targets import BUILD, ROOT

FORMAT = 1
FOLDER = BUILD / "lab" / "measured"
MEASURED = "measured"  # the other label is `model`, and nothing here writes it
WORK, IDLE = "work", "idle"
NET = ", net"  # the end of a unit from which the idle time was subtracted
# What two runs must have in common: otherwise a difference of theirs says nothing.
ALIKE = ("meter", "unit", "operation", "machine", "governor")


class Unreadable(Exception):
    """The file has no results; the text says where it is wrong."""


@dataclass(frozen=True)
class Run:
    """How the turns of a file were measured."""

    operation: str  # the command, or an operation of the lab
    unit: str  # what the joules are for: "J a call, net"
    meter: str  # with its parts: "rapl: package-0 + package-0/dram"
    machine: str
    governor: str
    versions: dict[str, str]
    seed: int  # of the bootstrap
    began: str  # UTC
    kind: str = "run"
    label: str = MEASURED
    format: int = FORMAT


@dataclass(frozen=True)
class Turn:
    """One time of work, or of idleness."""

    pair: int  # work and idle of one pair belong together
    turn: str  # WORK or IDLE
    joules: float
    seconds: float
    uncertainty: float  # joules
    samples: int
    calls: int  # of the operation; 0 when idle
    began: str
    notes: tuple[str, ...] = ()
    parts: dict[str, float] | None = None  # joules
    readings: tuple[tuple[float, float], ...] = ()  # seconds, watts
    details: dict[str, Any] | None = None  # what the work says of itself
    kind: str = "turn"
    label: str = MEASURED


def turn_of(pair: int, turn: str, energy: Energy, calls: int, began: str,
            details: dict[str, Any] | None = None) -> Turn:
    return Turn(pair, turn, energy.joules, energy.seconds, energy.uncertainty, energy.samples,
                calls, began, energy.notes, dict(energy.parts), energy.readings, details)


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    model = next((line.partition(":")[2].strip() for line in lines
                  if line.startswith(("model name", "Model"))), platform.machine())
    return f"{platform.node()}: {os.cpu_count()} x {model}"


def governor(sys: Path = Path("/sys")) -> str:
    """Of all processors: who chooses their frequency."""
    found = set()
    for file in sys.glob("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"):
        try:
            found.add(file.read_text().strip())
        except OSError:
            continue
    return " and ".join(sorted(found)) or "none"


def versions() -> dict[str, str]:
    said = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                          capture_output=True, text=True, check=False) if \
        (ROOT / ".git").exists() else None
    return {"lab": said.stdout.strip() if said and said.returncode == 0 else "unknown",
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}"}


def new_file(name: str) -> Path:
    when = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return FOLDER / f"{name}-{when}-{os.getpid()}.jsonl"


def append(file: Path, line: Run | Turn) -> None:
    """It is on the disk when this returns: a battery that is measured may be empty soon."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as opened:
        if opened.tell():  # a line that was cut ends here
            opened.seek(-1, os.SEEK_END)
            if opened.read(1) != b"\n":
                opened.write(b"\n")
        opened.write(json.dumps(asdict(line), ensure_ascii=False, allow_nan=False).encode() + b"\n")
        opened.flush()
        os.fsync(opened.fileno())


Line = TypeVar("Line", Run, Turn)
NUMBERS = {"int": (int,), "float": (int, float)}


def checked(into: type[Line], found: dict[str, Any]) -> Line:
    """The line, if it has all that it must have, and nothing that is no number where one must be."""
    types = {field.name: str(field.type) for field in fields(into)}
    for name, value in found.items():
        wanted = types.get(name)
        if wanted is None:
            raise ValueError(f"{name} is not known")
        if wanted in NUMBERS and (isinstance(value, bool) or
                                  not isinstance(value, NUMBERS[wanted]) or
                                  not math.isfinite(value)):
            raise ValueError(f"{name} is no number")
        if wanted == "str" and not isinstance(value, str):
            raise ValueError(f"{name} is no text")
    try:
        return into(**found)
    except TypeError as missing:
        raise ValueError(str(missing).partition(") ")[2]) from None


def lines_of(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as fault:
        raise Unreadable(f"{file} cannot be read: {fault}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut by a break: the turn was not over
        if not isinstance(found, dict):
            raise Unreadable(f"{file}: line {number} is no result")
        yield number, found


def read(file: Path) -> tuple[Run, list[Turn]]:
    """The run and its turns."""
    run: Run | None = None
    turns: list[Turn] = []
    for number, found in lines_of(file):
        try:
            if found.get("kind") == "run" and run is None:
                run = checked(Run, found)
            elif found.get("kind") == "turn" and run is not None:
                turns.append(checked(Turn, found))
                if turns[-1].turn not in (WORK, IDLE) or turns[-1].seconds <= 0 or \
                        min(turns[-1].uncertainty, turns[-1].calls, turns[-1].pair) < 0:
                    raise ValueError("no such turn can be")
            else:
                raise ValueError("a run comes first, and only once; then its turns")
        except (ValueError, OverflowError) as fault:
            raise Unreadable(f"{file}: line {number} is no result: {fault}") from None
    if run is None:
        raise Unreadable(f"{file} has no results")
    if run.label != MEASURED or any(turn.label != MEASURED for turn in turns):
        raise Unreadable(f"{file} has joules that were not measured")
    if run.format != FORMAT:
        raise Unreadable(f"{file} has format {run.format}; this program knows {FORMAT}")
    return run, turns


def differences(a: Run, b: Run) -> list[str]:
    """A line for each thing in which two runs are not alike."""
    return [f"{name}: {getattr(a, name)!r} is not {getattr(b, name)!r}"
            for name in ALIKE if getattr(a, name) != getattr(b, name)]
