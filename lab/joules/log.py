"""The log of a run: what was said on both lines, and when.

A line has the seconds since the run began, who spoke, and what. `note` is the driver itself:

    0.000 note: sandwich 1          a run begins; then scheme, run, seed and image
    9.120 note: measure k           what follows belongs to a measurement …
    9.121 to meter: start
    9.500 to target: k
   19.700 meter: 5017-06
   20.300 note: measured k          … which went well, or: failed, and why
   80.002 note: complete            nothing is missing"""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from lab.joules.console import printable

BEGINS, COMPLETE = "sandwich 1", "complete"
LINE = re.compile(r" *\d{1,9}\.\d{3} (to meter|meter|to target|target|note): (.*)")
MOST = 2 << 20  # bytes of a log that is written: more comes only from a line that babbles
LARGEST = 16 << 20  # bytes of a log that is read; a run has about 40 KB


@dataclass(frozen=True)
class Entry:
    number: int  # of its line in the file
    who: str
    text: str


class Log:
    """Is written as NAME.part, and gets its name when the run is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(path.name + ".part")
        self.file = self.part.open("w", encoding="ascii", buffering=1)
        self.begun = time.monotonic()
        self.room = MOST
        self.note(BEGINS)

    def heard(self, who: str, text: str) -> None:
        line = f"{time.monotonic() - self.begun:9.3f} {who}: {text}\n"
        self.room -= len(line)
        if self.room >= 0 or who == "note":
            self.file.write(line)

    def note(self, text: str) -> None:
        self.heard("note", printable(text.encode("ascii", "replace")))

    def complete(self) -> None:
        self.note(COMPLETE)
        os.fsync(self.file.fileno())
        self.file.close()
        self.part.replace(self.path)

    def abandon(self) -> None:
        self.file.close()


def put_aside(part: Path) -> Path:
    """Keeps a log that was not completed under another name, so that the next run has its own."""
    number = 1
    while (aside := part.with_suffix(f".broken-{number}")).exists():
        number += 1
    return part.replace(aside)


def read(path: Path) -> list[Entry]:
    """The lines of a log; what is none is left out. Raises OSError."""
    with path.open("rb") as file:
        lines = file.read(LARGEST).split(b"\n")[:-1]  # the last one may be cut
    return [Entry(number, found[1], found[2]) for number, line in enumerate(lines, start=1)
            if (found := LINE.fullmatch(printable(line)))]
