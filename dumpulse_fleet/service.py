"""The whole fleet in one process: puts its parts together, and takes them apart again. The loop's
thread has the web, the alerts and MQTT. The collector and the store have threads of their own.
SPDX-License-Identifier: MIT"""

import asyncio
import contextlib
import dataclasses
import os
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from dumpulse_fleet import client
from dumpulse_fleet.alert.deliver import Alerts, Receiver
from dumpulse_fleet.collect.collector import STARTING, Collector
from dumpulse_fleet.collect.discovery import Discovery
from dumpulse_fleet.config.file import Config
from dumpulse_fleet.model.agents import Agent, Event, Mute, State
from dumpulse_fleet.model.naming import matches
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.process import (
    LOOK_S, STOP_S, Given, Process, Unusable, access_of, notify, say)
from dumpulse_fleet.publish.mqtt import Publisher
from dumpulse_fleet.record.past import Past
from dumpulse_fleet.record.store import Store, Trouble

SAMPLE_S = 60.0  # s between two looks that the past remembers
SAVE_S = 600.0  # s between two times that it is written
MUTES_S = 60.0  # s between two looks at the mutes that come back each week
CLOCKS_S = 5.0  # s by which the times of a file and of an event may differ
NEWER = 100_000  # events after the state was kept that are looked at
HANGS_S = 10.0  # s that the disk may take
WELL_S = 60.0  # s for which all must be well until what was acknowledged ends


def shape(text: str) -> str:
    """Without what changes all the time."""
    return re.sub(r"[0-9][0-9.,]*", "", text)


def well_again(mutes: Sequence[Mute], table: Table, now: float) -> list[Mute]:
    """Mutes that acknowledge trouble that is over. Trouble that comes later is not known yet."""
    well = (table.agent_state == State.ALIVE) & (table.agent_since < now - WELL_S)
    return [mute for mute in mutes if mute.acknowledges and all(
        well[row] for row, agent in enumerate(table.agents) if matches(mute.match, agent))]


class Service(Process):
    """The parts of a fleet that runs. Only the loop's thread uses it."""

    # Made by _start; a reload or a change of the sources makes others of some.
    store: Store
    past: Past
    collector: Collector
    alerts: Alerts
    mqtt: Publisher | None = None

    def __init__(self, config: Config, given: Given = Given()) -> None:
        super().__init__(config, given)
        self._fixed_mutes: tuple[Mute, ...] = ()
        self._mutes_at = -MUTES_S
        self._logged = ""  # the collector's trouble
        self._saves = 0  # of the past

    # ---------------------------------------------------------------- for the web server
    def mutes(self) -> Sequence[Mute]:
        """Of the configuration and of the store."""
        if time.monotonic() - self._mutes_at >= MUTES_S:
            self._mutes_at = time.monotonic()
            self._fixed_mutes = self.config.mutes(time.time())
        return (*self._fixed_mutes, *self.store.mutes())

    def troubles(self) -> dict[str, str]:
        """What is wrong with each part; empty: nothing."""
        why = self.store.trouble
        if self.store.hangs() > HANGS_S:
            why = f"the disk has not answered for {self.store.hangs():.0f} s"
        return {
            "collector": self.collector.trouble() if self._running else "the fleet is starting",
            "store": why and f"events cannot be written: {why}",
            "configuration": "" if self._reloaded else
            "the configuration is wrong, and the old one stays",
            "alerts": self.alerts.trouble,
            "mqtt": f"mqtt: {self.mqtt.trouble}" if self.mqtt and self.mqtt.trouble else "",
            "sources": self._told[0] if self._told else ""}

    @property
    def ready(self) -> bool:
        """Requests left, answers came or their lack was judged, and events are written."""
        if not (self._running and self.collector.running):
            return False
        now = self.troubles()
        return not (now["collector"] or now["store"])

    def _log_troubles(self) -> None:
        """What the collector does not see, and who could not log in. Other parts log theirs."""
        text = self.collector.trouble()
        if text != STARTING and shape(text) != shape(self._logged):
            say(text or "all agents are watched again")
            self._logged = text
        self._log_logins()

    def numbers(self) -> Mapping[str, float]:
        return {**vars(self.collector.figures),
                **self.alerts.numbers(), **(self.mqtt.numbers() if self.mqtt else {}),
                "events": self.store.stored, "events_lost": self.store.lost + self.store.unstored,
                "sources_failed": self.discovery.failures, "logins_failed": self.access.failed,
                "reloaded": self._reloaded, "reloaded_at": self._reloaded_at}

    # ---------------------------------------------------------------- changes
    def _prepare(self, config: Config) -> Callable[[], Awaitable[object]]:
        self.alerts.check(config.alerts)
        mqtt = self.mqtt if config.mqtt == self.config.mqtt else self._publisher(config)
        self._mutes_at = -MUTES_S
        return lambda: self._connect(mqtt)

    def _publisher(self, config: Config) -> Publisher | None:
        return Publisher(config.mqtt, self.table, self.store, say) if config.mqtt else None

    async def _connect(self, mqtt: Publisher | None) -> None:
        """Uses this from now on. The one that goes says goodbye first."""
        if mqtt is not self.mqtt:
            await self._end_mqtt()
            self.mqtt = mqtt
            if mqtt:
                await asyncio.to_thread(mqtt.start)

    async def _end_mqtt(self) -> None:
        if self.mqtt:
            await asyncio.to_thread(self.mqtt.stop)

    async def _change(self, agents: Sequence[Agent]) -> None:
        """Asks these from now on."""
        table = Table(agents)
        try:
            earlier = await asyncio.wait_for(
                asyncio.wrap_future(self.past.earlier(table)), HANGS_S)
        except (sqlite3.Error, Trouble, TimeoutError):  # a change does not wait for the disk
            earlier = []
        past = self.past.moved(table, time.time(), earlier)
        await asyncio.to_thread(self.collector.replace, table)
        self.table, self.past, self._coming = table, past, None
        self.groups, self.parts = self.config.groups, self.config.status
        self.alerts.configure(self.config.alerts, self.config.grace, table, self.groups)
        if self.mqtt:
            self.mqtt.replace(table)
        self._tell()

    # ---------------------------------------------------------------- from start to end
    async def _start(self, parts: contextlib.AsyncExitStack) -> None:
        """Starts the parts. They end in the opposite order."""
        config = self.config
        self.store = await asyncio.to_thread(
            Store, os.path.join(config.state, "events.sqlite"), days=config.keep_days,
            rows=config.keep_rows, say=say)
        parts.push_async_callback(asyncio.to_thread, self.store.close, STOP_S / 2)
        self.discovery = Discovery(config, config.state)
        agents = await self.discovery.look() or ()
        self.table = Table(agents)
        self._tell()
        self.groups, self.parts = config.groups, config.status
        self.past = Past(self.store, self.table, time.time())
        await asyncio.to_thread(self.past.load)
        parts.callback(lambda: self.past.save(points=True))
        parts.push_async_callback(self._stop)
        self.alerts = Alerts(self.store, say)
        self.alerts.configure(config.alerts, config.grace, self.table, self.groups)
        known = os.path.join(config.state, "known")
        self.collector = Collector(self.table, self.store.publish, known, say, config.grace)
        listening = await self._listen()
        self._stops.append(listening.end)
        await asyncio.to_thread(lambda: self.collector.start(self._newer(known)))
        self._stops.append(lambda: asyncio.to_thread(self.collector.stop))
        self._stops.append(self._end_mqtt)
        await self._connect(self._publisher(config))
        loop = asyncio.get_running_loop()
        self.store.subscribe(lambda events: loop.call_soon_threadsafe(
            lambda: self.past.heard(events)))
        # The dead man's ping says the same as /-/ready.
        self._do(self._every(LOOK_S, lambda: self.alerts.run(self.mutes, lambda: self.ready)))
        self._do(self._every(LOOK_S, self._look))
        self._do(self._every(WELL_S / 10, self._end_acknowledged))
        self._do(self._every(SAMPLE_S, self._sample))
        self._do(self._every(SAVE_S, self._save_past))
        self._do(self._watch())
        self._running = True
        say(f"asks {len(agents):,} agent{'s' * (len(agents) != 1)}; {self._where(listening)}")

    def _newer(self, known: str) -> list[Event]:
        """Returns the events since the file of what is known was written, the oldest first. There
        are some after a crash."""
        since = None
        with contextlib.suppress(FileNotFoundError):  # it was not kept yet
            since = os.stat(known).st_mtime - CLOCKS_S
        try:
            return self.store.select(since=since, limit=NEWER)[::-1]
        except Trouble as error:
            say(str(error))
            return []

    async def _end_acknowledged(self) -> None:
        for mute in well_again(self.store.mutes(), self.table, time.time()):
            await asyncio.wrap_future(self.store.end_mute(mute.number))

    async def _sample(self) -> None:
        self.past.add(self.table, time.time(), sees=not self.collector.trouble())

    async def _save_past(self) -> None:
        """The points, which change as a whole, only each hour; at the start, nothing is new."""
        if self._saves:
            self.past.save(points=self._saves % 6 == 0)
        self._saves += 1

    async def _watch(self) -> None:
        """Tells systemd that all is well. Without a collector, there is nothing to serve: the
        service manager starts us again."""
        notify(f"READY=1\nMAINPID={os.getpid()}")
        pause = min(1.0, int(os.environ.get("WATCHDOG_USEC", "") or 10**9) / 3e6)
        while self.collector.running:
            notify("WATCHDOG=1")
            self._log_troubles()
            await asyncio.sleep(pause)
        self.failure = self.collector.failure
        self._end()


def check(config: Config) -> int:
    """Says what is wrong with what the configuration names: the web server's file, and files of
    targets. Pages are not asked."""
    problems = []
    try:
        access_of(config.web)
    except client.BadUsage as error:
        problems.append(str(error))
    try:
        for number, receiver in enumerate(config.alerts.notify, 1):
            Receiver(receiver, number)
    except Trouble as error:
        problems.append(str(error))
    files = dataclasses.replace(config, sources=tuple(
        source for source in config.sources if source.files))
    found = Discovery(files)
    agents = asyncio.run(found.look()) or ()
    for problem in (*problems, *found.problems):
        say(problem)
    if problems or found.problems:
        return client.BadUsage.STATUS
    pages = len(config.sources) - len(files.sources)
    if not (agents or pages):
        say("there are no agents to ask: see [[agents]], and its files")
    print(f"{config.path} is right: {len(agents):,} agent{'s' * (len(agents) != 1)} here"
          + (f", and those of {pages} page{'s' * (pages != 1)}" if pages else ""))
    return 0


def run(config: Config, given: Given = Given(), only_check: bool = False) -> int:
    """The exit status."""
    if only_check:
        return check(given.over(config))
    service = Service(config, given)
    try:
        return asyncio.run(service.run())
    except Unusable as error:
        say(str(error))
        return 1
    finally:
        service.ended()
