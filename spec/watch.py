"""The watch of dumpulse_watch.h, written a second time, without any of the C code.

    watch = Watch([line(3, late=20, dead=60, grace=200, lowest=10, highest=120)])
    changes = watch.look(agent.entries, now)  # [(variable, was, is), …]

The tests compare the C code with this."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

WAITING, MISSING, ALIVE, OUT_OF_RANGE, LATE, DEAD = range(6)
STATES = ("waiting", "missing", "alive", "out of range", "late", "dead")
BEST_FIRST = (ALIVE, WAITING, OUT_OF_RANGE, LATE, MISSING, DEAD)
WRAP = 65536
AHEAD = 64  # ticks that a timestamp may be ahead of the time now
LONGEST = WRAP - 1 - AHEAD  # ticks: the largest age that can be told

Change = tuple[int, int, int]  # variable, was, is


class Line(NamedTuple):
    """A line of the table: what the C code keeps of it. Any numbers are safe."""

    variable: int  # one of 64 or more reads an entry of another
    lowest: int
    span: int  # The highest value minus the lowest.
    grace: int  # ticks + AHEAD, as the next two
    late: int
    dead: int

    @property
    def entry(self) -> int:
        return self.variable % 64

    def packed(self, order: str, gap: str = "") -> bytes:
        """The C structure in memory. order: "<" or ">". gap: "x" if 16 bits are aligned."""
        return struct.pack(f"{order}3B{gap}3H", *self)


def line(variable: int, late: int, dead: int, grace: int, lowest: int = 0,
         highest: int = 255) -> Line:
    """A line as DUMPULSE_WATCHED makes it."""
    return Line(variable, lowest, highest - lowest, grace + AHEAD, late + AHEAD, dead + AHEAD)


def allowed(row: Line, within: int) -> bool:
    """Whether a line makes sense, if `within` ticks may pass between two looks."""
    limit = LONGEST - within
    return row.variable < 64 and 0 < row.late - AHEAD <= row.dead - AHEAD <= limit and \
        0 <= row.grace - AHEAD <= limit and row.lowest + row.span <= 255


def ticks(since: int, now: int) -> int:
    """From one time to another. Up to AHEAD ticks back are a negative number."""
    return (now - since + AHEAD) % WRAP - AHEAD


class Watch:
    def __init__(self, lines: Sequence[Line], start: int = 0) -> None:
        self.lines = list(lines)
        self.states = [WAITING] * len(self.lines)
        # Of each line: the last timestamp, or when its grace began.
        self.times = [start] * len(self.lines)

    def seen(self) -> bytes:
        """The C structures `dumpulse_seen` in memory."""
        return b"".join(struct.pack(">HB", *both)
                        for both in zip(self.times, self.states, strict=True))

    def look(self, entries: Sequence[bytes], now: int, first: int = 0,
             count: int = 255) -> list[Change]:
        """Looks at some lines. Returns what the hook is told, in order."""
        changes = []
        for number in range(first, min(first + count, len(self.lines))):
            row, was = self.lines[number], self.states[number]
            state = self._state(number, row, entries[row.entry], now)
            self.states[number] = state
            if state != was:
                changes.append((row.variable, was, state))
        return changes

    def _state(self, number: int, row: Line, entry: bytes, now: int) -> int:
        was, before = self.states[number], self.times[number]
        if entry == bytes(4) and was in (WAITING, MISSING):
            return MISSING if ticks(before, now) > row.grace - AHEAD else was
        timestamp, _, value = struct.unpack(">HBB", entry)
        self.times[number] = timestamp
        silence = ticks(timestamp, now)
        if silence > row.dead - AHEAD:
            return DEAD
        if was in (LATE, DEAD) and timestamp == before:
            return was  # nothing new: it stays what it is
        if silence > row.late - AHEAD:
            return LATE
        return ALIVE if (value - row.lowest) % 256 <= row.span else OUT_OF_RANGE

    def begin(self, now: int) -> None:
        self.times = [now if state == WAITING else time
                      for state, time in zip(self.states, self.times, strict=True)]

    def state(self, variable: int) -> int:
        return next((state for row, state in zip(self.lines, self.states, strict=True)
                     if row.variable == variable), WAITING)

    def worst(self) -> int:
        return max([ALIVE, *self.states], key=BEST_FIRST.index)
