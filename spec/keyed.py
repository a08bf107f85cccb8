"""The protocol of spec/keyed.md, version 2, written a second time, without any of the C code.

Every role is here: Agent, Hearer (a node that hears beacons), Sender (a node that only sends) and
Reader. What a role keeps over a reset is in its Numbers, and nothing else is. A reset is a new
object with the same Numbers. The tests compare the C code with this.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import struct
from typing import Optional

from spec.model import VARIABLES

REFUSED, HEARTBEAT, REPORT, ANNOUNCE, OLD, WRONG_TAG, NOT_BEGUN, NOT_STORED, NEW = range(9)
NAMES = ("refused", "heartbeat", "report", "announce", "old", "wrong", "not_begun", "not_stored")
TAKEN = HEARTBEAT, REPORT, ANNOUNCE

# The labels: 0 to 63 are the variables'.
READER_LABEL, BEACON_LABEL = 64, 65
# Byte 4 of a packet. A beacon has 00 to 3f there.
IS_ANNOUNCE, IS_HEARTBEAT, IS_REQUEST = 0x40, 0x80, 0xC0

FULL = 255  # the largest count
EPOCH_LAST, NO_EPOCH = 0x3F000000, 0x7F000000
BLOCK = 256  # epochs that one stored number reserves
OWN_FIRST, UNREADABLE = 0x800000, 0xFFFFFF  # the epochs of a node that only sends

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
    for at in range(0, len(message) - 16, 16):
        state = permute(xor(state, message[at:at + 16]))
    return xor(permute(xor(xor(state, message[-16:]), mask)), mask)


# ---- Keys, tags and packets.

class Keys:
    """The keys of one master key. Some labels may have other keys: those of an attacker."""

    def __init__(self, master: bytes, others: dict[int, bytes] | None = None) -> None:
        self.master, self._known = master, dict(others or {})

    def of(self, label: int) -> bytes:
        if label not in self._known:
            self._known[label] = chaskey12(self.master, bytes((label,)) * 16)
        return self._known[label]

    def tag(self, label: int, number: int, four: bytes, table: bytes = b"") -> bytes:
        last = bytes((label,)) * 8 + struct.pack("<I", number) + four
        return chaskey12(self.of(label), table + last)

    def packet(self, label: int, number: int, four: bytes) -> bytes:
        return self.tag(label, number, four)[:4] + four

    def beacon(self, epoch: int) -> bytes:
        return self.packet(BEACON_LABEL, epoch, struct.pack(">I", epoch))

    def counted(self, label: int, number: int, count: int, first: int, second: int) -> bytes:
        """A heartbeat, or a request if the label is the readers'."""
        return self.packet(label, number, bytes((IS_HEARTBEAT + label, count, first, second)))

    def announce(self, variable: int, own: int) -> bytes:
        return self.packet(variable, 0, bytes((IS_ANNOUNCE + variable,)) + own.to_bytes(3, "big"))

    def report(self, table: bytes, epoch: int, request: bytes) -> bytes:
        return self.tag(READER_LABEL, epoch, request[4:], table)[:8] + table


# ---- What survives a reset.

class Numbers:
    """Numbers of 24 bits by label, which survive a reset. `fails` makes the next ones fail: the
    number is then not stored, and store() says so."""

    def __init__(self, numbers: dict[int, int] | None = None) -> None:
        self.numbers, self.fails = dict(numbers or {}), False

    def load(self, label: int) -> int:
        return self.numbers.get(label, 0)

    def store(self, label: int, number: int) -> bool:
        if not self.fails:
            self.numbers[label] = number
        return not self.fails


# ---- The roles.

class Agent:
    """Begin() is the reset. Before it, the agent takes nothing. If it returns no beacon, the agent
    takes only nodes that only send."""

    def __init__(self, keys: Keys, numbers: Numbers, alone: int = VARIABLES) -> None:
        self.keys, self.numbers, self.alone = keys, numbers, alone
        self.entries = [bytes(4)] * VARIABLES
        self.tag = bytes(8)  # of the last report
        self.epoch, self.beacon_tag, self.begun = 0, bytes(4), False
        self.last = [0] * (VARIABLES + 1)
        self.own = [0] * alone  # 0: the node of this variable hears beacons

    def begin(self) -> Sent:
        self.last[:self.alone] = [FULL] * self.alone
        self.own = [self.numbers.load(variable) for variable in range(self.alone)]
        self.epoch = self.numbers.load(BEACON_LABEL) * BLOCK + BLOCK - 1
        self.begun = True
        return self.tick()

    def tick(self) -> Sent:
        """Begins the next epoch, and returns its beacon. None: that failed."""
        following = self.epoch + (self.begun and self.epoch < EPOCH_LAST)
        if following == self.epoch or (
                following % BLOCK == 0
                and not self.numbers.store(BEACON_LABEL, following // BLOCK)):
            self.epoch = NO_EPOCH | following & 0xFFFFFF  # no packet fits to it
            return None
        self.epoch = following
        for label in range(VARIABLES + 1):
            if not (label < self.alone and self.own[label]):
                self.last[label] = 0
        self.beacon_tag = self.keys.beacon(self.epoch)[:4]
        return self.beacon()

    def beacon(self) -> bytes:
        return self.beacon_tag + struct.pack(">I", self.epoch)

    def report(self) -> bytes:
        return self.tag + b"".join(self.entries)

    def number_of(self, label: int) -> int:
        return label < self.alone and self.own[label] * 256 or self.epoch

    def look(self, packet: bytes) -> int:
        """What would become of the packet, as far as that can be said without a tag."""
        if len(packet) != 8 or not IS_ANNOUNCE <= packet[4] <= IS_REQUEST:
            return REFUSED
        if packet[4] < IS_HEARTBEAT:
            variable, own = packet[4] - IS_ANNOUNCE, int.from_bytes(packet[5:], "big")
            if variable >= self.alone or own < OWN_FIRST:
                return REFUSED
            has_begun, is_new = self.begun, own > self.own[variable]
        else:
            label = packet[4] - IS_HEARTBEAT
            has_begun = self.begun and self.number_of(label) >> 24 != NO_EPOCH >> 24
            is_new = packet[5] > self.last[label]
        return NOT_BEGUN if not has_begun else NEW if is_new else OLD

    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        """Returns what became of the packet, and what is sent."""
        result, sent = self.look(packet), None
        if result == NEW and packet[4] < IS_HEARTBEAT:
            return self._announce(packet[4] - IS_ANNOUNCE, packet), None
        label = packet[4] - IS_HEARTBEAT if result != REFUSED else -1
        if result == NEW:
            number = self.number_of(label)
            if packet == self.keys.packet(label, number, packet[4:]):
                return self._take(now, label, number, packet)
            result = WRONG_TAG
        if result in (OLD, WRONG_TAG) and label == READER_LABEL:
            sent = self.beacon()
        return result, sent

    def _take(self, now: int, label: int, number: int, packet: bytes) -> tuple[int, Sent]:
        self.last[label] = packet[5]
        if label == READER_LABEL:
            self.tag = self.keys.report(b"".join(self.entries), number, packet)[:8]
            return REPORT, self.report()
        self.entries[label] = struct.pack(">H", now) + packet[6:]
        return HEARTBEAT, None

    def _announce(self, variable: int, packet: bytes) -> int:
        own = int.from_bytes(packet[5:], "big")
        if packet != self.keys.announce(variable, own):
            return WRONG_TAG
        if not self.numbers.store(variable, own):
            return NOT_STORED
        self.own[variable], self.last[variable] = own, 0
        return ANNOUNCE


class Listener:
    """What a node that hears and a reader have in common: the epoch, and a count."""

    def __init__(self, keys: Keys) -> None:
        self.keys, self.epoch, self.count = keys, 0, 0

    def hear(self, packet: bytes) -> bool:
        """Is it the beacon of a later epoch?"""
        if len(packet) != 8 or packet[4] >= IS_ANNOUNCE:
            return False
        epoch = int.from_bytes(packet[4:], "big")
        if epoch <= self.epoch or packet != self.keys.beacon(epoch):
            return False
        self.epoch, self.count = epoch, 0
        return True

    def forget(self) -> None:
        self.epoch = self.count = 0

    def counted(self, label: int, first: int, second: int) -> Sent:
        if not self.epoch or self.count == FULL:
            return None
        self.count += 1
        return self.keys.counted(label, self.epoch, self.count, first, second)


class Hearer(Listener):
    def __init__(self, keys: Keys, variable: int) -> None:
        super().__init__(keys)
        self.variable = variable

    def heartbeat(self, sender: int, value: int) -> Sent:
        return self.counted(self.variable, sender, value)


class Sender:
    """A node that hears nothing."""

    def __init__(self, keys: Keys, variable: int, numbers: Numbers) -> None:
        self.keys, self.variable, self.numbers = keys, variable, numbers
        self.own = self.count = 0

    def begin(self) -> bool:
        """After a reset, and when the count is full."""
        self.own = self.count = 0
        following = self.numbers.load(self.variable) + 1
        if not OWN_FIRST <= following <= UNREADABLE or \
                not self.numbers.store(self.variable, following):
            return False
        self.own, self.count = following, 0
        return True

    def announce(self) -> Sent:
        return self.keys.announce(self.variable, self.own) if self.own else None

    def heartbeat(self, sender: int, value: int) -> Sent:
        if not self.own or self.count == FULL:
            return None
        self.count += 1
        return self.keys.counted(self.variable, self.own * 256, self.count, sender, value)


class Reader(Listener):
    def __init__(self, keys: Keys) -> None:
        super().__init__(keys)
        self.asked: tuple[int, bytes] | None = None  # the epoch and the packet of the last request

    def request(self, nonce: bytes) -> Sent:
        packet = self.counted(READER_LABEL, *nonce)
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
