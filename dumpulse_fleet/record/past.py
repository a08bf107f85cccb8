"""The values and states of each agent and each watched variable in points of the last hours.

A point has two bytes: the value, and the worst state since the point before. 10,000 agents with 16
watched variables take 61 MB for 6 hours: 180 points of 2 minutes. A larger fleet gets fewer
points."""

from __future__ import annotations

import functools
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.model.agents import Event, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.store import Store

MINUTES = 360  # that have points
MOST_BYTES = 64 * 1024 * 1024
NOTHING = 255  # the state of a point that has none, for example before an agent was added
AT_ONCE = 500  # agents that are written in one transaction
VALUE, STATE = range(2)  # of a point; the state is its number + 1, or 0 if there is none
AGENT = 255  # the number of the agent itself, among its variables
SEVERITY = {state.words: int(state) for state in State}
Bytes = NDArray[np.uint8]
Slots = NDArray[np.int64]


class Past:
    """Of one table. Not for several threads."""

    def __init__(self, store: Store, table: Table, now: float, most_bytes: int = MOST_BYTES
                 ) -> None:
        self._store, self._watched, self._most_bytes = store, table, most_bytes
        # The agent itself is in the column 0, its variables are after it. A cell is one of them.
        kept = np.ones((len(table.agents), 65), np.bool_)
        for row, agent in enumerate(table.agents):
            kept[row, 1:] = agent.profile.expected
        self._agents, self._columns = np.nonzero(kept)
        self._cell = np.full(kept.shape, -1, np.int32)
        self._cell[kept] = np.arange(len(self._agents))
        self._first = np.searchsorted(self._agents, np.arange(len(kept) + 1))  # cell of each agent
        self._numbers = (self._columns - 1).astype(np.uint8)  # AGENT, or the variable
        room = most_bytes // (2 * max(1, len(self._agents)))
        self.step = -(-MINUTES // max(1, min(room, MINUTES)))  # minutes a point
        self.points = -(-MINUTES // self.step)
        # A ring. The system gives memory for a point when it is written for the first time.
        self._recent = np.zeros((self.points, len(self._agents), 2), np.uint8)
        self._slot = self._begun = int(now // (60 * self.step))  # of the newest and oldest point

    def add(self, table: Table, now: float, sees: bool = True) -> None:
        """Call it once a minute, with the table that this was made for. A fleet that does not see
        says nothing of this minute."""
        self._turn(now)
        with table.lock:
            values = (table.entry[self._agents, self._columns - 1] & 0xFF).astype(np.uint8)
            states = np.concatenate([table.agent_state[:, None], table.state], axis=1)[
                self._agents, self._columns]
        point = self._recent[self._slot % self.points]
        point[:, VALUE] = values
        if sees:
            point[:, STATE] = np.maximum(point[:, STATE], states + 1)

    def heard(self, events: Iterable[Event]) -> None:
        """A state that began and ended between two minutes counts, too."""
        point = self._recent[self._slot % self.points]
        for event in events:
            row, worst = self._watched.row.get(event.agent, -1), SEVERITY.get(event.was, -1) + 1
            if event.what == "state" and row >= 0:
                cell = self._cell[row, event.variable + 1]
                if cell >= 0 and point[cell, STATE]:
                    point[cell, STATE] = max(point[cell, STATE], worst)

    def _turn(self, now: float) -> None:
        """Points that nobody has seen are empty."""
        slot = int(now // (60 * self.step))
        for gone in range(max(self._slot + 1, slot - self.points + 1), slot + 1):
            self._recent[gone % self.points] = 0
        self._slot = slot

    # ---------------------------------------------------------------- questions
    def _slots(self) -> Slots:
        """Of the points, the oldest first."""
        return np.arange(self._slot - self.points + 1, self._slot + 1)

    def of(self, row: int, variable: int) -> tuple[NDArray[np.float64], Bytes, Bytes]:
        """Times, values and states of one variable, the oldest first; empty if nobody watches it.
        A state of NOTHING says that there is no point."""
        cell, slots = self._cell[row, variable + 1], self._slots()
        slots = slots[(slots >= self._begun) & (cell >= 0)]
        points = self._recent[slots % self.points, cell]
        return slots * 60.0 * self.step, points[:, VALUE], points[:, STATE] - np.uint8(1)

    def _part(self, row: int) -> slice:
        return slice(self._first[row], self._first[row + 1])

    # ---------------------------------------------------------------- over changes and restarts
    def moved(self, table: Table, now: float) -> Past:
        """For a new configuration: what is still watched goes on."""
        self._turn(now)
        new = Past(self._store, table, now, self._most_bytes)
        rows = np.array([table.row.get(agent.name, -1) for agent in self._watched.agents],
                        np.int64)[self._agents]
        cells = np.where(rows >= 0, new._cell[rows, self._columns], -1) if table.agents else \
            np.full(len(rows), -1)
        kept = np.flatnonzero(cells >= 0)
        to, whence = new._shared(self.step, self._slots())
        here, there = new._recent.view(np.uint16)[..., 0], self._recent.view(np.uint16)[..., 0]
        for point, old in zip(to.tolist(), self._slots()[whence].tolist()):
            if old >= self._begun:
                here[point, cells[kept]] = there[old % self.points, kept]
        new._begun = min(new._slot, self._begun * self.step // new.step)
        return new

    def _shared(self, step: int, slots: Slots) -> tuple[Slots, Slots]:
        """The places of those points here that other ones of `step` minutes have, and which."""
        own = self._slots()
        whence = own * self.step // step - slots[0]
        fits = (whence >= 0) & (whence < len(slots))
        return own[fits] % self.points, whence[fits]

    def save(self) -> None:
        """Writes the points, without waiting for it. The store says if it cannot."""
        whole = self._recent[self._slots() % self.points].transpose(1, 0, 2)
        for first in range(0, len(self._watched.agents), AT_ONCE):
            rows = range(first, min(first + AT_ONCE, len(self._watched.agents)))
            self._store.write(functools.partial(self._write, rows, whole, self.step, self._slot)
                              ).add_done_callback(lambda done: done.exception())

    def _write(self, rows: Sequence[int], whole: Bytes, step: int, slot: int,
               database: sqlite3.Connection) -> None:
        database.executemany("INSERT OR REPLACE INTO recent VALUES (?, ?, ?, ?)", (
            (self._watched.agents[row].name, step, slot, zlib.compress(
                bytes([len(cells := self._numbers[self._part(row)]), *cells])
                + whole[self._part(row)].tobytes(), 1)) for row in rows))

    def load(self) -> None:
        """Goes on with what was written. Trouble: it cannot be read."""
        for name, step, slot, data in self._store.ask(
                "SELECT * FROM recent WHERE step BETWEEN 1 AND ?", MINUTES):
            count = -(-MINUTES // step)
            to, whence = self._shared(step, np.arange(slot - count + 1, slot + 1))
            for cell, points in self._cells(name, decoded(data, count, 2)):
                self._recent[to, cell] = points[whence]
        slots = self._slots()
        some = np.flatnonzero(self._recent[slots % self.points, :, STATE].max(axis=1, initial=0))
        self._begun = int(slots[some[0]]) if len(some) else self._begun

    def _cells(self, name: str, found: Iterable[tuple[int, Bytes]]
               ) -> Iterator[tuple[int, Bytes]]:
        """Of what is still watched."""
        row = self._watched.row.get(name)
        for number, data in found if row is not None else ():
            cell = int(self._cell[row, (number + 1) % 256])
            if cell >= 0:
                yield cell, data


def decoded(data: bytes, count: int, width: int) -> Iterator[tuple[int, Bytes]]:
    """Arrays of an agent and of its variables; nothing if it makes no sense."""
    try:
        content = zlib.decompress(data)
    except zlib.error:
        return
    cells = content[0] if content else 0
    size = cells * count * width
    if len(content) == 1 + cells + size and all(
            number < 64 or number == AGENT for number in content[1:1 + cells]):
        found = np.frombuffer(content, np.uint8, size, 1 + cells).reshape(cells, count, width)
        yield from zip(content[1:1 + cells], found)
