"""[[groups]]: agents of which some must live.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

from dumpulse_fleet.config.agents import check_match
from dumpulse_fleet.config.reading import NEEDED, Key, Reader
from dumpulse_fleet.config.values import match_of, named, number
from dumpulse_fleet.model.agents import Agent, Group
from dumpulse_fleet.model.naming import MOST_AGENTS, matches


def read_groups(reader: Reader, agents: Sequence[Agent], more: bool) -> tuple[Group, ...]:
    groups: dict[str, Group] = {}
    for where, values, _ in reader.sections("groups", {
            "name": Key(named("name"), NEEDED), "match": Key(match_of, NEEDED),
            "at_least": Key(partial(number, low=1, high=MOST_AGENTS), NEEDED)}):
        group = Group(**values)
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
