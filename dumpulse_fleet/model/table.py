"""What all agents said last, as arrays: a row for each agent, a column for each variable. Only the
collector writes here, with the lock held. Readers hold it while they copy what they need."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import Agent, State

VARIABLES = 64
UNSURE = (State.UNWATCHED, State.PENDING, State.UNKNOWN)  # Nothing is known in these states.
PLACE = 28  # bytes of an address, as wire.pack makes it
Array = NDArray[Any]
Rows = NDArray[np.intp]


class Table:
    """The state of the fleet. It takes about 0.6 kB an agent of which 16 variables are used, and
    1.7 kB if all are."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self.lock = threading.Lock()
        self.agents = tuple(agents)
        self.row = {agent.name: row for row, agent in enumerate(self.agents)}
        count = len(self.agents)
        whole = (VARIABLES, count)  # transposed: unused variables take no memory
        # ---- each variable
        self.entry = np.zeros(whole, np.uint32).T  # Timestamp, sender and value.
        # When its entry was stamped, in ticks of the agent's clock that never wraps (see `clock`).
        self.stamped = np.zeros(whole, np.int64).T
        # The entry was there at the first report, so its age is "at least" this.
        self.at_least = np.zeros(whole, np.bool_).T
        self.state = np.full(whole, State.PENDING, np.uint8).T
        # The last state that was told in an event. PENDING is never told, nor is UNKNOWN because
        # the agent does not answer.
        self.told = np.full(whole, State.PENDING, np.uint8).T
        # Unix time at which it came into the state that was told; 0: nothing was told yet.
        self.since = np.zeros(whole, np.float64).T
        # ---- each agent
        self.agent_state = np.full(count, State.PENDING, np.uint8)
        self.agent_told = np.full(count, State.PENDING, np.uint8)
        self.agent_since = np.zeros(count, np.float64)
        self.nameless = np.zeros(count, np.bool_)  # its name has no address
        self.is_sought = np.zeros(count, np.bool_)  # It waits for its first address.
        # Of keys.Readers: its key's fingerprint, the epoch of its last report, and pace_time() from
        # which later ones are counted.
        self.known_epoch = np.zeros((count, 3), np.int64)
        self.place = np.zeros((count, PLACE), np.uint8)  # the last good address, or 0
        self.misses = np.zeros(count, np.int32)  # rounds in a row without an answer
        self.kind = np.zeros(count, np.uint8)  # ClockKind
        self.strikes = np.zeros(count, np.uint8)  # reports in a row that contradict the last one
        self.emptied = np.zeros(count, np.bool_)  # ages.Memory: entries were lost
        self.settable = np.zeros(count, np.bool_)  # its own clock has shown Unix time
        # Seconds of our monotonic clock (`now`): when its first report came, or the first one
        # after a reboot; when the last one was requested; and when that came.
        self.began = np.zeros(count, np.float64)
        self.asked = np.zeros(count, np.float64)
        self.received = np.zeros(count, np.float64)
        self.clock = np.zeros(count, np.int64)  # its time at the last report, in ticks, extended
        self.heard_at = np.zeros(count, np.float64)  # Unix time of the last report; 0: none
        self.round_trip = np.zeros(count, np.float32)  # s, of the last report
        self.reports = np.zeros(count, np.int64)  # good ones
        self.lost = np.zeros(count, np.int64)  # requests without an answer
        self.bad = np.zeros(count, np.int64)  # damaged reports
        self.late = np.zeros(count, np.int64)  # reports that came after their round
        self.reboots = np.zeros(count, np.int64)
        # s in which the fleet saw it, and its state was known; and in which it was alive.
        self.seen_s, self.well_s = np.zeros(count), np.zeros(count)
        self._counted_at = 0.0  # Unix time
        # Added to client.uptime(), this is `now`. It begins at Unix time.
        self.zero = time.time() - client.uptime()
        # `version` grows with each batch. changed[row] is the version at which a state of this
        # agent changed last; a reader remembers the version that it has seen.
        self.version = 0
        self.changed = np.zeros(count, np.int64)

    def now(self) -> float:
        """Seconds of our own clock, which nobody sets."""
        return client.uptime() + self.zero

    def count_time(self, now: float, sees: bool) -> None:
        """Call it once a second, with Unix time: for counters that grow by what was seen."""
        seconds = now - self._counted_at
        if sees and 0 < seconds < 60:
            self.seen_s += seconds * ~np.isin(self.agent_state, UNSURE)
            self.well_s += seconds * (self.agent_state == State.ALIVE)
        self._counted_at = now

    def newest(self) -> float:
        """Unix time of the last report of any agent; 0: none."""
        return float(self.heard_at.max(initial=0))

    def width(self) -> int:
        """The variables from this one on are as they were made."""
        used = (self.entry.any(axis=0) | self.since.any(axis=0) | (self.told > State.PENDING).any(
            axis=0) | (self.state > State.PENDING).any(axis=0))
        return int(np.flatnonzero(used).max(initial=-1)) + 1


def copy_rows(to: Array, rows: Rows, old: Array, old_rows: Rows) -> None:
    """Copies rows of a field into another table. Columns that stay as they are still take no memory
    then."""
    if to.ndim == 1:
        to[rows] = old[old_rows]
        return
    for variable in range(old.shape[1]):
        values = old[old_rows, variable]
        if (values != to[rows, variable]).any():
            to[rows, variable] = values
