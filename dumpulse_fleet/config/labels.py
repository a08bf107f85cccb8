"""What is about all agents with some labels: [[groups]], of which some must live; [[status]], the
parts of the public page; [[mutes]], when alerts are held back, once or each week."""

import dataclasses
import datetime
import re
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from dumpulse_fleet.config.toml_reader import Reader, Where, checked
from dumpulse_fleet.config.values import check_name_of, match_of, number, similar, text
from dumpulse_fleet.model.agents import Agent, Group, Mute
from dumpulse_fleet.model.naming import MOST_AGENTS, Wrong, matches, shown

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WHEN = re.compile(r"(daily|[a-z]{3}(?:[-,][a-z]{3})*) ([0-2][0-9]):([0-5][0-9])"
                  r"-([0-2][0-9]):([0-5][0-9])")


def check_match(reader: Reader, where: Where, match: Mapping[str, str], agents: Sequence[Agent],
                more: bool, also: Sequence[str] = ()) -> bool:
    """A label that no agent has is a typing error, unless pages and files name more agents."""
    before = len(reader.mistakes)
    known = {"name", "site", *also, *(key for agent in agents for key in agent.labels)}
    for key in match:
        if key not in known and not more:
            reader.wrong((*where, "match", key), f"{where[0]}: no agent has a label "
                         f"{shown(key)}{similar(key, known)}")
    return len(reader.mistakes) == before


@dataclasses.dataclass(frozen=True)
class Part:
    """[[status]]"""

    name: Annotated[str, checked(check_name_of, "name")]
    match: Annotated[Mapping[str, str], checked(match_of)]


@dataclasses.dataclass(frozen=True)
class Members(Part):
    """[[groups]]"""

    at_least: Annotated[int, checked(number, 1, MOST_AGENTS)]


def read_groups(reader: Reader, agents: Sequence[Agent], more: bool) -> tuple[Group, ...]:
    groups: dict[str, Group] = {}
    for where, found, _ in reader.sections("groups", Members):
        group = Group(**vars(found))
        if group.name in groups:
            reader.wrong((*where, "name"), f"groups: two have the name {group.name!r}")
        groups[group.name] = group
        if not check_match(reader, where, group.match, agents, more):
            continue
        members = sum(1 for _ in islice(
            (agent for agent in agents if matches(group.match, agent)), group.at_least))
        if members < group.at_least and not more:
            reader.wrong((*where, "at_least"), f"groups: {group.name} has only {members} "
                         f"members, so {group.at_least} can never live")
    return tuple(groups.values())


def read_status(reader: Reader, agents: Sequence[Agent], more: bool) -> tuple[Group, ...]:
    parts = []
    for where, part, _ in reader.sections("status", Part):
        check_match(reader, where, part.match, agents, more)
        parts.append(Group(part.name, part.match, at_least=0))
    return tuple(parts)


@dataclasses.dataclass(frozen=True)
class Window:
    """A mute that comes back: on these days of the week, from one time of day to another."""

    match: Mapping[str, str]
    days: frozenset[int]  # 0 is Monday
    begins: int  # minutes after midnight
    ends: int  # as many; at or before `begins`: on the next day
    zone: zoneinfo.ZoneInfo | None = None  # None: the zone of this machine
    why: str = ""

    def mutes(self, now: float) -> Iterator[Mute]:
        """Those that begin from yesterday to tomorrow."""
        today = datetime.datetime.fromtimestamp(now, self.zone).date()
        for shift in (-1, 0, 1):
            day = today + datetime.timedelta(shift)
            if day.weekday() in self.days:
                over_midnight = self.ends <= self.begins
                yield Mute(self.match, self._unix(day, self.begins),
                           self._unix(day + datetime.timedelta(over_midnight), self.ends),
                           self.why, "configuration")

    def _unix(self, day: datetime.date, minutes: int) -> float:
        time = datetime.time(minutes // 60, minutes % 60)
        return datetime.datetime.combine(day, time, self.zone).timestamp()


def zone_of(value: Any) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(text(value))
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise Wrong(f"{shown(value)} is not a time zone that this machine knows, "
                    "like 'Europe/Berlin' or 'UTC'") from error


def moment(value: Any) -> float:
    """Unix time."""
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        raise Wrong("must be a time with its zone and without quotes, like 2026-12-24T18:00:00Z")
    try:
        return value.timestamp()
    except (OverflowError, ValueError) as error:  # at the ends of the calendar
        raise Wrong("is too far away") from error


def times_of(value: Any) -> tuple[frozenset[int], int, int]:
    """The days, and the first and last minute: "sun 02:00-04:00"."""
    wrong = Wrong(f"{shown(value)} is not a time of the week: write it like 'sun 02:00-04:00', "
                  "'mon-fri 22:00-06:00' or 'daily 01:00-01:30'")
    match = WHEN.fullmatch(text(value))
    if match is None or int(match[2]) > 23 or int(match[4]) > 23:
        raise wrong
    days: set[int] = set()
    for part in match[1].replace("daily", "mon-sun").split(","):
        ends = part.split("-")
        if len(ends) > 2 or not set(ends) <= set(DAYS):
            raise wrong
        first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
        days.update(day % 7 for day in range(first, last + 1 + 7 * (last < first)))
    return (frozenset(days), int(match[2]) * 60 + int(match[3]),
            int(match[4]) * 60 + int(match[5]))


@dataclasses.dataclass(frozen=True)
class MutesSection:
    match: Annotated[Mapping[str, str], checked(match_of)]
    why: Annotated[str, checked(text)] = ""
    begins: Annotated[float, checked(moment), Field(alias="from")] = 0.0
    ends: Annotated[float, checked(moment), Field(alias="until")] = 0.0
    when: Annotated[tuple[frozenset[int], int, int], checked(times_of)] = (frozenset(), 0, 0)
    zone: Annotated[zoneinfo.ZoneInfo | None, checked(zone_of)] = None


def read_mutes(reader: Reader, agents: Sequence[Agent], more: bool
               ) -> tuple[tuple[Mute, ...], tuple[Window, ...]]:
    fixed, windows = [], []
    for where, keys, own in reader.sections("mutes", MutesSection):
        check_match(reader, where, keys.match, agents, more, ("variable",))
        if ("when" in own) == ("from" in own or "until" in own) \
                or ("from" in own) != ("until" in own):
            reader.wrong(where, "mutes: needs 'from' and 'until', or else 'when'")
        elif "zone" in own and "when" not in own:
            reader.wrong((*where, "zone"), "mutes: 'zone' goes only with 'when'")
        elif "when" in own:
            windows.append(Window(keys.match, *keys.when, keys.zone, keys.why))
        elif keys.begins >= keys.ends:
            reader.wrong((*where, "until"), "mutes: 'until' must be after 'from'")
        else:
            fixed.append(Mute(keys.match, keys.begins, keys.ends, keys.why, "configuration"))
    return tuple(fixed), tuple(windows)
