"""The configuration of a fleet: a file in TOML, checked to its last key.

    config = load("fleet.toml")    # Mistakes: all that is wrong, each with its line

dumpulse_fleet/examples/fleet.toml shows every key. What the file says is data, and nothing in it
starts anything. Each section has a file beside this one. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from functools import partial
from typing import Any, NamedTuple

from dumpulse_fleet.config.agents import Agents, Source
from dumpulse_fleet.config.alerts import Alerts, read_alerts
from dumpulse_fleet.config.groups import read_groups
from dumpulse_fleet.config.mqtt import Mqtt, read_mqtt
from dumpulse_fleet.config.mutes import Window, read_mutes
from dumpulse_fleet.config.nats import Nats, read_nats
from dumpulse_fleet.config.reading import (
    LARGEST, Key, Mistake, Mistakes, Reader, read_file, shown_path, similar)
from dumpulse_fleet.config.toml_lines import Lines, TooDeep
from dumpulse_fleet.config.values import DAY, duration, number, text
from dumpulse_fleet.config.web import Web, read_status, read_web
from dumpulse_fleet.model.agents import Agent, Group, Mute
from dumpulse_fleet.model.naming import Wrong, hide, shown

SECTIONS = ("collector", "defaults", "agents", "groups", "mutes", "alerts", "notify", "mqtt",
            "nats", "web", "status", "events")


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
    status: tuple[Group, ...]  # the parts of the public page
    state: str  # the folder for the events and for what is known over a restart
    grace: float  # s after the start in which no agent is unreachable, and nothing is told
    shard: Shard
    keep_days: int  # events are deleted after so many days
    keep_rows: int  # and if there are more than so many

    def mutes(self, now: float) -> tuple[Mute, ...]:
        """Of the file, with those of windows that are near. Ask again at least once a day."""
        return (*self.fixed_mutes, *(mute for window in self.windows for mute in window.mutes(now)))


def shard(value: Any) -> Shard:
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text(value))
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise Wrong(f"{shown(value)} is not a shard: write it like '3/8', the third of eight")
    return Shard(int(match[1]), int(match[2]))


def read_sections(reader: Reader) -> Config:
    """What is wrong is noted by the reader, and has its default here."""
    for name in reader.data:
        if name not in SECTIONS:
            reader.wrong((name,), f"{shown(name)} is not known here" + (
                similar(name, SECTIONS) or f": use {', '.join(SECTIONS)}"))
    collector = reader.section("collector", {
        "state": Key(reader.path_of, "/var/lib/dumpulse-fleet"),
        "grace": Key(partial(duration, low=0, high=DAY, zero=True), 60.0),
        "shard": Key(shard, Shard())})
    events = reader.section("events", {
        "keep_days": Key(partial(number, low=1, high=36_500), 90),
        "keep_rows": Key(partial(number, low=1_000, high=10**9), 2_000_000)})
    of_agents = Agents(reader)
    agents, sources = of_agents.read()
    # Whether there are more agents than these: elsewhere, or in a table that is wrong.
    more = bool(sources or reader.mistakes)
    if not agents and not more:
        reader.wrong((), "there are no agents: write [[agents]] with an address")
    of_agents.check_parents(agents, more)
    fixed_mutes, windows = read_mutes(reader, agents, more)
    return Config(
        path=reader.path, agents=agents, sources=sources,
        groups=read_groups(reader, agents, more), fixed_mutes=fixed_mutes, windows=windows,
        alerts=read_alerts(reader), mqtt=read_mqtt(reader), nats=read_nats(reader),
        web=read_web(reader),
        status=read_status(reader, agents, more), **collector, **events)


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
                                f"this is not TOML: {hide(message)}")]) from None
    except (ValueError, RecursionError):
        raise Mistakes([Mistake(shown_path(path), 0, "this is not TOML: a number is too long")
                        ]) from None
    reader = Reader(path, lines, data)
    config = read_sections(reader)
    if reader.mistakes:
        raise Mistakes(reader.mistakes)
    return config
