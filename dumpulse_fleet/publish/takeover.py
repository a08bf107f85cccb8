"""Shards agree who of them lives, by a bucket of NATS' key-value store, and take over from each
other: README.md says how. Whoever sees that the key `lead` has not changed for `patience` tries to
write it: the store lets only one do so, because it takes a change only of the revision that was
read.   SPDX-License-Identifier: MIT"""

import asyncio
import json
import math
import secrets
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from dumpulse_fleet.config.others import Nats
from dumpulse_fleet.config.values import Shard
from dumpulse_fleet.publish.jetstream import Link, apart

LEAD = "lead"
HAND_S = (5.0, 30.0)  # between two times that what is known is handed on: the longer it takes, the
SHARE = 20  # longer: it takes one of so many seconds
PIECE = 1 << 19  # bytes of a key: a server takes 1 MiB, unless it is told to take more
MARK = 8  # bytes before each piece, which are the same in all that belong together
LONGEST = 1 << 31  # bytes of what another shard knows
TURNS = 4  # looks at the bucket while a shard may be silent
LONGEST_TURN_S = 1.0
START_S = 60.0  # in which machines that are switched on together have all started

Living = tuple[int, ...]
# What a shard knows: what was told, and the file of its collector.
Known = tuple[Mapping[str, Any], bytes]


class Council(Link):
    """One of the shards. `change` is called when others share the agents: with who did so before,
    and who does now. `known` says what this one knows."""

    about = "the shards agree"

    def __init__(self, settings: Nats, shard: Shard, say: Callable[[str], None],
                 change: Callable[[Living, Living], object],
                 known: Callable[[], Awaitable[Known]]) -> None:
        super().__init__(settings, say)
        self._all: Living = tuple(range(1, shard.of + 1))
        self.living = self._all  # who shares the agents
        self.leads = False
        self._number, self._change, self._known = shard.number, change, known
        self._id = secrets.token_hex(8)
        self._before = self._all  # the list that was read last
        self._first: dict[str, int] = {}  # by key: the revision that was read first
        self._seen: dict[str, tuple[int, float]] = {}  # by key: its revision, and since when
        self._out_since = math.inf  # since when the list lacks us
        self._bucket: Any = None
        self.patience = settings.patience
        self.rest = HAND_S[0]  # s until what is known is handed on again

    def silence(self) -> str:
        """Says who is dead, or that nobody can take over; empty: all is well."""
        gone = ", ".join(str(number) for number in self._all if number not in self.living)
        return f"nobody can take over from a shard: nats: {self.trouble}" if self.trouble else \
            f"no sign of life from shard {gone}: the others ask its agents" if gone else ""

    async def work(self, stream: Any, closed: Callable[[], bool]) -> None:
        bucket = self._bucket = await self._open(stream)
        self._seen.clear()  # nobody has looked meanwhile
        self._first.clear()
        while not closed():
            await self._turn(bucket)
            self.works()
            await asyncio.sleep(min(LONGEST_TURN_S, self.patience / TURNS))
        raise ConnectionError

    async def _open(self, stream: Any) -> Any:
        try:
            found, = await apart(stream.key_value(self._settings.bucket))
        except self._nats.js.errors.NotFoundError:
            found, = await apart(stream.create_key_value(bucket=self._settings.bucket))
        return found

    # ---------------------------------------------------------------- who lives
    def _silent(self, key: str) -> bool:
        return time.monotonic() - self._seen[key][1] > self.patience

    async def _look(self, bucket: Any, key: str, lives: bool = True) -> bytes:
        """Its value. Notes whether it has changed. Who was dead must give a sign of life first."""
        try:
            entry = await bucket.get(key)
            revision, value = entry.revision, entry.value or b""
        except self._nats.js.errors.KeyNotFoundError:
            revision, value = 0, b""
        self._first.setdefault(key, revision)
        if self._seen.get(key, (-1, 0.0))[0] != revision:
            known = key in self._seen or lives
            self._seen[key] = revision, time.monotonic() if known else -math.inf
        return value

    async def _turn(self, bucket: Any) -> None:
        keys = {number: f"shard.{number}" for number in self._all}
        await apart(bucket.put(keys[self._number], self._id.encode()))
        said, *_ = await apart(self._look(bucket, LEAD), *(
            self._look(bucket, key, number in self._before) for number, key in keys.items()))
        lead, revision = json.loads(said or b"{}"), self._seen[LEAD][0]
        if lead.get("id") == self._id or self._silent(LEAD):
            if revision == self._first[LEAD]:  # nobody has led since we look: others may start, too
                self._wait_for(keys.values())
            lead = {"id": self._id, "living": [
                number for number, key in keys.items() if not self._silent(key)]}
            try:
                await apart(bucket.update(LEAD, json.dumps(lead).encode(), last=revision))
            except self._nats.js.errors.KeyWrongLastSequenceError:
                self.leads = False
                return  # somebody else leads
            self.leads = True
        elif revision == self._first[LEAD]:
            self._before = tuple(lead.get("living", self._all))
            return  # who wrote this may be dead
        else:
            self.leads = False
        self._adopt(tuple(number for number in self._all if number in lead["living"]))

    def _wait_for(self, keys: Iterable[str]) -> None:
        """For those of which we have not seen a sign yet."""
        for key in keys:
            revision, since = self._seen[key]
            if revision == self._first[key]:
                self._seen[key] = revision, since + max(0.0, START_S - self.patience)

    def _adopt(self, living: Living) -> None:
        """If the list lacks us, the leader has not heard of us yet: until it has had time to, we go
        on."""
        now = time.monotonic()
        self._out_since = math.inf if self._number in living else min(self._out_since, now)
        before, self._before = self._before, living
        back = self._number in living and self._number not in before
        if (living != self.living or back) and not (
                self._number not in living and now - self._out_since <= self.patience):
            self._say(f"shards that share the agents: {', '.join(map(str, living))}")
            self.living = living
            self._change(before, living)

    # ---------------------------------------------------------------- what they know
    async def hand_on(self) -> None:
        """What we know now. It is in pieces, beside those that were written last: who is killed
        meanwhile leaves those."""
        if self._bucket is None or self.trouble:
            return
        begun = time.monotonic()
        told, content = await self._known()
        packed = await asyncio.to_thread(
            lambda: zlib.compress(json.dumps(told).encode() + b"\n" + content, 1))
        key, mark = f"known.{self._number}", secrets.token_bytes(MARK)
        try:
            place = 1 - (await self._pointer(key))["place"]
            for at, first in enumerate(range(0, len(packed), PIECE)):
                await apart(self._bucket.put(f"{key}.{place}.{at}",
                                             mark + packed[first:first + PIECE]))
            await apart(self._bucket.put(key, json.dumps({
                "place": place, "mark": mark.hex(), "pieces": at + 1}).encode()))
        except (self._nats.errors.Error, ConnectionError) as error:  # others take over all the same
            self._say(f"nats: cannot hand on what is known: {type(error).__name__}")
        self.rest = min(max(SHARE * (time.monotonic() - begun), HAND_S[0]), HAND_S[1])

    async def _pointer(self, key: str) -> dict[str, Any]:
        """Where the last pieces are."""
        try:
            found, = await apart(self._bucket.get(key))
        except self._nats.js.errors.KeyNotFoundError:
            return {"place": 1, "mark": "", "pieces": 0}
        return dict(json.loads(found.value))

    async def handed(self, numbers: Iterable[int]) -> list[Known]:
        """What these shards have handed on, as far as there is something."""
        found: list[Known] = []
        for number in numbers:
            try:
                found.append(await self._read(f"known.{number}"))
            except (self._nats.errors.Error, ConnectionError, zlib.error, ValueError) as error:
                self._say(f"what shard {number} knew is lost: {type(error).__name__}")
        return found

    async def _read(self, key: str) -> Known:
        """ValueError: there is nothing, or it is written right now."""
        said = await self._pointer(key)
        mark = bytes.fromhex(said["mark"])
        pieces = [entry.value for entry in await apart(*(
            self._bucket.get(f"{key}.{said['place']}.{at}") for at in range(said["pieces"])))]
        if not pieces or any(piece[:MARK] != mark for piece in pieces):
            raise ValueError
        whole = await asyncio.to_thread(lambda: zlib.decompressobj().decompress(
            b"".join(piece[MARK:] for piece in pieces), LONGEST))
        told, _, content = whole.partition(b"\n")
        return json.loads(told), content
