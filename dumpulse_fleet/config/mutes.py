"""[[mutes]]: when alerts are held back, once or each week.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import datetime
import re
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from dumpulse_fleet.config.agents import check_match
from dumpulse_fleet.config.reading import Reader, checked
from dumpulse_fleet.config.values import match_of, text
from dumpulse_fleet.model.agents import Agent, Mute
from dumpulse_fleet.model.naming import Wrong, shown

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WHEN = re.compile(r"(daily|[a-z]{3}(?:[-,][a-z]{3})*) ([0-2][0-9]):([0-5][0-9])"
                  r"-([0-2][0-9]):([0-5][0-9])")


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
class Keys:
    match: Annotated[Mapping[str, str], checked(match_of)]
    why: Annotated[str, checked(text)] = ""
    begins: Annotated[float, checked(moment), Field(alias="from")] = 0.0
    ends: Annotated[float, checked(moment), Field(alias="until")] = 0.0
    when: Annotated[tuple[frozenset[int], int, int], checked(times_of)] = (frozenset(), 0, 0)
    zone: Annotated[zoneinfo.ZoneInfo | None, checked(zone_of)] = None


def read_mutes(reader: Reader, agents: Sequence[Agent], more: bool
               ) -> tuple[tuple[Mute, ...], tuple[Window, ...]]:
    fixed, windows = [], []
    for where, keys, own in reader.sections("mutes", Keys):
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
