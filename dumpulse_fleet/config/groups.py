"""[[groups]]: agents of which some must live.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated

from dumpulse_fleet.config.agents import check_match
from dumpulse_fleet.config.reading import Reader, checked
from dumpulse_fleet.config.values import check_name_of, match_of, number
from dumpulse_fleet.model.agents import Agent, Group
from dumpulse_fleet.model.naming import MOST_AGENTS, matches


@dataclasses.dataclass(frozen=True)
class Members:
    name: Annotated[str, checked(check_name_of, "name")]
    match: Annotated[Mapping[str, str], checked(match_of)]
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
