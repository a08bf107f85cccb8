"""Which addresses, names and labels agents may have, and patterns that stand for many of them."""

import fnmatch
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import Agent

LONGEST_NAME = 100  # characters of an agent's name, a site, a label's name
LONGEST_VALUE = 200  # characters of a label's value
MOST_LABELS = 32
MOST_AGENTS = 1_000_000  # agents in one configuration
# Labels with these names would hide the fleet's own, in queries and on the wall.
RESERVED = ("agent", "address", "instance", "job", "name", "parent", "site", "state", "variable")
PLAIN = re.compile(r"[A-Za-z0-9 ._:()@-]*+")  # most names, checked in one go


class Wrong(Exception):
    """A value is invalid. The text has what it must be."""

    def __init__(self, text: str) -> None:
        super().__init__(hide(text))


def hide(text: str) -> str:
    """Without what may be a key: somebody may name a file of keys in the place of another one."""
    return re.sub(r"[0-9a-fA-F]{24,}", "(secret?)", text)


def shown(value: Any, longest: int = 60) -> str:
    """A value from outside, for a message of one line."""
    text = hide(repr(value))
    return text if len(text) <= longest else f"{text[:longest // 2]} ... {text[-longest // 4:]}"


def check_name(text: str, what: str = "name") -> str:
    """Names appear in addresses of pages, and in columns of terminals."""
    for character in "" if PLAIN.fullmatch(text) else text:
        if not (character.isalnum() or character in " ._-:()@") \
                or unicodedata.east_asian_width(character) in "WF":
            raise Wrong(f"the {what} {shown(text)} has {character!r} in it: "
                        "use letters, digits, spaces and ._-:()@")
    if not 1 <= len(text) <= LONGEST_NAME or text != text.strip() or text.strip(".") == "":
        raise Wrong(f"{shown(text)} is not a {what}: it needs 1 to {LONGEST_NAME} characters, "
                    "no space at its ends, and not only dots")
    return text


def check_labels(labels: Mapping[str, Any]) -> dict[str, str]:
    if len(labels) > MOST_LABELS:
        raise Wrong(f"there are {len(labels)} labels: use at most {MOST_LABELS}")
    for key, value in labels.items():
        if not re.fullmatch(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", key) or len(key) > LONGEST_NAME:
            raise Wrong(f"{shown(key)} is not a label's name: use letters, digits and _, "
                        "no digit first, and not __ first")
        if key in RESERVED:
            raise Wrong(f"{key!r} cannot be a label: the fleet uses this word itself")
        if not isinstance(value, str):
            raise Wrong(f"the label {key!r} must be text in quotes, like {str(value)[:20]!r}")
        if not value.isprintable() or len(value) > LONGEST_VALUE:
            raise Wrong(f"the label {key!r} has a value that is longer than {LONGEST_VALUE} "
                        "characters, or cannot be shown")
    return dict(labels)


def check_address(text: str) -> str:
    """The address in full. The fleet polls over UDP alone."""
    if len(text) > 300 or re.search(r"\s", text):
        raise Wrong(f"{shown(text)} is not an address: it is too long, or has a space in it")
    try:
        if client.prefix_of(text):
            raise Wrong(f"{shown(text)} is not an address: write HOST or HOST:PORT, for UDP")
        return client.format_address(client.parse_udp(text))
    except client.BadUsage as error:
        raise Wrong(str(error)) from error


def name_of(address: str) -> str:
    """Returns the name of an agent that is configured without one: its host."""
    return check_name(client.parse_udp(address)[0])


# ---------------------------------------------------------------- patterns
BRACES = re.compile(r"\{([^{}]*)\}")
SPAN = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})")


def expand(pattern: str) -> Iterator[str]:
    """node-{1..50}, node-{01..50}, {north,south}-{1..3}, 10.0.{0..1}.{1..254}:9060, or a text
    without braces, which stands for itself. Wrong: too many, or an empty range."""
    parts = BRACES.split(pattern)  # every second one was in braces
    if "{" in "".join(parts[::2]) or "}" in "".join(parts[::2]):
        raise Wrong(f"{shown(pattern)} is not a pattern: write it like node-{{1..50}}")
    choices = [_choices(part, pattern) if position % 2 else [part]
               for position, part in enumerate(parts)]
    count = 1
    for words in choices:
        count *= len(words)
    if count > MOST_AGENTS:
        raise Wrong(f"{shown(pattern)} stands for more than {MOST_AGENTS:,} agents")
    return ("".join(chosen) for chosen in itertools.product(*choices))


def _choices(inside: str, pattern: str) -> list[str]:
    match = SPAN.fullmatch(inside)
    if match is None:
        words = inside.split(",")
        if len(words) < 2 or "" in words:
            raise Wrong(f"{shown(pattern)}: {{{inside[:40]}}} is neither a range like {{1..50}} "
                        "nor words like {north,south}")
        return words
    first, last = int(match[1]), int(match[2])
    if first > last or last - first >= MOST_AGENTS:
        raise Wrong(f"{shown(pattern)}: {{{inside}}} is empty, or stands for more than "
                    f"{MOST_AGENTS:,} agents: write the lower number first")
    width = len(match[1]) if match[1].startswith("0") else 0  # {01..50}: all as wide as 01
    return [f"{number:0{width}}" for number in range(first, last + 1)]


# ---------------------------------------------------------------- matching
def matches(match: Mapping[str, str], agent: Agent) -> bool:
    """Whether an agent has all these labels; each value may be a glob. `variable` is about what
    an agent has, so it does not count here."""
    texts = {**agent.labels, "name": agent.name, "site": agent.site}
    return all(key == "variable" or fnmatch.fnmatchcase(texts.get(key, ""), glob)
               for key, glob in match.items())


def agent_labels(agent: Agent) -> dict[str, str]:
    """Returns the labels of all series and alerts of an agent."""
    labels = {"agent": agent.name}
    if agent.site:
        labels["site"] = agent.site
    for key, text in sorted(agent.labels.items()):
        if text:  # Prometheus treats an empty label as none.
            labels[key] = text  # none of RESERVED
    return labels
