"""The steps of vectors_keyed.tsv, from the model of spec/keyed.md. make_vectors.py writes them.

A step that must be refused differs from a right one in one respect. The methods of World see to
that: they let a copy of the role take the right one first, and fail if it does not, as then another
check would refuse the step, and it would test nothing."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator

from spec import keyed
from spec.keyed import (BEGINNINGS, LABELS, NAMES, OLD, READER_LABEL, SLOT, TAKEN, WRONG_TAG, Agent,
                        Hearer, Keys, Listener, Number, Reader, question)
from spec.model import REQUEST, VARIABLES
from spec.model import heartbeat as heartbeat_of_version_1

Step = tuple[object, ...]

HEADER = """\
# Test vectors of spec/keyed.md and dumpulse_keyed.h, made by spec/tools/make_vectors.py.
# Each line has one step. There are tabs between the fields. Numbers are decimal,
# bytes are hexadecimal, "-" means no bytes. Each step works on what the step before
# it has left. What a step does not name must not change.
#
# NUMBER  the agent's stored number, 3 bytes
# SENT    what the send hook gets, one after the other
# STATE   of the agent: its epoch (4 bytes), `reached`, `wrong`, its counts (65); "-": as before
#
# master    KEY                       the master key; the stored number becomes 0, and storing
#                                     does not fail any more
# key       LABEL GENERATION KEY      the key of a label, which dumpulse_label_key makes
# number    NUMBER                    the test itself stores a number
# stored    NUMBER                    is this stored?
# fails     yes|no                    from now on storing fails, or does not
# agent     UNKEYED                   a reset: the agent becomes zeros. If UNKEYED is not "-",
#                                     dumpulse_mixed_process gets these 8 bytes from now on
# begin     RESULT STATE              dumpulse_keyed_begin returns begun, not_stored, no_number or
#                                     used_up
# next      yes|no SENT STATE         dumpulse_keyed_next
# nexts     TIMES STATE               the same, so often; each returns true
# put       BYTES                     the test itself writes the first 6 bytes of STATE
# beacon    LABEL SENT                dumpulse_keyed_beacon
# table     BYTES                     the test itself writes the 64 entries
# refused, heartbeat, report, old, wrong, not_begun, asks:
#           TIME PACKET SENT STATE    dumpulse_keyed_process returns this. A heartbeat
#                                     writes TIME and the last 2 bytes to its entry. A
#                                     report writes what is sent. If UNKEYED is "-",
#                                     dumpulse_keyed_look returns the same of what is refused,
#                                     not_begun, asks or old, and else that it is new.
# guesses   TIMES PACKET STATE        the same, so often; each returns that the tag is wrong
# renew     VARIABLE STATE            dumpulse_keyed_renew
# node                                the node becomes zeros
# hear      LABEL yes|no PACKET       dumpulse_hear
# beat      VARIABLE SENDER VALUE TIMES PACKET    dumpulse_keyed_heartbeat, so often. The last
#                                     makes this packet, or none: "-"
# question  LABEL PACKET              dumpulse_ask
# reader                              the reader becomes zeros
# listen    yes|no PACKET             dumpulse_hear, of the reader
# request   NONCE PACKET              dumpulse_keyed_request; "-": none is made
# check     BYTES yes|no              dumpulse_keyed_check
# slots     BYTES NUMBER              dumpulse_slots_read
# slot      BYTES NUMBER AT SLOT      dumpulse_slots_write
"""
PADDING = random.Random(7).randbytes(300)


def changed(packet: bytes) -> Iterator[bytes]:
    """The packet with one bit flipped."""
    for index, original in enumerate(packet):
        for bit in range(8):
            yield packet[:index] + bytes((original ^ 1 << bit,)) + packet[index + 1:]


def lengths(packet: bytes) -> Iterator[bytes]:
    """The packet with its end missing, and with more behind it: the lengths around those of packets
    and reports, and around 256."""
    for length in (0, 1, 4, 7, 9, 16, 255, 256, 257, 260, 264, 300):
        yield (packet + PADDING)[:length]


def yes(answer: object) -> str:
    return "yes" if answer else "no"


def number(value: int) -> bytes:
    return value.to_bytes(3, "big")


def state_of(agent: Agent) -> bytes:
    """As STATE in the vectors."""
    return agent.epoch.to_bytes(4, "big") + bytes((agent.reached, agent.wrong, *agent.last))


class World:
    """The roles. The methods give the steps."""

    def __init__(self, seed: str, unkeyed: Iterable[int] = ()) -> None:
        self.keys, self.stored = Keys(random.Random(f"keyed {seed}").randbytes(16)), Number()
        self.unkeyed, self.before = frozenset(unkeyed), b""
        self.agent = Agent(self.keys, self.stored, self.unkeyed)

    def keys_of(self, labels: Iterable[int] = range(LABELS)) -> Iterator[Step]:
        """No packet of another label has a right tag."""
        yield "master", self.keys.master
        for label in labels:
            yield "key", label, self.keys.generations.get(label, 0), self.keys.of(label)

    def set(self, value: int) -> Step:
        self.stored.number = value
        return "number", number(value)

    def is_stored(self) -> Step:
        return "stored", number(self.stored.number)

    def fails(self, fails: bool) -> Step:
        self.stored.fails = fails
        return "fails", yes(fails)

    def state(self) -> bytes:
        state = state_of(self.agent)
        if state == self.before:
            return b""
        self.before = state
        return state

    def reset(self) -> Step:
        self.agent = Agent(self.keys, self.stored, self.unkeyed)
        self.before = bytes(6 + LABELS)
        bits = sum(1 << variable for variable in self.unkeyed)
        return "agent", bits.to_bytes(8, "little") if self.unkeyed else b""

    def begin(self) -> Step:
        return "begin", BEGINNINGS[self.agent.begin()], self.state()

    def next(self) -> Step:
        sent = self.agent.next()
        return "next", yes(sent), sent or b"", self.state()

    def nexts(self, times: int) -> Step:
        for _ in range(times):
            assert self.agent.next()
        return "nexts", times, self.state()

    def rounds(self, times: int) -> Step:
        """From one label to the same of a later epoch."""
        return self.nexts(times * LABELS)

    def rest(self) -> Step:
        """Until all labels are in one epoch."""
        return self.nexts(LABELS - self.agent.reached)

    def put(self, epoch: int) -> Step:
        self.agent.epoch = epoch
        self.before = state_of(self.agent)
        return "put", self.before[:6]

    def beacon(self, label: int) -> Step:
        return "beacon", label, self.agent.beacon(label) or b""

    def process(self, now: int, packet: bytes) -> Step:
        result, sent = self.agent.process(now, packet)
        return NAMES[result], now, packet, sent or b"", self.state()

    def guesses(self, times: int) -> Step:
        """Wrong tags, with a count that is new."""
        valid = self.fresh(60)
        packet = bytes((valid[0] ^ 1,)) + valid[1:]
        for _ in range(times):
            assert self.agent.process(0, packet)[0] == WRONG_TAG
        return "guesses", times, packet, self.state()

    def would_take(self, packet: bytes) -> bool:
        return copy.deepcopy(self.agent).process(0, packet)[0] in TAKEN

    def wrong(self, valid: bytes, packet: bytes) -> Step:
        """A packet that differs from a right one in what its tag is made of, and in nothing
        else."""
        assert self.would_take(valid) and valid[4:] == packet[4:] and valid != packet
        step = self.process(5, packet)
        assert step[0] == NAMES[WRONG_TAG]
        return step

    def old(self, packet: bytes, valid: bytes) -> Step:
        """A packet whose tag is right, but not its count. The other one would be taken, and differs
        in that."""
        assert self.would_take(valid) and valid[4] == packet[4]
        step = self.process(6, packet)
        assert step[0] == NAMES[OLD]
        return step

    def taken(self, packet: bytes, now: int = 2) -> Step:
        step = self.process(now, packet)
        assert step[0] in [NAMES[result] for result in TAKEN], step
        return step

    def wrong_numbers(self, label: int) -> Iterator[Step]:
        """The right packet, but with the tag of another number or of another label."""
        valid, epoch = self.fresh(label), self.agent.epoch_of(label)
        for value in (epoch - 1, epoch + 1, epoch - 2, epoch + 2, epoch - 256, epoch + 256, 0):
            yield self.wrong(valid, self.keys.packet(label, value % 2 ** 32, valid[4:]))
        for other_label in (label ^ 1, READER_LABEL if label < READER_LABEL else 63):
            yield self.wrong(valid, self.keys.packet(other_label, epoch, valid[4:]))
        reused = {0: self.keys.of(0)} | {label: self.keys.of(label ^ 1)}
        spoken = Keys(self.keys.master, reused)  # its own label, but a neighbour's key
        yield self.wrong(valid, spoken.packet(label, epoch, valid[4:]))

    def table(self, entries: bytes) -> Step:
        self.agent.entries = [entries[start:start + 4] for start in range(0, 256, 4)]
        return "table", entries

    def counted(self, label: int, count: int, first: int = 76, second: int = 9) -> bytes:
        """A heartbeat or request that the agent would take if its count were right."""
        epoch = self.agent.epoch_of(label) % 2 ** 32  # -1 in an agent of zeros
        return self.keys.counted(label, epoch, count, first, second)

    def fresh(self, label: int, first: int = 76, second: int = 9) -> bytes:
        """One that it takes."""
        return self.counted(label, self.agent.last[label] + 1, first, second)


def steps() -> Iterator[Step]:
    yield from of_the_page()
    yield from near_misses()
    yield from epochs()
    yield from wrong_tags()
    yield from unkeyed()
    yield from all_labels()
    yield from ends_of_numbers()
    yield from nodes_and_readers()
    yield from slots()


def of_the_page() -> Iterator[Step]:
    """The worked packets of spec/keyed.md."""
    world = World("page")
    world.keys = Keys(bytes(range(16)))
    yield from world.keys_of((3, READER_LABEL))
    yield world.set(0x000122)
    yield world.reset()
    yield world.begin()
    yield world.put(epoch=0x012344)
    yield world.rounds(1)
    for label in (3, READER_LABEL):
        yield world.beacon(label)
        yield world.process(0, question(label))
    yield world.taken(world.counted(3, 1, 76, 9), 0x1234)
    request = world.counted(READER_LABEL, 1, 0xBE, 0xEF)
    yield world.taken(request)
    yield world.process(0, request)


def near_misses() -> Iterator[Step]:
    """Packets that are nearly right, and all that version 1 takes of some kinds."""
    world = World("near")
    yield from world.keys_of((19, 63, READER_LABEL))
    yield world.set(0x3456)
    yield world.reset()
    yield world.begin()
    for label in (19, READER_LABEL):
        yield world.rounds(1)
        yield world.taken(world.counted(label, 7), 3)
        for packet in changed(world.counted(label, 8)):
            yield world.process(4, packet)
    yield world.rounds(1)
    for packet in lengths(world.counted(19, 9)):
        yield world.process(6, packet)
    yield world.taken(world.counted(19, 9))
    for byte in (high + low for high in range(0, 256, 64) for low in (0, 1, 9, 10, 63)):
        # The right tag of a packet with this byte 4.
        label = byte - keyed.IS_HEARTBEAT if byte >= keyed.IS_HEARTBEAT else byte % 64
        four = bytes((byte, 255, 255, 255))
        for value in (world.agent.epoch, 0):
            yield world.process(7, world.keys.packet(label, value, four))
    for packet in (REQUEST, *(heartbeat_of_version_1(variable, 76, 9)
                              for variable in range(0, 64, 21))):
        yield world.process(8, packet)
    for label in (0, 9, 10, 63, READER_LABEL):
        yield "question", label, question(label)
        yield world.process(9, question(label))
        beacon = world.agent.beacon(label)
        assert beacon
        yield world.process(9, beacon)
    for four in (b"\x8a\0\xff\xff", b"\xc0\0\1\2"):  # a question may have any tag and any end
        yield world.process(9, world.keys.packet(four[0] - 128, world.agent.epoch, four))


def epochs() -> Iterator[Step]:
    """A label is in the epoch when it was reached, and before that in the one before. Each packet
    here has a count that is new."""
    world = World("epochs")
    near = (0, 1, 31, 62, 63, READER_LABEL)
    yield from world.keys_of((*near, 2, 30))
    yield world.set(0x012344)
    yield world.reset()
    yield from before_begin(world)
    yield world.begin()
    for _ in range(2):
        label = world.agent.reached % LABELS
        yield from world.wrong_numbers(label)
        yield world.taken(world.fresh(label))
        before = world.counted(label, 1)
        yield world.next()
        yield world.wrong(world.fresh(label), before)
        yield from world.wrong_numbers(label)
        yield world.taken(world.fresh(label))
        yield world.taken(world.fresh(READER_LABEL))  # it is still in the epoch before
        yield world.nexts(28)
    yield world.nexts(8)
    for label in near[-3:]:
        yield from world.wrong_numbers(label)
        yield world.beacon(label)
    for table in (bytes(256), b"\xff" * 256, random.Random("table").randbytes(256)):
        yield world.table(table)
        for nonce in (b"\0\0", b"\xff\xff"):
            yield world.taken(world.fresh(READER_LABEL, *nonce))
    for label in (62, READER_LABEL):
        for _ in range(3):
            yield world.taken(world.fresh(label))
        count = world.agent.last[label]
        for same in (count, count - 1, 1):
            yield world.old(world.counted(label, same), world.fresh(label))


def before_begin(world: World) -> Iterator[Step]:
    """All that an agent of zeros could take for right, also after the next label, too early."""
    for early in (False, True):
        if early:
            yield world.next()
        for label in (1, 31, READER_LABEL):
            yield world.process(1, question(label))
            for value in (0, 2 ** 32 - 1):
                yield world.process(1, world.keys.counted(label, value, 1, 2, 3))
        yield world.beacon(1)


def wrong_tags() -> Iterator[Step]:
    """They are counted, and nothing else comes of them."""
    world = World("wrong")
    yield from world.keys_of((11, 13, 60, READER_LABEL))
    yield world.set(9)
    yield world.reset()
    yield world.begin()
    yield world.guesses(100)
    yield world.taken(world.fresh(11))
    yield world.next()  # A new epoch counts them anew.
    yield world.nexts(20)
    yield world.guesses(100)
    yield world.beacon(11)
    for _ in range(2):
        yield world.taken(world.fresh(11))
        yield world.taken(world.fresh(READER_LABEL))
    # Byte 4 of this epoch is 27.
    yield world.rest()
    yield world.put(epoch=0x1B012345)
    yield world.next()
    for label in (0, READER_LABEL):
        yield world.beacon(label)
    yield world.taken(world.fresh(11))
    yield world.taken(world.fresh(READER_LABEL))
    # An epoch that does not end, as storing fails: they are counted modulo 256.
    yield world.rest()
    yield world.put(epoch=world.agent.epoch | 255)
    yield world.fails(True)
    yield world.next()
    yield world.guesses(256 + 100)
    yield world.next()
    yield world.taken(world.fresh(13))
    yield world.fails(False)
    yield world.next()
    yield world.begin()
    yield world.taken(world.fresh(13))
    # A variable has a new key: its count is forgotten, and no other one.
    for count in (200, 201):
        yield world.taken(world.counted(13, count))
        yield world.taken(world.counted(11, count))
    world.agent.renew(13)
    yield "renew", 13, world.state()
    world.keys.renew(13)
    yield "key", 13, 1, world.keys.of(13)
    yield world.taken(world.counted(13, 1))
    yield world.old(world.counted(11, 1), world.fresh(11))


def unkeyed() -> Iterator[Step]:
    """Nodes that send version 1. Each byte of the list, and both its ends, count."""
    listed = (0, 9, 18, 27, 36, 45, 54, 62, 63)
    world = World("unkeyed", listed)
    labels = (*listed, 1, 8, 10, 17, 55, 61)
    yield from world.keys_of((*labels, 7, READER_LABEL))
    yield world.set(0x77)
    yield world.reset()
    for begun in (False, True):  # version 1 needs no epoch
        if begun:
            yield world.begin()
        for variable in (63, 62, 61, 0, 1):
            yield world.process(2, heartbeat_of_version_1(variable, 76, begun))
            yield world.process(2, world.keys.counted(variable, world.agent.epoch, 3, 76, 8))
            yield world.process(2, question(variable))
    for variable in labels:
        yield world.process(3, heartbeat_of_version_1(variable, 77, variable))
        yield world.process(3, world.fresh(variable))
        yield world.process(3, question(variable))
    for variable in range(64, 256, 21):  # These are variables in neither version.
        yield world.process(4, heartbeat_of_version_1(variable, 76, 9))
        yield world.process(4, world.keys.packet(variable % 64, world.agent.epoch, bytes(
            ((keyed.IS_HEARTBEAT + variable) % 256, 255, 76, 9))))
    yield world.process(4, heartbeat_of_version_1(255, 76, 9))
    valid = heartbeat_of_version_1(9, 76, 10)
    for packet in (*changed(valid), *lengths(valid)):
        yield world.process(5, packet)
    yield world.taken(valid)
    yield world.taken(valid)  # Anyone can replay it.
    yield world.process(5, REQUEST)  # requests have a key
    yield world.taken(world.fresh(READER_LABEL))
    for label in (9, READER_LABEL):
        yield world.beacon(label)
    yield world.next()
    for packet in lengths(world.fresh(1)):
        yield world.process(6, packet)
    yield from world.wrong_numbers(1)
    yield world.taken(world.fresh(1))


def all_labels() -> Iterator[Step]:
    """Each variable, and the ends of its counts."""
    rng = random.Random("labels")
    world = World("labels")
    yield from world.keys_of()
    yield world.set(0x012345)
    yield world.reset()
    yield world.begin()
    for variable in (0, 1, 9, 10, 63):
        yield from world.wrong_numbers(variable)
        for count in (1, 2, 2, 1, 254, 253, 255, 255, 254):
            yield world.process(rng.randrange(65536),
                                world.counted(variable, count, *rng.randbytes(2)))
        yield world.next()


def ends_of_numbers() -> Iterator[Step]:
    """The ends of epochs and blocks, numbers that cannot be read, and storing that fails."""
    world = World("ends")
    yield from world.keys_of((0, 19, 63, READER_LABEL))
    for block in (0, 0xFF, 0xFFFF, 0x1FFFFE, 0x1FFFFF, 0x200000, 0xFFFFFF):
        yield world.set(block)
        yield world.reset()
        for fails in (True, False):
            yield world.fails(fails)
            yield world.begin()
            yield world.is_stored()
            yield world.process(1, world.counted(19, 1))
            yield world.process(1, world.counted(READER_LABEL, 1))
            yield world.process(1, world.keys.counted(19, block << 8 | 255, 1, 1, 2))
            yield world.next()
    for block in (5, 0x1FFFFE):
        yield world.set(block)
        yield world.reset()
        yield world.begin()
        yield world.put(epoch=world.agent.epoch | 254)
        yield world.rounds(1)
        yield world.taken(world.counted(19, 1))
        yield world.fails(True)
        for count in (2, 3):  # the epoch goes on
            yield world.next()
            yield world.taken(world.counted(19, count))
            yield world.taken(world.counted(READER_LABEL, count))
            yield world.is_stored()
        yield world.fails(False)
        yield world.next()
        yield world.is_stored()
        yield world.process(4, world.counted(0, 1))
        yield world.process(4, world.counted(19, 4))
        yield world.begin()
        yield world.process(4, world.counted(19, 1))


def beacons(who: Listener, label: int) -> Iterator[tuple[bool, bytes]]:
    """Beacons that a node or a reader hears or not, as answer and packet."""
    keys, kind = who.keys, bytes((keyed.BEACON_END,))  # The first byte that no beacon has.

    def unheard(accepted: bytes, rejected: bytes) -> tuple[bool, bytes]:
        """A packet that differs from a right one in one respect."""
        assert copy.copy(who).hear(accepted) and not who.hear(rejected)
        return False, rejected

    value = 0x12345
    beacon = keys.beacon(label, value)
    for rejected in (value - 1, value + 1, value - 2, value - 256, value + 256,
                  value | keyed.BEACON_END << 24, 0):
        yield unheard(beacon, keys.packet(label, rejected % 2 ** 32, beacon[4:]))
    for other_label in (label ^ 1, READER_LABEL if label < READER_LABEL else 63):
        yield unheard(beacon, keys.packet(other_label, value, beacon[4:]))  # a neighbour's
    for number in (value, value | keyed.BEACON_END << 24):
        yield unheard(beacon, keys.packet(label, number, kind + beacon[5:]))
    for packet in changed(beacon):
        yield unheard(beacon, packet)
    for length in (0, 7, 9, 16):
        yield unheard(beacon, (beacon + bytes(8))[:length])
    yield who.hear(beacon), beacon
    for old in (value, value - 1, value - 256):  # Their tags are right, but they are not later.
        if old > 0:
            yield unheard(keys.beacon(label, value + 1), keys.beacon(label, old))
    for epoch in (0x12346, 0x123FF, 0x12400, 0x1123456, 0x1023456, 0x1B012345,
                  keyed.EPOCH_LAST - 1, keyed.EPOCH_LAST):
        beacon = keys.beacon(label, epoch)
        yield who.hear(beacon), beacon


def nodes_and_readers() -> Iterator[Step]:
    world = World("nodes")
    keys, rng = world.keys, random.Random("nodes")
    yield from world.keys_of((7, *range(62, LABELS)))
    for label in (7, 63):
        for generation in (1, 2, 255):
            yield "key", label, generation, keyed.label_key(keys.master, label, generation)
        yield "key", label, 0, keys.of(label)
    yield from ends_of_tags(keys)
    yield ("node",)
    yield "beat", 63, 1, 2, 1, b""
    node = Hearer(keys, 63)
    for answer, packet in beacons(node, 63):
        yield "hear", 63, yes(answer), packet
        if answer:
            for _ in range(2):
                yield beat(node, 63, *rng.randbytes(2))
    for variable in (64, 255):
        yield "beat", variable, 1, 2, 1, b""
    for times in (1, 251, 1, 1, 1):
        yield beat(node, 63, 255, times, times)
    yield ("reader",)
    reader = Reader(keys)
    for answer, packet in beacons(reader, READER_LABEL):
        yield "listen", yes(answer), packet
    yield from readers(world, rng)


def ends_of_tags(keys: Keys) -> Iterator[Step]:
    """One tag in 131,072 gets a wrong byte if it is divided by nearly 2^24: two of them."""
    beacon = keys.beacon(63, 7)
    for sender, value in ((42, 252), (120, 138)):
        node = Hearer(keys, 63)
        yield ("node",)
        yield "hear", 63, yes(node.hear(beacon)), beacon
        packet = node.heartbeat(sender, value)
        assert packet
        tag = int.from_bytes(packet[:4], "little")
        assert tag // (2 ** 24 - 1) > tag // (2 ** 24 + 1)
        yield "beat", 63, sender, value, 1, packet


def beat(node: Hearer, variable: int, sender: int, value: int, times: int = 1) -> Step:
    *_, packet = (node.heartbeat(sender, value) for _ in range(times))
    return "beat", variable, sender, value, times, packet or b""


def readers(world: World, rng: random.Random) -> Iterator[Step]:
    keys = world.keys
    yield ("reader",)
    reader = Reader(keys)
    yield "check", bytes(264), "no"
    yield "request", b"ab", b""
    for epoch in (7, 0x1ABCDEF0):
        beacon = keys.beacon(READER_LABEL, epoch)
        yield "listen", yes(reader.hear(beacon)), beacon
        table, nonce = rng.randbytes(256), rng.randbytes(2)
        request = reader.request(nonce)
        assert request is not None
        yield "request", nonce, request
        report = keys.report(table, epoch, request)
        bads = [report[:index] + bytes((report[index] ^ 1 << bit,)) + report[index + 1:]
                for index in (*range(8), *(rng.randrange(8, 264) for _ in range(8)))
                for bit in (0, 7)]
        bads += [report[:-1], report + b"\0", b"", report[:260],
                 *(keys.report(table, epoch + ahead, request) for ahead in (-1, 1, -2, 256)),
                 keys.report(table, epoch, keys.counted(READER_LABEL, epoch, 2, *nonce)),
                 keys.report(table, epoch, request[:6] + bytes((request[6] ^ 1,)) + request[7:])]
        for bad in bads:
            assert copy.copy(reader).check(report) and not reader.check(bad)
            yield "check", bad, "no"
        later = keys.beacon(READER_LABEL, epoch + 1)
        yield "listen", yes(reader.hear(later)), later
        assert not reader.check(report)
        yield "check", report, "no"  # It may be a delayed one.
        request = reader.request(nonce)
        assert request is not None
        yield "request", nonce, request
        report = keys.report(table, epoch + 1, request)
        yield "check", report, yes(reader.check(report))
        yield "check", report, yes(reader.check(report))
    for _ in range(3):
        yield "request", b"xy", reader.request(b"xy") or b""


def slots() -> Iterator[Step]:
    """Every moment at which the power may fail, with every bit of the byte that was being written;
    and slots that never were."""
    rng = random.Random("slots")
    for old, new, next_one in ((0, 1, 2), (0xFF, 0x100, 0x101), (0xFFFF, 0x10000, 0x10001),
                               (0x800001, 0x8000FF, 0x800100), (0, 0xFFFFFE, 0xFFFFFF)):
        memory = keyed.slot(old) + b"\xff" * SLOT
        for value in (new, next_one):
            yield "slots", memory, number(keyed.slots_read(memory))
            free, slot = keyed.slots_free(memory), keyed.slot(value)
            yield "slot", memory, number(value), free, slot
            for torn in range(SLOT) if old in (0xFF, 0x800001) else ():
                for byte in (0xFF, slot[torn] ^ 1 << torn):
                    cut = memory[:free] + slot[:torn] + bytes((byte,)) + memory[free + torn + 1:]
                    yield "slots", cut, number(keyed.slots_read(cut))
                    yield "slot", cut, number(value), keyed.slots_free(cut), slot
            memory = memory[:free] + slot + memory[free + SLOT:]
    for memory in (keyed.slot(0x123456) + keyed.slot(0x123457), bytes(12), b"\xff" * 12,
                   rng.randbytes(12), keyed.slot(9) * 2, keyed.slot(9) + bytes(6),
                   bytes(6) + keyed.slot(9)):
        yield "slots", memory, number(keyed.slots_read(memory))
        yield "slot", memory, number(10), keyed.slots_free(memory), keyed.slot(10)
