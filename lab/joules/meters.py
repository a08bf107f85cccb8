"""The meters, and what each of them must be able to do. A new meter is one class and one row.

    meter = find("rapl", None)      # or Absent, with what to do about it
    meter.start()
    ...                             # what is to be measured
    energy = meter.stop()           # joules, seconds, how uncertain they are
    meter.close()

A meter can be started again after each stop. A class has open(), begin(), end(), and if it needs
them read(), release() and what()."""

import argparse
import importlib
import os
import re
import sys
import textwrap
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# By the name of its module in lab/joules: the class. They are tried in this order.
METERS = {
    "rapl": "Rapl",
    "battery": "Battery",
    "shelly": "Shelly",
    "ppk2": "Ppk2",
}
MOST = 4096  # bytes: no file of a counter has more


class Clock:
    """What meters and measurements go by. Tests have one that they set forward themselves."""

    def now(self) -> float:
        """Seconds since some moment; it never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Calls it at this interval in a thread, until what this returns is called."""
        over = threading.Event()

        def loop() -> None:
            while not over.wait(seconds):
                call()

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()

        def stop() -> None:
            over.set()
            thread.join()

        return stop


class Absent(Exception):
    """This meter cannot be used. The text says why, and what to do: one or two sentences."""


class Lost(Exception):
    """The meter failed during a measurement. What it read before is no result."""


@dataclass(frozen=True)
class Energy:
    """What a meter says of the time between start() and stop()."""

    joules: float
    seconds: float
    uncertainty: float  # joules: it is at most so far off, by the meter's own steps and gaps
    samples: int  # readings that it stands on
    notes: tuple[str, ...] = ()  # Sentences on gaps, dropped readings and a second opinion.
    parts: tuple[tuple[str, float], ...] = ()  # joules by domain, battery …; they need not add up
    readings: tuple[tuple[float, float], ...] = ()  # seconds since the start, watts

    @property
    def watts(self) -> float:
        return self.joules / self.seconds if self.seconds > 0 else 0.0


class Meter(ABC):
    """`at` is the user's --at: where the meter is; None: where such a meter usually is."""

    name: str  # The module's name.
    reads = 1.0  # seconds between two calls of read()

    def __init__(self, at: str | None, clock: Clock) -> None:
        self.at = at
        self.clock = clock
        self._failed: Exception | None = None
        self._stop_reading: Callable[[], None] = lambda: None

    @abstractmethod
    def open(self) -> None:
        """Looks for the meter, and raises Absent if it cannot be used."""

    @abstractmethod
    def begin(self) -> None:
        """Takes the first reading."""

    def read(self) -> None:
        """Takes one more. It is called at every `reads` seconds, in a thread of its own."""

    @abstractmethod
    def end(self) -> Energy:
        """Takes the last reading, and reckons. Raises Lost if the meter failed."""

    def release(self) -> None:
        """Closes what open() opened, if it opened something."""

    def what(self) -> str:
        """What exactly measures: two runs are alike only if this is the same."""
        return self.name

    def start(self) -> None:
        self._failed = None
        self.begin()
        self._stop_reading = self.clock.every(self.reads, self._read)

    def stop(self) -> Energy:
        self._stop_reading()
        self._stop_reading = lambda: None
        if self._failed is not None:
            raise self._failed
        return self.end()

    @property
    def failed(self) -> bool:
        """Nothing more can come of this measurement."""
        return self._failed is not None

    def close(self) -> None:
        """May be called at any time, and twice."""
        self._stop_reading()
        self._stop_reading = lambda: None
        self.release()

    def _read(self) -> None:
        """After a failure there is nothing more to read: stop() raises it."""
        if self._failed is None:
            try:
                self.read()
            except Exception as failure:  # the thread would swallow it
                self._failed = failure


def made(name: str, at: str | None, clock: Clock) -> Meter:
    meter: Meter = getattr(importlib.import_module(f"lab.joules.{name}"), METERS[name])(at, clock)
    return meter


def find(name: str | None, at: str | None = None, clock: Clock | None = None) -> Meter:
    """Returns the meter of this name, or the first that is there, opened. Raises Absent with a
    paragraph that says of each why it is not there."""
    absent = []
    for candidate in METERS if name is None else [name]:
        meter = made(candidate, at, clock or Clock())
        try:
            meter.open()
        except Absent as reason:
            meter.close()
            absent.append(f"{candidate}: {reason}")
        else:
            return meter
    begin = "There is no meter, so there are no joules: " if name is None else \
        "This meter cannot be used: "
    raise Absent(begin + " ".join(absent))


def chosen(options: argparse.Namespace) -> tuple[Meter | None, str]:
    """The meter of --meter and --at, or why there is none. If one was named, that is the end."""
    try:
        return find(options.meter, options.at), ""
    except Absent as absent:
        if options.meter:
            print(paragraph(absent), file=sys.stderr)
            raise SystemExit(2) from None
        return None, paragraph(absent)


def without_login(at: str | None) -> str:
    """Everybody may read results and messages, so they must not have the user or the password."""
    return re.sub(r"^(\w+://)?.*@", r"\1", at or "")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of every command that measures: --meter and --at, for find()."""
    parser.add_argument("--meter", choices=METERS, help="else the first that is there")
    parser.add_argument("--at", metavar="PLACE",
                        help="where it is: for rapl and battery, a folder like /sys; for shelly "
                             "http://PLUG; for ppk2 /dev/ttyACM0@MILLIVOLTS")


def paragraph(absent: Absent) -> str:
    """For the terminal, which a meter's answer must not control."""
    return textwrap.fill("".join(filter(str.isprintable, str(absent))), 79, break_long_words=False,
                         break_on_hyphens=False)


# The small files in which Linux shows its counters. They may be missing, or vanish.

def opened(file: Path) -> BinaryIO:
    """Nothing is waited for, as somebody's own folder may have a FIFO there."""
    return open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))


def text_of(file: Path) -> str | None:
    """What is in the file, or nothing if it cannot be read now. It may be shown on a terminal."""
    try:
        with opened(file) as now:
            content = now.read(MOST) or b""
    except OSError:
        return None
    return "".join(filter(str.isprintable, content.decode("ascii", "replace").strip()))


def number_of(file: Path) -> int | None:
    """The number in the file, or nothing if there is none."""
    digits = text_of(file)
    if digits is None or len(digits) > 20 or not digits.lstrip("-").isdecimal():
        return None
    try:
        return int(digits)
    except ValueError:  # "--1" is such a text.
        return None


def is_forbidden(file: Path) -> bool:
    """It is there, but not for this user."""
    try:
        opened(file).close()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def folders_in(place: Path) -> list[Path]:
    """In the order of their names; none, if the place is not there."""
    try:
        return sorted(place.iterdir())
    except OSError:
        return []
