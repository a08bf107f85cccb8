"""In which state each variable and each agent is, and the events when that changes: README.md has
the rules, in the section States and events."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.collect.ages import Flags, Memory, Outcome, Reports, Whole, advance
from dumpulse_fleet.model.agents import Agent, ClockKind, Event, Profile, State
from dumpulse_fleet.model.table import VARIABLES, Table

Rows = NDArray[np.intp]
RESET = "rebooted, or its clock was set"


class Expectations:
    """What the profiles of a table's agents say, as arrays."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        profiles: dict[int, Profile] = {id(agent.profile): agent.profile for agent in agents}
        order = {key: at for at, key in enumerate(profiles)}
        self.profile: Rows = np.array([order[id(agent.profile)] for agent in agents], np.intp)
        each = list(profiles.values())
        self.expected = np.array([one.expected for one in each], np.bool_).reshape(-1, 64)
        self.warn = np.array([one.warn for one in each], np.int64).reshape(-1, 64)
        self.crit = np.array([one.crit for one in each], np.int64).reshape(-1, 64)
        self.low = np.array([one.low for one in each], np.uint8).reshape(-1, 64)
        self.high = np.array([one.high for one in each], np.uint8).reshape(-1, 64)
        self.tick = np.array([agent.profile.tick for agent in agents], np.float64)
        self.now_from: Whole = np.array(
            [-1 if agent.profile.settings.now_from is None else agent.profile.settings.now_from
             for agent in agents], np.int64)
        self.misses = np.array([agent.misses for agent in agents], np.int32)


class Judge:
    """Takes reports, and rounds without one, into the table. Only one thread may call it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.spoilt = np.full(len(table.agents), 1 << 30, np.int32)  # rounds since a damaged answer
        wanted = self.expectations = Expectations(table.agents)
        # Only so many variables are used by anybody: those after them cost nothing.
        self.width = 8
        self._widen(table.entry.any(axis=0) | wanted.expected.any(axis=0))
        self._widen(np.arange(VARIABLES) <= wanted.now_from.max(initial=0))
        never = (table.told == State.PENDING) & ~wanted.expected[wanted.profile]
        table.state[never] = table.told[never] = State.UNWATCHED

    def _widen(self, used: Any) -> None:
        last = int(np.flatnonzero(used).max(initial=0))
        self.width = max(self.width, last // 8 * 8 + 8)

    def take(self, rows: Rows, asked: NDArray[np.float64], received: NDArray[np.float64],
             unix: NDArray[np.float64], entry: NDArray[np.uint32]
             ) -> tuple[list[Event], Outcome]:
        """Takes new reports of these agents, none of them twice. Unix times are when they came."""
        table, all_rows = self.table, self.expectations
        self._widen(np.any(entry, axis=0))
        entry = entry[:, :self.width]
        was = Memory(*(self._part(name)[rows] for name in Memory._fields))
        new = Reports(all_rows.tick[rows], all_rows.now_from[rows], asked, received, unix, entry)
        out = advance(was, new)
        if out.used.all():
            state, told = self._states(rows, out, new)
            events = self._news(rows, out, new, was, state, told)
            with table.lock:
                for name, values in zip(Memory._fields, out.memory):
                    self._part(name)[rows] = values
                self._settle(rows, state, told, unix)
                self._count(rows, asked, received, unix)
                table.reboots[rows] += out.rebooted
            return events, out
        with table.lock:  # what contradicts the report before changes nothing yet
            odd = ~out.used
            table.strikes[rows[odd]] = out.memory.strikes[odd]
            table.emptied[rows[odd]] = out.memory.emptied[odd]
            self._count(rows[odd], asked[odd], received[odd], unix[odd])
        good = out.used
        if not good.any():
            return [], out
        events, _ = self.take(rows[good], asked[good], received[good], unix[good], entry[good])
        return events, out

    def _part(self, name: str) -> NDArray[Any]:
        """A field of the table; of fields of variables only those that anybody uses."""
        field: NDArray[Any] = getattr(self.table, name)
        return field if field.ndim == 1 else field[:, :self.width]

    def _count(self, rows: Rows, asked: NDArray[np.float64], received: NDArray[np.float64],
               unix: NDArray[np.float64]) -> None:
        self.table.heard_at[rows] = unix
        self.table.round_trip[rows] = received - asked
        self.table.reports[rows] += 1
        self.table.misses[rows] = 0

    def _states(self, rows: Rows, out: Outcome, new: Reports
                ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Returns the states of the variables, and what was told of them before."""
        wanted, memory = self.expectations, out.memory
        profile = wanted.profile[rows]
        low, high, warn, crit, expected = (each[:, :self.width][profile] for each in (
            wanted.low, wanted.high, wanted.warn, wanted.crit, wanted.expected))
        entry = memory.entry
        value = entry.astype(np.uint8)
        state: NDArray[Any] = np.where((value < low) | (value > high),
                         np.uint8(State.OUT_OF_RANGE), np.uint8(State.ALIVE))
        age = memory.clock[:, None] - memory.stamped
        vague = np.flatnonzero(memory.kind >= ClockKind.ARRIVAL)
        if vague.size:  # nobody knows how old those are that were there at the first report
            first = np.floor(memory.began[vague] / new.tick[vague]).astype(np.int64)
            state[vague] = np.where(memory.stamped[vague] <= first[:, None],
                                    np.uint8(State.UNKNOWN), state[vague])
        np.copyto(state, np.uint8(State.LATE), where=age > warn)
        np.copyto(state, np.uint8(State.DEAD), where=age > crit)
        told = self._part("told")[rows]
        # Only a heartbeat makes a silent node better: the time may be worth less than before.
        silent = ~out.changed & ((told == State.LATE) | (told == State.DEAD)) & (state < told)
        state = np.where(silent, told, state)
        grace = (new.received - memory.began) / new.tick
        none = np.where(grace[:, None] > crit, np.uint8(State.NEVER), np.uint8(State.PENDING))
        # Agents on Linux forget what is too old: who is dead stays dead, and who is late gets dead.
        before = self._part("state")[rows]
        before = np.where(before == State.UNKNOWN, told, before)
        silent = ((before == State.LATE) | (before == State.DEAD)) & ~out.empty[:, None]
        before = np.where(age > crit, np.uint8(State.DEAD), before)
        state = np.where(entry == 0, np.where(silent, before, none), state)
        state = np.where(expected, state, np.uint8(State.UNWATCHED))
        return state, told

    def _settle(self, rows: Rows, state: NDArray[np.uint8], told: NDArray[np.uint8],
                unix: NDArray[np.float64]) -> None:
        """Writes states into the table."""
        table = self.table
        worst = self._worst(state)
        table.version += 1
        shown = self._part("state")
        moved = (state != shown[rows]).any(axis=1) | (worst != table.agent_state[rows])
        if not moved.any():
            return
        table.changed[rows[moved]] = table.version
        shown[rows] = state
        table.agent_state[rows] = worst
        at, variable = np.nonzero((state != told) & (state != State.PENDING))
        table.told[rows[at], variable] = state[at, variable]
        table.since[rows[at], variable] = unix[at]
        at = np.flatnonzero(self._agent_news(worst, table.agent_told[rows]))
        table.agent_told[rows[at]] = worst[at]
        table.agent_since[rows[at]] = unix[at]

    @staticmethod
    def _worst(state: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """An agent of which nothing is expected is alive if it answers."""
        worst: NDArray[np.uint8] = np.maximum(state.max(axis=1), np.uint8(State.ALIVE))
        return worst

    def _news(self, rows: Rows, out: Outcome, new: Reports, was: Memory,
              state: NDArray[np.uint8], told: NDArray[np.uint8]) -> list[Event]:
        """Returns the events of a batch, before it is in the table. Notes new senders there."""
        table = self.table
        events: list[Event] = []

        def tell(at: int, variable: int, what: str, before: str, now: str,
                 since: float = 0.0) -> None:
            events.append(self._event(rows[at], new.unix[at], variable, what, before, now, since))

        for flags, what, words in ((out.rebooted, "rebooted", "rebooted"),
                                   (out.reset, "clock", RESET)):
            for at in np.flatnonzero(flags).tolist():
                tell(at, -1, what, "", words)
        worst, agent_told = self._worst(state), table.agent_told[rows]
        for at in np.flatnonzero(self._agent_news(worst, agent_told)).tolist():
            tell(at, -1, "state", State(agent_told[at]).words, State(worst[at]).words,
                 table.agent_since[rows[at]])
        news = (state != told) & (state != State.PENDING) \
            & (np.maximum(state, told) > State.PENDING)
        for at, variable in np.argwhere(news).tolist():
            tell(at, variable, "state", State(told[at, variable]).words,
                 State(state[at, variable]).words, table.since[rows[at], variable])
        # Two senders that take turns are told once.
        moved: Flags = out.changed & (((was.entry ^ new.entry) & np.uint32(0xFF00)) != 0)
        moved &= (was.entry != 0) & (new.entry != 0) & (state != State.UNWATCHED)
        for at, variable in np.argwhere(moved).tolist():
            before, now = (int(entry[at, variable]) >> 8 & 255 for entry in (was.entry, new.entry))
            if now != table.sender_before[rows[at], variable]:
                tell(at, variable, "sender", str(before), str(now))
            table.sender_before[rows[at], variable] = before
        return events

    def _event(self, row: int, at: float, variable: int, what: str, was: str, now: str,
               since: float) -> Event:
        agent = self.table.agents[row]
        lasted = max(0.0, float(at - since)) if since else -1.0
        return Event(float(at), agent.name, variable, what, was, now, lasted, agent.site)

    @staticmethod
    def _agent_news(state: NDArray[np.uint8], told: NDArray[np.uint8]) -> Flags:
        """An agent that answers again is told at once, even if nothing else is known yet."""
        news: Flags = (state != told) & ((state != State.PENDING) | (told >= State.DAMAGED))
        return news

    def miss(self, rows: Rows, unix: float, grace: bool = False,
             damaged: Flags | None = None) -> list[Event]:
        """Notes that these agents did not answer, or that what they answered was `damaged`. In a
        grace, no agent gets worse."""
        table = self.table
        with table.lock:
            table.lost[rows] += 1
            table.misses[rows] += 1
            self.spoilt[rows] += self.spoilt[rows] < 1 << 30
            if damaged is not None:
                self.spoilt[rows[damaged]] = 0
            most = self.expectations.misses[rows]
            found = np.where(self.spoilt[rows] < most, np.uint8(State.DAMAGED),
                             np.uint8(State.UNREACHABLE))
            gone = (table.misses[rows] >= most) & (found != table.agent_state[rows]) & (not grace)
            rows, found = rows[gone], found[gone]
            if rows.size:
                table.version += 1
                table.changed[rows] = table.version
                expected = self.expectations.expected[self.expectations.profile[rows]]
                table.state[rows] = np.where(expected, np.uint8(State.UNKNOWN), np.uint8(0))
                table.agent_state[rows] = found
            told, since = table.agent_told[rows], table.agent_since[rows]
            news = told != found
            table.agent_told[rows] = found
            table.agent_since[rows[news]] = unix
        return [self._event(row, unix, -1, "state", State(before).words, State(now).words, begun)
                for row, before, now, begun in zip(rows[news], told[news], found[news],
                                                   since[news])]
