"""For tests of the collector: fake fleets, tables and events."""

import argparse
import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dumpulse_fleet import client
from dumpulse_fleet.collect.collector import Collector
from dumpulse_fleet.model.agents import Agent, Event, Profile
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.store import Store, Trouble
from dumpulse_fleet.simulation.fake_fleet import FakeFleet

PATIENCE = 120.0  # s: a machine may do much else


def flushed(store: Store) -> bool:
    """Waits until all published events are on the disk. False: they are not."""
    with contextlib.suppress(sqlite3.Error, Trouble, TimeoutError):
        store.write(lambda _: None).result(10)
        return not store.trouble
    return False


def profile(**options: Any) -> Profile:
    """As of a command line: expect="1-3", warn="5s" as client.py parses it, now_from="0"."""
    parsers: dict[str, Callable[[str], int]] = {
        "warn": client.parse_duration, "crit": client.parse_duration, "tick": client.parse_tick}
    return Profile(client.make_settings(argparse.Namespace(**{
        key: parsers[key](text) if key in parsers else text for key, text in options.items()})))


WELL = profile(now_from="0", expect="1-15", warn="6s", crit="12s")
QUICK = profile(now_from="0", expect="1-15", warn="2s", crit="3s")
ANY = profile(expect="3", warn="2s", crit="4s")


def agents(fake: FakeFleet, count: int, of: Profile, first: int = 0, **more: Any) -> list[Agent]:
    return [Agent(f"agent{row}", fake.address(row), of, **more)
            for row in range(first, first + count)]


def until(true: Callable[[], Any], what: object = "it did not become true",
          seconds: float = PATIENCE, pause: float = 0.02) -> Any:
    """Waits until it is true. `what` says what is missing, or is a function that says it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(pause)
    return found


async def until_then(true: Callable[[], Any], what: object = "it did not become true") -> Any:
    """The same, while others of this loop go on."""
    return await asyncio.to_thread(until, true, what, 30.0)


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


@contextlib.contextmanager
def collecting(table: Table, **options: Any) -> Iterator[tuple[Collector, Heard, list[str]]]:
    heard, complaints = Heard(), list[str]()
    collector = Collector(table, heard, complain=complaints.append, **options)
    collector.start()
    try:
        yield collector, heard, complaints
    finally:
        collector.stop()
    assert not collector.failure
    heard.check_chains()
