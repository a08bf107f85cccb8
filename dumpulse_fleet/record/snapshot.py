"""Keeps the table of the collector in the store, beside the events: the rows of some agents are
written in one transaction with the number of the last event that was published before. So after a
crash, what was told of an agent is its row and all events that are newer."""

import concurrent.futures
import json
import sqlite3
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import MUTE_STATES, Agent, ClockKind, State
from dumpulse_fleet.model.table import VARIABLES, Table
from dumpulse_fleet.record.store import Store, Trouble

FIRST_S = 10.0  # The time to the first save. It doubles up to the longer one of the next two.
PERIOD_S, FOR_EACH_S = 60.0, 0.006  # The second one is for each agent.
AT_ONCE = 4096  # agents, which are copied while the table is locked
LOAD_S = 60.0  # s that loading may take
MOST_64 = 1 << 62  # The greatest counter, and the greatest number of ticks.
# The fields of a table, and the greatest number that each may have.
ARRAYS: dict[str, float] = {
    "entry": 0xFFFFFFFF, "stamped": MOST_64, "at_least": 1, "state": max(State),
    "told": max(State), "since": 1e12, "agent_state": max(State),
    "agent_told": max(State), "agent_since": 1e12, "misses": 1 << 30, "kind": max(ClockKind),
    "strikes": 255, "emptied": 1, "began": 1e12, "asked": 1e12, "received": 1e12, "clock": MOST_64,
    "heard_at": 1e12, "round_trip": 1e9, "reports": MOST_64, "lost": MOST_64, "bad": MOST_64,
    "late": MOST_64, "reboots": MOST_64, "settable": 1, "place": 255,
    "nameless": 1, "known_epoch": MOST_64, "seen_s": 1e12, "well_s": 1e12}
REBOOTS = "rebooted", "clock"
# SQLite takes the other columns from the row with the greatest number.
NEWER = """SELECT max(number), agent, variable, what, now, at
           FROM event JOIN source ON source.id = event.source
           WHERE what IN ('state', 'rebooted', 'clock', 'restarted')
           AND number > (SELECT coalesce(min(after), 0) FROM state)
           GROUP BY agent, variable, what"""


def about(agent: Agent, width: int) -> list[Any]:
    """If one of the first three changes, so does the agent's clock. `width`: see form."""
    return [agent.address, round(agent.profile.tick * 1000), agent.profile.settings.now_from, width]


def form(table: Table, width: int) -> np.dtype[Any]:
    """Returns the form of an agent's row, with the first variables only."""
    shapes = {name: getattr(table, name) for name in ARRAYS}
    return np.dtype([(name, like.dtype.newbyteorder("<"), like.shape[1:] if
                      like.shape[1:] != (VARIABLES,) else (width,))
                     for name, like in shapes.items()])


class Snapshot:
    """The rows of a table in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def save(self, table: Table, first: int = 0) -> int:
        """Copies the rows from this one on, and lets the store write them after all events that
        were published. Call it in the thread that publishes them. Returns the row that follows."""
        rows, width = slice(first, first + AT_ONCE), table.width()
        agents = table.agents[rows]
        copy = np.empty(len(agents), form(table, width))
        with table.lock:
            for name in ARRAYS:
                like = getattr(table, name)[rows]
                copy[name] = like[:, :width] if like.shape[1:] == (VARIABLES,) else like
        clock = {"zero": table.zero, "boot": client.boot(), "now": table.now(),
                 "unix": time.time()}

        def write(database: sqlite3.Connection) -> None:
            if not first:
                database.execute("DELETE FROM state WHERE agent NOT IN "
                                 "(SELECT value FROM json_each(?))", (json.dumps([*table.row]),))
            database.executemany("INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?)", (
                (agent.name, json.dumps(about(agent, width)), self._store.last, row.tobytes())
                for agent, row in zip(agents, copy)))
            database.execute("INSERT OR REPLACE INTO kept VALUES ('clock', ?)",
                             (json.dumps(clock),))

        # The store reports that it cannot write.
        self._store.write(write).add_done_callback(lambda done: done.exception())
        return first + len(agents)

    def load(self, table: Table) -> str:
        """Fills the table. Returns what cannot be used, if something cannot: it stays as it is."""
        def read(database: sqlite3.Connection) -> tuple[list[Any], list[Any], list[Any]]:
            return (database.execute("SELECT * FROM state").fetchall(),
                    database.execute("SELECT value FROM kept WHERE name = 'clock'").fetchall(),
                    database.execute(NEWER).fetchall())
        try:
            rows, clock, newer = self._store.write(read).result(LOAD_S)
            if clock:
                table.zero = goes_on(json.loads(clock[0][0])) - client.uptime()
        except (sqlite3.Error, Trouble, concurrent.futures.TimeoutError, ValueError,
                TypeError, KeyError) as error:
            return f"what was kept cannot be used, so all agents are new: {error!r}"
        last_numbers = {name: number for name, _, number, _ in rows}
        odd = sum(not self._put(table, *row) for row in rows if row[0] in table.row)
        self._catch_up(table, last_numbers, newer)
        return f"what was kept of {odd:,} agents makes no sense: they are new" * bool(odd)

    @staticmethod
    def _put(table: Table, name: str, text: str, _: int, data: bytes) -> bool:
        row = table.row[name]
        try:
            *before, width = json.loads(text)
            values = np.frombuffer(data, form(table, range(VARIABLES + 1)[width]))[0]
        except (ValueError, TypeError, LookupError):
            return False
        for field, limit in ARRAYS.items():
            value = values[field].view(np.uint8) if values[field].dtype == np.bool_ \
                else values[field]
            if not ((value >= (-limit if value.dtype.kind == "i" else 0)) & (value <= limit)).all():
                return False  # also if it is no number
        with table.lock:
            for field in ARRAYS:
                to: NDArray[Any] = getattr(table, field)
                if to.ndim == 1:
                    to[row] = values[field]
                else:
                    to[row, :values[field].size] = values[field]
            table.misses[row] = 0  # a grace: what did not answer then may answer now
            if before != about(table.agents[row], width)[:3]:
                table.kind[row], table.place[row], table.nameless[row] = ClockKind.NONE, 0, False
        return True

    @staticmethod
    def _catch_up(table: Table, last_numbers: Mapping[str, int], newer: list[Any]) -> None:
        """Applies the events that are newer than the rows, so that none is published twice, and no
        state that was published seems to have ended."""
        states = {state.words: state for state in State}
        with table.lock:
            for number, name, variable, what, now, unix in sorted(newer):
                row, state = table.row.get(name, -1), states.get(now)
                if row < 0 or number <= last_numbers.get(name, 0):
                    continue
                if what in REBOOTS:  # its clock is not that of the row any more
                    table.kind[row] = ClockKind.NONE
                    table.reboots[row] += what == REBOOTS[0]
                elif what == "restarted":  # The entry of the row is from before this event.
                    for watched in table.agents[row].profile.settings.variables:
                        if watched.number == variable and watched.boots is not None:
                            table.entry[row, watched.boots] = 0
                elif state is None:
                    continue
                elif variable < 0:
                    table.agent_told[row], table.agent_since[row] = state, unix
                    table.agent_state[row] = state
                    if state in MUTE_STATES:
                        table.state[row, table.state[row] != State.UNWATCHED] = State.UNKNOWN
                else:
                    table.told[row, variable], table.since[row, variable] = state, unix
                    table.state[row, variable] = state


def goes_on(clock: Mapping[str, Any]) -> float:
    """Returns what this clock of a table would show now. If the machine was started again, or is
    another one, only Unix time shows how long it took."""
    if clock["boot"] == client.boot() != "-":
        return client.uptime() + float(clock["zero"])
    return float(clock["now"]) + max(0.0, time.time() - float(clock["unix"]))
