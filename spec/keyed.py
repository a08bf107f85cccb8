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

(REFUSED, HEARTBEAT, REPORT, ANNOUNCE, OLD, WRONG_TAG, NOT_BEGUN, NOT_STORED, FIRST, ASKS,
 NEW) = range(11)
NAMES = ("refused", "heartbeat", "report", "announce", "old", "wrong", "not_begun", "not_stored",
         "first", "asks", "new")
TAKEN = HEARTBEAT, REPORT, ANNOUNCE, FIRST

# The labels: 0 to 63 are the variables', 64 the readers'. The agent's block is stored under 65.
READER_LABEL, LABELS, BLOCK_LABEL = 64, 65, 65
# Byte 4 of a packet. A beacon has less than IS_ANNOUNCE there, and TWICE is a bit of it.
TWICE, IS_ANNOUNCE, IS_HEARTBEAT, IS_REQUEST = 0x20, 0x40, 0x80, 0xC0

FULL = 255  # the largest count
EPOCH_LAST = 0x1FFFFFFF
BLOCK = 256  # epochs that one stored number reserves
OWN_FIRST, UNREADABLE = 0x800000, 0xFFFFFF  # the epochs of a node that only sends
MOST_WRONG, JUNK_LASTS = 100, 64  # so many wrong tags in an epoch are junk; so many epochs it lasts
PLACES, FREE = 8, bytes(4)  # where packets wait

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

    def beacon(self, label: int, epoch: int, twice: bool = False) -> bytes:
        return self.packet(label, epoch, struct.pack(">I", epoch | twice * TWICE << 24))

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
    """Begin() is the reset, and nothing is taken before it. The nodes of the variables below
    `alone` may be such that only send. They do if they have an own epoch."""

    def __init__(self, keys: Keys, numbers: Numbers, alone: int = VARIABLES) -> None:
        self.keys, self.numbers, self.alone = keys, numbers, alone
        self.entries = [bytes(4)] * VARIABLES
        self.tag = bytes(8)  # of the last report
        self.epoch = self.reached = 0  # labels below `reached` are in this epoch; 0: not begun
        self.junk = self.wrong = 0
        self.waiting, self.place = [FREE] * PLACES, 0  # bytes 4 to 7 of packets, and the next place
        self.last = [0] * LABELS
        self.own = [0] * alone  # 0: the node of this variable hears beacons
        self.own_last = [0] * alone

    # ---- Epochs.

    def begin(self) -> list[bytes]:
        """Returns the beacons of all labels. None of them: that failed."""
        self.own = [self.numbers.load(variable) for variable in range(self.alone)]
        self.own_last = [FULL if own else 0 for own in self.own]
        self.last = [FULL] * LABELS
        self.epoch = self.numbers.load(BLOCK_LABEL) * BLOCK + BLOCK - 1
        self.reached = LABELS
        if not self._begin_epoch():
            self.reached = 0
            return []
        return self._rest()

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
                following % BLOCK == 0
                and not self.numbers.store(BLOCK_LABEL, following // BLOCK)):
            return False
        self.epoch, self.reached, self.wrong = following, 0, 0
        self.junk = max(0, self.junk - 1)
        self.waiting = [FREE] * PLACES
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
        return self.keys.beacon(label, self.epoch_of(label), self.junk != 0)

    # ---- Packets.

    def report(self) -> bytes:
        return self.tag + b"".join(self.entries)

    def sends_only(self, label: int) -> bool:
        return label < self.alone and self.own[label] != 0

    def number_of(self, label: int) -> int:
        """What the tags of this label's packets are made with now."""
        return self.own[label] * 256 if self.sends_only(label) else self.epoch_of(label)

    def count_of(self, label: int) -> int:
        """The last one that was taken."""
        return self.own_last[label] if self.sends_only(label) else self.last[label]

    def look(self, packet: bytes) -> int:
        """What would become of the packet, as far as an agent whose nodes all hear can say that
        without a tag."""
        if len(packet) != 8 or not IS_HEARTBEAT <= packet[4] <= IS_REQUEST:
            return REFUSED
        if not self.reached:
            return NOT_BEGUN
        if packet[5] == 0:
            return ASKS
        return NEW if packet[5] > self.last[packet[4] - IS_HEARTBEAT] else OLD

    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        """Returns what became of the packet, and what is sent."""
        if len(packet) == 8 and self.reached and IS_ANNOUNCE <= packet[4] < IS_REQUEST and \
                packet[4] % 64 < self.alone:
            variable, waits = packet[4] % 64, self._announced(packet[4] % 64)
            if packet[4] < IS_HEARTBEAT:
                return self._announce(variable, int.from_bytes(packet[5:], "big"), packet), None
            if self.own[variable] or waits:
                return self._own_heartbeat(now, variable, waits, packet), None
        result, sent = self.look(packet), None
        label = packet[4] - IS_HEARTBEAT if result != REFUSED else -1
        if result == NEW:
            if packet == self.keys.packet(label, self.epoch_of(label), packet[4:]):
                self.last[label] = packet[5]
                if label == READER_LABEL:
                    self.tag = self.keys.report(
                        b"".join(self.entries), self.epoch_of(label), packet)[:8]
                    return REPORT, self.report()
                return self._take(now, label, packet), None
            result = self._wrong()
        if result == ASKS or (label == READER_LABEL and result in (OLD, WRONG_TAG)):
            sent = self.beacon(label)
        return result, sent

    def _wrong(self) -> int:
        self.wrong = (self.wrong + 1) % 256
        if self.wrong >= MOST_WRONG:
            self.junk = JUNK_LASTS
        return WRONG_TAG

    def _place_of(self, byte4: int) -> int:
        """Where a packet with this byte 4 waits. -1: nowhere."""
        return next((at for at, four in enumerate(self.waiting) if four[0] == byte4), -1)

    def _wait(self, four: bytes) -> None:
        at = self._place_of(four[0])
        if at < 0:
            at, self.place = self.place, (self.place + 1) % PLACES
        self.waiting[at] = four

    def _record(self, now: int, variable: int, packet: bytes) -> int:
        self.entries[variable] = struct.pack(">H", now) + packet[6:]
        return HEARTBEAT

    def _take(self, now: int, variable: int, packet: bytes) -> int:
        """A heartbeat with a right tag. Its count is used up."""
        is_second = any((four[0], four[2:]) == (packet[4], packet[6:]) for four in self.waiting)
        if self.junk and not is_second:
            self._wait(packet[4:])
            return FIRST
        return self._record(now, variable, packet)

    # ---- Nodes that only send.

    def _announced(self, variable: int) -> int:
        """The own epoch that waits, or 0."""
        at = self._place_of(IS_ANNOUNCE + variable)
        return int.from_bytes(self.waiting[at][1:], "big") if at >= 0 else 0

    def _announce(self, variable: int, own: int, packet: bytes) -> int:
        if own < OWN_FIRST:
            return REFUSED
        if own <= max(self.own[variable], self._announced(variable)):
            return OLD
        if packet != self.keys.announce(variable, own):
            return self._wrong()
        self._wait(packet[4:])
        return ANNOUNCE

    def _own_heartbeat(self, now: int, variable: int, waits: int, packet: bytes) -> int:
        count, tried = packet[5], False
        if self.own[variable] and count > self.own_last[variable]:
            tried = True
            if packet == self.keys.packet(variable, self.own[variable] * 256, packet[4:]):
                self.own_last[variable] = count
                return self._take(now, variable, packet)
        if waits and count:
            tried = True
            if packet == self.keys.packet(variable, waits * 256, packet[4:]):
                return self._own_begins(now, variable, waits, packet)
        return self._wrong() if tried else OLD

    def _own_begins(self, now: int, variable: int, own: int, packet: bytes) -> int:
        """Its announce and this heartbeat had right tags."""
        if not self.numbers.store(variable, own):
            return NOT_STORED
        self.own[variable], self.own_last[variable] = own, packet[5]
        self.waiting[self._place_of(IS_ANNOUNCE + variable)] = FREE
        return self._record(now, variable, packet)

    def renew(self, variable: int) -> bool:
        """The variable has a new key: its own epochs begin again, or its node hears."""
        if not self.numbers.store(variable, 0):
            return False
        self.own[variable] = self.own_last[variable] = self.last[variable] = 0
        self.waiting = [FREE if four[0] % VARIABLES == variable else four for four in self.waiting]
        return True


class Listener:
    """What a node that hears and a reader have in common: the epoch, and a count."""

    def __init__(self, keys: Keys, label: int) -> None:
        self.keys, self.label = keys, label
        self.epoch, self.count, self.twice = 0, 0, False

    def hear(self, packet: bytes) -> bool:
        """Is it the beacon of a later epoch for this label?"""
        if len(packet) != 8 or packet[4] >= IS_ANNOUNCE:
            return False
        twice = packet[4] >= TWICE
        epoch = int.from_bytes(packet[4:], "big") - (twice * TWICE << 24)
        if epoch <= self.epoch or packet != self.keys.beacon(self.label, epoch, twice):
            return False
        self.epoch, self.count, self.twice = epoch, 0, twice
        return True

    def forget(self) -> None:
        self.epoch, self.count, self.twice = 0, 0, False

    def counted(self, first: int, second: int) -> Sent:
        if not self.epoch or self.count == FULL:
            return None
        self.count += 1
        return self.keys.counted(self.label, self.epoch, self.count, first, second)


class Hearer(Listener):
    def heartbeat(self, sender: int, value: int) -> Sent:
        return self.counted(sender, value)


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
        """None if there is no own epoch, or no heartbeat is left in it."""
        if not self.own or self.count == FULL:
            return None
        return self.keys.announce(self.variable, self.own)

    def heartbeat(self, sender: int, value: int) -> Sent:
        if not self.own or self.count == FULL:
            return None
        self.count += 1
        return self.keys.counted(self.variable, self.own * 256, self.count, sender, value)


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
