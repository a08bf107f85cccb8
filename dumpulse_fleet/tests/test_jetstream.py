"""Events in a real JetStream, over restarts of the server.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpulse_fleet.config.others import Nats
from dumpulse_fleet.config.values import Secret, Shard
from dumpulse_fleet.model.agents import Event
from dumpulse_fleet.publish import jetstream
from dumpulse_fleet.publish.jetstream import Stream
from dumpulse_fleet.record.store import Store, Trouble
from dumpulse_fleet.tests.brokers import SECRET, Server
from dumpulse_fleet.tests.core import until_then as until

@contextlib.asynccontextmanager
async def handing(server: Server, store: Store, said: list[str], shard: Shard = Shard()
                  ) -> AsyncIterator[Stream]:
    stream = Stream(Nats(Secret(server.url)), store, said.append, shard)
    task = asyncio.create_task(stream.run())
    try:
        yield stream
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def event(number: int) -> Event:
    return Event(time.time(), "a", 3, "state", "alive", str(number), 1.0)


@pytest.mark.slow
def test_every_event_is_in_the_stream_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                           ) -> None:
    monkeypatch.setattr(jetstream, "TICK_S", 0.02)
    monkeypatch.setattr(jetstream, "BACKOFF_S", (0.1, 0.2))
    said: list[str] = []

    async def run() -> list[dict[str, Any]]:
        server, store = Server(tmp_path), Store(tmp_path / "f.sqlite")
        try:
            async with handing(server, store, said) as stream:
                await until(lambda: said)  # nobody listens
                await asyncio.to_thread(server.start)
                await until(lambda: not stream.trouble)
                store.publish([event(-1)])
                await until(lambda: "no stream takes the subject" in stream.trouble)
                client = await nats.connect(server.url)
                await client.jetstream().add_stream(name="fleet", subjects=["dumpulse.events"])
                await client.close()
                for number in range(1000):
                    store.publish([event(number)])
                await until(lambda: stream.published > 300)
                server.stop()  # kill -9, with events on their way
                await until(lambda: stream.trouble)
                store.publish([event(number) for number in range(1000, 1500)])
                await asyncio.to_thread(server.start)
                await until(lambda: not stream.trouble and stream.published >= 600)
                assert sum("takes events again" in each for each in said) >= 2
            async with handing(server, store, said) as again:  # a restart of the fleet
                store.publish([event(number) for number in range(1500, 1600)])
                store.flush()
                await until(lambda: again.published)
                client = await nats.connect(server.url)
                reader = await client.jetstream().subscribe("dumpulse.events",
                                                            ordered_consumer=True)
                got: list[dict[str, Any]] = []
                while len(got) < 1601:
                    got.append(json.loads((await reader.next_msg(timeout=20)).data))
                with contextlib.suppress(nats.errors.TimeoutError):
                    got.append(json.loads((await reader.next_msg(timeout=0.5)).data))
                await client.close()
                return got
        finally:
            server.stop()
            store.close()

    got = asyncio.run(run())
    # A broker that is killed may lose one of those on their way: it comes again, late.
    assert sorted(int(each["now"]) for each in got) == list(range(-1, 1600))
    assert SECRET not in "".join(said)


class Client:
    """As nats-py at its worst: it takes cancellations for itself, as asyncio.wait_for of Python
    3.11 may, and one of its own ends the first message."""
    is_closed = False

    def __init__(self) -> None:
        self.asked = 0

    async def connect(self, *_: object, **__: object) -> Client:
        return self

    def jetstream(self, **_: object) -> Client:
        return self

    async def publish(self, *_: object, **__: object) -> None:
        self.asked += 1
        if self.asked == 1:
            raise asyncio.CancelledError
        if self.asked > 2:
            await self.close()

    async def close(self) -> None:
        if self.asked > 2:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)


def test_cancellations_of_the_client_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                 ) -> None:
    monkeypatch.setattr(jetstream, "TICK_S", 0.02)
    monkeypatch.setattr(jetstream, "BACKOFF_S", (0.01, 0.01))

    async def run() -> None:
        with contextlib.closing(Store(tmp_path / "f.sqlite")) as store:
            stream, client = Stream(Nats(Secret("nats://x")), store, lambda _: None), Client()
            stream._nats = client
            task = asyncio.create_task(stream.run())
            await until(lambda: not stream.trouble)
            store.publish([event(1)])
            await until(lambda: stream.published == 1)
            store.publish([event(2)])
            await until(lambda: client.asked == 3)
            for _ in range(2):  # while it publishes, and while it closes
                task.cancel()
                await asyncio.wait([task], timeout=0.5)
            assert task.cancelled()

    asyncio.run(run())


# ---------------------------------------------------------------- ids
def ids(events: list[Event], shard: Shard = Shard(), subject: str = "s") -> list[str]:
    made = jetstream.Ids(subject, shard, "host")
    return [made.of(event) for event in events]


def change(at: float, kind: int = 0) -> Event:
    return Event(at, f"a{kind}", 3, "state", "alive", "late", 1.0)


# What happens, when, and when each of two replicas sees it, if it does.
STORY = st.lists(st.tuples(
    st.integers(0, 2), st.floats(0, 400),
    *[st.one_of(st.none(), st.floats(0, 10))] * 2), max_size=40)


@settings(max_examples=300)
@given(STORY)
def test_replicas_lose_nothing_together(story: list[tuple[int, float, float | None, float | None]]
                                        ) -> None:
    """The stream has each kind of change at least as often as each replica saw it. The ids of one
    replica all differ."""
    now = 1e9
    seen: list[list[Event]] = [[], []]
    for kind, pause, *delays in story:
        now += pause
        for own, delay in zip(seen, delays):
            if delay is not None:
                own.append(change(now + delay, kind))
    streamed: dict[str, Event] = {}
    for own in seen:
        own.sort(key=lambda event: event.at)
        assert len({*ids(own)}) == len(own)
        streamed.update(zip(ids(own), own))
    for own in seen:
        for kind in range(3):
            assert sum(each.agent == f"a{kind}" for each in streamed.values()) >= \
                sum(each.agent == f"a{kind}" for each in own)


def test_ids_of_replicas_and_shards() -> None:
    """A change that two replicas see apart by up to 10 s has one id, but for one of a hundred."""
    moments = [1e9 + 37.7 * number for number in range(2000)]
    one = ids([change(at) for at in moments])
    other = ids([change(at + number % 100 / 10) for number, at in enumerate(moments)])
    assert 1950 < len({*one} & {*other}) < 2000 == len({*other})
    several = [change(1e9), change(1e9 + 1), change(1e9 + 2)]
    assert len({*ids(several), *ids(several)}) == 3
    assert not {*ids(several)} & {*ids(several, subject="another")}
    assert not {*ids(several, Shard(1, 3))} & {*ids(several, Shard(2, 3))}
    assert ids(several, Shard(2, 3))[0].startswith("2/3-")
    # What a collector says of itself.
    own = [Event(1e9, "", -1, "alert", "", "problem: 1 new", 0.0)]
    assert ids(own) != [jetstream.Ids("s", Shard(), "replica").of(own[0])]


def test_nothing_is_kept_for_ever() -> None:
    made = jetstream.Ids("s", Shard(), "host")
    for number in range(20_000):
        made.of(change(1e9 + number, number))
    assert len(made._seen) < 3 * jetstream.SLOT_S


@pytest.mark.slow
def test_two_replicas_and_another_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real stream has what the replicas saw once, also after a restart of one. It has what the
    other shard saw, though that has the same numbers."""
    monkeypatch.setattr(jetstream, "TICK_S", 0.02)
    monkeypatch.setattr(jetstream, "BACKOFF_S", (0.1, 0.2))
    begun = time.time() // jetstream.SLOT_S * jetstream.SLOT_S + 5  # in the middle of a slot

    def seen(delay: float, first: int, last: int, name: str = "a") -> list[Event]:
        return [Event(begun + number + delay, name, 3, "state", *(
            ("alive", "late") if number % 2 else ("late", "alive")), 1.0)
            for number in range(first, last)]

    async def run() -> list[dict[str, Any]]:
        server = Server(tmp_path)
        await asyncio.to_thread(server.start)
        stores = [Store(tmp_path / f"{number}.sqlite") for number in range(3)]
        shards = [Shard(1, 2), Shard(1, 2), Shard(2, 2)]

        async def hand(delay: float, first: int, last: int) -> None:
            async with contextlib.AsyncExitStack() as parts:
                streams = [await parts.enter_async_context(handing(server, store, [], shard))
                           for store, shard in zip(stores, shards)]
                await until(lambda: not any(stream.trouble for stream in streams))
                for number, store in enumerate(stores):
                    store.publish(seen(delay * number, first, last, "ab"[number == 2]))
                await until(lambda: all(
                    stream.published == last - first for stream in streams))

        try:
            client = await nats.connect(server.url)
            await client.jetstream().add_stream(name="fleet", subjects=["dumpulse.events"])
            await hand(0.3, 0, 50)
            await hand(0.4, 50, 100)  # after a restart
            reader = await client.jetstream().subscribe("dumpulse.events", ordered_consumer=True)
            got = []
            with contextlib.suppress(nats.errors.TimeoutError):
                while True:
                    got.append(json.loads((await reader.next_msg(timeout=5)).data))
            await client.close()
            return got
        finally:
            server.stop()
            for store in stores:
                store.close()

    got = asyncio.run(run())
    assert [sum(each["agent"] == name for each in got) for name in "ab"] == [100, 100]


def test_who_configures_it_needs_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(Trouble, match="pip install nats-py"):
        Stream(Nats(Secret("nats://x")), None, print)  # type: ignore[arg-type]
