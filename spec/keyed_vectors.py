"""The steps of vectors_keyed.tsv, from the model of spec/keyed.md. make_vectors.py writes them.

A step that must be refused differs from a right one in one respect. The methods of World see to
that: they let a copy of the role take the right one first, and fail if it does not, as then another
check would refuse the step, and it would test nothing.   SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator

from spec import keyed
from spec.keyed import (BLOCK_LABEL, LABELS, MOST_WRONG, NAMES, OLD, OWN_FIRST, READER_LABEL, SLOT,
                        TAKEN, WRONG_TAG, Agent, Hearer, Keys, Listener, Numbers, Reader, Sender,
                        question)
from spec.model import heartbeat as heartbeat_of_version_1
from spec.model import REQUEST
from spec.near import changed, lengths

Step = tuple[object, ...]

ALONE = 10  # variables whose nodes may only send: more than there are places
HEADER = """\
# Test vectors of spec/keyed.md and dumpulse_keyed.h, made by spec/make_vectors.py.
# Each line has one step. There are tabs between the fields. Numbers are decimal,
# bytes are hexadecimal, "-" means no bytes. Each step works on what the step before
# it has left. What a step does not name must not change.
#
# NUMBER  a stored number, 3 bytes
# SENT    what the send hook gets, one after the other
# STATE   of the agent: its epoch (4 bytes), `reached`, `junk`, `wrong`, `place` modulo 8,
#         8 places (4 each; zeros if it is free), its counts (65), and of each node that
#         only sends its own epoch and last count (4 each); "-": as before
#
# master    KEY                       the master key; all stored numbers become 0, and storing
#                                     does not fail any more
# key       LABEL GENERATION KEY      the key of a label, which dumpulse_label_key makes
# number    LABEL NUMBER              the test itself stores a number
# stored    LABEL NUMBER              is this stored?
# fails     yes|no                    from now on storing fails, or does not
# agent     COUNT                     a reset: the agent becomes zeros. If COUNT is not 0,
#                                     dumpulse_alone_begin and _process are called from now on
# begin     yes|no SENT STATE         dumpulse_keyed_begin
# next      yes|no SENT STATE         dumpulse_keyed_next
# nexts     TIMES STATE               the same, so often; each returns true
# put       BYTES                     the test itself writes the first 8 bytes of STATE
# beacon    LABEL SENT                dumpulse_keyed_beacon
# table     BYTES                     the test itself writes the 64 entries
# refused, heartbeat, report, announce, old, wrong, not_begun, not_stored, first, asks:
#           TIME PACKET SENT STATE    dumpulse_keyed_process returns this. A heartbeat
#                                     writes TIME and the last 2 bytes to its entry. A
#                                     report writes what is sent. If COUNT is 0,
#                                     dumpulse_keyed_look returns the same of what is refused,
#                                     not_begun, asks or old, and else that it is new.
# guesses   TIMES PACKET STATE        the same, so often; each returns that the tag is wrong
# renew     VARIABLE yes|no STATE     dumpulse_alone_renew
# node                                the node becomes zeros
# hear      LABEL no|once|twice PACKET      dumpulse_hear, and what node.twice is then
# sender    VARIABLE yes|no           dumpulse_sender_begin
# announced VARIABLE PACKET           dumpulse_sender_announce; "-": none is made
# beat      VARIABLE SENDER VALUE TIMES PACKET    dumpulse_keyed_heartbeat, so often. The last
#                                     makes this packet, or none: "-"
# question  LABEL PACKET              dumpulse_ask
# reader                              the reader becomes zeros
# listen    no|once|twice PACKET      dumpulse_hear, of the reader
# request   NONCE PACKET              dumpulse_keyed_request; "-": none is made
# check     BYTES yes|no              dumpulse_keyed_check
# slots     BYTES NUMBER              dumpulse_slots_read
# slot      BYTES NUMBER AT SLOT      dumpulse_slots_write
"""


def yes(answer: object) -> str:
    return "yes" if answer else "no"


def number(value: int) -> bytes:
    return value.to_bytes(3, "big")


def state_of(agent: Agent) -> bytes:
    """As STATE in the vectors, but without the counts of nodes that hear when they send only."""
    return b"".join((agent.epoch.to_bytes(4, "big"),
                     bytes((agent.reached, agent.junk, agent.wrong, agent.place)), *agent.waiting,
                     bytes(agent.last),
                     *(number(own) + bytes((count,))
                       for own, count in zip(agent.own, agent.own_last, strict=True))))


class World:
    """The roles. The methods give the steps."""

    def __init__(self, seed: str, alone: int) -> None:
        self.keys, self.numbers = Keys(random.Random(f"keyed {seed}").randbytes(16)), Numbers()
        self.alone, self.before = alone, b""
        self.agent = Agent(self.keys, self.numbers, alone)

    def keys_of(self, labels: Iterable[int] = range(LABELS)) -> Iterator[Step]:
        """No packet of another label has a right tag."""
        yield "master", self.keys.master
        for label in labels:
            yield "key", label, self.keys.generations.get(label, 0), self.keys.of(label)

    def set(self, label: int, value: int) -> Step:
        self.numbers.numbers[label] = value
        return "number", label, number(value)

    def stored(self, label: int) -> Step:
        return "stored", label, number(self.numbers.load(label))

    def fails(self, fails: bool) -> Step:
        self.numbers.fails = fails
        return "fails", yes(fails)

    def state(self) -> bytes:
        state = state_of(self.agent)
        if state == self.before:
            return b""
        self.before = state
        return state

    def reset(self) -> Step:
        self.agent = Agent(self.keys, self.numbers, self.alone)
        self.before = bytes(8 + 32 + LABELS + 4 * self.alone)
        return "agent", self.alone

    def begin(self) -> Step:
        sent = self.agent.begin()
        return "begin", yes(sent), b"".join(sent), self.state()

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

    def put(self, **what: int) -> Step:
        """The epoch, or `junk`."""
        for name, value in what.items():
            setattr(self.agent, name, value)
        self.before = state_of(self.agent)
        return "put", self.before[:8]

    def beacon(self, label: int) -> Step:
        return "beacon", label, self.agent.beacon(label) or b""

    def process(self, now: int, packet: bytes) -> Step:
        result, sent = self.agent.process(now, packet)
        return NAMES[result], now, packet, sent or b"", self.state()

    def guesses(self, times: int) -> Step:
        """Wrong tags, with a count that is new."""
        right = self.fresh(60)
        packet = bytes((right[0] ^ 1,)) + right[1:]
        for _ in range(times):
            assert self.agent.process(0, packet)[0] == WRONG_TAG
        return "guesses", times, packet, self.state()

    def would_take(self, packet: bytes) -> bool:
        return copy.deepcopy(self.agent).process(0, packet)[0] in TAKEN

    def wrong(self, right: bytes, packet: bytes) -> Step:
        """A packet that differs from a right one in what its tag is made of, and in nothing
        else."""
        assert self.would_take(right) and right[4:] == packet[4:] and right != packet
        step = self.process(5, packet)
        assert step[0] == NAMES[WRONG_TAG]
        return step

    def old(self, packet: bytes, right: bytes) -> Step:
        """A packet whose tag is right, but not its count or own epoch. The other one would be
        taken, and differs in that."""
        assert self.would_take(right) and right[4] == packet[4]
        step = self.process(6, packet)
        assert step[0] == NAMES[OLD]
        return step

    def taken(self, packet: bytes, now: int = 2) -> Step:
        step = self.process(now, packet)
        assert step[0] in [NAMES[result] for result in TAKEN], step
        return step

    def wrong_numbers(self, label: int) -> Iterator[Step]:
        """The right packet, but with the tag of another number or of another label."""
        right, epoch = self.fresh(label), self.agent.epoch_of(label)
        owns = [(OWN_FIRST + own) * 256 for own in range(19, 23)]
        for value in (epoch, epoch - 1, epoch + 1, epoch - 2, epoch + 2, epoch - 256, epoch + 256,
                      0, *owns, owns[1] + 1, OWN_FIRST + 20):
            if value % 2 ** 32 != self.agent.number_of(label):
                yield self.wrong(right, self.keys.packet(label, value % 2 ** 32, right[4:]))
        for other in (label ^ 1, READER_LABEL if label < READER_LABEL else 63):
            yield self.wrong(right,
                             self.keys.packet(other, self.agent.number_of(label), right[4:]))
        reused = {0: self.keys.of(0)} | {label: self.keys.of(label ^ 1)}
        spoken = Keys(self.keys.master, reused)  # its own label, but a neighbour's key
        yield self.wrong(right, spoken.packet(label, self.agent.number_of(label), right[4:]))

    def table(self, entries: bytes) -> Step:
        self.agent.entries = [entries[at:at + 4] for at in range(0, 256, 4)]
        return "table", entries

    def counted(self, label: int, count: int, first: int = 76, second: int = 9) -> bytes:
        """A heartbeat or request that the agent would take if its count were right."""
        return self.keys.counted(label, self.agent.number_of(label), count, first, second)

    def fresh(self, label: int, first: int = 76, second: int = 9) -> bytes:
        """One that it takes."""
        return self.counted(label, self.agent.count_of(label) + 1, first, second)

    def announce(self, variable: int, own: int) -> bytes:
        return self.keys.announce(variable, OWN_FIRST + own)

    def first_of(self, variable: int, own: int, count: int = 1) -> bytes:
        """A heartbeat of an own epoch that has not begun yet."""
        return self.keys.counted(variable, (OWN_FIRST + own) * 256, count, 77, 8)


def steps(long: bool) -> Iterator[Step]:
    yield from of_the_page(long)
    yield from near_misses(long)
    yield from epochs(long)
    yield from alone(long)
    yield from junk(long)
    yield from all_labels(long)
    yield from ends_of_numbers(long)
    yield from nodes_and_readers(long)
    yield from slots(long)


def of_the_page(long: bool) -> Iterator[Step]:
    """The worked packets of spec/keyed.md."""
    world = World("page", 0)
    world.keys = Keys(bytes(range(16)))
    world.alone = ALONE
    yield from world.keys_of(range(LABELS) if long else (3, 5, READER_LABEL))
    yield world.set(BLOCK_LABEL, 0x000122)
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
    yield world.taken(world.announce(5, 1))
    yield world.taken(world.first_of(5, 1))
    yield world.stored(5)
    yield world.taken(world.counted(5, 2, 77, 200), 8)
    yield world.process(8, world.counted(5, 2, 77, 200))


def near_misses(long: bool) -> Iterator[Step]:
    """Packets that are nearly right, and all that version 1 takes of some kinds."""
    world = World("near", ALONE)
    yield from world.keys_of(range(LABELS) if long else (2, 3, 19, 63, READER_LABEL))
    yield world.set(BLOCK_LABEL, 0x3456)
    yield world.set(2, OWN_FIRST + 5)
    yield world.reset()
    yield world.begin()
    yield world.taken(world.announce(2, 9))
    yield world.taken(world.first_of(2, 9))
    for label in (19, 2, READER_LABEL) if long else (2, READER_LABEL):
        yield world.rounds(1)  # or there were too many wrong tags in one
        yield world.taken(world.counted(label, 7), 3)
        for packet in changed(world.counted(label, 8), long):
            yield world.process(4, packet)
    yield world.rounds(1)
    for packet in changed(world.announce(2, 10), long):
        yield world.process(5, packet)
    for packet in lengths(world.counted(19, 9), long):
        yield world.process(6, packet)
    yield world.taken(world.counted(19, 9))
    ends = [byte for high in range(0, 256, 64) for byte in (high, high + 1, high + 9, high + 10,
                                                            high + 63)]
    for byte in range(256) if long else ends:  # the right tag of a packet with this byte 4
        label = byte - keyed.IS_HEARTBEAT if byte >= keyed.IS_HEARTBEAT else byte % 64
        four = bytes((byte, 255, 255, 255))
        for value in (world.agent.epoch, 0):
            yield world.process(7, world.keys.packet(label, value, four))
    for packet in (REQUEST, *(heartbeat_of_version_1(variable, 76, 9)
                              for variable in range(0, 64, 1 if long else 21))):
        yield world.process(8, packet)
    for label in (0, 9, 10, 63, READER_LABEL):
        yield "question", label, question(label)
        yield world.process(9, question(label))
        beacon = world.agent.beacon(label)
        assert beacon
        yield world.process(9, beacon)
    for four in (b"\x8a\0\xff\xff", b"\xc0\0\1\2"):  # a question may have any tag and any end
        yield world.process(9, world.keys.packet(four[0] - 128, world.agent.epoch, four))


def epochs(long: bool) -> Iterator[Step]:
    """A label is in the epoch when it was reached, and before that in the one before. Each packet
    here has a count that is new."""
    world = World("epochs", 0)
    near = (0, 1, 31, 62, 63, READER_LABEL)
    yield from world.keys_of(range(LABELS) if long else (*near, 2, 30))
    yield world.set(BLOCK_LABEL, 0x012344)
    yield world.reset()
    yield from before_begin(world)
    yield world.begin()
    for _ in range(LABELS if long else 2):
        label = world.agent.reached % LABELS
        yield from world.wrong_numbers(label)
        yield world.taken(world.fresh(label))
        before = world.counted(label, 1)
        yield world.next()
        yield world.wrong(world.fresh(label), before)
        yield from world.wrong_numbers(label)
        yield world.taken(world.fresh(label))
        yield world.taken(world.fresh(READER_LABEL))  # it is still in the epoch before
        if not long:
            yield world.nexts(28)
    if not long:
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
        yield world.process(1, world.announce(1, 9))
        yield world.process(1, world.keys.counted(1, (OWN_FIRST + 9) * 256, 1, 2, 3))
        yield world.beacon(1)
    yield world.stored(1)


def alone(long: bool) -> Iterator[Step]:
    """Nodes that only send."""
    world = World("alone", ALONE)
    yield from world.keys_of(range(LABELS) if long else range(ALONE + 2))
    yield world.set(BLOCK_LABEL, 7)
    yield world.set(4, OWN_FIRST + 19)
    yield world.reset()
    yield from before_begin(world)
    yield world.begin()
    yield from own_epochs(world)
    yield from own_epochs_that_wait(world)
    # A variable whose node hears, until it announces and its heartbeat comes.
    yield world.taken(world.fresh(6))
    yield world.taken(world.announce(6, 40))
    yield world.process(2, world.fresh(6))  # meanwhile it is tried under the own epoch alone
    yield world.taken(world.first_of(6, 40))
    yield world.next()
    # It has a new key: its own epoch, its count, and what waits for it are gone.
    yield world.taken(world.announce(5, 60))
    yield world.taken(world.announce(6, 41))
    assert world.agent.last[6] and world.agent.own[6]
    for fails in (True, False):
        yield world.fails(fails)
        yield "renew", 6, yes(world.agent.renew(6)), world.state()
        yield world.stored(6)
    world.keys.renew(6)
    yield "key", 6, 1, world.keys.of(6)
    yield world.taken(world.fresh(6))
    yield world.process(3, world.announce(6, 500))
    yield world.taken(world.first_of(5, 60))
    # Of more variables than there are places, the first one that waits must go.
    yield world.rounds(1)
    for variable in range(9):
        yield world.taken(world.announce(variable, 300))
    yield world.process(4, world.first_of(0, 300))
    yield world.taken(world.first_of(1, 300))
    yield world.taken(world.announce(0, 300))
    yield world.taken(world.first_of(0, 300))
    yield world.process(5, world.first_of(2, 300))
    yield world.taken(world.first_of(3, 300))
    # With the epoch, all that waits goes.
    assert any(four[0] for four in world.agent.waiting)
    waits = world.first_of(4, 300)
    assert world.would_take(waits)
    yield world.rest()
    assert world.would_take(waits)
    yield world.next()
    assert not world.would_take(waits)
    yield world.process(6, waits)


def own_epochs(world: World) -> Iterator[Step]:
    """Of variable 4, which had the 19th before the reset."""
    heartbeat = world.counted(4, 255)
    yield world.old(world.announce(4, 19), world.announce(4, 20))
    yield world.old(world.announce(4, 18), world.announce(4, 20))
    yield world.process(1, heartbeat)  # after a reset it is deaf until the next one
    for label, value in ((4, 1), (4, world.agent.epoch), (4, OWN_FIRST + 20), (5, 0)):
        right = world.announce(4, 20)
        yield world.wrong(right, world.keys.packet(label, value, right[4:]))
    yield world.taken(world.announce(4, 20))
    yield world.process(1, heartbeat)
    yield world.process(1, world.first_of(4, 20, 0))
    yield world.stored(4)
    right = world.first_of(4, 20)
    for value in (19, 21, 0):
        yield world.wrong(right, world.keys.packet(4, (OWN_FIRST + value) * 256, right[4:]))
    for value in (world.agent.epoch, (OWN_FIRST + 20) * 256 + 1, OWN_FIRST + 20, 0):
        yield world.wrong(right, world.keys.packet(4, value, right[4:]))
    yield world.wrong(right, world.keys.packet(5, (OWN_FIRST + 20) * 256, right[4:]))
    yield world.fails(True)
    yield world.process(1, right)
    yield world.stored(4)
    yield world.fails(False)
    yield world.taken(right)
    yield world.stored(4)
    yield from world.wrong_numbers(4)
    yield world.old(right, world.fresh(4))
    yield world.taken(world.counted(4, 254))
    yield world.old(world.counted(4, 253), world.fresh(4))
    yield world.taken(world.fresh(4))
    yield world.process(1, world.counted(4, 255))


def own_epochs_that_wait(world: World) -> Iterator[Step]:
    """A right announce changes nothing that is stored: somebody may have recorded it."""
    yield world.taken(world.announce(4, 21))
    yield world.taken(world.first_of(4, 21, 7))
    yield world.taken(world.announce(4, 30))
    yield world.stored(4)
    yield world.taken(world.counted(4, 8))  # of the one that has begun
    for own in (30, 29, 22):
        yield world.old(world.announce(4, own), world.announce(4, 31))
    yield world.taken(world.announce(4, 31))
    right = world.first_of(4, 31)
    yield world.wrong(right, world.keys.packet(4, (OWN_FIRST + 30) * 256, right[4:]))
    yield world.taken(world.counted(4, 9))
    yield world.wrong(world.first_of(4, 31, 200), world.first_of(4, 30, 200))  # both are tried
    yield world.taken(world.first_of(4, 31, 200))
    yield world.stored(4)
    yield world.old(world.announce(4, 31), world.announce(4, 32))
    yield world.process(1, world.keys.counted(4, (OWN_FIRST + 21) * 256, 255, 1, 1))


def junk(long: bool) -> Iterator[Step]:
    """When 100 tags of an epoch are wrong, two heartbeats must be equal."""
    world = World("junk", ALONE)
    yield from world.keys_of(range(LABELS) if long else (*range(16), 60, 61, READER_LABEL))
    yield world.set(BLOCK_LABEL, 9)
    yield world.reset()
    yield world.begin()
    yield world.guesses(MOST_WRONG - 1)
    yield world.taken(world.fresh(11))
    yield world.next()  # with the epoch, it is counted anew
    yield world.nexts(20)
    yield world.guesses(MOST_WRONG - 1)
    yield world.taken(world.fresh(11))
    yield world.beacon(11)
    yield world.guesses(1)
    assert world.agent.junk
    yield world.beacon(11)
    yield from pairs(world, 11)
    yield world.taken(world.fresh(READER_LABEL))  # a request needs no second one
    yield world.old(world.counted(11, 1), world.fresh(11))
    # Nodes that only send.
    yield world.taken(world.announce(3, 50))
    yield world.taken(world.first_of(3, 50))
    yield from pairs(world, 3)
    # More than there are places.
    for variable in (*range(8, 17), 8, 9):
        yield world.taken(world.fresh(variable))
        yield world.taken(world.fresh(variable) if variable == 15 else world.fresh(60))
    # With the epoch of the first label, all that waits goes, but not the junk.
    yield world.rest()
    yield world.taken(world.fresh(12))
    yield world.next()
    yield world.taken(world.fresh(12))
    yield world.taken(world.fresh(12))
    for _ in range(2):  # it ends after 64 epochs, or so many after the last junk
        yield world.guesses(MOST_WRONG)
        yield world.rounds(1)
    assert world.agent.junk == keyed.JUNK_LASTS - 1
    yield world.put(junk=2)
    yield world.rounds(1)
    yield from pairs(world, 13)
    yield world.rounds(1)
    assert not world.agent.junk
    yield world.taken(world.fresh(13))
    yield world.beacon(13)
    # An epoch that does not end, as storing fails: wrong tags are counted modulo 256.
    yield world.rest()
    yield world.put(epoch=world.agent.epoch | 255)
    yield world.fails(True)
    yield world.next()
    yield world.guesses(256 + MOST_WRONG)
    yield world.next()
    yield world.taken(world.fresh(13))
    yield world.fails(False)
    yield world.next()
    yield world.begin()  # which does not forget it
    yield world.taken(world.fresh(13))
    yield world.reset()
    yield world.begin()
    yield world.taken(world.fresh(13))


def pairs(world: World, variable: int) -> Iterator[Step]:
    """The first of each value waits."""
    results = []
    for first, second in ((1, 2), (1, 2), (1, 2), (1, 3), (1, 2), (1, 3), (2, 3), (2, 3), (1, 3)):
        packet = world.fresh(variable, first, second)
        results.append(world.taken(packet))
        yield results[-1]
        yield world.old(packet, world.fresh(variable))  # its count is used up in any case
    assert [step[0] for step in results] == [
        NAMES[keyed.HEARTBEAT if second else keyed.FIRST]
        for second in (0, 1, 1, 0, 0, 0, 0, 1, 0)]


def all_labels(long: bool) -> Iterator[Step]:
    """Each variable, and the ends of its counts."""
    rng = random.Random("labels")
    world = World("labels", ALONE)
    yield from world.keys_of()
    yield world.set(BLOCK_LABEL, 0x012345)
    for variable in range(0, ALONE, 2):
        yield world.set(variable, OWN_FIRST + variable)
    yield world.reset()
    yield world.begin()
    for variable in range(64) if long else (0, 1, ALONE - 1, ALONE, 63):
        if not world.agent.sends_only(variable):
            yield from world.wrong_numbers(variable)
            for count in (1, 2, 2, 1, 254, 253, 255, 255, 254):
                yield world.process(rng.randrange(65536),
                                    world.counted(variable, count, *rng.randbytes(2)))
        yield world.process(1, world.announce(variable, 20))
        yield world.process(2, world.first_of(variable, 20))
        if variable < ALONE:
            yield from world.wrong_numbers(variable)
        else:
            yield world.process(5, world.announce(variable, world.agent.epoch % 65536))
        yield world.next()


def ends_of_numbers(long: bool) -> Iterator[Step]:
    """The ends of epochs, blocks and own epochs, numbers that cannot be read, and storing that
    fails."""
    world = World("ends", ALONE)
    yield from world.keys_of(range(LABELS) if long else (4, 19, 60, 63, READER_LABEL))
    blocks = (0, 0xFE, 0xFF, 0xFFFE, 0xFFFF, 0x1FFFFD, 0x1FFFFE, 0x1FFFFF, 0x200000, 0x3FFFFF,
              0x7FFFFF, 0xFFFFFE, 0xFFFFFF)
    for block in blocks if long else (0, 0xFF, 0xFFFF, *blocks[6:9], 0xFFFFFF):
        yield world.set(BLOCK_LABEL, block)
        yield world.reset()
        for fails in (True, False):
            yield world.fails(fails)
            yield world.begin()
            yield world.stored(BLOCK_LABEL)
            yield world.process(1, world.counted(19, 1))
            yield world.process(1, world.counted(READER_LABEL, 1))
            yield world.process(1, world.keys.counted(19, block << 8 | 255, 1, 1, 2))
            yield world.next()
    for block in (5, 0x1FFFFE):
        yield world.set(BLOCK_LABEL, block)
        yield world.reset()
        yield world.begin()
        for _ in range(3 if long and block == 5 else 1):
            yield world.put(epoch=world.agent.epoch | 254)
            yield world.rounds(1)
            yield world.taken(world.counted(19, 1))
            yield world.fails(True)
            for count in (2, 3):  # the epoch goes on
                yield world.next()
                yield world.taken(world.counted(19, count))
                yield world.taken(world.counted(READER_LABEL, count))
                yield world.stored(BLOCK_LABEL)
            yield world.fails(False)
            yield world.next()
            yield world.stored(BLOCK_LABEL)
            yield world.process(4, world.counted(0, 1))
            yield world.process(4, world.counted(19, 4))
            yield world.begin()
            yield world.process(4, world.counted(19, 1))
    owns = (0, 0x80017F, 0x80FFFF, OWN_FIRST, 0x8000FF, 0xFFFFFE, 0xFFFFFF)
    for own in owns if long else owns[:3] + owns[-2:]:
        yield world.set(BLOCK_LABEL, 5)
        yield world.set(4, own)
        yield world.reset()
        yield world.begin()
        for following in (1, OWN_FIRST - 1, OWN_FIRST, own, own + 1, own + 256, own + 65536,
                          0xFFFFFF):
            if following <= 0xFFFFFF:
                yield world.process(1, world.keys.announce(4, following))
                yield world.process(3, world.keys.counted(4, following * 256, 255, 1, 2))
                yield world.stored(4)


def heard(who: Listener, packet: bytes) -> str:
    return "no" if not who.hear(packet) else "twice" if who.twice else "once"


def beacons(who: Listener, label: int, long: bool) -> Iterator[tuple[str, bytes]]:
    """Beacons that a node or a reader hears or not, as answer and packet."""
    keys, kind = who.keys, bytes((keyed.IS_ANNOUNCE,))  # what is no beacon any more

    def unheard(right: bytes, wrong: bytes) -> tuple[str, bytes]:
        """A packet that differs from a right one in one respect."""
        assert copy.copy(who).hear(right) and not who.hear(wrong)
        return "no", wrong

    for epoch in (1, 0x12345) if long else (0x12345,):
        for twice in (False, True):
            right = keys.beacon(label, epoch + twice, twice)
            value = epoch + twice
            for wrong in (value - 1, value + 1, value - 2, value - 256, value + 256,
                          value | keyed.TWICE << 24, 0):
                yield unheard(right, keys.packet(label, wrong % 2 ** 32, right[4:]))
            for other in (label ^ 1, READER_LABEL if label < READER_LABEL else 63):
                yield unheard(right, keys.packet(other, value, right[4:]))  # a neighbour's
            yield unheard(right, keys.packet(label, value, kind + right[5:]))
            for packet in changed(right, long) if long or twice else ():
                yield unheard(right, packet)
            for length in (0, 7, 9, 16) if twice else ():
                yield unheard(right, (right + bytes(8))[:length])
            yield heard(who, right), right
            for old in (value, value - 1, value - 256):  # with a right tag, but not later
                if old > 0:
                    yield unheard(keys.beacon(label, value + 1), keys.beacon(label, old, True))
    for epoch in (0x12346, 0x123FF, 0x12400, 0x1123456, 0x1023456, keyed.EPOCH_LAST - 1,
                  keyed.EPOCH_LAST):
        for twice in (False, True):
            right = keys.beacon(label, epoch, twice)
            yield heard(who, right), right


def nodes_and_readers(long: bool) -> Iterator[Step]:
    world = World("nodes", 0)
    keys, rng = world.keys, random.Random("nodes")
    yield from world.keys_of(range(LABELS) if long else (0, 1, 7, 8, 9, *range(62, LABELS)))
    for label in (7, 63):
        for generation in (1, 2, 255):
            yield "key", label, generation, keyed.label_key(keys.master, label, generation)
        yield "key", label, 0, keys.of(label)
    yield from ends_of_tags(keys)
    for label in (9, 0, 63) if long else (63,):
        yield ("node",)
        yield "beat", label, 1, 2, 1, b""
        node = Hearer(keys, label)
        for answer, packet in beacons(node, label, long):
            yield "hear", label, answer, packet
            if answer != "no":
                for _ in range(2):
                    yield beat(node, label, *rng.randbytes(2))
    for variable in (64, 255):
        yield "beat", variable, 1, 2, 1, b""
    for times in (1, 251, 1, 1, 1):
        yield beat(node, 63, 255, times, times)
    yield from senders(world, long)
    yield ("reader",)
    reader = Reader(keys)
    for answer, packet in beacons(reader, READER_LABEL, long):
        yield "listen", answer, packet
    yield from readers(world, rng, long)


def ends_of_tags(keys: Keys) -> Iterator[Step]:
    """One tag in 131,072 gets a wrong byte if it is divided by nearly 2^24: two of them."""
    beacon = keys.beacon(63, 7)
    for sender, value in ((42, 252), (120, 138)):
        node = Hearer(keys, 63)
        yield ("node",)
        yield "hear", 63, heard(node, beacon), beacon
        made = node.heartbeat(sender, value)
        assert made
        tag = int.from_bytes(made[:4], "little")
        assert tag // (2 ** 24 - 1) > tag // (2 ** 24 + 1)
        yield "beat", 63, sender, value, 1, made


def beat(node: Hearer | Sender, variable: int, sender: int, value: int, times: int = 1) -> Step:
    *_, made = (node.heartbeat(sender, value) for _ in range(times))
    return "beat", variable, sender, value, times, made or b""


def senders(world: World, long: bool) -> Iterator[Step]:
    for own in (0, 1, OWN_FIRST - 2, OWN_FIRST - 1, OWN_FIRST, 0x8000FF, 0x80FFFF, 0xFFFFFE,
                0xFFFFFF):
        for fails in (True, False):
            yield world.set(7, own)
            yield world.fails(fails)
            yield ("node",)
            node = Sender(world.keys, 7, world.numbers)
            yield "sender", 7, yes(node.begin())
            yield world.stored(7)
            yield "announced", 7, node.announce() or b""
            yield beat(node, 7, 3, 4)
    yield world.set(0, OWN_FIRST)
    node = Sender(world.keys, 0, world.numbers)
    for _ in range(2 if long else 1):
        yield "sender", 0, yes(node.begin())
        for times in (1,) * 256 if long else (1, 253, 1, 1):
            yield "announced", 0, node.announce() or b""
            yield beat(node, 0, 5, times, times)
    yield world.set(64, OWN_FIRST)
    for variable in (64, 255):  # of no variable, however ready the node and the number are
        yield "sender", 0, yes(node.begin())
        yield "announced", variable, b""
        yield "announced", 0, node.announce() or b""
        yield "sender", variable, "no"
        yield "announced", 0, b""  # what it could send is gone, too
    yield world.stored(64)


def readers(world: World, rng: random.Random, long: bool) -> Iterator[Step]:
    keys = world.keys
    yield ("reader",)
    reader = Reader(keys)
    yield "check", bytes(264), "no"
    yield "request", b"ab", b""
    for epoch in (7, 0x1ABCDEF0):
        beacon = keys.beacon(READER_LABEL, epoch)
        yield "listen", heard(reader, beacon), beacon
        table, nonce = rng.randbytes(256), rng.randbytes(2)
        request = reader.request(nonce)
        assert request is not None
        yield "request", nonce, request
        good = keys.report(table, epoch, request)
        bads = [good[:at] + bytes((good[at] ^ 1 << bit,)) + good[at + 1:]
                for at in (*range(8), *(rng.randrange(8, 264) for _ in range(8)))
                for bit in (0, 7)]
        bads += [good[:-1], good + b"\0", b"", good[:260],
                 *(keys.report(table, epoch + more, request) for more in (-1, 1, -2, 256)),
                 keys.report(table, epoch, keys.counted(READER_LABEL, epoch, 2, *nonce)),
                 keys.report(table, epoch, request[:6] + bytes((request[6] ^ 1,)) + request[7:])]
        for bad in bads:
            assert copy.copy(reader).check(good) and not reader.check(bad)
            yield "check", bad, "no"
        later = keys.beacon(READER_LABEL, epoch + 1)
        yield "listen", heard(reader, later), later
        assert not reader.check(good)
        yield "check", good, "no"  # it may have been held back: it is too late
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
            for torn in range(SLOT) if long or old in (0xFF, 0x800001) else ():
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
