"""The steps of vectors_keyed.tsv, from the model of spec/keyed.md. make_vectors.py writes them.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator

from spec import keyed
from spec.keyed import (BEACON_LABEL, NAMES, OWN_FIRST, READER_LABEL, SLOT, TAKEN, WRONG_TAG,
                        Agent, Hearer, Keys, Numbers, Reader, Sender)
from spec.model import heartbeat as heartbeat_of_version_1
from spec.model import REQUEST
from spec.near import changed, lengths

Step = tuple[object, ...]

ALONE = 8  # DUMPULSE_ALONE of the tests
HEADER = """\
# Test vectors of spec/keyed.md and dumpulse_keyed.h, made by spec/make_vectors.py.
# Each line has one step. There are tabs between the fields. Numbers are decimal,
# bytes are hexadecimal, "-" means no bytes. Each step works on what the step before
# it has left. What a step does not name must not change. DUMPULSE_ALONE is 8.
#
# NUMBER  a stored number, 3 bytes
# SENT    what the send hook gets
# STATE   of the agent: its beacon (8 bytes), its counts (65), the own epochs of nodes
#         that only send (8 times 4); "-": as before
#
# master    KEY                       the master key; all stored numbers become 0, and storing
#                                     does not fail any more
# key       LABEL KEY                 the key of a label, which follows from it
# number    LABEL NUMBER              the test itself stores a number
# stored    LABEL NUMBER              is this stored?
# fails     yes|no                    from now on storing fails, or does not
# agent                               a reset: the agent becomes zeros
# begin     yes|no SENT STATE         dumpulse_keyed_begin
# tick      yes|no SENT STATE         dumpulse_keyed_tick
# beacon    SENT                      dumpulse_keyed_beacon
# table     BYTES                     the test itself writes the 64 entries
# refused, heartbeat, report, announce, old, wrong, not_begun, not_stored:
#           TIME PACKET SENT STATE    dumpulse_keyed_process returns this. A heartbeat
#                                     writes TIME and the last 2 bytes to its entry. A
#                                     report writes what is sent. dumpulse_keyed_look
#                                     returns the same of what is refused, old or
#                                     not_begun, and else that it is new.
# node                                the node becomes zeros
# hear      yes|no PACKET             dumpulse_hear
# sender    VARIABLE yes|no           dumpulse_sender_begin
# announced VARIABLE PACKET           dumpulse_sender_announce
# beat      VARIABLE SENDER VALUE PACKET    dumpulse_keyed_heartbeat; "-": none is made
# reader                              the reader becomes zeros
# listen    yes|no PACKET             dumpulse_hear, of the reader
# request   NONCE PACKET              dumpulse_keyed_request; "-": none is made
# check     BYTES yes|no              dumpulse_keyed_check
# slots     BYTES NUMBER              dumpulse_slots_read
# slot      BYTES NUMBER AT SLOT      dumpulse_slots_write
"""


def yes(answer: object) -> str:
    return "yes" if answer else "no"


def number(value: int) -> bytes:
    return value.to_bytes(3, "big")


class World:
    """The roles. The methods give the steps."""

    def __init__(self, master: bytes) -> None:
        self.keys, self.numbers = Keys(master), Numbers()
        self.agent = Agent(self.keys, self.numbers, ALONE)
        self.before = b""

    def begin_with_keys(self, *labels: int) -> Iterator[Step]:
        """The keys of these labels, or of all. No packet of another label has a right tag."""
        yield "master", self.keys.master
        for label in labels or range(BEACON_LABEL + 1):
            yield "key", label, self.keys.of(label)

    def set(self, label: int, value: int) -> Step:
        self.numbers.numbers[label] = value
        return "number", label, number(value)

    def stored(self, label: int) -> Step:
        return "stored", label, number(self.numbers.load(label))

    def fails(self, fails: bool) -> Step:
        self.numbers.fails = fails
        return "fails", yes(fails)

    def state(self) -> bytes:
        agent = self.agent
        state = agent.beacon() + bytes(agent.last) + b"".join(
            number(own) + b"\0" for own in agent.own)
        if state == self.before:
            return b""
        self.before = state
        return state

    def reset(self) -> Step:
        self.agent = Agent(self.keys, self.numbers, ALONE)
        self.before = bytes(8 + 65 + 4 * ALONE)
        return ("agent",)

    def begin(self) -> Step:
        sent = self.agent.begin()
        return "begin", yes(sent), sent or b"", self.state()

    def tick(self) -> Step:
        sent = self.agent.tick()
        return "tick", yes(sent), sent or b"", self.state()

    def process(self, now: int, packet: bytes) -> Step:
        result, sent = self.agent.process(now, packet)
        return NAMES[result], now, packet, sent or b"", self.state()

    def wrong(self, right: bytes, packet: bytes) -> Step:
        """A packet that differs from a right one in what its tag is made of, and in nothing else.
        So no other check may refuse it: otherwise the step would test nothing."""
        assert copy.deepcopy(self.agent).process(0, right)[0] in TAKEN and right[4:] == packet[4:]
        step = self.process(5, packet)
        assert step[0] == NAMES[WRONG_TAG]
        return step

    def wrong_numbers(self, label: int, count: int) -> Iterator[Step]:
        """The right packet, but with the tag of another number or of another label."""
        right, epoch = self.counted(label, count), self.agent.epoch
        owns = [(OWN_FIRST + number) * 256 for number in range(19, 23)]
        for number in (epoch, epoch - 1, epoch + 1, epoch - 2, epoch - 256, 0, *owns, owns[1] + 1,
                       OWN_FIRST + 20):
            if number != self.agent.number_of(label):
                yield self.wrong(right, self.keys.counted(label, number, count, 76, 9))
        for other in (label ^ 1, BEACON_LABEL):
            yield self.wrong(right, self.keys.packet(other, self.agent.number_of(label), right[4:]))

    def table(self, entries: bytes) -> Step:
        self.agent.entries = [entries[at:at + 4] for at in range(0, 256, 4)]
        return "table", entries

    def counted(self, label: int, count: int, first: int = 76, second: int = 9) -> bytes:
        """A heartbeat or request that the agent would take if its count were right."""
        own = self.agent.own[label] if label < ALONE else 0
        return self.keys.counted(label, own * 256 or self.agent.epoch, count, first, second)


def steps(long: bool) -> Iterator[Step]:
    yield from of_the_page(long)
    yield from near_misses(long)
    yield from all_labels(long)
    yield from ends_of_numbers(long)
    for seed in range(6 if long else 0):
        yield from by_chance(random.Random(f"keyed {seed}"))
    yield from nodes_and_readers(long)
    yield from slots(long)


def of_the_page(long: bool) -> Iterator[Step]:
    """The worked packets of spec/keyed.md."""
    world = World(bytes(range(16)))
    yield from world.begin_with_keys(*(() if long else (3, 5, READER_LABEL, BEACON_LABEL)))
    yield world.set(BEACON_LABEL, 0x000122)
    yield world.reset()
    yield world.begin()
    while world.agent.epoch != 0x012345:
        yield world.tick()
    yield world.process(0x1234, bytes.fromhex("81075c8283014c09"))
    yield world.process(0, bytes.fromhex("aceec0eac001beef"))
    yield world.process(0, bytes.fromhex("aceec0eac001beef"))
    yield world.process(7, bytes.fromhex("fc076bf445800001"))
    yield world.stored(5)
    yield world.process(8, bytes.fromhex("b201299185014dc8"))
    yield world.process(8, bytes.fromhex("b201299185014dc8"))


def near_misses(long: bool) -> Iterator[Step]:
    """Packets that are nearly right, and all that version 1 takes of some kinds."""
    world = World(random.Random(1).randbytes(16))
    yield from world.begin_with_keys()
    yield world.set(BEACON_LABEL, 0x3456)
    yield world.set(2, OWN_FIRST + 5)
    yield world.reset()
    yield world.begin()
    yield world.process(1, world.keys.announce(2, OWN_FIRST + 9))
    for label in (9, 2, READER_LABEL) if long else (2, READER_LABEL):
        yield world.process(3, world.counted(label, 7))
        for packet in changed(world.counted(label, 8), long):
            yield world.process(4, packet)
    for packet in changed(world.keys.announce(2, OWN_FIRST + 10), long):
        yield world.process(5, packet)
    for packet in lengths(world.counted(9, 9), long):
        yield world.process(6, packet)
    ends = [byte for high in range(0, 256, 64) for byte in (high, high + 1, high + 7, high + 62,
                                                            high + 63)]
    for byte in range(256) if long else ends:  # the right tag of a packet with this byte 4
        label = byte - keyed.IS_HEARTBEAT if byte >= keyed.IS_HEARTBEAT else byte % 64
        four = bytes((byte, 255, 255, 255))
        for value in (world.agent.epoch, 0):
            yield world.process(7, world.keys.packet(label, value, four))
    for packet in (REQUEST, *(heartbeat_of_version_1(variable, 76, 9)
                              for variable in range(0, 64, 1 if long else 21))):
        yield world.process(8, packet)
    yield world.process(9, world.agent.beacon())
    yield world.process(9, world.counted(READER_LABEL, 0))


def all_labels(long: bool) -> Iterator[Step]:
    """Each variable, each of its counts' ends, and the wrong key, epoch and kind of number."""
    rng = random.Random("labels")
    world = World(rng.randbytes(16))
    yield from world.begin_with_keys()
    yield world.set(BEACON_LABEL, 0x012345)
    for variable in range(0, ALONE, 2):
        yield world.set(variable, OWN_FIRST + variable)
    yield world.reset()
    yield from before_begin(world)
    yield world.begin()
    for variable in range(64) if long else (0, 1, ALONE, 63):
        if variable % 2 or variable >= ALONE:  # it hears
            yield from world.wrong_numbers(variable, 1)
        for count in (1, 2, 2, 1, 254, 253, 255, 255, 254):
            packet = world.counted(variable, count, *rng.randbytes(2))
            yield world.process(rng.randrange(65536), packet)
        yield world.process(1, world.keys.announce(variable, OWN_FIRST + 20))
        yield world.process(2, world.counted(variable, 1))
        yield world.process(3, world.keys.announce(variable, OWN_FIRST + 20))
        yield world.process(4, world.counted(variable, 1))
        if variable < ALONE:
            yield from world.wrong_numbers(variable, 2)
            right = world.keys.announce(variable, OWN_FIRST + 21)
            for label, value in ((variable, 1), (variable, world.agent.epoch), (variable ^ 1, 0)):
                yield world.wrong(right, world.keys.packet(label, value, right[4:]))
        else:
            epoch = world.agent.epoch
            yield world.process(5, world.keys.announce(variable, epoch % 65536 + OWN_FIRST))
    for table in (bytes(256), b"\xff" * 256, rng.randbytes(256)):
        yield world.table(table)
        yield world.tick()
        yield from world.wrong_numbers(READER_LABEL, 1)
        for nonce in (b"\0\0", b"\xff\xff", rng.randbytes(2)):
            count = world.agent.last[READER_LABEL] + 1
            yield world.process(0, world.counted(READER_LABEL, count, *nonce))
    yield ("beacon", world.agent.beacon())


def before_begin(world: World) -> Iterator[Step]:
    """All that an agent of zeros could take for right, also after a tick that is too early."""
    for tick in (False, True):
        if tick:
            yield world.tick()
        for packet in (world.keys.announce(1, OWN_FIRST + 9), world.keys.announce(2, OWN_FIRST + 9),
                       world.counted(1, 1), world.counted(9, 1), world.counted(READER_LABEL, 1),
                       world.counted(READER_LABEL, 0), world.keys.counted(1, 0, 1, 2, 3)):
            yield world.process(1, packet)
    yield world.stored(1)


def ends_of_numbers(long: bool) -> Iterator[Step]:
    """The ends of epochs, blocks and own epochs, numbers that cannot be read, and storing that
    fails."""
    world = World(random.Random(3).randbytes(16))
    yield from world.begin_with_keys(*(() if long else (4, 9, READER_LABEL, BEACON_LABEL)))
    blocks = (0, 0xFE, 0xFF, 0xFFFE, 0xFFFF, 0x3EFFFE, 0x3EFFFF, 0x3F0000, 0x3FFFFF, 0x400000,
              0x7FFFFF, 0xFFFFFE, 0xFFFFFF)
    for block in blocks if long else blocks[1:8:2] + blocks[-1:]:
        yield world.set(BEACON_LABEL, block)
        yield world.reset()
        for fails in (True, False):
            yield world.fails(fails)
            yield world.begin()
            yield world.stored(BEACON_LABEL)
            yield world.process(1, world.counted(9, 1))
            yield world.process(1, world.counted(READER_LABEL, 1))
            yield world.process(1, world.keys.counted(9, block << 8 | 255, 1, 1, 2))
            yield world.tick()
    yield world.set(BEACON_LABEL, 5)
    yield world.reset()
    yield world.begin()
    for _ in range(254):
        yield world.tick()
    yield world.process(1, world.counted(9, 1))
    for _ in range(3 if long else 1):
        yield world.fails(True)
        yield world.tick()
        yield world.process(1, world.counted(9, 1))
        yield world.process(2, world.counted(9, 2))
        yield world.process(3, world.counted(READER_LABEL, 1))
        yield world.tick()
        yield world.fails(False)
        yield world.tick()
        yield world.begin()
        yield world.process(4, world.counted(9, 1))
        for _ in range(255 if long else 0):
            yield world.tick()
    owns = (0, 0x80017F, 0x80FFFF, OWN_FIRST, 0x8000FF, 0xFFFFFE, 0xFFFFFF)
    for own in owns if long else owns[:3]:
        yield world.set(4, own)
        yield world.reset()
        yield world.begin()
        for following in (1, OWN_FIRST - 1, OWN_FIRST, own, own + 1, own + 256, own + 65536,
                          0xFFFFFF):
            if following <= 0xFFFFFF:
                yield world.fails(True)
                yield world.process(1, world.keys.announce(4, following))
                yield world.stored(4)
                yield world.fails(False)
                yield world.process(2, world.keys.announce(4, following))
                yield world.stored(4)
                yield world.process(3, world.counted(4, 255))
                yield world.tick()
                yield world.process(4, world.counted(4, 255))


def by_chance(rng: random.Random) -> Iterator[Step]:
    world = World(rng.randbytes(16))
    yield from world.begin_with_keys()
    yield world.set(BEACON_LABEL, rng.randrange(0x3EFF00))
    for variable in range(ALONE):
        yield world.set(variable, rng.choice((0, rng.randrange(OWN_FIRST, 0xFFFF00))))
    yield world.reset()
    yield world.begin()
    for _ in range(300):
        what = rng.randrange(20)
        label = rng.choice((rng.randrange(64), rng.randrange(ALONE), READER_LABEL))
        last = world.agent.last[label]
        if what == 0:
            yield world.reset()
            yield world.begin()
        elif what == 1:
            yield world.tick()
        elif what == 2:
            yield world.fails(rng.randrange(4) == 0)
        elif what == 3:
            own = world.agent.own[label] if label < ALONE else OWN_FIRST
            yield world.process(rng.randrange(65536), world.keys.announce(
                label % 64, min(max(own, OWN_FIRST) + rng.choice((0, 1, 1, 300)), 0xFFFFFF)))
        else:
            packet = world.counted(label, min(255, last + rng.choice((0, 1, 1, 2, 30))),
                                   *rng.randbytes(2))
            if what == 4:
                at = rng.randrange(8)
                flipped = packet[at] ^ 1 << rng.randrange(8)
                packet = packet[:at] + bytes((flipped,)) + packet[at + 1:]
            yield world.process(rng.randrange(65536), packet)


def nodes_and_readers(long: bool) -> Iterator[Step]:
    rng = random.Random("nodes")
    world = World(rng.randbytes(16))
    keys = world.keys
    yield from world.begin_with_keys(*(() if long else (0, 7, 9, *range(63, 66))))
    yield ("node",)
    yield "beat", 9, 1, 2, b""
    node = Hearer(keys, 9)
    for epoch in (1, 0, 1, 255, 256, 0x123456, 0x123455, 0x1123456, 0x1023456, 0x3F000000,
                  0x3FFFFFFF, 0x40000000, 0xFFFFFFFF):
        packet = keys.beacon(epoch)
        yield "hear", yes(node.hear(packet)), packet
        yield "hear", yes(node.hear(packet)), packet
        for _ in range(2):
            value = rng.randbytes(2)
            yield "beat", 9, *value, node.heartbeat(*value)
    yield ("node",)
    node = Hearer(keys, 63)
    for packet in (*changed(keys.beacon(0x01020304), long), keys.beacon(0x01020304)[:7],
                   keys.beacon(0x01020304) + b"\0", b"", keys.counted(9, 5, 1, 2, 3)):
        yield "hear", yes(node.hear(packet)), packet
    packet = keys.beacon(0x01020304)
    for label, epoch in ((BEACON_LABEL, 0x01020303), (BEACON_LABEL, 0x01020305), (63, 0x01020304),
                         (BEACON_LABEL, 0x01020204), (READER_LABEL, 0x01020304)):
        wrong = keys.packet(label, epoch, packet[4:])
        assert not node.hear(wrong) and copy.copy(node).hear(packet)
        yield "hear", "no", wrong
    yield "hear", yes(node.hear(packet)), packet
    yield "beat", 64, 1, 2, b""  # no variable
    yield "beat", 255, 1, 2, b""
    for _ in range(257):
        yield "beat", 63, 255, 0, node.heartbeat(255, 0) or b""
    yield from senders(world, long)
    yield from readers(world, rng, long)


def senders(world: World, long: bool) -> Iterator[Step]:
    for own in (0, 1, OWN_FIRST - 2, OWN_FIRST - 1, OWN_FIRST, 0x8000FF, 0x80FFFF, 0xFFFFFE,
                0xFFFFFF):
        for fails in (True, False):
            yield world.set(7, own)
            yield world.fails(fails)
            yield ("node",)
            node = Sender(world.keys, 7, world.numbers)
            begun = node.begin()
            yield "sender", 7, yes(begun)
            yield world.stored(7)
            if begun:
                yield "announced", 7, node.announce()
            yield "beat", 7, 3, 4, node.heartbeat(3, 4) or b""
    yield world.set(0, OWN_FIRST)
    node = Sender(world.keys, 0, world.numbers)
    for _ in range(2 if long else 1):
        yield "sender", 0, yes(node.begin())
        yield "announced", 0, node.announce()
        for value in range(256 if long else 2):
            yield "beat", 0, 5, value, node.heartbeat(5, value) or b""
        yield "announced", 0, node.announce()


def readers(world: World, rng: random.Random, long: bool) -> Iterator[Step]:
    keys = world.keys
    yield ("reader",)
    reader = Reader(keys)
    yield "check", bytes(264), "no"
    yield "request", b"ab", b""
    for epoch in (7, 0x2ABCDEF0):
        yield "listen", yes(reader.hear(keys.beacon(epoch))), keys.beacon(epoch)
        table, nonce = rng.randbytes(256), rng.randbytes(2)
        request = reader.request(nonce)
        assert request is not None
        yield "request", nonce, request
        good = keys.report(table, epoch, request)
        for at in (*range(8), *(rng.randrange(8, 264) for _ in range(8))):
            for bit in (0, 7):
                bad = good[:at] + bytes((good[at] ^ 1 << bit,)) + good[at + 1:]
                yield "check", bad, yes(reader.check(bad))
        for bad in (good[:-1], good + b"\0", b"", good[:260],
                    keys.report(table, epoch + 1, request),
                    keys.report(table, epoch, keys.counted(READER_LABEL, epoch, 2, *nonce))):
            yield "check", bad, yes(reader.check(bad))
        later = keys.beacon(epoch + 1)
        yield "listen", yes(reader.hear(later)), later
        yield "check", good, yes(reader.check(good))  # it may have been held back: it is too late
        request = reader.request(nonce)
        assert request is not None
        yield "request", nonce, request
        good = keys.report(table, epoch + 1, request)
        yield "check", good, yes(reader.check(good))
        yield "check", good, yes(reader.check(good))
    for _ in range(256 if long else 3):
        yield "request", b"xy", reader.request(b"xy") or b""


def slots(long: bool) -> Iterator[Step]:
    """Every moment at which the power may fail, with every bit of the byte that was being written;
    and slots that never were."""
    rng = random.Random("slots")
    for old, new, next_one in ((0, 1, 2), (0xFF, 0x100, 0x101), (0xFFFF, 0x10000, 0x10001),
                               (0x800001, 0x8000FF, 0x800100), (0, 0xFFFFFE, 0xFFFFFF)):
        memory = keyed.slot(old) + b"\xff" * SLOT
        for value in (new, next_one):
            yield "slots", memory, number(keyed.slots_read(memory))
            at, slot = keyed.slots_free(memory), keyed.slot(value)
            yield "slot", memory, number(value), at, slot
            for torn in range(SLOT):
                for byte in (0, 0xFF, slot[torn] ^ 1, slot[torn] ^ 0x80, rng.randrange(256)) \
                        if long else (0xFF, slot[torn] ^ 1 << torn):
                    cut = memory[:at] + slot[:torn] + bytes((byte,)) + memory[at + torn + 1:]
                    yield "slots", cut, number(keyed.slots_read(cut))
                    yield "slot", cut, number(value), keyed.slots_free(cut), slot
            memory = memory[:at] + slot + memory[at + SLOT:]
    for memory in (keyed.slot(0x123456) + keyed.slot(0x123457), bytes(12), b"\xff" * 12,
                   rng.randbytes(12), keyed.slot(9) * 2, keyed.slot(9) + bytes(6),
                   bytes(6) + keyed.slot(9)):
        yield "slots", memory, number(keyed.slots_read(memory))
        yield "slot", memory, number(10), keyed.slots_free(memory), keyed.slot(10)
