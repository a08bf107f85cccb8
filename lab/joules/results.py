"""What was measured, as lines of JSON: first how, then each turn as soon as it is over.

So a break, a Ctrl-C or an empty battery costs one turn, and a run can be gone on with. The first
line has the kind `run`, the others `turn`, or `times` by lab/profile."""

import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

from lab.joules.meters import Energy, Meter
from tools.programs import BUILD, ROOT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FOLDER = BUILD / "lab" / "measured"
WORK, IDLE = "work", "idle"
NET = ", net"  # the end of a unit from which the idle time was subtracted
# What must be the same when a run is resumed.
ALIKE = ("meter", "unit", "operation", "machine", "governor")


class Unreadable(Exception):
    """The file has no results; the text says where it is wrong."""


@dataclass(frozen=True)
class Run:
    """How the turns of a file were measured."""

    operation: str  # the command, or an operation of the lab
    unit: str  # The unit of a value, such as "J a call, net".
    meter: str  # A meter and its parts, such as "rapl: package-0 + package-0/dram".
    machine: str
    governor: str
    versions: dict[str, str]
    began: str  # UTC
    kind: str = "run"


@dataclass(frozen=True)
class Turn:
    """One time of work, or of idleness."""

    pair: int  # work and idle of one pair belong together
    turn: str  # WORK or IDLE
    joules: float
    seconds: float
    uncertainty: float  # joules
    samples: int
    calls: int  # Calls of the operation; 0 when idle.
    began: str
    notes: tuple[str, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)  # joules
    readings: tuple[tuple[float, float], ...] = ()  # seconds, watts
    kind: str = "turn"


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
    clock: int  # Time between the first call's begin and the last call's end.
    began: str
    kind: str = "times"

    @property
    def mean(self) -> float:
        return self.total / self.calls


KINDS: dict[str, type[Run | Turn | Times]] = {"run": Run, "turn": Turn, "times": Times}


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
    governors = set()
    for file in sys.glob("devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"):
        try:
            governors.add(file.read_text().strip())
        except OSError:
            continue
    return " and ".join(sorted(governors)) or "none"


def versions() -> dict[str, str]:
    git = subprocess.run(["git", "--no-optional-locks", "-C", ROOT, "describe", "--always",
                          "--dirty"],
                         capture_output=True, text=True, check=False) if \
        (ROOT / ".git").exists() and shutil.which("git") else None
    return {"lab": git.stdout.strip() if git and git.returncode == 0 else "unknown",
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}"}


def new_file(name: str) -> Path:
    when = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return FOLDER / f"{name}-{when}-{os.getpid()}.jsonl"


def append(file: Path, line: "DataclassInstance") -> None:
    """It is on the disk when this returns: a battery that is measured may be empty soon."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as opened:
        if opened.tell():  # a line that was cut ends here
            opened.seek(-1, os.SEEK_END)
            if opened.read(1) != b"\n":
                opened.write(b"\n")
        opened.write((json.dumps(asdict(line), allow_nan=False) + "\n").encode())
        opened.flush()
        os.fsync(opened.fileno())


def checked(values: Any) -> Run | Turn | Times:
    """What a line of a file has, if it has all that it must have. Raises ValueError."""
    if not isinstance(values, dict) or values.get("kind") not in KINDS:
        raise ValueError("a run comes first, and then its turns")
    for name in {"notes", "readings"} & values.keys():
        if isinstance(values[name], list):
            values[name] = tuple(tuple(item) if isinstance(item, list) else item
                                 for item in values[name])
    for item in fields(KINDS[values["kind"]]):
        kind: Any = get_origin(item.type) or item.type
        if not isinstance(values.get(item.name, kind()), (int, float) if kind is float else kind):
            raise ValueError(f"{item.name} has another type")
    if values.get("seconds", 1) <= 0:
        raise ValueError("no turn takes 0 s")
    try:
        return KINDS[values["kind"]](**values)
    except TypeError as fault:
        raise ValueError(str(fault).partition(") ")[2]) from None


def read(file: Path) -> tuple[Run, list[Turn], list[Times]]:
    """The run, its turns, and the times of its operations."""
    try:
        if file.exists() and not file.is_file():  # a device may never end
            raise OSError("it is no file")
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as fault:
        raise Unreadable(f"{file} cannot be read: {fault}") from None
    runs: list[Run] = []
    turns: list[Turn] = []
    times: list[Times] = []
    for number, line in enumerate(text.split("\n"), start=1):  # JSON may hold other ends of lines
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            if line:  # cut by a break, before the turn was over, or damaged since
                print(f"lab: {file}: line {number} is cut or damaged: left out", file=sys.stderr)
            continue
        try:
            record = checked(values)
            if isinstance(record, Run) == bool(runs):
                raise ValueError("a run comes first, and only once; then its turns")
        except ValueError as fault:
            raise Unreadable(f"{file}: line {number} is no result: {fault}") from None
        if isinstance(record, Run):
            runs.append(record)
        elif isinstance(record, Turn):
            turns.append(record)
        else:
            times.append(record)
    if not runs:
        raise Unreadable(f"{file} has no results")
    return runs[0], turns, times


def begun(file: Path, operation: str, unit: str, meter: Meter | None
          ) -> tuple[Run, list[Turn], list[Times]]:
    """The run of the file, with what it has, if it is the same; or one that begins there."""
    run = Run(operation, unit, meter.what() if meter else "none", machine(), governor(), versions(),
              now())
    if not file.exists():
        append(file, run)
        return run, [], []
    resumed = read(file)
    if apart := [f"{name}: {theirs!r} is not {ours!r}" for name in ALIKE
                 for theirs, ours in [(getattr(resumed[0], name), getattr(run, name))]
                 if theirs != ours]:
        raise Unreadable(f"{file} has another run, which cannot be resumed: {'; '.join(apart)}")
    return resumed
