"""How each agent and each watched variable has been: by the minute for an hour, by the hour for 30
days.   SPDX-License-Identifier: MIT

    past = Past(store, table)
    past.add(table, time.time())     # once a minute
    past.save()                      # now and then, and at the end
    hours, minutes = past.of(row, time.time())

Of each hour it keeps three bytes: how many minutes the state was known, how many of these were
well, and the worst state. On the disk, an agent has a row for each day, which is compressed:
10,000 agents with 8 watched variables take 20 MB for 30 days if one of a hundred hours is bad, and
12 MB of memory.
"""

from __future__ import annotations

import functools
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.store import Store

DAYS = 30
HOUR, DAY = 3600, 86_400  # s
MINUTES = 60  # that are kept one by one
AT_ONCE = 500  # agents that are written in one transaction
KNOWN, WELL, WORST = range(3)  # of an hour; the worst state is its number + 1, or 0 if unknown
UNSURE = (State.PENDING, State.UNKNOWN)
AGENT = 255  # the number of the agent itself, among its variables
Bytes = NDArray[np.uint8]


class Past:
    """Of one table. Not for several threads."""

    def __init__(self, store: Store, table: Table, now: float) -> None:
        self._store = store
        self._names = [agent.name for agent in table.agents]
        watched = (np.stack([agent.profile.expected for agent in table.agents])
                   if table.agents else np.zeros((0, 64), np.bool_))
        # A cell for each agent, then for each of its variables; those of an agent are together.
        self._watched = np.concatenate([np.ones((len(watched), 1), np.bool_), watched], axis=1)
        self._agents, self._columns = np.nonzero(self._watched)
        self._first = np.searchsorted(self._agents, np.arange(len(watched) + 1))
        self._numbers = (self._columns - 1).astype(np.uint8)  # AGENT, or the variable
        self._day = int(now // DAY)
        self._today = np.zeros((len(self._agents), 24, 3), np.uint8)
        self._minute = int(now // 60)
        self._minutes = np.zeros((len(self._agents), MINUTES), np.uint8)  # states + 1

    def _part(self, row: int) -> slice:
        return slice(self._first[row], self._first[row + 1])

    def add(self, table: Table, now: float) -> None:
        """Call it once a minute, with the table that this was made for, while the fleet sees."""
        self._turn(now)
        with table.lock:
            states = np.concatenate([table.agent_state[:, None], table.state], axis=1)[
                self._agents, self._columns]
        hour = self._today[:, int(now // HOUR) % 24]
        known = ~np.isin(states, UNSURE)
        hour[:, KNOWN] += known & (hour[:, KNOWN] < MINUTES)
        hour[:, WELL] += known & (states <= State.ALIVE) & (hour[:, WELL] < MINUTES)
        hour[:, WORST] = np.maximum(hour[:, WORST], states + 1)
        self._minutes[:, self._minute % MINUTES] = states + 1

    def _turn(self, now: float) -> None:
        """Minutes that nobody has seen are unknown; a new day begins empty."""
        minute = int(now // 60)
        for gone in range(max(self._minute + 1, minute - MINUTES + 1), minute + 1):
            self._minutes[:, gone % MINUTES] = 0
        self._minute = minute
        if int(now // DAY) != self._day:
            self.save()
            self._day = int(now // DAY)
            self._today = np.zeros_like(self._today)
            self._forget(self._store.write(lambda database: database.execute(
                "DELETE FROM past WHERE day < ?", (self._day - DAYS,)).rowcount))

    def moved(self, table: Table, now: float) -> Past:
        """For a new configuration: what is still watched goes on."""
        self._turn(now)
        self.save()
        new = Past(self._store, table, now)
        cells = np.full(new._watched.shape, -1, np.int64)
        cells[new._agents, new._columns] = np.arange(len(new._agents))
        rows = np.array([table.row.get(name, -1) for name in self._names], np.int64)[self._agents]
        whence = np.flatnonzero(rows >= 0)
        to = cells[rows[whence], self._columns[whence]]
        whence, to = whence[to >= 0], to[to >= 0]
        new._today[to], new._minutes[to] = self._today[whence], self._minutes[whence]
        return new

    # ---------------------------------------------------------------- on the disk
    def save(self) -> None:
        """Writes today, without waiting for it. The store says if it cannot."""
        day, today = self._day, self._today.copy()

        def write(rows: range, database: sqlite3.Connection) -> int:
            return database.executemany("INSERT OR REPLACE INTO past VALUES (?, ?, ?)", (
                (self._names[row], day, zlib.compress(
                    bytes([part.stop - part.start]) + self._numbers[part].tobytes()
                    + today[part].tobytes(), 1))
                for row in rows for part in [self._part(row)])).rowcount

        for first in range(0, len(self._names), AT_ONCE):
            rows = range(first, min(first + AT_ONCE, len(self._names)))
            self._forget(self._store.write(functools.partial(write, rows)))

    @staticmethod
    def _forget(done: Future[int]) -> None:
        done.add_done_callback(lambda each: each.cancelled() or each.exception())

    def load(self) -> None:
        """Goes on with what was written of today. Trouble: it cannot be read."""
        row_of = {name: row for row, name in enumerate(self._names)}
        for name, _, data in self._store.ask("SELECT * FROM past WHERE day = ?", self._day):
            row = row_of.get(name)
            if row is not None:
                part = self._part(row)
                for number, hours in decoded(data):
                    self._today[part][self._numbers[part] == number] = hours

    def of(self, row: int, now: float) -> tuple[Mapping[int, Bytes], Mapping[int, Bytes]]:
        """Of the agent (AGENT) and of each variable: the last 30 days, hour by hour, and the last
        hour, minute by minute, as states + 1. The present hour and minute are the last. It waits
        for the disk. Trouble: it cannot be read."""
        part, hour = self._part(row), int(now // HOUR)
        days = {day: dict(decoded(data)) for _, day, data in self._store.ask(
            "SELECT * FROM past WHERE agent = ?", self._names[row])}
        days[self._day] = dict(zip(self._numbers[part].tolist(), self._today[part].copy()))
        first = hour - DAYS * 24 + 1
        nothing = np.zeros((24, 3), np.uint8)
        whole = range(first // 24, hour // 24 + 1)
        hours = {number: np.concatenate([days.get(day, {}).get(number, nothing) for day in whole])[
            first % 24:][:DAYS * 24] for number in self._numbers[part].tolist()}
        order = (self._minute + 1 + np.arange(MINUTES)) % MINUTES
        return hours, dict(zip(self._numbers[part].tolist(), self._minutes[part][:, order]))


def decoded(data: bytes) -> Iterator[tuple[int, Bytes]]:
    """The hours of a day, of each variable and of the agent; nothing if it makes no sense."""
    try:
        content = zlib.decompress(data)
    except zlib.error:
        return
    count = content[0] if content else 0
    if len(content) == 1 + count + count * 72:
        hours = np.frombuffer(content, np.uint8, count * 72, 1 + count).reshape(count, 24, 3)
        yield from zip(content[1:1 + count], hours)
