"""One wall over several shards. It asks no agent: a table here has the states of all agents, as the
shards' streams tell them. What else is asked for comes from the shard that has the agent. What no
shard answers for is unknown, and `trouble` says why.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import aiohttp
import numpy as np
from yarl import URL

from dumpulse_fleet import client
from dumpulse_fleet.config.file import Config
from dumpulse_fleet.config.values import shown_url
from dumpulse_fleet.model.agents import Agent, Event, Mute, State
from dumpulse_fleet.model.table import Rows, Table
from dumpulse_fleet.process import LOOK_S, Process, notify, say
from dumpulse_fleet.record.past import Past
from dumpulse_fleet.record.store import Trouble
from dumpulse_fleet.web.stream import BEAT

AGAIN_S = 1.0  # between two attempts to read a shard
SILENT_S = 3 * BEAT  # a shard that says nothing for so long does not answer
ASK_S = 8.0  # for one answer
READ_S = 60.0  # for all agents of a shard
MUTES_S = 5.0  # between two looks at the mutes of a shard
REFRESH_S = 60.0  # between two times that all agents are read again
PAGE = 1000  # agents of one answer
LARGEST = 64 << 20  # bytes of one message
STATES = {state.words: state for state in State}
WRONG = (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError)
Json = dict[str, Any]


class Shard:
    """One of the services that are read."""

    def __init__(self, number: int, address: str, wall: Wall) -> None:
        self.number, self.address, self._wall = number, address, wall
        self.name = shown_url(address)
        self.why = "it was not read yet"  # why it is not read; empty: it is
        self.said = ""  # what is wrong there
        self.mutes: list[Json] = []
        self.again = False  # read all agents again
        self._seen = ""  # the version of the last message

    async def ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Trouble: it does not answer, or refuses."""
        try:
            async with self._wall.session.request(
                    method, URL(self.address + path, encoded=True), json=body,
                    allow_redirects=False, timeout=aiohttp.ClientTimeout(ASK_S)) as answer:
                said = await answer.json()
                if answer.status == 200:
                    return said
                refusal = str(said["error"])
        except WRONG as error:
            raise Trouble(f"{self.name} does not answer: {type(error).__name__}") from error
        if answer.status == 400:
            raise ValueError(refusal)
        raise Trouble(f"{self.name}: {refusal}")

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._read()
            except Exception as error:  # or nobody would notice that it is silent
                why = str(error) if isinstance(error, Trouble) else \
                    getattr(error, "strerror", None) or type(error).__name__
                if why != self.why:
                    say(f"{self.name}: {why}: its agents are unknown: trying again")
                self.why, self._seen = why, ""
                self._wall.forget(self._wall.owner == self.number)
            await asyncio.sleep(AGAIN_S)

    async def _read(self) -> None:
        """Until the connection ends. A shard that closes it, because we were too slow, is asked
        again for what we have not seen."""
        async with self._wall.session.get(
                f"{self.address}/api/v1/stream", headers={"Last-Event-ID": self._seen},
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(None, sock_read=SILENT_S)) as answer:
            if answer.status != 200:
                raise Trouble(f"it answers with status {answer.status}")
            rest, some = b"", False
            async for part in answer.content.iter_any():
                *messages, rest = (rest + part).split(b"\n\n")
                if len(rest) > LARGEST:
                    raise Trouble("it is no fleet")
                for message in messages:
                    said = dict(line.split(": ", 1) for line in message.decode().splitlines())
                    if "data" in said:
                        some = True
                        await self._take(said)
            if not some:
                raise Trouble("it says nothing")

    async def _take(self, message: Mapping[str, str]) -> None:
        data = json.loads(message["data"])
        if not self._seen or self.again or message["event"] == "reset":
            self._seen, self.again = "", False
            async with asyncio.timeout(READ_S):
                await self._read_all()
        else:
            self._wall.take(self.number, data["agents"])
        self._wall.table.heard_last = max(self._wall.table.heard_last, data["heard_at"] or 0.0)
        self.said, self._seen = str(data["trouble"]), message.get("id", self._seen)
        if self.why:
            say(f"{self.name}: its agents are known")
        self.why = ""

    async def _read_all(self) -> None:
        """What changes meanwhile comes with the stream."""
        found: set[int] = set()
        for offset in range(0, 1 << 30, PAGE):
            page = await self.ask(f"/api/v1/agents?sort=name&limit={PAGE}&offset={offset}")
            found |= self._wall.take(self.number, page["agents"])
            if len(page["agents"]) < PAGE:
                break
        lost = self._wall.owner == self.number
        lost[[*found]] = False
        self._wall.forget(lost)

    async def look_at_mutes(self) -> None:
        if not self.why:
            with contextlib.suppress(Trouble):  # the stream says so, too
                self.mutes = (await self.ask("/api/v1/mutes"))["mutes"]


class Wall(Process):
    """Shows the agents of several shards."""

    session: aiohttp.ClientSession
    past: Past  # the shards have it: see elsewhere
    owner: Rows  # the number of the shard that has the agent in this row; -1: none

    @property
    def store(self) -> Wall:
        """Events and mutes are in the shards."""
        return self

    async def _start(self, parts: contextlib.AsyncExitStack) -> None:
        self.discovery = self._discovery(self.config)
        token = self.config.web.token
        self.session = await parts.enter_async_context(aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"} if token else {}))
        self._shards = [Shard(number, address.rstrip("/"), self)
                        for number, address in enumerate(self._given.shards)]
        self._numbers: dict[tuple[Any, ...], int] = {}  # of mutes, here
        self._loop = asyncio.get_running_loop()
        await self._change(await self.discovery.look() or ())
        parts.push_async_callback(self._stop)
        listening = await self._listen()
        self._stops.append(listening.end)
        for shard in self._shards:
            self._do(shard.run())
        self._do(self._every(LOOK_S, self._look))
        self._do(self._every(MUTES_S, self._look_at_mutes))
        self._do(self._every(REFRESH_S, self._refresh))
        self._do(self._every(LOOK_S, self._watch))
        self._running = True
        say(f"reads {len(self._shards)} shards; {self._where(listening)}")

    async def _watch(self) -> None:
        notify("READY=1\nWATCHDOG=1")
        self._log_logins()

    async def _refresh(self) -> None:
        """The stream does not say when agents in which nothing changes were heard."""
        for shard in self._shards:
            shard.again = True

    async def _look_at_mutes(self) -> None:
        await asyncio.gather(*(shard.look_at_mutes() for shard in self._shards))

    def _prepare(self, config: Config) -> Callable[[], Awaitable[object]]:
        return lambda: asyncio.sleep(0)

    async def _change(self, agents: Sequence[Agent]) -> None:
        table = Table(agents)
        self._expected = np.array([agent.profile.expected for agent in agents], np.bool_
                                  ).reshape(-1, 64)
        self.owner, self.table, self._coming = np.full(len(agents), -1), table, None
        self.groups, self.parts = self.config.groups, self.config.status
        self.forget(self.owner < 0)
        self._tell()

    # ---------------------------------------------------------------- what shards say
    def take(self, number: int, items: Iterable[Json]) -> set[int]:
        """These agents are so in this shard. Returns their rows. If two shards have one, it is so
        as who heard it last says."""
        table, rows = self.table, set()
        with table.lock:
            table.version += 1
            for item in items:
                row, heard = table.row.get(item["name"]), item["heard_at"] or 0.0
                if row is None:
                    continue  # our own configuration is not as new
                if self.owner[row] not in (-1, number) and heard <= table.heard_at[row]:
                    continue
                rows.add(row)
                pips = np.frombuffer(item["pips"].encode(), np.uint8) - ord("0")
                if pips.max(initial=0) > max(State):
                    raise ValueError
                table.state[row, self._expected[row]] = pips
                table.agent_state[row] = STATES[item["state"]]
                table.agent_since[row], table.heard_at[row] = item["since"] or 0.0, heard
                self.owner[row], table.changed[row] = number, table.version
        return rows

    def forget(self, which: Any) -> None:
        """Nobody knows how these agents are. Another shard may have them, and have said so
        before."""
        table, rows = self.table, np.flatnonzero(which)
        if not len(rows):
            return
        with table.lock:
            table.version += 1
            self.owner[rows] = -1
            table.agent_state[rows], table.agent_since[rows] = State.UNKNOWN, time.time()
            table.state[rows] = np.where(self._expected[rows], State.UNKNOWN, State.UNWATCHED)
            table.changed[rows] = table.version
        for shard in self._shards:
            shard.again = True

    def troubles(self) -> Mapping[str, str]:
        lost = np.flatnonzero(self.owner < 0)
        return {
            "shards": "; ".join(f"{shard.name}: {shard.why or shard.said}"
                                for shard in self._shards if shard.why or shard.said),
            "collector": f"{lost.size:,} agents are in no shard that answers, such as "
            f"{self.table.agents[lost[0]].name}: nobody knows how they are" if lost.size else
            "" if len(self.owner) else "there are no agents to show",
            "configuration": "" if self._reloaded else
            "the configuration is wrong, and the old one stays",
            "sources": self._told[0] if self._told else ""}

    @property
    def ready(self) -> bool:
        return self._running and not self.trouble

    def numbers(self) -> Mapping[str, float]:
        return {"sources_failed": self.discovery.failures, "logins_failed": self.access.failed,
                "reloaded": self._reloaded, "reloaded_at": self._reloaded_at}

    async def elsewhere(self, path: str, row: int = -1) -> Any:
        if row < 0:
            return await asyncio.gather(*(shard.ask(path) for shard in self._shards)) if path \
                else []
        if self.owner[row] < 0:
            raise Trouble("no shard that answers has this agent")
        return await self._shards[self.owner[row]].ask(path)

    # ---------------------------------------------------------------- events and mutes
    def select(self, **wanted: Any) -> list[Event]:
        """Waits: for another thread. Numbers of events are times, so they order those of all
        shards, too."""
        query = URL.build(path="/api/v1/events", query={
            key: value for key, value in wanted.items() if value not in (None, "")})

        async def ask() -> Any:
            return await asyncio.gather(*(shard.ask(str(query)) for shard in self._shards
                                          if not shard.why))

        found = asyncio.run_coroutine_threadsafe(ask(), self._loop).result()
        events = [Event(each["at"], each["agent"],
                        -1 if each["variable"] is None else each["variable"], each["what"],
                        each["was"], each["now"],
                        -1.0 if each["lasted"] is None else each["lasted"], each["site"],
                        each["number"]) for answer in found for each in answer["events"]]
        return sorted(events, key=lambda event: -event.number)[:wanted.get("limit", 100)]

    def _known(self, said: Json) -> tuple[Any, ...]:
        """What tells one mute from another, whichever shards have it."""
        return (json.dumps(said["match"], sort_keys=True),
                *(said[key] for key in ("begins", "ends", "why", "by", "acknowledges")))

    def mutes(self) -> Sequence[Mute]:
        """Of all shards, with numbers of our own."""
        found: dict[tuple[Any, ...], Mute] = {}
        for said in (each for shard in self._shards for each in shard.mutes):
            key = self._known(said)
            number = self._numbers.setdefault(key, len(self._numbers) + 1) if said["number"] else 0
            found[key] = Mute(said["match"], said["begins"], said["ends"], said["why"], said["by"],
                              number, said["acknowledges"])
        return tuple(found.values())

    def make_mute(self, mute: Mute) -> concurrent.futures.Future[Mute]:
        return asyncio.run_coroutine_threadsafe(self._make_mute(mute), self._loop)

    async def _make_mute(self, mute: Mute) -> Mute:
        """In all shards, as agents may move. Some have none of the agents that it acknowledges."""
        body = {"match": mute.match, "begins": mute.begins, "seconds": mute.ends - mute.begins,
                "why": mute.why, "by": mute.by, "acknowledges": mute.acknowledges}
        said = await asyncio.gather(*(shard.ask("/api/v1/mutes", "POST", body)
                                      for shard in self._shards), return_exceptions=True)
        await self._look_at_mutes()
        made = [each for each in said if isinstance(each, dict)]
        for failure in said:
            if isinstance(failure, BaseException) and not (
                    made and mute.acknowledges and isinstance(failure, ValueError)):
                raise failure
        return Mute(mute.match, made[0]["begins"], made[0]["ends"], mute.why, made[0]["by"],
                    self._numbers.setdefault(self._known(made[0]), len(self._numbers) + 1),
                    mute.acknowledges)

    def end_mute(self, number: int) -> concurrent.futures.Future[bool]:
        return asyncio.run_coroutine_threadsafe(self._end_mute(number), self._loop)

    async def _end_mute(self, number: int) -> bool:
        there = [(shard, each["number"]) for shard in self._shards for each in shard.mutes
                 if each["number"] and self._numbers.get(self._known(each)) == number]
        await asyncio.gather(*(shard.ask(f"/api/v1/mutes/{other}", "DELETE")
                               for shard, other in there))
        await self._look_at_mutes()
        return bool(there)
