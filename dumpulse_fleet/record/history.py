"""The values and states of the last hours, for sparklines.   SPDX-License-Identifier: MIT

    history = History(table)
    history.add(table)                       # once a minute
    times, values, states = history.of(row, variable)  # the oldest first

Only watched variables are kept, two bytes a point: the value, and the worst state since the point
before. 10,000 agents with 16 watched variables take 58 MB for 6 hours: 180 points of 2 minutes. A
larger fleet gets fewer points, so that the memory stays below MOST_BYTES; the hours stay the same.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.model.agents import Event, State
from dumpulse_fleet.model.table import Table

MINUTES = 360
MOST_BYTES = 64 * 1024 * 1024
NOTHING = 255  # the state of a point that has none, for example before an agent was added
SEVERITY = {state.words: int(state) for state in State}
Bytes = NDArray[np.uint8]


class History:
    """A ring of points. Each cell is a watched variable of an agent. Not for several threads."""

    def __init__(self, table: Table, minutes: int = MINUTES, most_bytes: int = MOST_BYTES) -> None:
        self._minutes, self._most_bytes = minutes, most_bytes
        self._names = [agent.name for agent in table.agents]
        self._row = table.row
        watched = (np.stack([agent.profile.expected for agent in table.agents])
                   if table.agents else np.zeros((0, 64), np.bool_))
        self._agents, self._variables = np.nonzero(watched)
        self._cell = np.full(watched.shape, -1, np.int32)
        self._cell[self._agents, self._variables] = np.arange(len(self._agents))
        room = most_bytes // (2 * max(1, len(self._agents)))
        self.step = -(-minutes // max(1, min(room, minutes)))  # minutes a point
        self.points = -(-minutes // self.step)
        # The system gives memory for a point when it is written for the first time.
        self._values = np.zeros((self.points, len(self._agents)), np.uint8)
        self._states = np.zeros((self.points, len(self._agents)), np.uint8)  # 0: none, else + 1
        self._times = np.zeros(self.points, np.float64)
        self._added = 0  # minutes

    @property
    def bytes(self) -> int:
        """What it takes when it is full."""
        return self._values.nbytes + self._states.nbytes + self._cell.nbytes

    def add(self, table: Table, now: float) -> None:
        """Call it once a minute, with the table that this was made for."""
        with table.lock:
            values = (table.entry[self._agents, self._variables] & 0xFF).astype(np.uint8)
            states = table.state[self._agents, self._variables]
        point, begun = self._added // self.step % self.points, self._added % self.step
        self._values[point] = values
        worst = np.maximum(self._states[point], states + 1) if begun else states + 1
        self._states[point] = worst
        self._times[point] = now
        self._added += 1

    def heard(self, events: Iterable[Event]) -> None:
        """A state that began and ended between two points counts, too."""
        if not self._added:
            return
        point = (self._added - 1) // self.step % self.points
        for event in events:
            row, worst = self._row.get(event.agent, -1), SEVERITY.get(event.was, -1) + 1
            if event.what == "state" and event.variable >= 0 <= row:
                cell = self._cell[row, event.variable]
                if cell >= 0 and self._states[point, cell]:
                    self._states[point, cell] = max(self._states[point, cell], worst)

    def of(self, row: int, variable: int) -> tuple[NDArray[np.float64], Bytes, Bytes]:
        """Times, values and states of one variable, the oldest first; empty if nobody watches it.
        A state of NOTHING says that there is no point."""
        cell = self._cell[row, variable]
        if cell < 0:
            return np.zeros(0), np.zeros(0, np.uint8), np.zeros(0, np.uint8)
        order = self._order()
        return (self._times[order], self._values[order, cell],
                self._states[order, cell] - np.uint8(1))  # 0 becomes NOTHING

    def _order(self) -> NDArray[np.int64]:
        """The points, the oldest first."""
        used = -(-self._added // self.step)
        first = used % self.points if used > self.points else 0
        return (first + np.arange(min(used, self.points))) % self.points

    def moved(self, table: Table) -> History:
        """For a new configuration: what is still watched keeps its points."""
        new = History(table, self._minutes, self._most_bytes)
        new._take(self._names, self._agents, self._variables, self.step, self._times[self._order()],
                  self._values[self._order()], self._states[self._order()])
        return new

    def _take(self, names: list[str], agents: NDArray[np.int64], variables: NDArray[np.int64],
              step: int, times: NDArray[np.float64], values: Bytes, states: Bytes) -> None:
        """Points of another history, the oldest first."""
        rows = np.array([self._row.get(name, -1) for name in names], np.int64)[agents]
        cells = np.full(len(rows), -1, np.int64)
        cells[rows >= 0] = self._cell[rows[rows >= 0], variables[rows >= 0]]
        kept = np.flatnonzero(cells >= 0)
        # Several old points become one, or an old one several.
        wanted = np.arange(0, len(times) * step, self.step)[-self.points:] // step
        count = len(wanted)
        self._times[:count] = times[wanted]
        self._values[:count, cells[kept]] = values[wanted[:, None], kept]
        self._states[:count, cells[kept]] = states[wanted[:, None], kept]
        self._added = count * self.step

    # ---------------------------------------------------------------- over a restart
    def save(self, path: str | Path) -> None:
        """Replaces the file as a whole. OSError: it cannot be written."""
        new = f"{path}.new"
        order = self._order()
        with contextlib.ExitStack() as failed:
            failed.callback(Path(new).unlink, missing_ok=True)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                np.savez_compressed(
                    file, names=np.array(self._names, np.str_), agents=self._agents,
                    variables=self._variables, step=np.array(self.step),
                    times=self._times[order], values=self._values[order],
                    states=self._states[order])
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
            failed.pop_all()

    def load(self, path: str | Path) -> bool:
        """Whether there was such a file, and it made sense. Else nothing changes."""
        try:
            with np.load(path, allow_pickle=False) as file:
                names, agents, variables, step, times, values, states = (
                    file[name] for name in ("names", "agents", "variables", "step", "times",
                                            "values", "states"))
            shape = (len(times), len(agents))
            if not (names.dtype.kind == "U" and names.ndim == 1
                    and agents.dtype == variables.dtype == np.int64 and variables.shape == shape[1:]
                    and np.all((0 <= agents) & (agents < len(names)))
                    and np.all((0 <= variables) & (variables < 64))
                    and step.dtype == np.int64 and step.shape == () and 1 <= step <= MINUTES
                    and times.dtype == np.float64 and times.shape == shape[:1]
                    and shape[0] <= MINUTES and np.all(np.isfinite(times))
                    and values.dtype == states.dtype == np.uint8
                    and values.shape == states.shape == shape
                    and np.all(states <= len(State))):
                return False
        except Exception:  # a damaged file raises errors of zipfile, zlib, NumPy and others
            return False
        self._take(names.tolist(), agents, variables, int(step), times, values, states)
        return True
