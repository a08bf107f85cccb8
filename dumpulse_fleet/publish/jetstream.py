"""Hands each event to a NATS JetStream, at least once, as JSON. We make no stream: its owner
decides how much it keeps. It drops a message whose header Nats-Msg-Id it has had within its window.
SPDX-License-Identifier: MIT"""

import asyncio
import contextlib
import hashlib
import json
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Optional

from dumpulse_fleet.config.others import Nats
from dumpulse_fleet.config.values import Shard
from dumpulse_fleet.model.agents import Event
from dumpulse_fleet.publish.mqtt import event_json
from dumpulse_fleet.record.store import Consumer, Store, Trouble

BATCH = 100  # events on their way at once
TICK_S = 0.5  # between two looks for new events
TIMEOUT_S = 5.0
BACKOFF_S = (1.0, 60.0)  # between two attempts to connect: from, to
NEW = "not connected yet"
GIVE_UP_S = 3 * TIMEOUT_S  # nats-py has limits of its own, and has been seen to wait for ever

SLOT_S = 600  # Replicas see a change up to a period apart: seldom in two slots
REMEMBERED = 100_000  # events before the next one that are looked at


class Ids:
    """The ids of messages. Replicas do not see a change at the same moment, and have numbers of
    their own for it. So its id is what it is, in which slot of time, and how often the same came
    before in this slot."""

    def __init__(self, subject: str, shard: Shard, collector: str) -> None:
        self._where = f"{shard.number}/{shard.of}"
        self._whose = subject, self._where
        self._collector = collector
        self._seen: Counter[tuple[int, tuple[Any, ...]]] = Counter()
        self._slot = 0

    def begin(self, before: Iterable[Event]) -> None:
        """Anew, after these."""
        self._seen.clear()
        for event in before:
            self.of(event)

    def of(self, event: Event) -> str:
        """Of the next event, in the order of their numbers."""
        slot = int(event.at // SLOT_S)
        if slot > self._slot:
            self._slot = slot
            for key in [key for key in self._seen if key[0] < slot - 1]:
                del self._seen[key]
        what: tuple[Any, ...] = event.agent, event.variable, event.what, event.was, event.now
        if not event.agent:  # of the collector itself: its replica has its own
            what = *what, self._collector, event.at
        self._seen[slot, what] += 1
        text = json.dumps([*self._whose, slot, *what, self._seen[slot, what]])
        return f"{self._where}-{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


async def apart(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Returns the results of work of nats-py, which may take a cancellation of our task for its
    own, and may be cancelled by itself."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.wait(tasks, timeout=GIVE_UP_S)
    finally:
        for task in tasks:
            task.cancel()
    if not all(task.done() and not task.cancelled() for task in tasks):
        raise ConnectionError
    for failure in [task.exception() for task in tasks]:
        if failure:
            raise failure
    return [task.result() for task in tasks]


class Link:
    """Works with a connection to NATS, and tries again until it does. Only the loop's thread uses
    it. `about` says what works in the log."""

    about = ""

    def __init__(self, settings: Nats, say: Callable[[str], None]) -> None:
        """Trouble: nats-py is missing."""
        try:
            import nats  # only who configures it needs it
        except ImportError as error:
            raise Trouble("nats: the client is not installed: pip install nats-py") from error
        self.trouble = NEW
        self._nats: Any = nats
        self._settings, self._say = settings, say

    async def work(self, stream: Any, closed: Callable[[], bool]) -> None:
        """With a JetStream, until something fails."""
        raise NotImplementedError

    async def run(self) -> None:
        """Until it is cancelled."""
        pause = 0.0
        while True:
            try:
                await self._connect()
            except Exception as error:  # pylint: disable=broad-except
                # nats-py raises many kinds, and their texts may have the address with a password.
                trouble = ("no stream takes the subject " + self._settings.subject
                           + ": make one" if "NoStream" in type(error).__name__ else
                           str(error) if isinstance(error, Trouble) else
                           f"it does not work: {type(error).__name__}")
                if not self.trouble or trouble != self.trouble:
                    self._say(f"nats: {trouble}: trying again")
                pause = BACKOFF_S[0] if not self.trouble else min(
                    max(2 * pause, BACKOFF_S[0]), BACKOFF_S[1])
                self.trouble = trouble
            await asyncio.sleep(pause)

    def works(self) -> None:
        if self.trouble not in ("", NEW):
            self._say(f"nats: {self.about} again")
        self.trouble = ""

    async def _connect(self) -> None:
        async def ignore(_: Exception) -> None:
            """Does nothing: what matters is raised, too."""

        connection, = await apart(self._nats.connect(
            str(self._settings.url), allow_reconnect=False, max_reconnect_attempts=1,
            reconnect_time_wait=0.1, connect_timeout=TIMEOUT_S, error_cb=ignore,
            name="dumpulse-fleet"))
        try:
            await self.work(connection.jetstream(timeout=TIMEOUT_S), lambda: connection.is_closed)
        finally:
            with contextlib.suppress(Exception):
                await apart(connection.close())


class Stream(Link):
    """Publishes events. When something fails, the batch comes again, and the stream drops what it
    has already."""

    about = "the stream takes events"

    def __init__(self, settings: Nats, store: Store, say: Callable[[str], None],
                 shard: Shard = Shard()) -> None:
        super().__init__(settings, say)
        self.published = 0
        self._store = store
        self._collector = socket.gethostname()
        self._ids = Ids(settings.subject, shard, self._collector)
        self._consumer: Optional[Consumer] = None

    def numbers(self) -> Mapping[str, float]:
        return {"nats_published": self.published, "nats_connected": float(not self.trouble)}

    def _before(self, last: int) -> list[Event]:
        """The events of this slot and the one before that are in the stream, the oldest first."""
        newest = self._store.select(before=last + 1, limit=1)
        return self._store.select(before=last + 1, limit=REMEMBERED, since=newest[0].at // SLOT_S
                                  * SLOT_S - SLOT_S)[::-1] if newest else []

    async def work(self, stream: Any, closed: Callable[[], bool]) -> None:
        if self._consumer is None:
            self._consumer = await asyncio.to_thread(lambda: Consumer(self._store, "nats"))
        consumer = self._consumer
        self._ids.begin(await asyncio.to_thread(self._before, consumer.last))
        while True:
            events = await asyncio.to_thread(consumer.batch, BATCH)
            if events:
                await apart(*(stream.publish(
                    self._settings.subject, event_json(event, self._collector).encode(),
                    headers={"Nats-Msg-Id": self._ids.of(event)}) for event in events))
                self.published += len(events)
                consumer.done(events[-1].number)
            self.works()
            if len(events) < BATCH:
                if closed():
                    raise ConnectionError
                await asyncio.sleep(TICK_S)
