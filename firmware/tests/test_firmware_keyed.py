"""The firmware with keys, in simavr: power cuts at any moment, replays after each, floods of junk.

DUMPULSE_CUTS says how often the power is cut: `make part ONLY=power-cuts` does it often.
DUMPULSE_SEED repeats a run. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from bench import firmware
from bench.awake import KEYS
from firmware.simulators.boards import (BOARDS, REPORT_AT, REQUEST_AT, Board, LiveBus, LiveLine,
                                        eeprom, eeprom_of_node, frame, serial_frame)
from spec.keyed import (ANNOUNCE, BEACON_LABEL, HEARTBEAT, IS_REQUEST, OLD, Agent, Hearer, Keys,
                       Numbers, Reader, Sender, slot, slots_read)
from firmware.tests.test_firmware_can import measured
from spec.model import REQUEST, heartbeat
from tests.support.programs import ROOT

SEED = int(os.environ.get("DUMPULSE_SEED") or random.randrange(10**6))
CUTS = int(os.environ.get("DUMPULSE_CUTS") or 25)
CAN = BOARDS["can_avr-keyed"]
SENDS_ALONE, HEARS_BEACONS = BOARDS["keyed_attiny85"], BOARDS["keyed_attiny85-hears"]
BASE, BEACON_AT = CAN.can_id, 97
HELLO = bytes((0, 0, 0, 0, IS_REQUEST, 0, 0, 0))
# A second after its start, the agent begins its first epoch, which takes 20 ms of its EEPROM.
STARTED = "wait 1050000"


@pytest.fixture
def chance() -> random.Random:
    print(f"DUMPULSE_SEED={SEED} DUMPULSE_CUTS={CUTS} replays it")  # shown when a test fails
    return random.Random(SEED)


class Rig:
    """An agent in simavr, and all that its bus has heard."""

    def __init__(self, keys: Keys, block: int, own: Sequence[int],
                 image: Path | None = None) -> None:
        self.keys, self.reader = keys, Reader(keys)
        self.beacons: list[int] = []  # their epochs, in the order in which they came
        self.reports: list[bytes] = []
        self.partial = b""  # of the next one
        self.bus = LiveBus(CAN, eeprom(keys.master, block, own), image)

    def do(self, *script: str) -> None:
        for number, data in self.bus.do(*script):
            assert len(data) == 8
            if number == BASE + BEACON_AT:
                self.beacons.append(int.from_bytes(data[4:], "big"))
                assert data == self.keys.beacon(self.beacons[-1])
                self.reader.hear(data)
            else:
                assert number == BASE + REPORT_AT + len(self.partial) // 8
                self.partial += data
                if len(self.partial) == 264:
                    self.reports.append(self.partial)
                    self.partial = b""

    def send(self, *packets: bytes) -> None:
        self.do(*(frame(BASE + (REQUEST_AT if packet[4] == IS_REQUEST else packet[4] % 64), packet)
                  for packet in packets), "wait 2000")

    def ask(self, *before: bytes, microseconds: int = 22_000) -> list[bytes] | None:
        """Asks for a report, and waits. The report has to be authentic, if one has come."""
        request, reports = self.reader.request(b"no"), len(self.reports)
        assert request is not None
        self.send(*before, request)
        self.do(f"wait {microseconds}")
        if not self.reports[reports:]:
            return None
        assert self.reader.check(self.reports[-1])
        return [self.reports[-1][at:at + 4] for at in range(8, 264, 4)]

    def table(self) -> list[bytes]:
        """The agent does not take a request of the epoch that has just ended, and says so."""
        table = self.ask() or self.ask()
        assert table is not None
        return table

    def cut(self, byte: int) -> None:
        self.partial = b""
        self.do(f"cut {byte:x}")

    def end(self, boots: int) -> None:
        """It has begun as often as its power was switched on: its watchdog has never reset it."""
        counts = self.bus.end()
        assert counts["boots"] == boots and counts["stack"] <= firmware.sizes(CAN)["bound"]

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.bus.__exit__()


def test_a_conversation() -> None:
    """The worked packets of spec/keyed.md."""
    with Rig(KEYS, 0x122, [0] * 5 + [0x800000] + [0] * 26) as rig:
        rig.do("wait 900000")
        assert rig.beacons == []
        rig.do("wait 2150000")
        assert rig.beacons == [0x12300] * 3
        hears, sends = Hearer(KEYS, 3), Sender(KEYS, 5, Numbers({5: 0x800000}))
        hears.hear(KEYS.beacon(0x12300))
        beat, again = hears.heartbeat(76, 9), hears.heartbeat(76, 10)
        assert beat and again and sends.begin()
        rig.send(beat)
        assert rig.table()[3] == bytes((0, 3, 76, 9))
        rig.send(again, beat, heartbeat(3, 1, 1))
        rig.do(frame(BASE + REQUEST_AT, REQUEST), "wait 20000")  # of version 1: no answer
        assert len(rig.reports) == 1
        table = rig.table()
        assert table[3] == bytes((0, 3, 76, 10)) and table[0] == bytes((0, 3, 1, 0))
        announce, early = sends.announce(), sends.heartbeat(1, 1)
        first, second = sends.heartbeat(77, 200), sends.heartbeat(77, 1)
        assert announce and early and first and second
        rig.send(early, announce, early)  # not before its announce, and not until that is stored
        assert rig.table()[5] == bytes(4)
        rig.do("wait 20000")
        rig.send(first, second, first)
        assert rig.table()[5] == bytes((0, 3, 77, 1))
        rig.do("wait 20000000")
        assert rig.beacons[-1] == 0x12302
        refused = rig.keys.counted(64, 0x12302, 0, 1, 2)
        before = len(rig.beacons)
        rig.send(refused)
        assert len(rig.beacons) == before + 1
        rig.end(1)


def test_an_announce_stalls_nobody() -> None:
    """While its number is stored, which takes 20 ms, a full bus of heartbeats that cost no tag
    comes, and then two that do."""
    own = [0x800000] * 32
    with Rig(KEYS, 0x122, own) as rig:
        rig.do(STARTED)
        sends = Sender(KEYS, 5, Numbers({5: 0x800000}))
        assert sends.begin()
        announce, first = sends.announce(), sends.heartbeat(1, 2)
        assert announce and first
        old = KEYS.counted(40, 0x12300, 0, 0, 0)
        rig.do(frame(BASE, announce), *[frame(BASE, old)] * 70,
               *(frame(BASE, KEYS.counted(at, 0x12300, 1, 7, at)) for at in (41, 42)),
               "wait 5000", frame(BASE, first), "wait 1000")
        table = rig.table()
        assert [table[at][2:] for at in (5, 41, 42)] == [b"\1\2", b"\7\x29", b"\7\x2a"]
        rig.end(1)


def test_one_refused_announce_a_second() -> None:
    """One with a wrong tag is looked at. All others in this second are not, even a right one. Those
    that nodes repeat do not count."""
    with Rig(KEYS, 0x122, [0x800000] * 32) as rig:
        rig.do("until 1200000")
        known, right = KEYS.announce(5, 0x800000), KEYS.announce(5, 0x800001)
        beats = [KEYS.counted(5, 0x80000100, count, 1, count) for count in (1, 2)]
        rig.send(known, known, bytes(4) + right[4:], right)
        rig.do("wait 25000")
        rig.send(beats[0])
        assert rig.table()[5] == bytes(4)
        rig.do("until 2100000")
        rig.send(known, known, right)
        rig.do("wait 25000")
        rig.send(beats[1])
        assert rig.table()[5] == b"\0\2\1\2"
        rig.end(1)


def test_what_is_repeated_is_no_flood() -> None:
    """Packets that are repeated, and requests for a beacon, do not use up the failures of a second:
    the agent looks at no tag of them. At most 100 such requests are answered."""
    with Rig(KEYS, 0x122, [0x800000] * 32) as rig:
        rig.do("until 1100000")
        beat, more = (KEYS.counted(40, 0x12300, count, 7, count) for count in (1, 2))
        rig.send(beat, *[beat, KEYS.announce(5, 0x800000), KEYS.beacon(0x12300)] * 500,
                 *[HELLO] * 150, more)
        assert rig.table()[40][2:] == b"\7\2"
        assert 40 < len(rig.beacons) < 60  # those that must wait for the bus become one
        rig.end(1)


def test_one_more_request_is_kept_while_a_report_leaves() -> None:
    with Rig(KEYS, 0x122, [0] * 32) as rig:
        rig.do(STARTED)
        rig.send(*(KEYS.counted(64, 0x12300, count, 1, count) for count in (1, 2, 3)))
        rig.do("wait 40000")
        assert [report[:8] for report in rig.reports] == [
            KEYS.report(report[8:], 0x12300, KEYS.counted(64, 0x12300, count, 1, count))[:8]
            for report, count in zip(rig.reports, (1, 3), strict=True)]
        rig.end(1)


@pytest.mark.parametrize("broken", ["key", "block", "own"])
def test_an_eeprom_that_was_not_written(broken: str) -> None:
    """An agent without its block does not begin. A variable without its number stays deaf."""
    memory = bytearray(eeprom(KEYS.master, 0x122, [0] * 32))
    at, size = {"key": (0, len(memory)), "block": (16, 12), "own": (28 + 5 * 12, 12)}[broken]
    memory[at:at + size] = b"\xff" * size
    rig = Rig(KEYS, 0x122, [0] * 32)
    with rig:
        rig.bus.__exit__()
        rig.bus = LiveBus(CAN, bytes(memory))
        rig.do("wait 25000000")
        if broken == "own":
            rig.send(*(KEYS.counted(at, rig.beacons[-1], 1, 1, 1) for at in (4, 5)))
            table = rig.table()
            assert table[4][2:] == b"\1\1" and table[5] == bytes(4)
        else:
            assert rig.beacons == []
        rig.end(1)


def test_the_watchdog_resets_a_loop_that_hangs() -> None:
    """The next epoch is one that was never used, and the table is empty."""
    with Rig(KEYS, 0x122, [0] * 32, CAN.image("hanging")) as rig:
        rig.do(STARTED)
        beat = KEYS.counted(40, 0x12300, 1, 7, 7)
        rig.send(beat)
        assert rig.table()[40][2:] == b"\7\7"
        rig.send(b"HangHere")
        rig.do("wait 4000000")
        rig.send(beat)
        assert rig.beacons[-1] == 0x12400 and rig.table()[40] == bytes(4)
        rig.end(2)


@pytest.mark.slow
def test_a_block_ends() -> None:
    """The next block is stored within the last epoch of a block, in 20 ms, while heartbeats come.
    The tick then does not wait for the EEPROM. If the power is cut before the tick, a block is
    left out."""
    for cut_in in (False, True):
        with Rig(KEYS, 0x122, [0] * 32) as rig:
            rig.do("wait 2550000000", "writing 1")
            rig.do("wait 2000000")
            assert rig.beacons[-1] == 0x123FF
            if cut_in:
                rig.do("cut 55", STARTED)
                assert rig.beacons[-1] == 0x12500
            else:
                rig.do("wait 9000000")
                assert rig.beacons[-1] == 0x12400 and 0x123FF in rig.beacons
            rig.end(1 + cut_in)


HEARS, SENDS = range(40, 44), range(1, 5)  # variables


class Nodes:
    """Nodes that never say the same twice, and what the agent has taken of them so far."""

    def __init__(self, keys: Keys) -> None:
        self.hear = [Hearer(keys, variable) for variable in HEARS]
        self.send = [Sender(keys, variable, Numbers({variable: 0x800000})) for variable in SENDS]
        self.said = 0
        self.heard: list[bytes] = []  # all packets that were on the bus
        self.last = dict.fromkeys((*HEARS, *SENDS), 0)  # the last that was taken of each variable

    def heartbeat(self, node: Hearer | Sender) -> bytes:
        self.said += 1
        packet = node.heartbeat(*self.said.to_bytes(2, "big"))
        assert packet is not None
        self.heard.append(packet)
        return packet

    def taken(self, table: list[bytes], at_boot: dict[int, int]) -> None:
        """Everything in the table is newer than all that was taken before the boot, and nothing
        goes back."""
        for variable in self.last:
            said = int.from_bytes(table[variable][2:], "big")
            if said:
                assert said > at_boot[variable] and said >= self.last[variable]
                self.last[variable] = said


@pytest.mark.slow
def test_power_cuts(chance: random.Random) -> None:
    """The power is cut while a block or a number is stored, within a byte and between bytes, and at
    other moments. After each cut, much of what was ever on the bus is repeated. Nothing is taken a
    second time, no epoch comes again, and what is new is taken."""
    keys = Keys(chance.randbytes(16))
    nodes, torn = Nodes(keys), 0
    with Rig(keys, 0x122, [0] + [0x800000] * 4 + [0] * 27) as rig:
        for cut in range(CUTS):
            used, at_boot = max(rig.beacons, default=0), dict(nodes.last)
            kind = chance.choice(("block", "number", "any"))
            if kind == "block":  # before its first beacon
                torn += 1
                rig.do(f"writing {chance.randrange(1, 7)}", f"wait {chance.randrange(3500)}")
            else:
                rig.do(STARTED)
                assert rig.beacons[-1] > used, "an epoch comes again"
                old = chance.sample(nodes.heard, min(60, len(nodes.heard))) + nodes.heard[-30:]
                rig.send(*old)
                rig.do("wait 1000000")
                nodes.taken(rig.table(), at_boot)
                fresh = dict[int, int]()
                for node in nodes.hear:
                    node.forget()
                    node.hear(keys.beacon(rig.beacons[-1]))
                    epoch = node.epoch
                    rig.send(nodes.heartbeat(node))
                    fresh[node.variable] = nodes.said
                for sends in nodes.send:
                    if sends.own == 0 or chance.random() < 0.5:
                        assert sends.begin()
                        announce = sends.announce()
                        assert announce is not None
                        nodes.heard.append(announce)
                        rig.send(announce)
                        rig.do("wait 25000")
                        rig.send(nodes.heartbeat(sends))
                        fresh[sends.variable] = nodes.said
                nodes.taken(table := rig.table(), at_boot)
                if rig.beacons[-1] == epoch:
                    assert {at: int.from_bytes(table[at][2:], "big") for at in fresh} == fresh
                if kind == "number":
                    torn += 1
                    sends = chance.choice(nodes.send)
                    assert sends.begin()
                    announce = sends.announce()
                    assert announce is not None
                    nodes.heard.append(announce)
                    beat = nodes.heartbeat(sends)  # perhaps it is too early, or too late
                    rig.do(frame(BASE, announce), f"wait {chance.choice((0, 0, 20_000))}")
                    if (now := rig.ask(beat, microseconds=chance.randrange(20_000))) is not None:
                        nodes.taken(now, at_boot)
                else:
                    rig.do(f"wait {chance.randrange(12_000_000)}")
            rig.cut(chance.choice((0, 0xFF, chance.randrange(256))))
            for sends in nodes.send:
                sends.own = sends.own if chance.random() < 0.5 else 0  # some were reset, too
        rig.end(CUTS + 1)
    assert torn >= CUTS / 6


FULL_BUS = 500_000 // 111  # frames of 8 bytes in a second, if no bit has to be stuffed
ROUNDS, WINDOW = 3, 0.93  # in how many seconds, and for which part of each, the flood comes
Fates = list[tuple[int, bool]]  # of heartbeats: how much junk came before, and whether it was taken


def flood(chance: random.Random, rate: int, image: Path | None) -> Fates:
    """Junk comes at this rate. It has the right form, so that only its tag gives it away. Meanwhile
    62 nodes send a heartbeat in each second."""
    fates: Fates = []
    with Rig(KEYS, 0x122, [0] * 32, image) as rig:
        rig.do("until 2004000")
        for second in range(2, 2 + ROUNDS):
            events = [(at / rate, KEYS.counted(at % 62 + 1, 0, 255, 1, 1)) for at in range(rate)]
            events += [((at + chance.random()) / 62,
                        KEYS.counted(at + 1, 0x12300, second, second, at + 1)) for at in range(62)]
            events = sorted((moment, packet) for moment, packet in events if moment < WINDOW)
            start = second * 10**6 + 40_000  # until then, the agent has sent a report
            rig.do("gap 0", *(line for moment, packet in events for line in (
                f"until {round(start + moment * 10**6)}",
                frame(BASE + packet[4] % 64, packet))), f"until {(second + 1) * 10**6 + 3000}",
                "gap 250")
            table, junk = rig.table(), 0
            for _, packet in events:
                if packet[5] == 255:
                    junk += 1
                else:
                    fates.append((junk, table[packet[4] % 64][2:] == packet[6:]))
        assert rig.beacons[-1] == 0x12300
        rig.end(1)
    return fates


@pytest.mark.parametrize("share", [0.02, 0.26, 0.61])
def test_a_flood(chance: random.Random, share: float) -> None:
    """In each second, the agent looks at 101 packets of junk. Until then, every heartbeat is taken;
    and none from then on. On a bus that is too busy, it has not seen all of the junk."""
    fates = flood(chance, round(FULL_BUS * share), None)
    print(f"junk on {share:.0%} of the bus: {sum(taken for _, taken in fates) / len(fates):.1%} of "
          "the heartbeats come through")
    seen, not_seen = (90, 110) if share < 0.4 else (15, 250)
    assert all(taken for junk, taken in fates if junk < seen)
    assert not any(taken for junk, taken in fates if junk > not_seen)


@pytest.mark.parametrize("share", [0.40, 0.61])
def test_a_flood_without_a_limit(chance: random.Random, share: float) -> None:
    """Then each packet of junk takes half a millisecond. The agent takes all heartbeats until there
    are too many packets for its time, and then as many as it has time for."""
    rate = round(FULL_BUS * share)
    fates = flood(chance, rate, CAN.image("varied"))
    part = sum(taken for _, taken in fates) / len(fates)
    expected = min(1.0, CAN.hertz / measured(CAN)["junk"] / rate)
    print(f"junk on {share:.0%} of the bus: {part:.1%} of the heartbeats come through, about "
          f"{expected:.0%} expected")
    assert part == 1 if expected == 1 else expected / 2 <= part <= expected * 1.2


# ---------------------------------------------------------------- nodes on an ATtiny85

def packets(sent: bytes) -> list[bytes]:
    """The packets in frames of spec/keyed.md, of variable 7. What the power cut off is left out."""
    found, at = [], 0
    while at + 10 <= len(sent):
        if sent[at] == 0x87 and sum(sent[at:at + 10]) % 256 == 0:
            found.append(sent[at + 1:at + 9])
            at += 10
        else:
            at += 1
    return found


def test_a_node_that_only_sends() -> None:
    """For 600 seconds: a heartbeat each second, an announce before every 16th, and a new own epoch
    after 255. An agent takes all of it."""
    numbers = Numbers({0xFF: 0})
    agent = Agent(KEYS, numbers, 8)
    agent.begin()
    with LiveLine(SENDS_ALONE, eeprom_of_node(KEYS, 7, hears=False)) as line:
        found = packets(line.do("wait 900000"))
        assert found == []
        sent = line.do("wait 600500000")
        found = packets(sent)
        assert len(sent) == 10 * len(found)
        line.end()
    results = [agent.process(0, packet)[0] for packet in found]
    beats = results.count(HEARTBEAT)
    assert 540 <= beats <= 660  # the watchdog is not that exact
    assert results[0] == ANNOUNCE and results.count(ANNOUNCE) == (beats + 254) // 255 == 3
    assert results.count(OLD) == sum(beat % 255 % 16 == 0 and beat % 255 != 0
                                         for beat in range(beats))  # repeated announces
    assert agent.own[7] == 0x800003


def test_power_cuts_of_a_node_that_only_sends(chance: random.Random) -> None:
    """Cut within a byte of its EEPROM and at other moments, it never uses a number twice: an agent
    takes each heartbeat that it sends. It comes back within two seconds of each start."""
    keys = Keys(chance.randbytes(16))
    agent, announced = Agent(keys, Numbers(), 8), 0
    agent.begin()
    with LiveLine(SENDS_ALONE, eeprom_of_node(keys, 7, hears=False)) as line:
        for _ in range(4 * CUTS):
            if chance.random() < 0.5:
                sent = line.do(f"writing {chance.randrange(1, 7)}",
                               f"wait {chance.randrange(3500)}")
            else:
                sent = line.do("wait 2100000", f"wait {chance.randrange(3_000_000)}")
                assert packets(sent)[1:]
            for packet in packets(sent):
                result = agent.process(0, packet)[0]
                assert result == (ANNOUNCE if packet[4] == 0x47 else HEARTBEAT)
                announced += result == ANNOUNCE
            line.do(f"cut {chance.choice((0, 0xFF, chance.randrange(256))):x}", "wait 1")
        counts = line.end()
    assert counts["boots"] == 4 * CUTS + 1
    assert counts["stack"] <= firmware.sizes(SENDS_ALONE)["bound"]
    assert announced > CUTS


@pytest.mark.parametrize("memory", [b"\xff" * 512, eeprom_of_node(KEYS, 7, hears=False)[:-12] +
                                    bytes(12), b"\7" + bytes(16) + slot(0xFFFFFF) * 2,
                                    b"\x40" + eeprom_of_node(KEYS, 7, hears=False)[1:]])
def test_a_node_without_its_numbers_is_silent(memory: bytes) -> None:
    with LiveLine(SENDS_ALONE, memory) as line:
        assert line.do("wait 5000000") == b""
        line.end()


@pytest.mark.slow
def test_a_node_that_hears(chance: random.Random) -> None:
    """It speaks only after an authentic beacon, of a later epoch; begins to count again with each
    epoch; and knows nothing after a power cut. An agent takes what it sends."""
    keys = Keys(chance.randbytes(16))
    agent = Agent(keys, Numbers({BEACON_LABEL: 0x122}), 0)
    beacon = agent.begin()
    assert beacon is not None
    damaged = bytearray(serial_frame(97, beacon))
    damaged[chance.randrange(1, 9)] ^= 1 << chance.randrange(8)
    noise = [bytes(damaged), serial_frame(97, bytes([beacon[0] ^ 1]) + beacon[1:]),
             serial_frame(96, beacon), chance.randbytes(50), beacon]
    with LiveLine(HEARS_BEACONS, eeprom_of_node(keys, 7, hears=True)) as line:
        for _ in range(2):
            assert line.do("wait 2000000", send=b"".join(noise)) == b""
            for _ in range(2):
                found = packets(line.do("wait 3000000", send=serial_frame(97, beacon) * 3))
                if found[0][5] > 2:  # perhaps one was on its way before the beacon
                    del found[0]
                assert [packet[5] for packet in found] == [1, 2, 3][:len(found)]
                assert len(found) >= 2
                assert {agent.process(0, packet)[0] for packet in found} == {HEARTBEAT}
                before, beacon = beacon, agent.tick()
                assert beacon is not None
                line.do(send=serial_frame(97, before))
            line.do(f"cut {chance.randrange(256):x}", "wait 1")
        counts = line.end()
    assert counts["boots"] == 3 and counts["stack"] <= firmware.sizes(HEARS_BEACONS)["bound"]


def test_a_node_forgets_no_epoch_that_lasts_long() -> None:
    """It hears the same beacon each second, for longer than it takes to forget one: an agent may
    have epochs of an hour. So it never begins to count at 1 again."""
    with LiveLine(HEARS_BEACONS, eeprom_of_node(KEYS, 7, hears=True),
                  HEARS_BEACONS.image("varied")) as line:
        beats = [beat for _ in range(8) for beat in packets(line.do(
            "wait 1000000", send=serial_frame(97, KEYS.beacon(5))))]
        assert [beat[5] for beat in beats] == list(range(1, len(beats) + 1)) and len(beats) > 5
        line.end()


def test_a_node_forgets_an_epoch_that_nobody_confirms() -> None:
    """This build does so after 3 seconds, the real one after 300. It is the way out after a
    beacon of a far epoch that somebody has guessed."""
    with LiveLine(HEARS_BEACONS, eeprom_of_node(KEYS, 7, hears=True),
                  HEARS_BEACONS.image("varied")) as line:
        assert packets(line.do("wait 2500000", send=serial_frame(97, KEYS.beacon(0x3F000000))))
        line.do("wait 2000000")
        assert line.do("wait 2000000") == b""
        assert packets(line.do("wait 2500000", send=serial_frame(97, KEYS.beacon(1))))
        line.end()


@pytest.mark.parametrize("board", [SENDS_ALONE, HEARS_BEACONS], ids=lambda board: board.name)
def test_make_try_shows_a_node(board: Board) -> None:
    done = make_try(board)
    frames = b"".join(map(bytes.fromhex, done.partition("It sends:\n")[2].splitlines()))
    first = KEYS.announce(7, 0x800001) if board.only_sends else KEYS.counted(7, 0x12345, 1, 7, 0)
    assert packets(frames)[0][4:6] == first[4:6] and len(packets(frames)) >= 4


WANTS = {CAN.name: "agent", SENDS_ALONE.name: "alone", HEARS_BEACONS.name: "variable"}


@pytest.mark.parametrize("board", [CAN, SENDS_ALONE, HEARS_BEACONS], ids=lambda board: board.name)
def test_make_eeprom(board: Board, tmp_path: Path) -> None:
    """From a header of `dumpulse key split` to a board that speaks. Nobody else can read the file,
    and it has no example of a key: without a header, there is none."""
    (tmp_path / "a key").touch(0o600)
    (tmp_path / "a key").write_text(KEYS.master.hex())
    split = [sys.executable, str(ROOT / "client.py"), "key", "split", str(tmp_path / "a key"),
             "--out"]
    headers = {}
    for of, *option in ((CAN, "--agent"), (SENDS_ALONE, "--alone", "7"),
                        (HEARS_BEACONS, "--variable", "7")):
        to = tmp_path / of.name
        subprocess.run([*split, str(to), *option], check=True, stdout=subprocess.PIPE)
        (headers[of.name],) = to.glob("*.h")
    header = headers.pop(board.name)
    make = ["make", "-s", "--no-print-directory", "-C", str(ROOT), "eeprom", f"BOARD={board.name}"]
    file = header.with_suffix(".eep")
    (tmp_path / "empty.h").touch()
    for arguments, reason in (
            ([], "make eeprom needs KEYS=FILE.h, which dumpulse key split makes\n"),
            ([f"KEYS={tmp_path}/no.h"], f"make eeprom cannot read {tmp_path}/no.h\n"),
            *(([f"KEYS={other}"], f"make eeprom BOARD={board.name} needs a header of dumpulse key "
               f"split --{WANTS[board.name]}, and {other} is not one\n")
              for other in (tmp_path / "empty.h", *headers.values()))):
        done = subprocess.run([*make, *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith(reason) and done.stderr.count("\n") == 2  # and that of make
        assert not list(tmp_path.glob("**/*.eep"))
    done = subprocess.run([*make, f"KEYS={header}"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{file}\n" and file.stat().st_mode & 0o777 == 0o600
    rows = [bytes.fromhex(row[1:]) for row in file.read_text().split()]
    memory = b"".join(row[4:-1] for row in rows if row[3] == 0)
    seconds = int(time.time() - datetime(2020, 1, 1, tzinfo=timezone.utc).timestamp())
    if board is CAN:
        block = slots_read(memory[16:28])
        assert seconds // 450 - 1 <= block <= seconds // 450
        with LiveBus(board, memory) as bus:
            assert bus.do("wait 1500000") == [(BASE + BEACON_AT, KEYS.beacon((block + 1) * 256))]
    else:
        with LiveLine(board, memory) as line:
            (first, *_) = packets(line.do("wait 2500000", send=serial_frame(97, KEYS.beacon(9))))
        own = slots_read(memory[17:29])
        if board.only_sends:
            assert seconds // 225 - 1 <= own - 0x800000 <= seconds // 225
            assert first == KEYS.announce(7, own + 1)
        else:
            assert first == KEYS.counted(7, 9, 1, 7, first[7])
    # A second file has larger numbers, or there is none: a device may have used those of the first.
    for age, is_made in ((-449, board is HEARS_BEACONS), (450, True)):
        os.utime(file, (time.time() - age,) * 2)
        done = subprocess.run([*make, f"KEYS={header}"], capture_output=True, text=True)
        assert is_made == (done.returncode == 0) and is_made != ("has just made" in done.stderr)


def test_the_page_of_the_nodes_has_their_size() -> None:
    page = (ROOT / "firmware" / "keyed_attiny85.md").read_text()
    for board, row in ((SENDS_ALONE, ""), (HEARS_BEACONS, "; hears")):
        flash, ram, bound = (measured(board)[column] for column in ("flash", "ram", "bound"))
        assert f"| flash, RAM, stack{row} | {flash:,}, {ram}, {bound} bytes |" in page


def make_try(board: Board) -> str:
    done = subprocess.run([sys.executable, "-m", "firmware.simulators.boards", board.name],
                          cwd=ROOT,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_try() -> None:
    assert make_try(CAN).endswith("variable 3: sender 1, value 126, timestamp 1\n")
