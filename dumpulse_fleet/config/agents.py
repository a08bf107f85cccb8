"""[defaults] and [[agents]]: which agents there are, and where more of them come from."""

import argparse
import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

from dumpulse_fleet import client
from dumpulse_fleet.config.toml_reader import (
    PATH, Mistake, Reader, Where, checked, shown_path, told)
from dumpulse_fleet.config.values import (
    check_name_of, duration, kind, number, similar, text)
from dumpulse_fleet.model.agents import SOON, Agent, Profile, ReaderKeys
from dumpulse_fleet.model.naming import (
    MOST_AGENTS, Wrong, check_address, check_labels, check_name, expand, name_of, shown)

ON_TIME = 0.25  # s by which a round may begin late, and its answer come


def read_keys(path: str) -> ReaderKeys:
    """Wrong: it is no file of keys of a reader, or others may read it."""
    try:
        return ReaderKeys(path)
    except client.BadUsage as error:
        raise Wrong(str(error)) from error


def make_profile(path: str = "") -> Profile:
    """BadUsage: the file of names is wrong. Without a file, nothing is expected. It is for agents
    with keys, too, so `authenticated` of each variable says what the file says."""
    options = argparse.Namespace(key="", **({"names": path} if path else {}))
    return Profile(client.make_settings(options), path)


@functools.cache
def no_names() -> Profile:
    """Agents without a file of names share one, too."""
    return make_profile()


def _profile(value: Any, reader: Reader) -> Profile:
    """Agents with the same file of names share one."""
    path = reader.path_of(value)
    if path not in reader.profiles:
        reader.profiles[path] = make_profile(path)
    return reader.profiles[path]


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Wrong(f"must be a table like {{ rack = '7' }}, not {kind(value)}")
    return check_labels(value)


@dataclasses.dataclass(frozen=True)
class Shared:
    """[defaults], and what the agents of one [[agents]] have in common."""

    names: Annotated[Profile, told(_profile)] = dataclasses.field(default_factory=no_names)
    site: Annotated[str, checked(check_name_of, "site")] = ""
    labels: Annotated[Mapping[str, str], checked(_labels)] = dataclasses.field(
        default_factory=dict)
    parent: Annotated[str, checked(check_name_of, "parent")] = ""
    keys: Annotated[str, PATH] = ""  # A folder with NAME-readers.key of each agent.
    period: Annotated[float, checked(duration, 0.1, 3600)] = 10.0  # s
    misses: Annotated[int, checked(number, 1, 1000)] = 3
    timeout: Annotated[float, checked(duration, 0.05, 3240)] = 3.0  # s

    def agent(self, address: str, name: str = "") -> Agent:
        """Wrong: the address, the name or the agent's file of keys is."""
        address = check_address(address)
        name = check_name(name) if name else name_of(address)
        key = read_keys(os.path.join(self.keys, f"{name}-readers.key")) if self.keys else None
        return Agent(name, address, self.names, self.site, self.labels, self.period, self.misses,
                     self.parent, key, self.timeout)


@dataclasses.dataclass(frozen=True)
class AgentsSection(Shared):
    """[[agents]]"""

    address: Annotated[str, checked(text)] = ""
    name: Annotated[str, checked(text)] = ""
    file: Annotated[str, PATH] = ""


@dataclasses.dataclass(frozen=True)
class Source:
    """A file that has more agents, as for Prometheus' file_sd."""

    shared: Shared
    file: str  # A path in full.


class Agents:
    """Reads [defaults] and all [[agents]]. What is wrong is noted by the reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lines: dict[str, int] = {}  # Line of each agent, by name.
        self._addresses: dict[str, str] = {}  # Name of the agent with each address.
        self._keys: dict[ReaderKeys, str] = {}  # Name of the agent with each key.

    def read(self) -> tuple[tuple[Agent, ...], tuple[Source, ...]]:
        reader = self._reader
        defaults = reader.section("defaults", Shared)
        agents: dict[str, Agent] = {}
        sources = []
        for where, table, keys in reader.sections("agents", AgentsSection):
            origin = reader.one_of(where, keys, ("address", "file"))
            if not origin:
                continue
            shared = Shared(**{name: getattr(table if name in keys else defaults, name)
                               for name in vars(defaults)} | {
                                   "labels": {**defaults.labels, **table.labels}})
            self._check_wrap(where, shared)
            if "timeout" in keys and shared.timeout > 0.9 * shared.period:
                reader.wrong((*where, "timeout"), f"agents: {shared.timeout:g} s are more than "
                             f"nine tenths of the period, {shared.period:g} s: use a longer period")
            if origin == "address":
                self._listed(agents, where, shared, table.address, table.name)
            else:
                if "name" in keys:
                    reader.wrong((*where, "name"), "agents: 'name' goes only with address")
                sources.append(Source(shared, table.file))
        return tuple(agents.values()), tuple(sources)

    def _check_wrap(self, where: Where, shared: Shared) -> None:
        """An age is exact only if a report comes before the timestamps begin again."""
        silence = shared.period * shared.misses
        longest = client.WRAP * shared.names.tick * 0.9  # Clocks may differ by a tenth.
        if silence > longest:
            self._reader.wrong(where, f"agents: {shared.misses} periods of {shared.period:g} s are "
                               f"too long: with a tick of {shared.names.tick:g} s, timestamps "
                               f"begin again, and an agent must be polled every {longest:g} s")
        longest = SOON * shared.names.tick - ON_TIME
        if shared.names.settings.now_from is None and shared.names.expected.any() \
                and shared.period > longest:
            self._reader.wrong(where, f"agents: a period of {shared.period:g} s is too long: with "
                               f"a tick of {shared.names.tick:g} s and without now-from, ages "
                               f"cannot be computed: use at most {longest:.4g} s, or a longer "
                               "tick, or now-from in the file of names")

    def _listed(self, agents: dict[str, Agent], where: Where, shared: Shared,
                pattern: str, name: str) -> None:
        """Adds the agents of address = to those so far."""
        place = (*where, "address")
        try:
            addresses = list(islice(expand(pattern), MOST_AGENTS))
        except Wrong as error:
            self._reader.wrong(place, f"agents: {error}")
            return
        try:
            names = list(expand(name)) if name else [""] * len(addresses)
        except Wrong as error:
            self._reader.wrong((*where, "name"), f"agents: {error}")
            return
        if len(agents) + len(addresses) > MOST_AGENTS:
            self._reader.wrong(where, f"agents: these are more than {MOST_AGENTS:,} agents")
        elif len(names) != len(addresses):
            self._reader.wrong((*where, "name"), f"agents: {len(addresses)} addresses, but the "
                               f"name stands for {len(names)}: write a pattern like "
                               "node-{1..50}, or no name")
        else:
            for address, own_name in zip(addresses, names):
                try:
                    self._add(agents, place, shared.agent(address, own_name))
                except Wrong as error:
                    self._reader.wrong(place, f"agents: {error}")

    def _add(self, agents: dict[str, Agent], place: Where, agent: Agent) -> None:
        if agent.name in agents:
            raise Wrong(f"the name {agent.name!r} is that of line {self._lines[agent.name]}, too: "
                        "give one of the agents another name")
        owner = self._addresses.setdefault(agent.address, agent.name)
        if owner != agent.name:
            raise Wrong(f"{agent.address} is the address of {owner!r}, too, "
                        f"in line {self._lines[owner]}")
        twin = self._keys.setdefault(agent.keys, agent.name) if agent.keys else agent.name
        if twin != agent.name:
            raise Wrong(f"{agent.name} has the key of {twin!r}, in line {self._lines[twin]}, too: "
                        "each agent needs its own")
        agents[agent.name] = agent
        self._lines[agent.name] = self._reader.lines[place]

    def check_parents(self, agents: Sequence[Agent], more: bool) -> None:
        names = {agent.name for agent in agents}
        for agent, message in wrong_parents(agents, more):
            hint = "" if agent.parent in names else similar(agent.parent, names)
            self._reader.mistakes.append(Mistake(
                shown_path(self._reader.path), self._lines[agent.name],
                f"agents: {agent.name}: {message}{hint}"))


def wrong_parents(agents: Sequence[Agent], more: bool = False) -> Iterator[tuple[Agent, str]]:
    """The agents whose parent does not exist (unless there are more agents than these), and of
    each circle of parents one, with what is wrong."""
    by_name = {agent.name: agent for agent in agents}
    done: set[str] = set()  # It leads to no circle, or to one that was told.
    for agent in agents:
        way: dict[str, None] = {}  # Names from child to parent.
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
