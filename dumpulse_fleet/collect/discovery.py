"""Finds agents in files, in the form of Prometheus' file_sd."""

import asyncio
import dataclasses
import json
import math
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from dumpulse_fleet.config.agents import Shared, Source, wrong_parents
from dumpulse_fleet.config.file import Config
from dumpulse_fleet.config.values import read_file
from dumpulse_fleet.model.agents import Agent
from dumpulse_fleet.model.naming import MOST_AGENTS, Wrong, check_labels, check_name, shown

LARGEST = 16 << 20  # bytes of a file
EVERY_S = 5.0  # s between two looks at a file
MOST_PROBLEMS = 20  # that are told of one source
SHRINKS = 0.5  # a list that loses more than this share is not used at once,
HELD_S = 3600.0  # but after this time, or after a reload
IGNORED = ("instance", "job")  # labels that Prometheus makes itself


# ---------------------------------------------------------------- the targets of a source
def parse_targets(content: bytes, shared: Shared) -> tuple[list[Agent], list[str]]:
    """The agents of [{"targets": ["HOST:PORT"], "labels": {}}], and what is wrong with others.

    The labels name, site and parent are the agent's. Wrong: it is something else.
    """
    try:
        groups = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Wrong("it is not JSON") from error
    if not isinstance(groups, list):
        raise Wrong("it is not a list of targets")
    agents: list[Agent] = []
    problems: list[str] = []
    for position, group in enumerate(groups):
        try:
            defaults, labels = _shared(group, shared)
        except Wrong as error:
            problems.append(f"entry {position + 1}: {error}")
            continue
        for target in group["targets"]:
            try:
                if not isinstance(target, str):
                    raise Wrong(f"{shown(target)} is not a target: it must be text")
                agents.append(defaults.agent(target, labels.get("name", "")))
            except Wrong as error:
                problems.append(f"entry {position + 1}: {error}")
        if len(agents) > MOST_AGENTS:
            raise Wrong(f"it has more than {MOST_AGENTS:,} targets")
    return agents, problems


def _shared(group: Any, shared: Shared) -> tuple[Shared, dict[str, str]]:
    """What the targets of an entry have in common; its labels."""
    if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
        raise Wrong("it has no list of targets")
    labels = group.get("labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(label, str) for label in labels.values()):
        raise Wrong("its labels must be texts")
    site, parent = labels.get("site", shared.site), labels.get("parent", shared.parent)
    for what, name in (("site", site), ("parent", parent)):
        if name:
            check_name(name, what)
    others = {key: value for key, value in labels.items() if not key.startswith("__")
              and key not in (*IGNORED, "name", "site", "parent")}
    return dataclasses.replace(shared, site=site, parent=parent, labels={
        **shared.labels, **check_labels(others)}), labels


class SourceReader:
    """A file of targets, and the last good list of its agents."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.agents: list[Agent] = []
        self.missing = ""  # Why agents are missing: the list was never read, or has lost most.
        self._held_since = math.inf  # on the monotonic clock
        self._list: list[Agent] = []  # the last good one
        self._content: bytes | None = None  # That of the last good list.
        self._told_of: list[str] = []  # The problems of its targets.
        self.problems: list[str] = []  # The problems of the last look.
        self.failures = 0  # looks that gave no list
        self._due = 0.0  # on the monotonic clock
        self._reading = threading.Lock()

    async def look(self, now: float) -> bool:
        """Reads it again if it is time, on the monotonic clock. Returns whether it changed."""
        if now < self._due:
            return False
        self._due = now + EVERY_S
        before = self.agents
        try:
            await self._take(await asyncio.to_thread(
                read_file, self.source.file, LARGEST, self._reading))
        except Wrong as error:
            self.failures += 1
            self.problems = [f"{self.source.file}: {error}"]
            if self._content is None:
                self.missing = self.problems[0]
        else:
            self._use(now)
        return self.agents != before

    def _use(self, now: float) -> None:
        """Uses the last good list, unless it has lost too many agents. More likely an inventory is
        broken than a fleet is gone, and removed agents raise no alerts."""
        lost = len(self.agents) - len(self._list)
        self._held_since = min(self._held_since, now) if lost > SHRINKS * len(self.agents) \
            else math.inf
        if 0 <= now - self._held_since < HELD_S:
            self.missing = (f"{self.source.file}: the list has lost {lost:,} of "
                            f"{len(self.agents):,} agents: the old one is used for "
                            f"{HELD_S / 60:.0f} minutes, or until a reload")
            self.problems.append(self.missing)
            return
        self.agents, self.missing, self._held_since = self._list, "", math.inf

    async def _take(self, content: bytes) -> None:
        if content != self._content:
            self._list, problems = await asyncio.to_thread(
                parse_targets, content, self.source.shared)
            self._told_of = self._told(problems)
            self._content = content
        self.problems = list(self._told_of)

    def _told(self, problems: Sequence[str]) -> list[str]:
        omitted, name = len(problems) - MOST_PROBLEMS, self.source.file
        return [f"{name}: {problem}" for problem in problems[:MOST_PROBLEMS]] \
            + [f"{name}: {omitted} more targets are wrong"] * (omitted > 0)


# ---------------------------------------------------------------- the whole fleet
def merged(config: Config, lists: Iterable[Sequence[Agent]]) -> tuple[tuple[Agent, ...], list[str]]:
    """The agents of the configuration and of these lists, and what is wrong. The first one with a
    name or an address wins."""
    names = {agent.name: agent for agent in config.agents}
    addresses = {agent.address for agent in config.agents}
    problems = []
    for agents in lists:
        for agent in agents:
            if agent.name in names or agent.address in addresses:
                if names.get(agent.name) != agent:
                    problems.append(f"{agent.name} at {agent.address} is left out: another agent "
                                    f"has this {'name' if agent.name in names else 'address'}")
                continue
            if len(names) >= MOST_AGENTS:
                problems.append(f"there are more than {MOST_AGENTS:,} agents: the rest is left out")
                break
            names[agent.name] = agent
            addresses.add(agent.address)
    while orphans := list(wrong_parents(list(names.values()))):  # again: a circle may hide another
        for agent, message in orphans:
            problems.append(f"{agent.name} has no parent now: {message}")
            names[agent.name] = dataclasses.replace(agent, parent="")
    return tuple(names.values()), problems


class Discovery:
    """All sources of a configuration."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.watched = [SourceReader(source) for source in config.sources]
        self.problems: list[str] = []  # All problems of the last look.
        self._wrong: list[str] = []  # Those of the merged lists alone.
        self._looked = False

    @property
    def failures(self) -> int:
        return sum(source.failures for source in self.watched)

    @property
    def missing(self) -> str:
        """Which list was never read or has lost most of its agents; empty: none."""
        return "; ".join(source.missing for source in self.watched if source.missing)

    async def look(self, now: float | None = None) -> tuple[Agent, ...] | None:
        """The agents if any source has changed, or at the first look; else None."""
        now = time.monotonic() if now is None else now
        changed = await asyncio.gather(*(source.look(now) for source in self.watched))
        problems = [problem for source in self.watched for problem in source.problems]
        agents = None
        if not self._looked or any(changed):
            agents, self._wrong = await asyncio.to_thread(
                merged, self.config, [source.agents for source in self.watched])
        self._looked = True
        self.problems = problems + self._wrong
        return agents
