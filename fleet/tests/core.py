"""For tests of the collector: fake fleets, tables and events.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import client
from fleet.fake import Fake
from fleet.model import Agent, Event, Profile

PATIENCE = 30.0  # s


def profile(**options: Any) -> Profile:
    """As of a command line: expect="1-3", warn="5s" as client.py parses it, now_from="0"."""
    values: dict[str, Any] = {}
    for key, text in options.items():
        values[key] = {"warn": client.parse_duration, "crit": client.parse_duration,
                       "tick": client.parse_tick}.get(key, lambda same: same)(text)
    return Profile(client.make_settings(argparse.Namespace(**values)))


def agents(fake: Fake, count: int, of: Profile, first: int = 0, **more: Any) -> list[Agent]:
    return [Agent(f"agent{row}", fake.address(row), of, **more)
            for row in range(first, first + count)]


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.02)


class Heard:
    """Takes events as a store does."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, events: Sequence[Event]) -> None:
        self.events += events

    def of(self, what: str, **more: Any) -> list[Event]:
        return [event for event in self.events if event.what == what
                and all(getattr(event, key) == value for key, value in more.items())]

    def check_chains(self) -> None:
        """Each state that was told is what the next event says it was."""
        last: dict[tuple[str, int], str] = {}
        for event in self.of("state"):
            key = event.agent, event.variable
            assert event.was != event.now
            if key in last:
                assert event.was == last[key] or last[key] in ("alive", "unwatched"), event
            last[key] = event.now
