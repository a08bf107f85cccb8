"""What is about all agents with some labels: [[groups]], of which some must live; [[status]], the
parts of the public page."""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated

from dumpulse_fleet.config.toml_reader import Reader, Where, checked
from dumpulse_fleet.config.values import check_name_of, match_of, number, similar
from dumpulse_fleet.model.agents import Agent, Group
from dumpulse_fleet.model.naming import MOST_AGENTS, matches, shown


def check_match(reader: Reader, where: Where, match: Mapping[str, str], agents: Sequence[Agent],
                more: bool) -> bool:
    """A label that no agent has is a typing error, unless pages and files name more agents."""
    before = len(reader.mistakes)
    keys = {"name", "site", *(key for agent in agents for key in agent.labels)}
    for key in match:
        if key not in keys and not more:
            reader.wrong((*where, "match", key), f"{where[0]}: no agent has a label "
                         f"{shown(key)}{similar(key, keys)}")
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
    for where, members_section, _ in reader.sections("groups", Members):
        group = Group(**vars(members_section))
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
