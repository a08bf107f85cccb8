"""What was measured, as lines of JSON: first how, then each turn as soon as it is over.

So a break, a Ctrl-C or an empty battery costs one turn, and a run can be gone on with. The first
line has the kind `run`, the others `turn`, or `times` by lab/profile."""

import datetime
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lab.joules.meters import Energy
from tools.programs import BUILD, ROOT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT = 2
LARGEST = 256 << 20  # bytes of a file that is read; a reading of a meter has about 25
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
    parts: dict[str, float] = field(default_factory=dict)  # joules
    readings: tuple[tuple[float, float], ...] = ()  # seconds, watts
    kind: str = "turn"
    label: str = MEASURED


@dataclass(frozen=True)
class Times:
    """How long the calls of an operation took, by lab/run profile: in nanoseconds."""

    operation: str
    wanted: int  # calls
    calls: int
    least: int
    median: float
    mad: float
    most: int
    total: int
    clock: int  # from before the first call until after the last one
    began: str
    kind: str = "times"

    @property
    def mean(self) -> float:
        return self.total / self.calls


def turn_of(pair: int, turn: str, energy: Energy, calls: int, began: str) -> Turn:
    return Turn(pair, turn, energy.joules, energy.seconds, energy.uncertainty, energy.samples,
                calls, began, energy.notes, dict(energy.parts), energy.readings)


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
        (ROOT / ".git").exists() and shutil.which("git") else None
    return {"lab": said.stdout.strip() if said and said.returncode == 0 else "unknown",
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}"}


def new_file(name: str) -> Path:
    when = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return FOLDER / f"{name}-{when}-{os.getpid()}.jsonl"


def encoded(line: "DataclassInstance") -> str:
    """The line of the file that says it."""
    return json.dumps(asdict(line), allow_nan=False) + "\n"


def append(file: Path, line: "DataclassInstance") -> None:
    """It is on the disk when this returns: a battery that is measured may be empty soon."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as opened:
        if opened.tell():  # a line that was cut ends here
            opened.seek(-1, os.SEEK_END)
            if opened.read(1) != b"\n":
                opened.write(b"\n")
        opened.write(encoded(line).encode())
        opened.flush()
        os.fsync(opened.fileno())


Line = TypeVar("Line", bound="DataclassInstance")


def checked(into: type[Line], found: dict[str, Any]) -> Line:
    """The line, if it has all that it must have."""
    for name in {"notes", "readings"} & found.keys():
        found[name] = tuple(tuple(one) if isinstance(one, list) else one for one in found[name])
    try:
        return into(**found)
    except TypeError as fault:
        raise ValueError(str(fault).partition(") ")[2]) from None


def lines_of(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode):  # some have no end
            raise ValueError("it is no file")
        if about.st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST >> 20} MB")
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as fault:
        raise Unreadable(f"{file} cannot be read: {fault}") from None
    for number, line in enumerate(text.split("\n"), start=1):  # JSON may hold other ends of lines
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            if line:  # cut by a break, before the turn was over, or damaged since
                print(f"lab: {file}: line {number} is cut or damaged: left out", file=sys.stderr)
            continue
        if not isinstance(found, dict):
            raise Unreadable(f"{file}: line {number} is no result")
        yield number, found


def read(file: Path) -> tuple[Run, list[Turn], list[Times]]:
    """The run, its turns, and the times of its operations."""
    run: Run | None = None
    turns: list[Turn] = []
    times: list[Times] = []
    for number, found in lines_of(file):
        try:
            if found.get("kind") == "run" and run is None:
                run = checked(Run, found)
            elif found.get("kind") == "turn" and run is not None:
                turns.append(checked(Turn, found))
            elif found.get("kind") == "times" and run is not None:
                times.append(checked(Times, found))
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
    return run, turns, times


def differences(a: Run, b: Run) -> list[str]:
    """A line for each thing in which two runs are not alike."""
    return [f"{name}: {getattr(a, name)!r} is not {getattr(b, name)!r}"
            for name in ALIKE if getattr(a, name) != getattr(b, name)]


def begun(file: Path, run: Run) -> tuple[Run, list[Turn], list[Times]]:
    """The run of the file, with what it has, if it is the same; or this one, which begins there."""
    if not file.exists():
        append(file, run)
        return run, [], []
    found = read(file)
    if apart := differences(found[0], run):
        raise Unreadable(f"{file} has another run, which cannot be gone on with: "
                         + "; ".join(apart))
    return found
