"""In which state each variable and each agent is, and the events when that changes: README.md has
the rules, in the section States and events. CASES is the same table as code."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.collect.ages import (
    Answers, Flags, Memory, Outcome, Reports, Whole, advance)
from dumpulse_fleet.model.agents import (
    UNRESOLVED, Agent, ClockKind, Event, Profile, State, boot_of)
from dumpulse_fleet.model.table import VARIABLES, Rows, Table

RESET = "rebooted, or its clock was set"
States = NDArray[np.uint8]


class Expectations:
    """What the profiles of a table's agents say, as arrays."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        profiles: dict[int, Profile] = {id(agent.profile): agent.profile for agent in agents}
        order = {key: index for index, key in enumerate(profiles)}
        self.profile: Rows = np.array([order[id(agent.profile)] for agent in agents], np.intp)
        unique = list(profiles.values())
        columns: Any = (np.array([getattr(profile, name) for profile in unique],
                                 kind).reshape(-1, VARIABLES)
                        for name, kind in (("expected", np.bool_), ("warn", np.int64),
                                           ("crit", np.int64), ("low", np.uint8),
                                           ("high", np.uint8)))
        self.expected, self.warn, self.crit, self.low, self.high = columns
        self.node = np.full((len(unique), VARIABLES), -1)  # whose boot count a variable carries
        for index, profile in enumerate(unique):
            for variable in profile.settings.variables:
                if variable.boots is not None:
                    self.node[index, variable.boots] = variable.number
        self.tick = np.array([agent.profile.tick for agent in agents], np.float64)
        self.now_from: Whole = np.array(
            [-1 if agent.profile.settings.now_from is None else agent.profile.settings.now_from
             for agent in agents], np.int64)
        self.misses = np.array([agent.misses for agent in agents], np.int32)


class Variables(NamedTuple):
    """What the states after a report follow from: a row for each agent, a column for each
    variable."""

    expected: Flags
    is_set: Flags  # the report has a heartbeat of it
    changed: Flags  # It was received since the report before.
    outside: Flags  # its value is not in `value-warn`
    vague: Flags  # Its age is unknown: it was there at the first report.
    age: Whole  # ticks
    warn: Whole
    crit: Whole
    watched: NDArray[np.float64]  # ticks since the first report, or the last reboot
    forgetful: Flags  # the agent has lost no entries but those that were too old
    told_state: States  # the state of the last event
    before: States  # the state until now; while the agent was silent, the one that was told


class Case(NamedTuple):
    """A row of the table of states. Where two rows are about a variable, the later one holds."""

    name: str
    holds: Callable[[Variables, States], Flags]  # given the state by the rows before
    state: Callable[[Variables], States | State]


CASES = (
    Case("no heartbeat yet", lambda of, _: ~of.is_set, lambda _: State.PENDING),
    Case("no heartbeat for longer than crit", lambda of, _: ~of.is_set & (of.watched > of.crit),
         lambda _: State.NEVER),
    # Agents on Linux forget what is too old: dead ones stay dead, and late ones become dead.
    Case("late or dead, and forgotten since",
         lambda of, _: ~of.is_set & of.forgetful & is_silent(of.before),
         lambda of: np.where(of.age > of.crit, np.uint8(State.DEAD), of.before)),
    Case("a heartbeat", lambda of, _: of.is_set, lambda _: State.ALIVE),
    Case("a value out of its range", lambda of, _: of.is_set & of.outside,
         lambda _: State.OUT_OF_RANGE),
    Case("an age that is unknown", lambda of, _: of.is_set & of.vague, lambda _: State.UNKNOWN),
    Case("older than warn", lambda of, _: of.is_set & (of.age > of.warn), lambda _: State.LATE),
    Case("older than crit", lambda of, _: of.is_set & (of.age > of.crit), lambda _: State.DEAD),
    # The time may be worth less than before: a clock was set.
    Case("late or dead, without a new heartbeat",
         lambda of, state: (of.is_set & ~of.changed & is_silent(of.told_state)
                            & (state < of.told_state)),
         lambda of: of.told_state),
    Case("nobody expects it", lambda of, _: ~of.expected, lambda _: State.UNWATCHED),
)


def is_silent(state: States) -> Flags:
    return np.asarray((state == State.LATE) | (state == State.DEAD))


def states_of(variables: Variables) -> States:
    """By CASES."""
    state = np.zeros(variables.expected.shape, np.uint8)
    for case in CASES:
        np.copyto(state, np.asarray(case.state(variables), np.uint8),
                  where=case.holds(variables, state))
    return state


class Judge:
    """Takes reports, and rounds without one, into the table. Only one thread may call it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.spoilt = np.full(len(table.agents), 1 << 30, np.int32)  # rounds since a damaged answer
        expectations = self.expectations = Expectations(table.agents)
        # Only so many variables are used by anybody: those after them cost nothing.
        self.width = 8
        self._widen(table.entry.any(axis=0) | expectations.expected.any(axis=0))
        self._widen(np.arange(VARIABLES) <= expectations.now_from.max(initial=0))
        never = (table.told == State.PENDING) & ~expectations.expected[expectations.profile]
        table.state[never] = table.told[never] = State.UNWATCHED

    def _widen(self, used: Any) -> None:
        last = int(np.flatnonzero(used).max(initial=0))
        self.width = max(self.width, last // 8 * 8 + 8)

    def take(self, answers: Answers) -> tuple[list[Event], Outcome]:
        """Takes new reports of these agents, none of them twice."""
        table, rows = self.table, answers.rows
        self._widen(np.any(answers.entry, axis=0))
        was = Memory(*(self._part(name)[rows] for name in Memory._fields))
        new = Reports(self.expectations.tick[rows], self.expectations.now_from[rows],
                      answers.asked, answers.received, answers.unix,
                      answers.entry[:, :self.width])
        out = advance(was, new)
        if out.used.all():
            told_states = self._part("told")[rows]
            state = states_of(self._variables(rows, out, new))
            events = self._news(rows, out, new, was, state, told_states)
            with table.lock:
                for name, values in zip(Memory._fields, out.memory):
                    self._part(name)[rows] = values
                self._settle(rows, state, told_states, new.unix)
                self._count(answers)
                table.reboots[rows] += out.rebooted
            return events, out
        with table.lock:  # A report that contradicts the one before changes nothing yet.
            odd = ~out.used
            table.strikes[rows[odd]] = out.memory.strikes[odd]
            table.emptied[rows[odd]] = out.memory.emptied[odd]
            self._count(answers.only(odd))
        events = self.take(answers.only(out.used))[0] if out.used.any() else []
        return events, out

    def _part(self, name: str) -> NDArray[Any]:
        """A field of the table; of fields of variables only those that anybody uses."""
        field: NDArray[Any] = getattr(self.table, name)
        return field if field.ndim == 1 else field[:, :self.width]

    def _count(self, answers: Answers) -> None:
        rows = answers.rows
        self.table.heard_at[rows] = answers.unix
        self.table.round_trip[rows] = answers.received - answers.asked
        self.table.reports[rows] += 1
        self.table.misses[rows] = 0

    def _variables(self, rows: Rows, out: Outcome, new: Reports) -> Variables:
        expectations, memory = self.expectations, out.memory
        profile = expectations.profile[rows]

        def of(column: NDArray[Any]) -> Any:
            return column[:, :self.width][profile]

        value = memory.entry.astype(np.uint8)
        first = np.floor(memory.began / new.tick).astype(np.int64)  # the tick of the first report
        told_state, before = self._part("told")[rows], self._part("state")[rows]
        return Variables(
            of(expectations.expected), memory.entry != 0, out.changed,
            (value < of(expectations.low)) | (value > of(expectations.high)),
            (memory.kind == ClockKind.ARRIVAL)[:, None] & (memory.stamped <= first[:, None]),
            memory.clock[:, None] - memory.stamped, of(expectations.warn), of(expectations.crit),
            ((new.received - memory.began) / new.tick)[:, None], ~out.empty[:, None],
            told_state, np.where(before == State.UNKNOWN, told_state, before))

    def _settle(self, rows: Rows, state: NDArray[np.uint8], told_states: NDArray[np.uint8],
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
        place, variable = np.nonzero((state != told_states) & (state != State.PENDING))
        table.told[rows[place], variable] = state[place, variable]
        table.since[rows[place], variable] = unix[place]
        place = np.flatnonzero(self._agent_news(worst, table.agent_told[rows]))
        table.agent_told[rows[place]] = worst[place]
        table.agent_since[rows[place]] = unix[place]

    @staticmethod
    def _worst(state: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """An agent of which nothing is expected is alive if it answers."""
        worst: NDArray[np.uint8] = np.maximum(state.max(axis=1), np.uint8(State.ALIVE))
        return worst

    def _news(self, rows: Rows, out: Outcome, new: Reports, was: Memory,
              state: NDArray[np.uint8], told_states: NDArray[np.uint8]) -> list[Event]:
        """Returns the events of a batch, before it is in the table."""
        table = self.table
        events: list[Event] = []

        def tell(place: int, variable: int, what: str, before: str, now: str,
                 since: float = 0.0) -> None:
            events.append(self._event(rows[place], new.unix[place], variable, what, before, now,
                                      since))

        for flags, what, words in ((out.rebooted, "rebooted", "rebooted"),
                                   (out.reset, "clock", RESET)):
            for place in np.flatnonzero(flags).tolist():
                tell(place, -1, what, "", words)
        worst, agent_told = self._worst(state), table.agent_told[rows]
        for place in np.flatnonzero(self._agent_news(worst, agent_told)).tolist():
            tell(place, -1, "state", State(agent_told[place]).words, State(worst[place]).words,
                 table.agent_since[rows[place]])
        news = (state != told_states) & (state != State.PENDING) \
            & (np.maximum(state, told_states) > State.PENDING)
        for place, variable in np.argwhere(news).tolist():
            tell(place, variable, "state", State(told_states[place, variable]).words,
                 State(state[place, variable]).words, table.since[rows[place], variable])
        # A boot count that is older than the last one is from a table that the agent has loaded.
        node = self.expectations.node[:, :self.width][self.expectations.profile[rows]]
        booted = (out.changed & (was.entry != 0) & (new.entry != 0) & (node >= 0)
                  & (out.memory.stamped >= was.stamped) & ~(out.rebooted | out.reset)[:, None])
        for place, variable in np.argwhere(booted).tolist():
            tell(place, int(node[place, variable]), "restarted", "",
                 f"restarted: {boot_of(int(new.entry[place, variable]) & 255)}")
        return events

    def _event(self, row: int, unix: float, variable: int, what: str, was: str, now: str,
               since: float) -> Event:
        agent = self.table.agents[row]
        lasted = max(0.0, float(unix - since)) if since else -1.0
        return Event(float(unix), agent.name, variable, what, was, now, lasted, agent.site)

    @staticmethod
    def _agent_news(state: NDArray[np.uint8], told_states: NDArray[np.uint8]) -> Flags:
        """An agent that answers again is told at once, even if nothing else is known yet."""
        news: Flags = (state != told_states) & (
            (state != State.PENDING) | (told_states >= State.DAMAGED))
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
            limit = self.expectations.misses[rows]
            states = np.where(self.spoilt[rows] < limit, np.uint8(State.DAMAGED),
                             np.uint8(State.UNREACHABLE))
            gone = (table.misses[rows] >= limit) & (states != table.agent_state[rows]) & (not grace)
            return self._silence(rows[gone], states[gone], unix)

    def unresolve(self, rows: Rows, unix: float) -> list[Event]:
        """Notes that these agents cannot be polled, because their names have no addresses."""
        with self.table.lock:
            self.table.nameless[rows] = True
            events = self._silence(rows, np.full(len(rows), State.UNREACHABLE, np.uint8), unix)
        return [*(self._event(row, unix, -1, "name", "", UNRESOLVED, 0.0) for row in rows), *events]

    def _silence(self, rows: Rows, states: States, unix: float) -> list[Event]:
        """Of these agents, nothing is known but this state. Call it with the table locked."""
        table = self.table
        if rows.size:
            table.version += 1
            table.changed[rows] = table.version
            expected = self.expectations.expected[self.expectations.profile[rows]]
            table.state[rows] = np.where(expected, np.uint8(State.UNKNOWN), np.uint8(0))
            table.agent_state[rows] = states
        told_states, since = table.agent_told[rows], table.agent_since[rows]
        news = told_states != states
        table.agent_told[rows] = states
        table.agent_since[rows[news]] = unix
        return [self._event(row, unix, -1, "state", State(before).words, State(now).words, begun)
                for row, before, now, begun in zip(rows[news], told_states[news], states[news],
                                                   since[news])]
