"""Decides which alerts are sent, and when: the rules of README.md, without a clock and I/O.
The core looks at states, not at events, so it cannot miss one: a lost event, a restart or a
full disk change nothing."""

import collections
import dataclasses
import enum
import fnmatch
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from dumpulse_fleet.model.agents import MUTE_STATES, Agent, Mute, State
from dumpulse_fleet.model.naming import matches

FLAP_S = 900.0  # A problem that comes back within this time flaps; also the longest time to settle.
FLAPS = 5  # A problem that has come back so often is sent without a wait.
RECENT_S = 900.0  # an agent that has been silent for longer is no sign that the collector is blind
BLIND_LEAST = 10  # agents; fewer prove nothing
SPREAD_S = 300.0  # a message waits at most this long, and `wait`, for what is on its way
SEVERITY = {State.LATE: 1, State.OUT_OF_RANGE: 1, State.NEVER: 2, State.DEAD: 2,
            State.DAMAGED: 2, State.UNREACHABLE: 2}
UNSURE = frozenset((State.PENDING, State.UNKNOWN))
TOLD = frozenset((State.OUT_OF_RANGE, State.NEVER, State.DEAD, *MUTE_STATES))


class Level(enum.Enum):
    GOOD, UNSURE, BAD = range(3)


@dataclasses.dataclass(frozen=True)
class Rules:
    """Times in seconds."""

    wait: float = 30.0
    settle: float = 30.0
    again: float = 300.0
    remind: float = 4 * 3600.0  # 0: never
    grace: float = 60.0  # after the start, nothing is told
    blind: float = 50.0  # percent


class Subject(NamedTuple):
    """What an alert is about."""

    kind: str  # agent, collector
    name: str
    variable: int = -1  # -1: the agent itself


class Key(NamedTuple):
    """What has messages of its own."""

    kind: str  # site, collector
    name: str


COLLECTOR = Subject("collector", "")


@dataclasses.dataclass(eq=False)
class Problem:
    """Something that is bad, or that was told and has not ended."""

    subject: Subject
    key: Key
    began: float  # Unix time
    onsets: int  # The number of its returns, each within FLAP_S of the one before.
    state: State = State.UNKNOWN
    bad: State = State.UNKNOWN  # the last bad state
    level: Level = Level.UNSURE
    told_severity: int = 0  # The severity that was sent; 0: it was not sent.
    good_since: float = 0.0  # When it ended, on the monotonic clock.
    free: Optional[float] = None  # When `wait` began; None: a parent explains it.
    muted: bool = False
    acknowledged: Optional[Mute] = None  # the mute that acknowledges it, and lasts the longest
    removed: bool = False  # it has not ended: its agent is not configured any more


class Item(NamedTuple):
    """A line of a message."""

    subject: Subject
    state: State
    began: float  # Unix time
    flapping: bool
    agent: Optional[Agent]  # None: it was removed, or this is about the collector
    acknowledged: Optional[Mute]
    removed: bool = False
    nameless: bool = False  # the name of the agent does not resolve


@dataclasses.dataclass(frozen=True)
class Message:
    """One notification."""

    kind: str  # problem, resolved, reminder; resolved also if only some of it is over
    key: Key
    incident: str  # The same from the first problem of a site to the last end.
    number: int  # The message's place in its incident, from 1.
    unix: float  # Unix time
    new: tuple[Item, ...]
    over: tuple[Item, ...]
    open: tuple[Item, ...]  # all that was told and is not over, `new` too
    muted: int  # problems here that a mute holds back

    @property
    def id(self) -> str:
        return f"{self.incident}-{self.number}"


@dataclasses.dataclass
class Incident:
    """What is open at one key."""

    id: str
    sent: float  # when the last message was
    messages: int = 0


class Case(enum.Enum):
    """What a step finds of a problem."""

    HELD = enum.auto()  # something worse explains it
    MUTED = enum.auto()
    COMING = enum.auto()  # it will soon be new or over
    NEW = enum.auto()  # it is to be told, or that it is worse now
    OVER = enum.auto()  # that it has ended is to be told
    OPEN = enum.auto()  # it was told: beside each other case


Tally = Mapping[Case, list[Problem]]  # The problems of one key.


class Core:
    """`now` is a clock that nobody sets; `wall` is Unix time."""

    def __init__(self, rules: Rules, agents: Iterable[Agent], now: float) -> None:
        self.blind = False
        self.counts: Mapping[str, int] = {"open": 0, "muted": 0, "held": 0}  # problems
        self._rules = rules
        self._quiet_until = now + rules.grace
        self._problems: dict[Subject, Problem] = {}
        self._incidents: dict[Key, Incident] = {}
        self._ripe: dict[Key, float] = {}  # When its first change became due.
        self._onsets: dict[Subject, tuple[int, float]] = {}  # The count, and the time of the last.
        self._forget_at = now + FLAP_S
        self._state: dict[str, State] = {}  # The state of each agent.
        self._silent: dict[str, float] = {}  # unreachable agents, since when
        self._answering = 0
        self._mutes: tuple[Mute, ...] = ()
        self._firing: list[Problem] = []
        self.nameless: Container[str] = ()  # agents whose names do not resolve
        self.failing: Container[str] = ()  # sites with agents that miss rounds, but not all yet
        self.sought: Container[str] = ()  # sites with agents that wait for their first address
        self.replace(rules, agents)

    def replace(self, rules: Rules, agents: Iterable[Agent]) -> None:
        """Takes a new configuration, and ends what was told of agents that are gone.
        Call `see` for all agents after it."""
        self._rules = rules
        self._agents = {agent.name: agent for agent in agents}
        self._spread: dict[Key, float] = {}
        for agent in self._agents.values():
            key = Key("site", agent.site)
            self._spread[key] = min(SPREAD_S, max(self._spread.get(key, 0.0),
                                                  agent.period * (agent.misses + 1)))
        self._ancestors = {name: self._up(name) for name in self._agents}
        self._state = {name: self._state.get(name, State.PENDING) for name in self._agents}
        self._silent = {name: since for name, since in self._silent.items() if name in self._state}
        self._answering = sum(_answers(state) for state in self._state.values())
        self._mutes = ()
        for subject, problem in list(self._problems.items()):
            problem.muted, problem.acknowledged = False, None
            self._end_what_is_gone(subject)

    def _end_what_is_gone(self, subject: Subject) -> None:
        if not self._exists(subject):
            self._set(subject, Level.GOOD, State.UNWATCHED, 0.0, -math.inf)
            if subject in self._problems:
                self._problems[subject].removed = True

    def _up(self, name: str) -> tuple[Agent, ...]:
        """Yields its parent, its parent's parent and so on. A circle ends where it closes."""
        ancestors: dict[str, Agent] = {}
        parent = self._agents[name].parent
        while parent in self._agents and parent not in ancestors and parent != name:
            ancestors[parent] = self._agents[parent]
            parent = ancestors[parent].parent
        return tuple(ancestors.values())

    def _exists(self, subject: Subject) -> bool:
        agent = self._agents.get(subject.name)
        return subject == COLLECTOR or subject.kind == "agent" and agent is not None and (
            subject.variable < 0 or bool(agent.profile.expected[subject.variable]))

    # ---------------------------------------------------------------- what is
    def see(self, agent: str, variable: int, state: State, since: float, now: float, wall: float
            ) -> None:
        """An agent (variable -1) or a variable is in this state since that Unix time."""
        if variable < 0:
            self._answering += _answers(state) - _answers(self._state[agent])
            self._state[agent] = state
            if state != State.UNREACHABLE:
                self._silent.pop(agent, None)
            elif agent not in self._silent:
                self._silent[agent] = now - max(0.0, wall - since)
        is_bad = state in TOLD and (state in MUTE_STATES) == (variable < 0)
        unsure = state in UNSURE or (variable >= 0 and state in MUTE_STATES)
        self._set(Subject("agent", agent, variable),
                  Level.BAD if is_bad else Level.UNSURE if unsure else Level.GOOD, state, since,
                  now)

    def troubled(self) -> set[str]:
        """The agents of whose variables `see` needs every change, whatever their states are."""
        return {subject.name for subject in self._problems if subject.variable >= 0}

    def _set(self, subject: Subject, level: Level, state: State, began: float, now: float) -> None:
        problem = self._problems.get(subject)
        if problem is None and level is Level.BAD:
            problem = self._problems[subject] = Problem(
                subject, self._key(subject), began, self._count_onset(subject, now))
            self._mark(problem)
        elif problem is None:
            return
        elif not problem.told_severity and level is not Level.BAD:
            del self._problems[subject]
            return
        elif level is Level.BAD and problem.level is Level.GOOD:
            problem.onsets = self._count_onset(subject, now)
        elif level is Level.GOOD and problem.level is not Level.GOOD:
            problem.good_since = now
        problem.level, problem.state, problem.removed = level, state, False
        if level is Level.BAD:
            problem.bad = state

    def _count_onset(self, subject: Subject, now: float) -> int:
        if now >= self._forget_at:
            self._forget_at = now + FLAP_S
            self._onsets = {key: onset for key, onset in self._onsets.items()
                            if now - onset[1] < FLAP_S}
        count, last = self._onsets.get(subject, (0, -math.inf))
        count = count if now - last < FLAP_S else 0
        self._onsets[subject] = (count + 1, now)
        return count

    def _key(self, subject: Subject) -> Key:
        if subject.kind == "agent":
            return Key("site", self._agents[subject.name].site)
        return Key(subject.kind, subject.name)

    def _look_at_collector(self, now: float, wall: float) -> None:
        silent = len(self._silent)
        recent = sum(now - since < RECENT_S for since in self._silent.values())
        counted = recent if self._answering else silent
        self.blind = (counted >= BLIND_LEAST
                      and counted * 100 >= self._rules.blind * (counted + self._answering))
        self._set(COLLECTOR, Level.BAD if self.blind else Level.GOOD, State.UNREACHABLE, wall, now)

    # ---------------------------------------------------------------- what is told
    def step(self, now: float, wall: float, mutes: Sequence[Mute]) -> list[Message]:
        """What is to be told now. It counts as told."""
        self._look_at_collector(now, wall)
        self._look_at_mutes(tuple(mute for mute in mutes if mute.begins <= wall < mute.ends))
        tallies: dict[Key, Tally] = collections.defaultdict(lambda: {case: [] for case in Case})
        for problem in self._problems.values():
            for case in {self._case(problem, now), *[Case.OPEN] * (problem.told_severity > 0)}:
                tallies[problem.key][case].append(problem)
        over = {problem for tally in tallies.values() for problem in tally[Case.OVER]}
        self._firing = [problem for tally in tallies.values()
                        for problem in (*tally[Case.OPEN], *tally[Case.NEW]) if problem not in over]
        self.counts = {case.name.lower(): sum(len(tally[case]) for tally in tallies.values())
                       for case in (Case.OPEN, Case.MUTED, Case.HELD)}
        if now < self._quiet_until:
            return []
        return [message for key, tally in tallies.items()
                if (message := self._message(key, tally, now, wall))]

    def firing(self, now: float) -> Optional[tuple[Item, ...]]:
        """Returns what the last step has found to be open, or due to be told, also if `again` holds
        its message back, with its last bad state. None: it is too early after the start."""
        return None if now < self._quiet_until else self._items([
            dataclasses.replace(problem, state=problem.bad)
            for problem in {problem.subject: problem for problem in self._firing}.values()])

    def _case(self, problem: Problem, now: float) -> Case:
        if problem.level is Level.GOOD:
            return Case.OVER if now - problem.good_since >= self._settle(problem) else Case.COMING
        if problem.level is Level.UNSURE or SEVERITY[problem.state] <= problem.told_severity:
            return Case.OPEN
        if self._is_held(problem):
            problem.free = None
            return Case.HELD
        if problem.muted:
            return Case.MUTED
        problem.free = now if problem.free is None else problem.free
        return Case.NEW if now - problem.free >= self._wait(problem) else Case.COMING

    def _is_held(self, problem: Problem) -> bool:
        """Returns whether something worse explains it."""
        subject = problem.subject
        return subject.kind == "agent" and (
            self.blind and subject.variable < 0
            or any(self._state[parent.name] == State.UNREACHABLE
                   for parent in self._ancestors[subject.name]))

    def _wait(self, problem: Problem) -> float:
        """Returns the time until others that explain it are noticed: parents, most agents."""
        wait = 0.0 if problem.onsets + 1 >= FLAPS else self._rules.wait
        if problem.subject.kind == "agent" and problem.subject.variable < 0:
            name = problem.subject.name
            wait = max(wait, self._agents[name].period,
                       *(parent.period * (parent.misses + 1) for parent in self._ancestors[name]))
        return wait

    def _settle(self, problem: Problem) -> float:
        return max(self._rules.settle,
                   min(self._rules.settle * 2.0 ** min(problem.onsets, 60), FLAP_S))

    def _look_at_mutes(self, mutes: tuple[Mute, ...]) -> None:
        if mutes != self._mutes:
            self._mutes = mutes
            for problem in self._problems.values():
                self._mark(problem)

    def _mark(self, problem: Problem) -> None:
        fit = [mute for mute in self._mutes if self._fits(mute, problem.subject)]
        problem.muted = not all(mute.acknowledges for mute in fit)
        problem.acknowledged = max((mute for mute in fit if mute.acknowledges),
                            key=lambda mute: mute.ends, default=None)

    def _fits(self, mute: Mute, subject: Subject) -> bool:
        """The collector is muted by the name "collector" alone."""
        if subject.kind != "agent":
            return (mute.match.keys() == {"name"}
                    and fnmatch.fnmatchcase("collector", mute.match["name"]))
        agent = self._agents.get(subject.name)
        return agent is not None and matches(mute.match, agent) and (
            "variable" not in mute.match or subject.variable >= 0 and any(
                fnmatch.fnmatchcase(text, mute.match["variable"]) for text in (
                    str(subject.variable),
                    agent.profile.settings.variables[subject.variable].name)))

    def _message(self, key: Key, tally: Tally, now: float, wall: float) -> Optional[Message]:
        # After a start, names that are looked up late are polled later than others of their site.
        if key.kind == "site" and key.name in self.sought and now < self._quiet_until + SPREAD_S:
            return None
        incident = self._incidents.get(key)
        new, over, announced = tally[Case.NEW], tally[Case.OVER], tally[Case.OPEN]
        if new or over:
            ripe = self._ripe.setdefault(key, now)
            # An outage is noticed agent by agent, and each one is new only after `wait`.
            coming = tally[Case.COMING] or new and key.kind == "site" and key.name in self.failing
            if coming and now < ripe + self._rules.wait + max(
                    self._rules.wait, self._spread.get(key, 0.0)):
                return None
            ends = not new and len(over) == len(announced)
            if incident and not ends and now < incident.sent + self._rules.again \
                    and not _worse(new, announced):
                return None
            kind = "problem" if new else "resolved"
        elif (incident and self._rules.remind and now >= incident.sent + self._rules.remind
              and any(problem.level is Level.BAD and not (problem.muted or problem.acknowledged)
                      for problem in announced)):
            kind = "reminder"
        else:
            self._ripe.pop(key, None)
            return None
        self._ripe.pop(key, None)
        for problem in new:
            problem.told_severity = SEVERITY[problem.state]
        for problem in over:
            del self._problems[problem.subject]
        opened = {problem.subject: problem for problem in (*announced, *new)
                  if problem.subject in self._problems}
        if incident is None:
            incident = Incident(f"{int(wall * 1000):x}-{key.kind}-{key.name}", now)
        incident.sent, incident.messages = now, incident.messages + 1
        self._incidents[key] = incident
        if not opened:
            del self._incidents[key]
        return Message(kind, key, incident.id, incident.messages, wall,
                       self._items(new), self._items(over), self._items(opened.values()),
                       len(tally[Case.MUTED]))

    def _items(self, problems: Iterable[Problem]) -> tuple[Item, ...]:
        """The worst first."""
        return tuple(sorted((Item(
            problem.subject, problem.state, problem.began, problem.onsets + 1 >= FLAPS,
            self._agents.get(problem.subject.name), problem.acknowledged, problem.removed,
            problem.subject.name in self.nameless and problem.subject.variable < 0)
            for problem in problems), key=lambda item: (-item.state, item)))

    # ---------------------------------------------------------------- over a restart
    def dump(self, now: float, wall: float) -> dict[str, Any]:
        """What was told, as JSON has it."""
        return {"problems": [[*problem.subject, *problem.key, problem.began, problem.onsets,
                              int(problem.bad), problem.told_severity]
                             for problem in self._problems.values() if problem.told_severity],
                "incidents": [[*key, incident.id, wall - (now - incident.sent), incident.messages]
                              for key, incident in self._incidents.items()]}

    def load(self, data: Mapping[str, Any], now: float, wall: float) -> None:
        """Takes what another core has dumped. Call `see` for all agents after it."""
        for kind, name, variable, site, of, began, onsets, state, severity in data["problems"]:
            subject = Subject(kind, name, variable)
            self._problems[subject] = Problem(subject, Key(site, of), began, onsets, State(state),
                                              State(state), told_severity=severity)
            self._end_what_is_gone(subject)
        for kind, name, incident, sent, messages in data["incidents"]:
            self._incidents[Key(kind, name)] = Incident(
                incident, now - max(0.0, wall - sent), messages)


def _worse(new: Sequence[Problem], announced: Sequence[Problem]) -> bool:
    """Whether what is new may not wait. Each such message is about twice as long as the one before,
    so there are few."""
    worst = max((problem.told_severity for problem in announced), default=0)
    return len(new) > len(announced) or any(SEVERITY[problem.state] > worst for problem in new)


def _answers(state: State) -> bool:
    return state != State.UNREACHABLE and state not in UNSURE
