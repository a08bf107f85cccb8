"""What web pages and the JSON interface say about the fleet."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.model.agents import Agent, Event, Mute, Part, State, boot_of
from dumpulse_fleet.model.naming import matches
from dumpulse_fleet.model.table import VARIABLES, Rows, Table
from dumpulse_fleet.record.uptime import DAY, Span, share
from dumpulse_fleet.web.metrics import Metrics

Json = dict[str, Any]


class Marks(NamedTuple):
    """What people have said of each agent as a whole. It is another object when it changes."""

    muted: NDArray[np.bool_]  # True where alerts are held back.
    acknowledged: NDArray[np.object_]  # The mute that acknowledges its trouble, or None.


def when(stamp: float) -> float | None:
    return round(float(stamp), 3) if stamp > 0 else None


class View:
    """Of one table. A reload of the configuration makes another table, and so another view."""

    def __init__(self, table: Table, parts: Sequence[Part] = ()) -> None:
        self.table = table
        self.metrics = Metrics(table)
        self._epoch = f"{time.time_ns():x}"  # Prefix of the versions of this table.
        self._words = [" ".join((agent.name, agent.site, agent.address,
                                 *(f"{key}={text}" for key, text in agent.labels.items()))
                                ).casefold() for agent in table.agents]
        self.period = min((agent.period for agent in table.agents), default=10.0)  # s
        self._static: list[Json] = [
            {"name": agent.name, "address": agent.address, "site": agent.site,
             "parent": agent.parent, "labels": dict(agent.labels), "not_authenticated": [
                 variable_name(agent, number) for number in range(VARIABLES)
                 if agent.authenticated(number) is False]} for agent in table.agents]
        self._by_name = sorted(range(len(table.agents)), key=lambda row: table.agents[row].name)
        self.parts = [(part.name, np.array([row for row, agent in enumerate(table.agents) if
                                            matches(part.match, agent)], np.intp))
                      for part in parts]  # For the status page.
        self._active: list[Mute] = []
        count = len(table.agents)
        self._marks = Marks(np.zeros(count, np.bool_), np.full(count, None, object))

    def marks(self, mutes: Sequence[Mute], now: float) -> Marks:
        active = [mute for mute in mutes
                  if mute.begins <= now < mute.ends and "variable" not in mute.match]
        if self._active != active:
            self._active = active
            marks = self._marks
            muted, acknowledged = marks.muted.copy(), marks.acknowledged.copy()
            for row, agent in enumerate(self.table.agents):
                fit = [mute for mute in active if matches(mute.match, agent)]
                muted[row] = not all(mute.acknowledges for mute in fit)
                acknowledged[row] = max((mute for mute in fit if mute.acknowledges),
                                        key=lambda mute: mute.ends, default=None)
            with self.table.lock:
                self.table.version += 1
                changed = (muted != marks.muted) | (acknowledged != marks.acknowledged)
                self.table.changed[changed] = self.table.version
            self._marks = Marks(muted, acknowledged)
        return self._marks

    @property
    def version(self) -> str:
        """Read it before what it is the version of."""
        return f"{self._epoch}.{self.table.version}"

    def changed_since(self, seen: str) -> Rows | None:
        """The rows of agents that have changed since this version. None: it is none of this table,
        or one of the future."""
        epoch, _, number = seen.partition(".")
        with self.table.lock:
            if epoch != self._epoch or not number.isdecimal() or len(number) > 18 \
                    or int(number) > self.table.version:
                return None
            return np.flatnonzero(self.table.changed > int(number))

    # ---- agents
    def chosen(self, words: str = "", states: Sequence[State] = (), sites: Sequence[str] = (),
               worst_first: bool = True) -> list[int]:
        """Rows of the agents that fit all of this."""
        table = self.table
        parts = words.casefold().split()
        states_now = table.agent_state.copy()
        rows = [row for row in self._by_name
                if (not states or states_now[row] in states)
                and (not sites or table.agents[row].site in sites)
                and all(part in self._words[row] for part in parts)]
        if not worst_first:
            return rows
        bad = (table.state >= State.LATE).sum(axis=1)  # Order within a state.
        return sorted(rows, key=lambda row: (-int(states_now[row]), -int(bad[row])))

    def changing(self, rows: Sequence[int] | Rows, marks: Marks) -> list[Json]:
        """What changes of these agents, without their addresses and labels."""
        table, picked = self.table, np.asarray(rows, np.intp)
        with table.lock:
            state, since = table.agent_state[picked], table.agent_since[picked]
            heard_at, states = table.heard_at[picked], table.state[picked]
        worst = states.argmax(axis=1).tolist()
        named = ((states >= State.LATE).any(axis=1) & (state < State.DAMAGED)).tolist()
        counts = {level: (states == level).sum(axis=1).tolist()
                  for level in State if level != State.UNWATCHED}
        return [{"name": table.agents[row].name, "state": State(own_state).words,
                 "worst": variable_name(table.agents[row], worst[index]) if named[index] else None,
                 "since": when(begun), "heard_at": when(heard), "muted": quiet,
                 "acknowledged": mute and {"by": mute.by, "until": mute.ends, "why": mute.why},
                 "counts": {level.words: numbers[index] for level, numbers in counts.items()
                            if numbers[index]}}
                for index, (row, own_state, begun, heard, quiet, mute) in enumerate(zip(
                    picked.tolist(), state.tolist(), since.tolist(), heard_at.tolist(),
                    marks.muted[picked].tolist(), marks.acknowledged[picked].tolist()))]

    def agents(self, rows: Sequence[int], marks: Marks) -> list[Json]:
        return [{**self._static[row], **changes}
                for row, changes in zip(rows, self.changing(rows, marks))]

    def agent(self, row: int, marks: Marks) -> Json:
        """All that is known of one."""
        table, agent = self.table, self.table.agents[row]
        with table.lock:
            entry, state = table.entry[row].tolist(), table.state[row].tolist()
            since, at_least = table.since[row].tolist(), table.at_least[row].tolist()
            ages = (table.clock[row] - table.stamped[row]).tolist()
            heard_at, round_trip = float(table.heard_at[row]), float(table.round_trip[row])
            numbers = {name: int(getattr(table, name)[row])
                       for name in ("reports", "lost", "late", "bad", "reboots")}
        def moment(number: int) -> float | None:
            return when(heard_at - ages[number] * agent.profile.tick) \
                if heard_at > 0 and entry[number] != 0 else None

        variables = []
        for variable in agent.profile.settings.variables:
            number, boots = variable.number, variable.boots
            heard = heard_at > 0 and entry[number] != 0
            variables.append({
                "variable": number, "name": variable.name, "expected": variable.expected,
                "authenticated": agent.authenticated(number),
                "state": State(state[number]).words, "since": when(since[number]),
                "value": entry[number] & 255 if heard else None,
                "sender": entry[number] >> 8 & 255 if heard else None,
                "heard_at": moment(number), "at_least": heard and at_least[number],
                "boot": None if boots is None or moment(boots) is None else {
                    "at": moment(boots), "at_least": at_least[boots],
                    "words": boot_of(entry[boots] & 255)},
                "warn": variable.warn_ms / 1000, "crit": variable.crit_ms / 1000,
                "low": variable.warn_low, "high": variable.warn_high})
        return {**self.agents([row], marks)[0], "profile": agent.profile.name,
                "tick": agent.profile.tick, "period": agent.period, "timeout": agent.timeout,
                "misses": agent.misses,
                "round_trip": round(round_trip, 6) if heard_at else None,
                **numbers, "variables": variables}

    # ---- sums
    def summary(self) -> Json:
        table = self.table
        with table.lock:
            agents, variables = table.agent_state.copy(), table.state.copy()
            heard_at = table.newest()
        return {"agents": by_state(np.bincount(agents, minlength=len(State))),
                "variables": by_state(np.bincount(variables.ravel(), minlength=len(State))),
                "heard_at": when(heard_at), "period": self.period}


def variable_name(agent: Agent, variable: int) -> str:
    return agent.profile.settings.variables[variable].name or f"variable {variable}"


def uptime(seen: Mapping[int, Sequence[Span]], now: float) -> list[Json]:
    """The agent first, then its variables."""
    cells = []
    for variable, spans in seen.items():
        shares = {word: share(spans, now - days * DAY)
                  for word, days in (("day", 1), ("week", 7), ("month", 30))}
        cells.append({
            "variable": variable if variable >= 0 else None,
            **{word: round(100 * part.well / part.seen, 5) if part.seen else None
               for word, part in shares.items()},
            **{f"{word}_seen": round(part.seen, 3) for word, part in shares.items()}})
    return cells


def by_state(counts: NDArray[Any]) -> Json:
    return {state.words: int(counts[state]) for state in State if counts[state]}


def event(one: Event, table: Table) -> Json:
    row = table.row.get(one.agent, -1)
    has_name = row >= 0 and one.variable >= 0  # An agent may have been removed.
    return {"number": one.number, "at": round(one.at, 3), "agent": one.agent,
            "variable": one.variable if one.variable >= 0 else None,
            "name": variable_name(table.agents[row], one.variable) if has_name else "",
            "what": one.what,
            "was": one.was, "now": one.now, "lasted": one.lasted if one.lasted >= 0 else None,
            "site": one.site}


def mute(one: Mute) -> Json:
    return {"number": one.number, "match": dict(one.match), "begins": one.begins,
            "ends": one.ends, "why": one.why, "by": one.by, "acknowledges": bool(one.acknowledges)}
