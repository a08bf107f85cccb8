"""What the fleet consists of: agents, what is expected of them, and what happens to them. Nothing
here changes after it was made."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet import client


class State(enum.IntEnum):
    """From good to bad, so that the worst of several variables is the greatest.

    A variable has any of them but the last two. An agent has the worst of its expected variables,
    unless nothing is known of them.
    """

    UNWATCHED = 0  # The variable is not expected.
    ALIVE = 1
    PENDING = 2  # nothing is known yet
    UNKNOWN = 3  # its agent does not answer, or its age cannot be told
    LATE = 4  # silent for longer than `warn`
    OUT_OF_RANGE = 5  # It is alive, and its value is not in `value-warn`.
    NEVER = 6  # The agent has never received it.
    DEAD = 7  # silent for longer than `crit`
    DAMAGED = 8  # the agent answers, but all its reports are damaged
    UNREACHABLE = 9  # it does not answer

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


class ClockKind(enum.IntEnum):
    """How the time of an agent is known."""

    NONE = 0  # no report yet
    OWN = 1  # It stamps a variable of its own.
    ARRIVAL = 5  # not at all: only when its entries are seen first


# Ticks from report to report in which an entry that changed without `now-from` is new.
SOON = client.WRAP // 16 - 2 * client.SKEW
# In one of these, the variables of an agent are unknown.
MUTE_STATES = frozenset((State.DAMAGED, State.UNREACHABLE))


# The reason for which an agent is unreachable, in events and messages.
UNRESOLVED = "its name does not resolve"


def boot_of(value: int) -> str:
    """Returns the cause and the count in the value of a boot count: SPEC.md, "Boots"."""
    return f"{client.CAUSES[value >> 5]}, boot {value % 32}"


class Profile:
    """What is expected of the 64 variables of an agent: a file of names, as arrays.

    Many agents share one. Ages are compared in ticks: an age of more than `warn` ticks is late.
    """

    def __init__(self, settings: client.Settings, name: str = "") -> None:
        self.name = name  # The name of its file; empty if there is none.
        self.settings = settings
        self.tick = settings.tick_ms / 1000  # s
        variables = settings.variables
        self.expected: NDArray[np.bool_] = np.array([variable.expected for variable in variables])
        # An age is a whole number of ticks, so it exceeds a deadline that is rounded down at the
        # same tick.
        self.warn: NDArray[np.int64] = np.array(
            [variable.warn_ms // settings.tick_ms for variable in variables], np.int64)
        self.crit: NDArray[np.int64] = np.array(
            [variable.crit_ms // settings.tick_ms for variable in variables], np.int64)
        self.low: NDArray[np.uint8] = np.array(
            [variable.warn_low for variable in variables], np.uint8)
        self.high: NDArray[np.uint8] = np.array(
            [variable.warn_high for variable in variables], np.uint8)


class ReaderKeys(client.KeyFile):
    """What a reader needs of a file of keys, and no more. BadUsage."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.known = {client.READER_LABEL: self.of(client.READER_LABEL)}
        self.master = b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReaderKeys) and self.known == other.known

    def __hash__(self) -> int:
        return hash(self.known[client.READER_LABEL])


@dataclasses.dataclass(frozen=True)
class Agent:
    """One agent that the fleet polls."""

    name: str  # unique in the fleet
    address: str  # HOST:PORT
    profile: Profile
    site: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    period: float = 10.0  # seconds between two rounds
    misses: int = 3  # rounds without an answer until the agent is unreachable
    parent: str = ""  # the agent without which this one cannot be reached
    keys: ReaderKeys | None = None  # It has version 2, and nothing else is accepted.
    timeout: float = 3.0  # s for an answer; at most nine tenths of the period

    def authenticated(self, variable: int) -> bool | None:
        """Whether a key proves the heartbeats of this variable; None: the agent has no key."""
        return self.profile.settings.variables[variable].authenticated if self.keys else None


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the public status page."""

    name: str
    match: Mapping[str, str]  # labels (and `site`, `name`) that its agents have


@dataclasses.dataclass(frozen=True)
class Mute:
    """Holds back alerts, never the monitoring.

    If it acknowledges trouble, it holds back reminders only, and ends when all is well again.
    """

    match: Mapping[str, str]  # labels, `site`, `name`, `variable`; a value may be a glob
    begins: float  # Unix time
    ends: float
    why: str = ""
    by: str = ""  # Its author; "configuration" if it is in a file.
    number: int = 0  # Its number in the store, if it was made at run time.
    acknowledges: bool = False  # SQLite stores 0 or 1.


class Event(NamedTuple):
    """Something changed. `number` is 0 until the event is stored."""

    at: float  # Unix time, s
    agent: str
    variable: int  # -1: the agent itself
    what: str  # state, rebooted, clock, restarted, collector, …
    was: str
    now: str
    lasted: float  # seconds that `was` lasted; -1 if unknown
    site: str = ""
    number: int = 0
