"""The protocol of spec/keyed.md, version 2, written a second time, without any of the C code.

Every role is here: Agent, Hearer (a node) and Reader. What an agent keeps over a reset is its
Number, and nothing else is. A reset is a new object with the same Number. The tests compare the C
code with this."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Optional

from spec.model import MAGIC, VARIABLES, checksummed

REFUSED, HEARTBEAT, REPORT, OLD, WRONG_TAG, NOT_BEGUN, ASKS, NEW = range(8)
NAMES = "refused", "heartbeat", "report", "old", "wrong", "not_begun", "asks", "new"
TAKEN = HEARTBEAT, REPORT

BEGUN, NOT_STORED, NO_NUMBER, USED_UP = range(4)
BEGINNINGS = "begun", "not_stored", "no_number", "used_up"

# The labels: 0 to 63 are the variables', 64 the readers'.
READER_LABEL, LABELS = 64, 65
# Byte 4 of a packet. A beacon has less than BEACON_END there.
BEACON_END, IS_HEARTBEAT, IS_REQUEST = 0x20, 0x80, 0xC0

FULL = 255  # the largest count
EPOCH_LAST = 0x1FFFFFFF
BLOCK = 256  # epochs that one stored number reserves
UNREADABLE = 0xFFFFFF

Sent = Optional[bytes]


# ---- Chaskey-12, of ISO/IEC 29192-6, from its definition.

def rotate(word: int, by: int) -> int:
    """To the left, in 32 bits."""
    return (word << by | word >> 32 - by) & 0xFFFFFFFF


def permute(block: bytes) -> bytes:
    a, b, c, d = struct.unpack("<4I", block)
    for _ in range(12):
        a = (a + b) & 0xFFFFFFFF
        b = rotate(b, 5) ^ a
        a = rotate(a, 16)
        c = (c + d) & 0xFFFFFFFF
        d = rotate(d, 8) ^ c
        a = (a + d) & 0xFFFFFFFF
        d = rotate(d, 13) ^ a
        c = (c + b) & 0xFFFFFFFF
        b = rotate(b, 7) ^ c
        c = rotate(c, 16)
    return struct.pack("<4I", a, b, c, d)


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(one, other, strict=True))


def doubled(key: bytes) -> bytes:
    """The key times x, in GF(2^128) modulo x^128 + x^7 + x^2 + x + 1."""
    number = int.from_bytes(key, "little") << 1
    if number >> 128:
        number ^= 1 << 128 | 0x87
    return number.to_bytes(16, "little")


def chaskey12(key: bytes, message: bytes) -> bytes:
    mask = doubled(key)
    if not message or len(message) % 16:
        message += b"\1" + bytes(-(len(message) + 1) % 16)
        mask = doubled(mask)
    state = key
    for start in range(0, len(message) - 16, 16):
        state = permute(xor(state, message[start:start + 16]))
    return xor(permute(xor(xor(state, message[-16:]), mask)), mask)


# ---- Keys, tags and packets.

def label_key(master: bytes, label: int, generation: int = 0) -> bytes:
    return chaskey12(master, bytes((label,)) * 15 + bytes((generation,)))


def question(label: int) -> bytes:
    """Asks for the beacon of a label. Nobody signs it."""
    return bytes((0, 0, 0, 0, IS_HEARTBEAT + label, 0, 0, 0))


class Keys:
    """The keys of one master key. Some labels may have other keys: those of an attacker."""

    def __init__(self, master: bytes, others: dict[int, bytes] | None = None,
                 generations: dict[int, int] | None = None) -> None:
        self.master, self.generations = master, dict(generations or {})
        self._known = dict(others or {})

    def of(self, label: int) -> bytes:
        if label not in self._known:
            self._known[label] = label_key(self.master, label, self.generations.get(label, 0))
        return self._known[label]

    def renew(self, label: int) -> None:
        """Gives a label its next key."""
        self.generations[label] = self.generations.get(label, 0) + 1
        self._known.pop(label, None)

    def tag(self, label: int, number: int, four: bytes, table: bytes = b"") -> bytes:
        last = bytes((label,)) * 8 + struct.pack("<I", number) + four
        return chaskey12(self.of(label), table + last)

    def packet(self, label: int, number: int, four: bytes) -> bytes:
        return self.tag(label, number, four)[:4] + four

    def beacon(self, label: int, epoch: int) -> bytes:
        return self.packet(label, epoch, struct.pack(">I", epoch))

    def counted(self, label: int, number: int, count: int, first: int, second: int) -> bytes:
        """A heartbeat, or a request if the label is the readers'."""
        return self.packet(label, number, bytes((IS_HEARTBEAT + label, count, first, second)))

    def report(self, table: bytes, epoch: int, request: bytes) -> bytes:
        return self.tag(READER_LABEL, epoch, request[4:], table)[:8] + table


# ---- What survives a reset.

class Number:
    """A number of 24 bits, which survives a reset. `fails` makes the next stores fail: then the
    number stays, and store() says so."""

    def __init__(self, number: int = 0) -> None:
        self.number, self.fails = number, False

    def store(self, number: int) -> bool:
        if not self.fails:
            self.number = number
        return not self.fails


# ---- The roles.

class Agent:
    """Begin() is the reset, and nothing with a key is taken before it. The nodes of the variables
    in `unkeyed` send version 1."""

    def __init__(self, keys: Keys, stored: Number, unkeyed: Collection[int] = ()) -> None:
        self.keys, self.stored, self.unkeyed = keys, stored, unkeyed
        self.entries = [bytes(4)] * VARIABLES
        self.tag = bytes(8)  # The tag of the last report.
        self.epoch = self.reached = 0  # labels below `reached` are in this epoch; 0: not begun
        self.wrong = 0
        self.last = [0] * LABELS

    # ---- Epochs.

    def begin(self) -> int:
        """All labels are in the first epoch of a new block, or none is."""
        block, self.reached = self.stored.number, 0
        if block == UNREADABLE:
            return NO_NUMBER
        if block >= EPOCH_LAST // BLOCK:
            return USED_UP
        if not self.stored.store(block + 1):
            return NOT_STORED
        self.epoch, self.reached, self.wrong = (block + 1) * BLOCK, LABELS, 0
        self.last = [0] * LABELS
        return BEGUN

    def next(self) -> Sent:
        """Begins the epoch of the next label, and returns its beacon. None: that failed."""
        if not self.reached or (self.reached == LABELS and not self._begin_epoch()):
            return None
        return self._reach()

    def round(self) -> list[bytes]:
        """Goes on by one label, and then until all are in the same epoch. Returns their beacons.
        None: that failed."""
        first = self.next()
        return [first, *self._rest()] if first else []

    def _rest(self) -> list[bytes]:
        return [self._reach() for _ in range(self.reached, LABELS)]

    def _begin_epoch(self) -> bool:
        """No label has reached the epoch yet."""
        following = self.epoch + 1
        if following > EPOCH_LAST or (
                following % BLOCK == 0 and not self.stored.store(following // BLOCK)):
            return False
        self.epoch, self.reached, self.wrong = following, 0, 0
        return True

    def _reach(self) -> bytes:
        label = self.reached
        self.reached += 1
        self.last[label] = 0
        return self._beacon(label)

    def epoch_of(self, label: int) -> int:
        return self.epoch - (label >= self.reached)

    def beacon(self, label: int) -> Sent:
        return self._beacon(label) if self.reached else None

    def _beacon(self, label: int) -> bytes:
        return self.keys.beacon(label, self.epoch_of(label))

    # ---- Packets.

    def report(self) -> bytes:
        return self.tag + b"".join(self.entries)

    def look(self, packet: bytes) -> int:
        """What would become of the packet, as far as that can be said without a tag, if all nodes
        have keys."""
        if len(packet) != 8 or not IS_HEARTBEAT <= packet[4] <= IS_REQUEST:
            return REFUSED
        if not self.reached:
            return NOT_BEGUN
        if packet[5] == 0:
            return ASKS
        return NEW if packet[5] > self.last[packet[4] - IS_HEARTBEAT] else OLD

    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        """Returns what became of the packet, and what is sent."""
        if len(packet) == 8 and packet[4] == MAGIC:
            if packet[5] in self.unkeyed and packet == checksummed(packet[4:]):
                return self._record(now, packet[5], packet), None
            return REFUSED, None
        if len(packet) == 8 and packet[4] - IS_HEARTBEAT in self.unkeyed:
            return REFUSED, None
        result, sent = self.look(packet), None
        label = packet[4] - IS_HEARTBEAT if result != REFUSED else -1
        if result == NEW:
            if packet == self.keys.packet(label, self.epoch_of(label), packet[4:]):
                self.last[label] = packet[5]
                if label == READER_LABEL:
                    self.tag = self.keys.report(
                        b"".join(self.entries), self.epoch_of(label), packet)[:8]
                    return REPORT, self.report()
                return self._record(now, label, packet), None
            self.wrong = (self.wrong + 1) % 256
            result = WRONG_TAG
        if result == ASKS or (label == READER_LABEL and result in (OLD, WRONG_TAG)):
            sent = self.beacon(label)
        return result, sent

    def _record(self, now: int, variable: int, packet: bytes) -> int:
        self.entries[variable] = struct.pack(">H", now) + packet[6:]
        return HEARTBEAT

    def renew(self, variable: int) -> None:
        """The variable has a new key."""
        self.last[variable] = 0


class Listener:
    """What a node and a reader have in common: the epoch, and a count."""

    def __init__(self, keys: Keys, label: int) -> None:
        self.keys, self.label = keys, label
        self.epoch = self.count = 0

    def hear(self, packet: bytes) -> bool:
        """Is it the beacon of a later epoch for this label?"""
        if len(packet) != 8 or packet[4] >= BEACON_END:
            return False
        epoch = int.from_bytes(packet[4:], "big")
        if epoch <= self.epoch or packet != self.keys.beacon(self.label, epoch):
            return False
        self.epoch, self.count = epoch, 0
        return True

    def forget(self) -> None:
        self.epoch = self.count = 0

    def counted(self, first: int, second: int) -> Sent:
        if not self.epoch or self.count == FULL:
            return None
        self.count += 1
        return self.keys.counted(self.label, self.epoch, self.count, first, second)


class Hearer(Listener):
    def heartbeat(self, sender: int, value: int) -> Sent:
        return self.counted(sender, value)


class Reader(Listener):
    def __init__(self, keys: Keys) -> None:
        super().__init__(keys, READER_LABEL)
        self.asked: tuple[int, bytes] | None = None  # the epoch and the packet of the last request

    def request(self, nonce: bytes) -> Sent:
        packet = self.counted(*nonce)
        if packet:
            self.asked = self.epoch, packet
        return packet

    def check(self, report: bytes) -> bool:
        """Is it the report that was asked for? It is believed once, and in the same epoch."""
        if len(report) != 264 or self.asked is None or self.asked[0] != self.epoch or \
                report != self.keys.report(report[8:], *self.asked):
            return False
        self.asked = None
        return True


# ---- A number that a torn write cannot break: two slots of 6 bytes.

SLOT = 6


def slot(number: int) -> bytes:
    """The number, and then its bits inverted."""
    plain = number.to_bytes(3, "big")
    return plain + bytes(byte ^ 0xFF for byte in plain)


def slot_number(data: bytes) -> int:
    """-1: it is not whole."""
    number = int.from_bytes(data[:3], "big")
    return number if data == slot(number) else -1


def slots_read(memory: bytes) -> int:
    number = max(slot_number(memory[:SLOT]), slot_number(memory[SLOT:]))
    return UNREADABLE if number < 0 else number


def slots_free(memory: bytes) -> int:
    """Where the next number goes: to the slot that does not have the largest one."""
    first = slot_number(memory[:SLOT])
    return SLOT if first >= max(0, slot_number(memory[SLOT:])) else 0
