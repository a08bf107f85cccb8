"""Tables that a test fills, and a backend of the web server without a collector."""

import argparse
import asyncio
import contextlib
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from aiohttp import web

from dumpulse_fleet import client
from dumpulse_fleet.config.agents import make_profile
from dumpulse_fleet.model.agents import Agent, Event, Mute, Part, Profile, ReaderKeys, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.uptime import DAY, Span
from dumpulse_fleet.web.access import Access
from dumpulse_fleet.web.server import listen

NAMES = "examples/vehicle.ini"
Result = TypeVar("Result")


def profile(names: str = NAMES, tick_ms: int = 1000) -> Profile:
    return Profile(client.make_settings(argparse.Namespace(names=names, tick=tick_ms)), names)


def fleet(count: int) -> Table:
    cars = profile()
    return filled([Agent(f"agent-{number:05}", f"127.0.0.1:{number % 60000 + 1}", cars,
                         f"site-{number % 20}", {"rack": f"r{number % 7}"})
                   for number in range(count)])


def filled(agents: Sequence[Agent], variables: int = 16, seed: int = 1) -> Table:
    """All agents have answered, and all that is expected of them is alive."""
    chance = np.random.default_rng(seed)
    table = Table(agents)
    count, now = len(agents), time.time()
    table.heard_at[:] = now - chance.uniform(0, 10, count)
    table.round_trip[:] = chance.uniform(0.0002, 0.02, count)
    table.reports[:] = 1000
    table.clock[:] = 100_000
    table.agent_state[:] = State.ALIVE
    table.agent_since[:] = now - 3600
    table.since[:] = now - 3600
    table.state[:] = State.UNWATCHED
    for row, agent in enumerate(agents):
        table.state[row, agent.profile.expected] = State.ALIVE
    ages = chance.integers(0, 4, (count, variables))
    table.stamped[:, :variables] = 100_000 - ages
    values = chance.integers(0, 256, (count, variables)).astype(np.uint32)
    table.entry[:, :variables] = (((100_000 - ages) % 65536) << 16) | (7 << 8) | values
    table.version = 1
    return table


def with_and_without_key(folder: Path) -> Table:
    """Two agents. They accept two variables in version 1, whether they have a key or not."""
    (folder / "names.ini").write_text("[1]\nname = engine\n[2]\nname = tank\n"
                                      "authenticated = no\n[5]\nauthenticated = no\n")
    (folder / "key").touch(0o600)
    (folder / "key").write_text("00112233445566778899aabbccddeeff\n")
    cars, keys = make_profile(str(folder / "names.ini")), ReaderKeys(str(folder / "key"))
    return filled([Agent("keyed", "127.0.0.1:1", cars, keys=keys),
                   Agent("plain", "127.0.0.1:2", cars)])


class FakeStore:
    """Events and mutes in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.fixed = [Mute({"name": "*-00009"}, 0, 4e9, "it is old", "ada", 10**6)]
        self.made: list[Mute] = []
        self.error: Exception | None = None

    def select(self, *, since: float | None = None, until: float | None = None, agent: str = "",
               site: str = "", variable: int | None = None, what: str = "",
               now: Sequence[str] = (), before: int | None = None, limit: int = 100
               ) -> list[Event]:
        if self.error:
            raise self.error
        return [event for event in reversed(self.events)
                if fnmatchcase(event.agent, agent or "*") and fnmatchcase(event.site, site or "*")
                and variable in (None, event.variable) and what in ("", event.what)
                and (not now or event.now in now)
                and (since or 0) <= event.at < (until or 1e12)
                and (before is None or event.number < before)][:limit]

    def mutes(self) -> Sequence[Mute]:
        return [*self.fixed, *self.made]

    def make_mute(self, mute: Mute) -> Future[Mute]:
        if mute.ends <= time.time():
            raise ValueError("a mute must end later than now")
        number = max((each.number for each in self.made), default=0) + 1
        self.made.append(dataclasses.replace(mute, number=number))
        return self._done(self.made[-1])

    def end_mute(self, number: int) -> Future[bool]:
        kept = [mute for mute in self.made if mute.number != number]
        found, self.made = len(kept) < len(self.made), kept
        return self._done(found)

    def _done(self, result: Result) -> Future[Result]:
        done: Future[Result] = Future()
        if self.error:
            done.set_exception(self.error)
        else:
            done.set_result(result)
        return done


class FakeUptime:
    """A month, all of which was seen, and of which 15 minutes were bad."""

    def of(self, _: Table, __: int, now: float) -> dict[int, list[Span]]:
        spans = [Span(now - 30 * DAY, now - 1200, State.ALIVE),
                 Span(now - 1200, now - 300, State.DEAD), Span(now - 300, now, State.ALIVE)]
        return dict.fromkeys((-1, *range(1, 9)), spans)


class FakeBackend:
    """What the web server needs, without a collector: dumpulse_fleet.web.server.Backend."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.parts: Sequence[Part] = ()
        self.ready = self.sees = True
        self.trouble = self.alertmanager = ""
        self.asked = 0  # Number of calls of numbers().
        self.access: Access | None = None
        self.store: Any = FakeStore()
        self.uptime: Any = FakeUptime()
        self.days: Any = SimpleNamespace(parts={})

    def troubles(self) -> Mapping[str, str]:
        return {"collector": self.trouble}

    def numbers(self) -> Mapping[str, float]:
        self.asked += 1
        return {"rounds": 10.0 + self.asked, "lateness": 0.002, **dict.fromkeys(
            ("requests", "repeated", "reports", "lost", "cpu"), self.asked / 10)}

    def change(self, row: int, state: State, variable: int = -1) -> None:
        """As the judge does it."""
        table = self.table
        with table.lock:
            now = time.time()
            if variable >= 0:
                table.state[row, variable] = state
                table.since[row, variable] = now
            was = State(int(table.agent_state[row]))
            table.agent_state[row] = state
            table.agent_since[row] = now
            table.version += 1
            table.changed[row] = table.version
        agent = table.agents[row]
        self.store.events.append(Event(now, agent.name, variable, "state", was.words, state.words,
                                       3600.0, agent.site, len(self.store.events) + 1))


@contextlib.contextmanager
def serving(app: Callable[[], web.Application], at: int = 0) -> Iterator[int]:
    """The port at which it listens, in a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    ready: queue.Queue[int | BaseException] = queue.Queue()
    ending = asyncio.Event()

    async def run() -> None:
        listening = await listen(app(), "127.0.0.1", at)
        ready.put(listening.port)
        await ending.wait()
        await listening.end()

    def work() -> None:
        try:
            loop.run_until_complete(run())
        except BaseException as error:  # the test shall see it
            ready.put(error)
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    port = ready.get(timeout=30)
    try:
        if isinstance(port, BaseException):
            raise port
        yield port
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended by an error
            loop.call_soon_threadsafe(ending.set)
        thread.join(30)
        assert not thread.is_alive()
