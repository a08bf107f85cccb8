"""Requests and reports with keys, of many agents at once: it is the reader of spec/keyed.md,
as client.Keyed is, with a row for each agent."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet import client
from dumpulse_fleet.collect.wire import Bytes
from dumpulse_fleet.model.agents import ReaderKeys
from dumpulse_fleet.model.table import Rows

Words = NDArray[np.uint32]

HELLO = np.frombuffer(client.HELLO, np.uint8)


class Verdict(enum.IntEnum):
    """What a packet is. From LENGTH on, it is why it is rejected: the causes of
    client.BadReport."""

    BELIEVED = 0
    AGAIN = 1  # it is an answer to which a new request should be sent at once
    LENGTH = 2
    VERSION = 3
    TAG = 4
    BEACON = 5
    OLD = 6
    REFUSED = 7

    @property
    def words(self) -> str:
        why = ("", "", "it is not a report", "this agent has no key", "a wrong tag",
               "its key is another one", "its epoch", "requests are refused")[self]
        return f"rejected: {why}" if why else "accepted"


def words_of(blocks: Sequence[bytes]) -> Words:
    """A row for each of them. They are all as long as the first; without any, a row has 4 words."""
    width = len(blocks[0]) // 4 if blocks else 4
    return np.frombuffer(b"".join(blocks), "<u4").reshape(-1, width).astype(np.uint32)


def turn(word: Words, by: int) -> Words:
    """To the left."""
    turned: Words = (word << np.uint32(by)) | (word >> np.uint32(32 - by))
    return turned


def chaskey(keys: Words, message: Words) -> Words:
    """Chaskey-12 of each row under the key in its row. A row of the message has 4 words, or a
    multiple of that."""
    a, b, c, d = keys.T
    last = np.stack([a << 1 ^ (d >> 31) * np.uint32(0x87), b << 1 | a >> 31, c << 1 | b >> 31,
                     d << 1 | c >> 31])  # the key, doubled
    blocks = np.ascontiguousarray(message.T)  # each word of all agents lies together
    for first in range(0, len(blocks), 4):
        ends = first + 4 == len(blocks)
        a, b, c, d = (state ^ word ^ mask if ends else state ^ word
                      for state, word, mask in zip((a, b, c, d), blocks[first:first + 4], last))
        for _ in range(12):
            a = a + b
            b = turn(b, 5) ^ a
            c = c + d
            d = turn(d, 8) ^ c
            a = turn(a, 16) + d
            d = turn(d, 13) ^ a
            c = c + b
            b = turn(b, 7) ^ c
            c = turn(c, 16)
    tags: Words = (np.stack([a, b, c, d]) ^ last).T
    return tags


class Readers:
    """What a reader knows of each agent that has a key. `slot` is the place of an agent's row in
    the other arrays, and -1 if it has no key."""

    def __init__(self, keys: Sequence[ReaderKeys | None], saved: NDArray[np.int64] | None = None
                 ) -> None:
        """`saved` is Table.known_epoch. It is used for agents that still have the same key."""
        of = [key.of(client.READER_LABEL) for key in keys if key]
        self.slot = np.full(len(keys), -1, np.intp)
        self.slot[[row for row, key in enumerate(keys) if key]] = np.arange(len(of))
        self._keys, count = words_of(of), len(of)
        prints = chaskey(self._keys, np.full((count, 4), 0xFFFFFFFF, np.uint32))
        self._prints = prints[:, 0].astype(np.int64) << 30 ^ prints[:, 1]
        # Reports of earlier epochs are never accepted. 0: there is none.
        self.known, self.since = np.zeros((2, count), np.int64)
        if saved is not None:
            print_before, *before = saved[self.slot >= 0].T
            self.known, self.since = np.where(print_before == self._prints, before, 0)
        self.epoch = self.known.astype(np.uint32)
        self.heard = np.zeros(count, np.bool_)  # A beacon has confirmed this epoch.
        self.count = np.zeros(count, np.int64)  # the last one of this epoch
        self.refused = np.zeros(count, np.int64)  # requests: other readers have used their counts
        self.later = np.zeros(count, np.int64)  # later epochs that were received in this round
        # The last request of this round, and of the round before: a report may be late.
        self.asked = np.zeros((2, count, 8), np.uint8)
        self.asked_in = np.zeros((2, count), np.uint32)  # The epoch of the request.
        self.waits = np.zeros((2, count), np.bool_)  # Its report is still accepted.
        self.repeat = np.zeros(count, np.bool_)  # The request of this round may be sent again.
        self.old_at = np.full(count, np.inf)  # the first old beacon since a packet was accepted
        self.why = np.zeros(count, np.uint8)  # Verdict of what came since the last report
        self.told = np.zeros(count, np.uint8)  # Verdict of the last event.

    def carry(self, rows: Rows, old: Readers, old_rows: Rows) -> None:
        """What is known of agents that have the same key as before."""
        slots, old_slots = self.slot[rows], old.slot[old_rows]
        both = (slots >= 0) & (old_slots >= 0)
        slots, old_slots = slots[both], old_slots[both]
        same = (self._keys[slots] == old._keys[old_slots]).all(axis=1)
        for name in ("known", "since", "epoch", "heard", "count", "refused", "later", "asked",
                     "asked_in", "waits", "repeat", "old_at", "why", "told"):
            of = (..., slots[same], slice(None)) if name == "asked" else (..., slots[same])
            getattr(self, name)[of] = getattr(old, name)[(..., old_slots[same], *of[2:])]

    def save(self, saved: NDArray[np.int64]) -> None:
        """Writes what must be known after a restart into Table.known_epoch."""
        saved[self.slot >= 0] = np.stack([self._prints, self.known, self.since], axis=1)

    def _allowed(self, slots: Rows) -> NDArray[np.int64]:
        """As client.Keyed._allowed()."""
        saved = client.pace_time() - self.since[slots]
        return np.where(saved >= 0, saved, client.JUMP)

    def _tags(self, slots: Rows, number: Words, four: Bytes, tables: Bytes | None = None) -> Words:
        """`four` are bytes 4 to 7 of each packet."""
        block = np.empty((len(slots), 4), np.uint32)
        block[:, :2], block[:, 2] = client.READER_LABEL * 0x01010101, number
        block[:, 3] = np.ascontiguousarray(four).view("<u4")[:, 0]
        message = block if tables is None else np.concatenate(
            [np.ascontiguousarray(tables).view("<u4").astype(np.uint32), block], axis=1)
        return chaskey(self._keys[slots], message)

    def begin(self, rows: Rows, now: float) -> None:
        """A round begins: what answers a request of before is late."""
        slots = self.slot[rows]
        for part in (self.asked, self.asked_in, self.waits):
            part[1, slots] = part[0, slots]
        self.waits[0, slots] = self.repeat[slots] = False
        self.later[slots] = 0
        far = slots[(now - self.old_at[slots] > client.FORGET)
                    & (self.epoch[slots] > self.known[slots])]
        self.epoch[far] = self.known[far]  # The later one was forged.
        self.count[far] = self.refused[far] = self.heard[far] = 0
        self.waits[:, far], self.old_at[far] = False, np.inf

    def requests(self, rows: Rows) -> Bytes:
        """For each agent the last request once more, until something refuses it; else a new one,
        if possible; else the one that asks for the beacon."""
        slots = self.slot[rows]
        new = slots[~self.repeat[slots] & self.heard[slots] & (self.count[slots] < client.FULL)]
        if new.size:
            self.count[new] = np.minimum(client.FULL, self.count[new] + 1
                                         + self.refused[new] // client.SLOWLY)
            asked = np.empty((len(new), 8), np.uint8)
            asked[:, 4], asked[:, 5] = client.IS_REQUEST, self.count[new]
            asked[:, 6:] = np.frombuffer(os.urandom(2 * len(new)), np.uint8).reshape(-1, 2)
            tags = self._tags(new, self.epoch[new], asked[:, 4:])
            asked[:, :4] = tags[:, :1].astype("<u4").view(np.uint8)
            self.asked[0, new], self.asked_in[0, new] = asked, self.epoch[new]
            self.waits[0, new] = self.repeat[new] = True
        packets: Bytes = np.where(self.repeat[slots, None], self.asked[0, slots], HELLO)
        return packets

    def take(self, rows: Rows, packets: Bytes, lengths: NDArray[np.uint32],
             version_1: NDArray[np.bool_], timely: NDArray[np.bool_], now: float
             ) -> NDArray[np.uint8]:
        """The Verdict of each packet, and what follows from it. What is not timely answers a round
        of before. Then only a right tag says something."""
        slots, of_round = self.slot[rows], (~timely).astype(np.intp)
        verdicts = np.full(len(rows), Verdict.LENGTH, np.uint8)
        verdicts[version_1] = Verdict.VERSION
        report = lengths == client.KEYED_REPORT_SIZE
        verdicts[report] = Verdict.TAG
        some = np.flatnonzero(report & self.waits[of_round, slots])
        if some.size:
            which = of_round[some], slots[some]
            tags = self._tags(slots[some], self.asked_in[which], self.asked[which][:, 4:],
                              packets[some, 8:client.KEYED_REPORT_SIZE])
            some = some[(tags[:, :2] == np.ascontiguousarray(packets[some, :8]).view("<u4")
                         ).all(axis=1)]
            of = slots[some]
            verdicts[some] = Verdict.BELIEVED
            self.waits[of_round[some], of] = False
            self.repeat[of[timely[some]]] = False
            left = np.where(self.known[of] > 0, np.minimum(
                client.JUMP, self._allowed(of) + self.known[of] - self.epoch[of]), client.JUMP)
            self.since[of] = client.pace_time() - left
            self.refused[of], self.old_at[of], self.known[of] = 0, np.inf, self.epoch[of]
        some = np.flatnonzero((lengths == 8) & (packets[:, 4] < client.BEACON_END))
        if some.size:
            verdicts[some] = self._hear(slots[some], packets[some, :8], timely[some], now)
        is_wrong = timely & (verdicts > Verdict.AGAIN) & (verdicts != Verdict.REFUSED)
        self.why[slots[is_wrong]] = verdicts[is_wrong]
        return verdicts

    def _hear(self, slots: Rows, packets: Bytes, timely: NDArray[np.bool_], now: float
              ) -> NDArray[np.uint8]:
        """Beacons."""
        epoch = np.ascontiguousarray(packets[:, 4:]).view(">u4")[:, 0].astype(np.uint32)
        tags = self._tags(slots, epoch, packets[:, 4:])[:, 0]
        is_valid = tags == np.ascontiguousarray(packets[:, :4]).view("<u4")[:, 0]
        before = self.epoch[slots]
        # The first beacon since the start.
        first = is_valid & (epoch == before) & (before > 0) & ~self.heard[slots]
        self.heard[slots[first]] = True
        refused = is_valid & (epoch == before) & ~first
        self.old_at[slots[refused]] = np.inf
        again = timely & refused & self.repeat[slots]
        newest = self.known[slots] + self._allowed(slots)
        newer = is_valid & (epoch > before) & (self.later[slots] < client.BEACONS) & \
            ((epoch <= newest) | (self.known[slots] == 0))
        of = np.unique(slots[again])
        self.repeat[of] = False
        self.refused[of] += 1
        np.maximum.at(self.epoch, slots[newer], epoch[newer])
        of = np.unique(slots[newer])
        self.count[of] = self.refused[of] = 0
        self.heard[of] = True
        self.later[of] += 1
        old = slots[timely & is_valid & (epoch < before)]
        self.old_at[old] = np.minimum(self.old_at[old], now)
        # A report to a request of before may have been held back.
        self.repeat[of], self.waits[:, of], self.old_at[of] = False, False, np.inf
        # A request that is repeated after a bad report is refused: that is not the reason.
        self.why[slots[timely & refused & (self.why[slots] == Verdict.BELIEVED)]] = Verdict.REFUSED
        return np.where(again | newer | first, Verdict.AGAIN, np.where(
            refused, Verdict.REFUSED, np.where(is_valid, Verdict.OLD, Verdict.BEACON))
            ).astype(np.uint8)

    def news(self, rows: Rows, believed: bool) -> list[tuple[int, Verdict, Verdict]]:
        """The agents of which it is new why they are rejected, or that they are accepted: their
        rows, what was told before, and what is to tell now."""
        rows = rows[self.slot[rows] >= 0]
        slots = self.slot[rows]
        if believed:
            self.why[slots] = Verdict.BELIEVED
        changed = (self.told[slots] != self.why[slots]) & (
            believed | (self.why[slots] > Verdict.AGAIN))
        rows, slots = rows[changed], slots[changed]
        pairs = [(int(row), Verdict(was), Verdict(now)) for row, was, now in zip(
            rows, self.told[slots].tolist(), self.why[slots].tolist())]
        self.told[slots] = self.why[slots]
        return pairs
