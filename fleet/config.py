"""The configuration of a fleet: a file in TOML, checked to its last key.

    config = load("fleet.toml")    # Mistakes: all that is wrong, each with its line

fleet/examples/fleet.toml shows every key. What the file says is data of the classes below, and
nothing in it starts anything. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import difflib
import os
import re
import tomllib
import urllib.parse
import zoneinfo
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import client
from fleet.model import Agent, Group, Mute, Profile, ReaderKeys
from fleet.naming import (MOST_AGENTS, Wrong, check_address, check_labels, check_name, expand,
                          matches, name_of, shown)
from fleet.toml_lines import Lines, TooDeep, Where

LARGEST = 4 << 20  # bytes of a configuration; file_sd and http_sd take more agents than this
LARGEST_SECRET = 65536  # bytes of a file with a password, a token or an address
DAY = 86_400.0  # s
WEB_PORT = 9061
MOST_MISTAKES = 1_000  # that are told
MOST_SUGGESTIONS = 2_000  # a similar name is looked for among so many at most: it takes long


class Mistake(NamedTuple):
    file: str  # "" if the text names it
    line: int  # 0: it is about the whole file
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.text}" if place else self.text


class Mistakes(Exception):
    """The configuration cannot be used. It says everything that is wrong, in the file's order."""

    def __init__(self, all_of_them: Iterable[Mistake]) -> None:
        found = sorted(all_of_them, key=lambda each: (each.file, each.line))
        self.all = found[:MOST_MISTAKES]
        if len(found) > MOST_MISTAKES:
            self.all.append(self.all[-1]._replace(
                text=f"and {len(found) - MOST_MISTAKES} more mistakes"))
        super().__init__("\n".join(map(str, self.all)))


class Secret(str):
    """A text that is not for logs: `repr`, which logs and messages use, does not show it."""

    def __repr__(self) -> str:
        return "'(secret)'"


# ---------------------------------------------------------------- what a file says


@dataclasses.dataclass(frozen=True)
class Shared:
    """What the agents of one [[agents]] have in common."""

    profile: Profile
    site: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    period: float = 10.0  # s
    misses: int = 3
    parent: str = ""
    keys: str = ""  # a folder with NAME-readers.key of each agent

    def agent(self, address: str, name: str = "", key: ReaderKeys | None = None) -> Agent:
        """Wrong: the address, the name or the agent's file of keys is."""
        address = check_address(address)
        name = check_name(name) if name else name_of(address)
        if self.keys and key is None:
            key = read_keys(os.path.join(self.keys, f"{name}-readers.key"))
        return Agent(name, address, self.profile, self.site, self.labels, self.period, self.misses,
                     self.parent, key)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where more agents come from: files or a page, in the form of Prometheus' file_sd and http_sd.

    Exactly one of `files` and `url` is not empty.
    """

    shared: Shared
    line: int  # of the configuration
    files: str = ""  # a path in full, whose file may have * in its name
    url: Secret = Secret()
    token: Secret = Secret()  # sent as "Authorization: Bearer"
    every: float = 60.0  # s between two looks

    @property
    def name(self) -> str:
        """For logs and metrics: without what may be secret in an address."""
        return self.files or shown_url(self.url)


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


@dataclasses.dataclass(frozen=True)
class Notify:
    """Who is told: a webhook gets JSON, the others are services that Apprise knows."""

    kind: str  # "webhook" or "apprise"
    url: Secret
    match: Mapping[str, str]  # only about agents with these labels; empty: about all
    token: Secret = Secret()  # for a webhook: sent as "Authorization: Bearer"
    resolved: bool = True  # tell also that it is over


@dataclasses.dataclass(frozen=True)
class Alerts:
    notify: tuple[Notify, ...] = ()
    wait: float = 30.0  # s in which what fails together is gathered for one notification
    remind: float = 4 * 3600.0  # s between two notifications of what is not over; 0: none
    blind: int = 50  # percent of the agents silent in one round: it is the collector that is blind
    ping: Secret = Secret()  # asked for while all is well here: a dead man's switch
    ping_every: float = 60.0  # s


@dataclasses.dataclass(frozen=True)
class Mqtt:
    host: str
    port: int
    tls: bool = False
    ca_file: str = ""  # empty: the authorities of this machine
    user: str = ""
    password: Secret = Secret()
    client_id: str = ""  # empty: one is made from the name of this machine
    prefix: str = "dumpulse"  # the topics begin with it
    discovery: str = "homeassistant"  # Home Assistant's prefix; empty: no discovery
    events: bool = False  # publish each event, too


@dataclasses.dataclass(frozen=True)
class Nats:
    url: Secret
    subject: str = "dumpulse.events"


@dataclasses.dataclass(frozen=True)
class Web:
    host: str = "127.0.0.1"
    port: int = WEB_PORT
    config_file: str = ""  # TLS and passwords, as Prometheus' exporters have it
    token: Secret = Secret()  # of programs that may change something


class Shard(NamedTuple):
    """The agents of one collector of several: see discovery.belongs."""

    number: int = 1  # from 1
    of: int = 1


@dataclasses.dataclass(frozen=True)
class Config:
    path: str
    agents: tuple[Agent, ...]  # those that the file lists
    sources: tuple[Source, ...]
    groups: tuple[Group, ...]
    fixed_mutes: tuple[Mute, ...]
    windows: tuple[Window, ...]
    alerts: Alerts
    mqtt: Mqtt | None
    nats: Nats | None
    web: Web
    state: str  # the folder for the events and for what is known over a restart
    grace: float  # s after the start in which no agent is unreachable, and nothing is told
    shard: Shard
    keep_days: int  # events are deleted after so many days
    keep_rows: int  # and if there are more than so many

    def mutes(self, now: float) -> tuple[Mute, ...]:
        """Of the file, with those of windows that are near. Ask again at least once a day."""
        return (*self.fixed_mutes, *(mute for window in self.windows for mute in window.mutes(now)))


# ---------------------------------------------------------------- values


def kind(value: Any) -> str:
    """What a value of TOML is, in words: its content may be secret."""
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text",
             dict: "a table", list: "a list"}
    return kinds.get(type(value), "a date or a time")


def text(value: Any, longest: int = 200) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be text in quotes, not {kind(value)}")
    if not value or not value.isprintable() or len(value) > longest:
        raise Wrong(f"must have 1 to {longest} characters, in one line")
    return value


def yes(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, not {kind(value)}")
    return value


def number(value: Any, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Wrong(f"must be a whole number, not {kind(value)}")
    if not low <= value <= high:
        raise Wrong(f"must be {low:,} to {high:,}")
    return value


def duration(value: Any, low: float, high: float, zero: bool = False) -> float:
    """Seconds."""
    if not isinstance(value, str):
        raise Wrong(f"must be a time in quotes like '10s', not {kind(value)}")
    if zero and value == "0":
        return 0.0
    try:
        seconds = client.parse_duration(value) / 1000
    except client.BadUsage as error:
        raise Wrong(str(error)) from error
    if not low <= seconds <= high:
        raise Wrong(f"must be {low:g} s to {high:g} s, not {seconds:g} s")
    return seconds


def match_of(value: Any, empty: bool = False) -> dict[str, str]:
    """Labels and globs."""
    if not isinstance(value, dict):
        raise Wrong(f"must be a table like {{ site = 'north' }}, not {kind(value)}")
    if not value and not empty:
        raise Wrong("is empty, so it would be about all agents: write { name = '*' } if it is")
    for key, glob in value.items():
        if not isinstance(glob, str) or not glob.isprintable() or not 1 <= len(glob) <= 200:
            raise Wrong(f"{shown(key)} must be text in quotes, and may have * and ? in it")
    return dict(value)


def url(value: Any, schemes: Collection[str]) -> Secret:
    """An address of a page. It may have a password in it, so no message repeats it."""
    try:
        parts = urllib.parse.urlsplit(text(value, 2000))
        fine = parts.scheme in schemes and parts.hostname and parts.port != 0 and " " not in value
    except ValueError:  # brackets without an IPv6 address in them, or no port is so large
        fine = False
    if not fine:
        raise Wrong(f"must be an address that begins with {' or '.join(f'{s}://' for s in schemes)}"
                    ", then a host")
    return Secret(value)


HTTP = ("https", "http")


def shown_url(address: str) -> str:
    """Without what may be secret."""
    parts = urllib.parse.urlsplit(address)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def apprise_url(value: Any) -> Secret:
    if not re.match(r"[a-z][a-z0-9+]*://.", text(value, 2000)):
        raise Wrong("must be an address for Apprise, like 'mailto://…' or 'tgram://…'")
    return Secret(value)


def listening(value: Any) -> tuple[str, int]:
    """HOST:PORT, :PORT for every address, or [IPV6]:PORT; port 0 is any that is free."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]*)):([0-9]{1,5})", text(value))
    if match is None or int(match[3]) > 65535:
        raise Wrong(f"{shown(value)} is not HOST:PORT: write it like '127.0.0.1:{WEB_PORT}'")
    return match[1] or match[2], int(match[3])


def shard(value: Any) -> Shard:
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text(value))
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise Wrong(f"{shown(value)} is not a shard: write it like '3/8', the third of eight")
    return Shard(int(match[1]), int(match[2]))


def zone(value: Any) -> zoneinfo.ZoneInfo:
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


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WHEN = re.compile(r"(daily|[a-z]{3}(?:[-,][a-z]{3})*) ([0-2][0-9]):([0-5][0-9])"
                  r"-([0-2][0-9]):([0-5][0-9])")


def when(value: Any) -> tuple[frozenset[int], int, int]:
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


# ---------------------------------------------------------------- tables


class Key(NamedTuple):
    """What a key of a table may be."""

    parse: Callable[[Any], Any]  # raises Wrong
    default: Any = None


Keys = Mapping[str, Key]
NEEDED = object()  # the default of a key that has none


def similar(word: str, words: Collection[str]) -> str:
    near = difflib.get_close_matches(word[:100], words, 1) if len(words) <= MOST_SUGGESTIONS else []
    return f": do you mean {near[0]!r}?" if near else ""


def read_file(path: str, most: int) -> bytes:
    """At most so many bytes; Wrong otherwise."""
    def read_start() -> bytes:
        with open(path, "rb") as file:
            return file.read(most + 1)

    try:
        content = client.within(client.TIMEOUT, read_start)  # a pipe may wait for a writer
    except (OSError, ValueError) as error:
        raise Wrong(f"cannot read {shown(path, 200)}: "
                    f"{getattr(error, 'strerror', None) or error}") from error
    if content is None:
        raise Wrong(f"cannot read {shown(path, 200)}: nothing comes from it")
    if len(content) > most:
        raise Wrong(f"{shown(path, 200)} is longer than {most:,} bytes")
    return content


def read_keys(path: str) -> ReaderKeys:
    """Wrong: it is no file of keys of a reader, or others may read it."""
    try:
        return ReaderKeys(path)
    except client.BadUsage as error:
        raise Wrong(str(error)) from error


class Reader:
    """Reads the tables of one file, and gathers what is wrong in them."""

    def __init__(self, path: str, lines: Lines) -> None:
        self.path, self.lines = path, lines
        self.mistakes: list[Mistake] = []
        self._profiles: dict[str, Profile] = {}

    def wrong(self, where: Where, message: str) -> None:
        self.mistakes.append(Mistake(shown_path(self.path), self.lines[where], message))

    def path_of(self, value: Any) -> str:
        """Paths are relative to the folder of the configuration."""
        return os.path.join(os.path.dirname(os.path.abspath(self.path)), text(value, 1000))

    def readable(self, value: Any) -> str:
        path = self.path_of(value)
        read_file(path, LARGEST)
        return path

    def secret(self, value: Any) -> Secret:
        """The first line of a file."""
        path = self.path_of(value)
        try:
            lines = read_file(path, LARGEST_SECRET).decode().splitlines()
        except UnicodeDecodeError as error:
            raise Wrong(f"{shown(path, 200)} is not UTF-8") from error
        if not lines or not lines[0].strip() or not lines[0].strip().isprintable():
            raise Wrong(f"{shown(path, 200)} must have the secret in its first line")
        return Secret(lines[0].strip())

    def profile(self, value: Any) -> Profile:
        """Agents with the same file of names share one."""
        path = self.path_of(value)
        if path not in self._profiles:
            try:
                self._profiles[path] = make_profile(path)
            except client.BadUsage as error:
                raise Wrong(str(error)) from error
        return self._profiles[path]

    def table(self, where: Where, value: Any, keys: Keys) -> dict[str, Any] | None:
        """The values of a table, with defaults for those that are missing. None: it is no table,
        or something is wrong in it, which is noted."""
        before = len(self.mistakes)
        if not isinstance(value, dict):
            self.wrong(where, f"{where[0]}: must be a table, not {kind(value)}")
            return None
        found = {name: key.default for name, key in keys.items()}
        place = next((f"{part}: " for part in where[::-1] if isinstance(part, str)), "")
        for name, own in value.items():
            if name not in keys:
                self.wrong((*where, name), f"{place}{shown(name)} is not known here"
                           + (similar(name, keys) or f": use {', '.join(keys)}"))
                continue
            try:
                found[name] = keys[name].parse(own)
            except Wrong as error:
                self.wrong((*where, name), f"{place}{name}: {error}")
        for name in keys:
            if found[name] is NEEDED and name not in value:
                self.wrong(where, f"{place}{name!r} is missing")
        return found if len(self.mistakes) == before else None

    def tables(self, where: Where, value: Any, keys: Keys
               ) -> Iterator[tuple[Where, dict[str, Any], Mapping[str, Any]]]:
        """The tables of a list that are right: where they are, their values, what the file has."""
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.wrong(where, f"{where[-1]}: must be tables that begin with [[{where[-1]}]], "
                       f"not {kind(value)}")
            return
        for position, each in enumerate(value):
            found = self.table((*where, position), each, keys)
            if found is not None:
                yield (*where, position), found, each

    def one_of(self, where: Where, own: Mapping[str, Any], names: Sequence[str]) -> str:
        """Which one of these keys a table has; "" if that is not exactly one, which is noted."""
        given = [name for name in names if name in own]
        if len(given) != 1:
            self.wrong(where, f"{where[0]}: needs exactly one of {', '.join(names)}"
                       + (f", not {' and '.join(given)}" if given else ""))
            return ""
        return given[0]


def make_profile(path: str = "") -> Profile:
    """BadUsage: the file of names is wrong. Without a file, nothing is expected."""
    options = argparse.Namespace(names=path) if path else argparse.Namespace()
    return Profile(client.make_settings(options), path)


# ---------------------------------------------------------------- sections


class _Sections:
    """Makes a configuration of the tables of a file. What is wrong is noted by the reader, and
    then has its default here."""

    def __init__(self, reader: Reader, data: dict[str, Any]) -> None:
        self._reader, self._data = reader, data
        self._lines: dict[str, int] = {}  # of the agents, by name
        self._addresses: dict[str, str] = {}  # whose they are
        self._keys: dict[ReaderKeys, str] = {}  # the same
        self._shared_keys: Keys = {
            "names": Key(reader.profile), "site": Key(_named("site"), ""),
            "labels": Key(_labels, {}), "parent": Key(_named("parent"), ""),
            "keys": Key(reader.path_of, ""),
            "period": Key(partial(duration, low=0.1, high=3600), 10.0),
            "misses": Key(partial(number, low=1, high=1000), 3)}

    def config(self) -> Config:
        sections = ("collector", "defaults", "agents", "groups", "mutes", "alerts", "notify",
                    "mqtt", "nats", "web", "events")
        for name in self._data:
            if name not in sections:
                self._reader.wrong((name,), f"{shown(name)} is not known here" + (
                    similar(name, sections) or f": use {', '.join(sections)}"))
        collector = self._table("collector", {
            "state": Key(self._reader.path_of, "/var/lib/dumpulse-fleet"),
            "grace": Key(partial(duration, low=0, high=DAY, zero=True), 60.0),
            "shard": Key(shard, Shard())})
        events = self._table("events", {
            "keep_days": Key(partial(number, low=1, high=36_500), 90),
            "keep_rows": Key(partial(number, low=1_000, high=10**9), 2_000_000)})
        agents, sources = self._agents()
        # Whether there are more agents than these: elsewhere, or in a table that is wrong.
        more = bool(sources or self._reader.mistakes)
        if not agents and not more:
            self._reader.wrong((), "there are no agents: write [[agents]] with an address")
        self._parents(agents, more)
        return Config(
            path=self._reader.path, agents=agents, sources=sources,
            groups=self._groups(agents, more), alerts=self._alerts(), mqtt=self._mqtt(),
            nats=self._nats(), web=self._web(), **self._mutes(agents, more),
            **collector, **events)

    def _table(self, name: str, keys: Keys) -> dict[str, Any]:
        return self._reader.table((name,), self._data.get(name, {}), keys) \
            or {key: each.default for key, each in keys.items()}

    def _tables(self, name: str, keys: Keys
                ) -> Iterator[tuple[Where, dict[str, Any], Mapping[str, Any]]]:
        return self._reader.tables((name,), self._data.get(name, []), keys)

    # ---- agents

    def _agents(self) -> tuple[tuple[Agent, ...], tuple[Source, ...]]:
        reader = self._reader
        defaults = self._table("defaults", self._shared_keys)
        if defaults["names"] is None:
            defaults["names"] = make_profile()
        kinds = ("address", "addresses", "files", "url")
        of_a_page: Keys = {"every": Key(partial(duration, low=1, high=DAY), 60.0),
                           "token_file": Key(reader.secret, Secret())}
        keys: Keys = {
            "address": Key(text), "addresses": Key(_texts), "name": Key(text, ""),
            "key": Key(lambda value: read_keys(reader.path_of(value))),
            "files": Key(_targets(reader), ""), "url": Key(partial(url, schemes=HTTP), Secret()),
            **of_a_page, **self._shared_keys}
        agents: dict[str, Agent] = {}
        sources = []
        for where, values, own in self._tables("agents", keys):
            given = reader.one_of(where, own, kinds)
            if not given:
                continue
            values = {**values, **{key: defaults[key] for key in defaults if key not in own},
                      "labels": {**defaults["labels"], **values["labels"]}}
            shared = Shared(values["names"], values["site"], values["labels"], values["period"],
                            values["misses"], values["parent"], values["keys"])
            if "key" in own and "keys" in own:
                reader.wrong((*where, "keys"), "agents: use one of key and keys")
            self._check_wrap(where, shared)
            if given in ("address", "addresses"):
                self._refuse(where, own, of_a_page, "files or url")
                self._listed(agents, where, shared, own[given], values["name"], values["key"])
            else:
                self._refuse(where, own, ("key",), "address")
                self._refuse(where, own, ("name", *["token_file"] * (given == "files")),
                             "other agents" if "name" in own else "url")
                sources.append(Source(shared, reader.lines[where], values["files"], values["url"],
                                      values["token_file"], values["every"]))
        return tuple(agents.values()), tuple(sources)

    def _refuse(self, where: Where, own: Collection[str], names: Iterable[str], what: str) -> None:
        for name in names:
            if name in own:
                self._reader.wrong((*where, name), f"agents: {name!r} goes only with {what}")

    def _check_wrap(self, where: Where, shared: Shared) -> None:
        """An age is exact only if a report comes before the timestamps begin again."""
        silence = shared.period * shared.misses
        longest = client.WRAP * shared.profile.tick * 0.9  # clocks may differ by a tenth
        if silence > longest:
            self._reader.wrong(where, f"agents: {shared.misses} periods of {shared.period:g} s are "
                               f"too long: with a tick of {shared.profile.tick:g} s, timestamps "
                               f"begin again, and an agent must be asked every {longest:g} s")

    def _listed(self, agents: dict[str, Agent], where: Where, shared: Shared,
                patterns: str | list[str], name: str, key_of_one: ReaderKeys | None) -> None:
        """Adds the agents of address = or addresses = to those so far."""
        several = isinstance(patterns, list)
        key = "addresses" if several else "address"
        found: list[tuple[Where, str]] = []
        names: list[str] = []
        for position, pattern in enumerate(patterns if isinstance(patterns, list) else [patterns]):
            at = (*where, key, position) if several else (*where, key)
            try:
                found += [(at, address) for address in islice(expand(pattern), MOST_AGENTS)]
            except Wrong as error:
                self._reader.wrong(at, f"agents: {error}")
        try:
            names = list(expand(name)) if name else [""] * len(found)
        except Wrong as error:
            self._reader.wrong((*where, "name"), f"agents: {error}")
            return
        if len(agents) + len(found) > MOST_AGENTS:
            self._reader.wrong(where, f"agents: these are more than {MOST_AGENTS:,} agents")
        elif len(names) != len(found):
            self._reader.wrong((*where, "name"), f"agents: {len(found)} addresses, but the name "
                               f"stands for {len(names)}: write a pattern like node-{{1..50}}, "
                               "or no name")
        elif key_of_one and len(found) > 1:
            self._reader.wrong((*where, "key"), f"agents: {len(found)} agents cannot have one key: "
                               "use keys = and a folder with NAME-readers.key of each")
        else:
            for (at, address), own_name in zip(found, names):
                try:
                    self._add(agents, at, shared.agent(address, own_name, key_of_one))
                except Wrong as error:
                    self._reader.wrong(at, f"agents: {error}")

    def _add(self, agents: dict[str, Agent], at: Where, agent: Agent) -> None:
        if agent.name in agents:
            raise Wrong(f"the name {agent.name!r} is that of line {self._lines[agent.name]}, too: "
                        "give one of the agents another name")
        other = self._addresses.setdefault(agent.address, agent.name)
        if other != agent.name:
            raise Wrong(f"{agent.address} is the address of {other!r}, too, "
                        f"in line {self._lines[other]}")
        twin = self._keys.setdefault(agent.keys, agent.name) if agent.keys else agent.name
        if twin != agent.name:
            raise Wrong(f"{agent.name} has the key of {twin!r}, in line {self._lines[twin]}, too: "
                        "each agent needs its own")
        agents[agent.name] = agent
        self._lines[agent.name] = self._reader.lines[at]

    def _parents(self, agents: Sequence[Agent], more: bool) -> None:
        names = {agent.name for agent in agents}
        for agent, message in wrong_parents(agents, more):
            hint = "" if agent.parent in names else similar(agent.parent, names)
            self._reader.mistakes.append(Mistake(
                shown_path(self._reader.path), self._lines[agent.name],
                f"agents: {agent.name}: {message}{hint}"))

    # ---- what is about agents

    def _check_match(self, where: Where, match: Mapping[str, str], agents: Sequence[Agent],
                     more: bool, also: Sequence[str] = ()) -> bool:
        """A label that no agent has is a typing error, unless pages and files name more agents."""
        before = len(self._reader.mistakes)
        known = {"name", "site", *also, *(key for agent in agents for key in agent.labels)}
        for key in match:
            if key not in known and not more:
                self._reader.wrong((*where, "match", key), f"{where[0]}: no agent has a label "
                                   f"{shown(key)}{similar(key, known)}")
        return len(self._reader.mistakes) == before

    def _groups(self, agents: Sequence[Agent], more: bool) -> tuple[Group, ...]:
        groups: dict[str, Group] = {}
        for where, values, _ in self._tables("groups", {
                "name": Key(_named("name"), NEEDED), "match": Key(match_of, NEEDED),
                "at_least": Key(partial(number, low=1, high=MOST_AGENTS), NEEDED)}):
            group = Group(**values)
            if group.name in groups:
                self._reader.wrong((*where, "name"), f"groups: two have the name {group.name!r}")
            groups[group.name] = group
            if not self._check_match(where, group.match, agents, more):
                continue
            members = sum(1 for _ in islice(
                (agent for agent in agents if matches(group.match, agent)), group.at_least))
            if members < group.at_least and not more:
                self._reader.wrong((*where, "at_least"), f"groups: {group.name} has only {members} "
                                   f"members, so {group.at_least} can never live")
        return tuple(groups.values())

    def _mutes(self, agents: Sequence[Agent], more: bool) -> dict[str, Any]:
        fixed, windows = [], []
        for where, values, own in self._tables("mutes", {
                "match": Key(match_of, NEEDED), "why": Key(text, ""), "from": Key(moment),
                "until": Key(moment), "when": Key(when), "zone": Key(zone)}):
            self._check_match(where, values["match"], agents, more, ("variable",))
            if ("when" in own) == ("from" in own or "until" in own) \
                    or ("from" in own) != ("until" in own):
                self._reader.wrong(where, "mutes: needs 'from' and 'until', or else 'when'")
            elif "zone" in own and "when" not in own:
                self._reader.wrong((*where, "zone"), "mutes: 'zone' goes only with 'when'")
            elif "when" in own:
                days, begins, ends = values["when"]
                windows.append(Window(values["match"], days, begins, ends, values["zone"],
                                      values["why"]))
            elif values["from"] >= values["until"]:
                self._reader.wrong((*where, "until"), "mutes: 'until' must be after 'from'")
            else:
                fixed.append(Mute(values["match"], values["from"], values["until"], values["why"],
                                  "configuration"))
        return {"fixed_mutes": tuple(fixed), "windows": tuple(windows)}

    # ---- who is told

    def _alerts(self) -> Alerts:
        reader = self._reader
        values = self._table("alerts", {
            "wait": Key(partial(duration, low=0, high=3600, zero=True), 30.0),
            "remind": Key(partial(duration, low=60, high=30 * DAY, zero=True), 4 * 3600.0),
            "blind": Key(partial(number, low=1, high=100), 50),
            "ping": Key(partial(url, schemes=HTTP), Secret()),
            "ping_file": Key(lambda value: url(reader.secret(value), HTTP), Secret()),
            "ping_every": Key(partial(duration, low=1, high=DAY), 60.0)})
        if values["ping"] and values["ping_file"]:
            reader.wrong(("alerts", "ping_file"), "alerts: use one of ping and ping_file")
        ping_file = values.pop("ping_file")
        return Alerts(self._notify(), **{**values, "ping": values["ping"] or ping_file})

    def _notify(self) -> tuple[Notify, ...]:
        reader = self._reader
        checks: dict[str, Callable[[Any], Secret]] = {
            "webhook": partial(url, schemes=HTTP), "apprise": apprise_url}
        forms: Keys = {
            **{name: Key(check) for name, check in checks.items()},
            **{f"{name}_file": Key(partial(lambda check, value: check(reader.secret(value)), check))
               for name, check in checks.items()}}
        found = []
        for where, values, own in self._tables("notify", {
                **forms, "match": Key(partial(match_of, empty=True), {}),
                "token_file": Key(reader.secret, Secret()), "resolved": Key(yes, True)}):
            given = reader.one_of(where, own, tuple(forms))
            if given.startswith("apprise") and "token_file" in own:
                reader.wrong((*where, "token_file"), "notify: 'token_file' goes only with webhook")
            if given:
                found.append(Notify(given.removesuffix("_file"), values[given], values["match"],
                                    values["token_file"], values["resolved"]))
        return tuple(found)

    def _mqtt(self) -> Mqtt | None:
        if "mqtt" not in self._data:
            return None
        reader = self._reader
        values = reader.table(("mqtt",), self._data["mqtt"], {
            "host": Key(_host, NEEDED), "port": Key(partial(number, low=1, high=65535), 0),
            "tls": Key(yes, False), "ca_file": Key(reader.readable, ""), "user": Key(text, ""),
            "password_file": Key(reader.secret, Secret()), "client_id": Key(text, ""),
            "prefix": Key(_topic, "dumpulse"), "discovery": Key(yes, True),
            "discovery_prefix": Key(_topic, "homeassistant"), "events": Key(yes, False)})
        if values is None:
            return None
        if values["ca_file"] and not values["tls"]:
            reader.wrong(("mqtt", "ca_file"), "mqtt: 'ca_file' goes only with tls = true")
        if values["password_file"] and not values["user"]:
            reader.wrong(("mqtt", "password_file"), "mqtt: a password needs a 'user'")
        return Mqtt(
            values["host"], values["port"] or (8883 if values["tls"] else 1883), values["tls"],
            values["ca_file"], values["user"], values["password_file"], values["client_id"],
            values["prefix"], values["discovery_prefix"] if values["discovery"] else "",
            values["events"])

    def _nats(self) -> Nats | None:
        if "nats" not in self._data:
            return None
        values = self._reader.table(("nats",), self._data["nats"], {
            "url": Key(partial(url, schemes=("nats", "tls"))),
            "url_file": Key(lambda value: url(self._reader.secret(value), ("nats", "tls"))),
            "subject": Key(_subject, "dumpulse.events")})
        if values is None:
            return None
        given = self._reader.one_of(("nats",), self._data["nats"], ("url", "url_file"))
        return Nats(values[given], values["subject"]) if given else None

    def _web(self) -> Web:
        values = self._table("web", {
            "listen": Key(listening, ("127.0.0.1", WEB_PORT)),
            "config_file": Key(self._reader.readable, ""),
            "token_file": Key(self._reader.secret, Secret())})
        host, port = values["listen"]
        return Web(host, port, values["config_file"], values["token_file"])


def _named(what: str) -> Callable[[Any], str]:
    return lambda value: check_name(text(value), what)


def _targets(reader: Reader) -> Callable[[Any], str]:
    def path(value: Any) -> str:
        if not text(value, 1000).endswith((".json", ".yml", ".yaml")) \
                or re.search(r"[*?\[].*/", value):
            raise Wrong("must end in .json, .yml or .yaml, and * may only be in the file's name")
        return reader.path_of(value)
    return path


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Wrong(f"must be a table like {{ rack = '7' }}, not {kind(value)}")
    return check_labels(value)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise Wrong("must be a list of addresses in brackets")
    return [text(each) for each in value]


def _host(value: Any) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", text(value)):
        raise Wrong(f"{shown(value)} is not a host")
    return str(value)


def _topic(value: Any) -> str:
    if not re.fullmatch(r"[^/+#$][^+#]*(?<!/)", text(value)):
        raise Wrong(f"{shown(value)} cannot begin a topic: use no + and #, and no / at its ends")
    return str(value)


def _subject(value: Any) -> str:
    if not re.fullmatch(r"[^\s.*>]+(\.[^\s.*>]+)*", text(value)):
        raise Wrong(f"{shown(value)} is not a subject: use words with dots between them")
    return str(value)


def wrong_parents(agents: Sequence[Agent], more: bool = False) -> Iterator[tuple[Agent, str]]:
    """The agents whose parent does not exist (unless there are more agents than these), and of
    each circle of parents one, with what is wrong."""
    by_name = {agent.name: agent for agent in agents}
    done: set[str] = set()  # it leads to no circle, or to one that was told
    for agent in agents:
        way: dict[str, None] = {}  # in order
        name = agent.name
        while name in by_name and name not in done and name not in way:
            way[name] = None
            name = by_name[name].parent
        if name in way:
            circle = [*list(way)[list(way).index(name):], name]
            yield by_name[name], f"it is its own parent: {' -> '.join(circle[:10])}"
        done.update(way)
        if agent.parent and agent.parent not in by_name and not more:
            yield agent, f"there is no agent {shown(agent.parent)} to be its parent"


# ---------------------------------------------------------------- the file


def load(path: str) -> Config:
    """Reads and checks a configuration. Mistakes: it cannot be used."""
    try:
        content = read_file(path, LARGEST).decode("utf-8-sig").replace("\r\n", "\n")
        lines = Lines(content)
        data = tomllib.loads(content)
    except Wrong as error:
        hint = "name your own with --config.file"
        raise Mistakes([Mistake("", 0, f"{error}: {hint}")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Mistakes([Mistake(shown_path(path), line, "this is not UTF-8")]) from None
    except TooDeep as error:
        raise Mistakes([Mistake(shown_path(path), error.line, "is nested too deeply")]) from None
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \((?:at line ([0-9]+), column [0-9]+|at end of document)\)",
                             str(error), re.DOTALL)
        message, line = (found[1], int(found[2] or 0)) if found else (str(error), 0)
        message += ": is it text without quotes?" if message == "Invalid value" else ""
        raise Mistakes([Mistake(shown_path(path), line or content.count("\n") + 1,
                                f"this is not TOML: {message}")]) from None
    except (ValueError, RecursionError):
        raise Mistakes([Mistake(shown_path(path), 0, "this is not TOML: a number is too long")
                        ]) from None
    reader = Reader(path, lines)
    config = _Sections(reader, data).config()
    if reader.mistakes:
        raise Mistakes(reader.mistakes)
    return config


def shown_path(path: str) -> str:
    return path if path.isprintable() else shown(path, 200)
