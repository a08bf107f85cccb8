"""How much of the time an agent and its variables were well, from the events of their states, and
from the times in which the fleet saw its agents. Both are in the store, so it is exact, also after
a crash: at most SAVE_S before it count as not seen. The parts of the status page, which everybody
may ask for, have a sum for each day instead."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from dumpulse_fleet.model.agents import MUTE_STATES, Part, State
from dumpulse_fleet.model.naming import matches
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.store import Store

DAY = 86_400
DAYS = 30
STATUS_DAYS = 90  # days on the status page
SAVE_S = 10.0  # between two times that the store is told that the fleet still sees
GAP_S = 60.0  # a longer time between two looks was not seen: the clock was set, or all stood still
NOT_KNOWN = frozenset((State.UNWATCHED, State.PENDING, State.UNKNOWN))
HIDING = NOT_KNOWN.union(MUTE_STATES)
STATES = {state.words: state for state in State}
EVENTS = """SELECT variable, at, was, now FROM event JOIN source ON source.id = event.source
            WHERE agent = ? AND what = 'state' AND at >= ? ORDER BY number"""
One = TypeVar("One")
Other = TypeVar("Other")


class Span(NamedTuple):
    """A time in which a state was seen. Unix times."""

    begin: float
    end: float
    state: State


class Share(NamedTuple):
    """Seconds."""

    seen: float = 0.0  # The time for which the state was known.
    well: float = 0.0


class Uptime:
    """Not for several threads, but for `of`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The present time of seeing; 0: the fleet is blind now.
        self._began = self._last = self._saved = 0.0

    def look(self, now: float, sees: bool) -> None:
        """Call it once a second, with Unix time."""
        if self._began and not (sees and 0 <= now - self._last < GAP_S):
            self.save()
            self._began = 0.0
        if sees and not self._began:
            self._began = self._saved = now
        self._last = now
        if self._began and now - self._saved >= SAVE_S:
            self.save()

    def save(self) -> None:
        """Lets the store write it. The store reports that it cannot."""
        span = self._began, self._last

        def write(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO seen VALUES (?, ?)", span)
            database.execute("DELETE FROM seen WHERE ended < ?", (span[1] - (DAYS + 1) * DAY,))

        if self._began:
            self._saved = self._last
            self._store.write(write).add_done_callback(lambda done: done.exception())

    def of(self, table: Table, row: int, now: float) -> dict[int, list[Span]]:
        """Returns what was seen of an agent (-1) and of its watched variables in the last 30 days,
        the oldest first. Trouble: the store cannot be read."""
        begin, agent = now - DAYS * DAY, table.agents[row]
        seen = [(max(begin, began), min(now, ended), True) for began, ended in self._store.ask(
            "SELECT began, ended FROM seen WHERE ended > ? ORDER BY began", begin)]
        if self._began:
            seen = [span for span in seen if span[0] < self._began]
            seen.append((max(begin, self._began), now, True))
        events: dict[int, list[tuple[float, State, State]]] = {}
        for variable, unix, was, is_now in self._store.ask(EVENTS, agent.name, begin):
            events.setdefault(variable, []).append(
                (unix, STATES.get(was, State.PENDING), STATES.get(is_now, State.UNKNOWN)))
        # The store deletes the oldest events if there are too many: what was before is unknown.
        if self._store.is_full and (oldest := self._store.ask("SELECT min(at) FROM event")[0][0]):
            seen = [(max(oldest, first), last, True) for first, last, _ in seen if last > oldest]
        with table.lock:
            told_states = [int(table.agent_told[row]), *table.told[row].tolist()]
            states = [int(table.agent_state[row]), *table.state[row].tolist()]
        lines: dict[int, list[tuple[float, float, State]]] = {}
        for variable in (-1, *np.flatnonzero(agent.profile.expected).tolist()):
            state = State(told_states[variable + 1])
            lines[variable] = list(line(
                events.get(variable, ()),
                state if state != State.PENDING else State(states[variable + 1]), begin, now))
        agent_spans = [(first, last, state) for first, last, state, _ in both(lines.pop(-1), seen)]
        spans_of = {-1: [Span(*span) for span in agent_spans]}
        for variable, spans in lines.items():  # unknown while the agent is
            spans_of[variable] = [Span(first, last, State.UNKNOWN if above in HIDING else state)
                               for first, last, state, above in both(spans, agent_spans)]
        return spans_of


def line(events: Iterable[tuple[float, State, State]], state: State, begin: float, end: float
         ) -> Iterator[tuple[float, float, State]]:
    """Returns the states of a time from its changes; without any, it was always the present one."""
    first, before = begin, None
    for unix, was, is_now in events:
        before = was if before is None else before
        if (last := min(max(unix, first), end)) > first:
            yield first, last, before
        first, before = last, is_now
    if end > first:
        yield first, end, state if before is None else before


def both(some: Sequence[tuple[float, float, One]], others: Sequence[tuple[float, float, Other]]
         ) -> Iterator[tuple[float, float, One, Other]]:
    """Returns the times that are in spans of both lists, which are in the order of time."""
    i = j = 0
    while i < len(some) and j < len(others):
        first, last = max(some[i][0], others[j][0]), min(some[i][1], others[j][1])
        if first < last:
            yield first, last, some[i][2], others[j][2]
        if some[i][1] < others[j][1]:
            i += 1
        else:
            j += 1


def share(spans: Iterable[Span], since: float) -> Share:
    """Returns how much was seen since then, and how much of that was well."""
    seen = well = 0.0
    for span in spans:
        if span.state not in NOT_KNOWN and span.end > since:
            seconds = span.end - max(span.begin, since)
            seen += seconds
            well += seconds * (span.state == State.ALIVE)
    return Share(seen, well)


class Days:
    """How much of each of the last STATUS_DAYS each part of the status page was well: the seconds
    of all its agents. Not for several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table: Table | None = None
        self._rows: dict[str, list[int]] = {}  # The rows of the agents of each part.
        self._before: dict[str, Share] = {}  # The sums of its counters at the last call.
        # The shares of each part, by the number of days since 1970.
        self.parts: dict[str, dict[int, Share]] = {}

    def load(self) -> None:
        """Goes on with what was written. Trouble: it cannot be read."""
        for text, in self._store.ask("SELECT value FROM kept WHERE name = 'days'"):
            self.parts = {name: {day: Share(*sums) for day, *sums in days}
                          for name, days in json.loads(text).items()}

    def add(self, table: Table, parts: Sequence[Part], now: float) -> None:
        """Call it once a minute, with Unix time."""
        today = int(now // DAY)
        if table is not self._table:  # after a reload; to match takes long
            self._table, self._before = table, {}
            self._rows = {part.name: [row for row, agent in enumerate(table.agents)
                                      if matches(part.match, agent)] for part in parts}
        for name, rows in self._rows.items():
            sums = Share(float(table.seen_s[rows].sum()), float(table.well_s[rows].sum()))
            if name in self._before:
                days = self.parts.setdefault(name, {})
                days[today] = Share(*(total + new - old for total, new, old in zip(
                    days.get(today, Share()), sums, self._before[name])))
            self._before[name] = sums
        self.parts = {name: {day: total for day, total in days.items() if day > today - STATUS_DAYS}
                      for name, days in self.parts.items() if name in self._rows}

    def save(self) -> None:
        """Lets the store write it. The store reports that it cannot."""
        text = json.dumps({name: [[day, *sums] for day, sums in days.items()]
                           for name, days in self.parts.items()})
        self._store.write(lambda database: database.execute(
            "INSERT OR REPLACE INTO kept VALUES ('days', ?)", (text,)).rowcount
            ).add_done_callback(lambda done: done.exception())
