"""Tests of version 2: the model against spec/keyed.md and an attacker, and dumpulse_keyed.c against
the model, here and in simulators. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import ctypes
import random
import re
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bench.keyed import SOURCE
from spec import keyed, keyed_vectors
from spec.keyed import (ANNOUNCE, BEACON_LABEL, FULL, HEARTBEAT, NAMES, OLD, OWN_FIRST,
                        READER_LABEL, REFUSED, REPORT, WRONG_TAG, Agent, Hearer, Keys, Numbers,
                        Reader, Sender, Sent)
from bench.processors.machine import Keyed, Machine, image_of, load
from bench.processors.targets import EVERY
from spec.keyed_vectors import ALONE
from test_dumpulse import load_library
from tests import keyed_attack
from tests.keyed_attack import Roles
from tests.support.programs import ROOT, run, vectors
from tests.support.tiers import tiered

FOLDER = ROOT / "spec"
PAGE = ROOT / "spec/keyed.md"
GUARD = b"\xe7" * Machine.GUARD


# ---- The model.

def test_chaskey() -> None:
    rows = [line.split("\t") for line in (FOLDER / "chaskey12.tsv").read_text().splitlines()
            if line[0].isdecimal()]
    key = bytes.fromhex("33343d839f389f004fe6982339cf7a41")
    assert [keyed.chaskey12(key, bytes(range(int(length)))).hex() for length, _ in rows] == \
        [tag for _, tag in rows]
    assert [int(length) for length, _ in rows] == list(range(33))


def test_the_examples_of_the_page() -> None:
    keys, epoch = Keys(bytes(range(16))), 0x012345
    beat = keys.counted(3, epoch, 1, 76, 9)
    request = keys.counted(READER_LABEL, epoch, 1, 0xBE, 0xEF)
    table = bytes(12) + bytes.fromhex("12344c09") + bytes(240)
    shown = [keys.beacon(epoch), beat, request, keys.announce(5, 0x800001),
             keys.counted(5, 0x80000100, 1, 77, 200)]
    page = PAGE.read_text()
    assert re.findall(r"^\| [^|]+ \| `(\w{8}) (\w{8})` \|$", page, re.M) == \
        [(packet.hex()[:8], packet.hex()[8:]) for packet in shown]
    assert f"| `{keys.report(table, epoch, request)[:8].hex()}`, 12 zeros, `12344c09`," in page
    assert f"`{keys.of(3).hex()}`" in page
    assert "`03030303 03030303 45230100 83014c09`" in page
    for number, packet in ((3, beat), (127, request)):
        frame = bytes((0x80 + number,)) + packet
        assert f"`{frame.hex(' ')} {-sum(frame) % 256:02x}`" in page
        assert f"`{0x680 + number:X}#{packet.hex().upper()}`" in page


# ---- The attacker. Each mutant takes back one thing that spec/keyed.md asks for.

class BeginsAtTheStoredBlock(Agent):
    def begin(self) -> Sent:
        self.last[:self.alone] = [keyed.FULL] * self.alone
        self.own = [self.numbers.load(variable) for variable in range(self.alone)]
        self.epoch = self.numbers.load(BEACON_LABEL) * keyed.BLOCK - 1
        self.begun = True
        return self.tick()


class KeepsNoBlock(Agent):
    def begin(self) -> Sent:
        self.numbers.numbers[BEACON_LABEL] = 0
        return super().begin()


class StoresTheBlockLate(Agent):
    def tick(self) -> Sent:
        late, self.numbers = self.numbers, Numbers()
        sent, self.numbers = super().tick(), late
        return sent

    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        block = self.epoch // keyed.BLOCK
        if self.numbers.load(BEACON_LABEL) != block:
            self.numbers.store(BEACON_LABEL, block)
        return super().process(now, packet)


class GoesOnWhenStoringFails(Agent):
    def tick(self) -> Sent:
        if (self.epoch + 1) % keyed.BLOCK == 0:
            self.numbers.store(BEACON_LABEL, (self.epoch + 1) // keyed.BLOCK)
        truthful, self.numbers = self.numbers, Numbers()
        sent, self.numbers = super().tick(), truthful
        return sent


class ForgetsCountsOfSenders(Agent):
    def tick(self) -> Sent:
        sent = super().tick()
        if sent and self.epoch % keyed.BLOCK:
            self.last = [0] * len(self.last)
        return sent


class TakesAfterReset(Agent):
    def begin(self) -> Sent:
        sent = super().begin()
        self.last = [0] * len(self.last)
        return sent


class StoresNoAnnounce(Agent):
    def _announce(self, variable: int, packet: bytes) -> int:
        truthful, self.numbers = self.numbers, Numbers()
        result, self.numbers = super()._announce(variable, packet), truthful
        return result


class TakesTheSameAnnounceAgain(Agent):
    def look(self, packet: bytes) -> int:
        result = super().look(packet)
        if result == OLD and packet[4] < keyed.IS_HEARTBEAT and \
                int.from_bytes(packet[5:], "big") == self.own[packet[4] - keyed.IS_ANNOUNCE]:
            return keyed.NEW
        return result


class TakesTheLastEpochToo(Agent):
    """Without the parity bit that the variant of the design has for this."""

    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        result, sent = super().process(now, packet)
        if result != WRONG_TAG or not 0x80 < packet[4] < 0xC0:
            return result, sent
        self.epoch -= 1
        try:
            return super().process(now, packet)
        finally:
            self.epoch += 1


class TakesCountsTwice(Agent):
    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        last = self.last.copy()
        result = super().process(now, packet)
        if result[0] == HEARTBEAT:
            self.last = last
        return result


class HearsOldBeacons(Hearer):
    def hear(self, packet: bytes) -> bool:
        before = self.epoch, self.count
        self.forget()
        if super().hear(packet):
            return True
        self.epoch, self.count = before
        return False


class KeepsNoOwnEpoch(Sender):
    def begin(self) -> bool:
        self.numbers.numbers[self.variable] = OWN_FIRST
        return super().begin()


class StoresItsOwnEpochLate(Sender):
    def begin(self) -> bool:
        self.own, self.count = self.numbers.load(self.variable) + 1, 0
        return self.numbers.store(self.variable, self.own)


class TakesBeforeItHasBegun(Agent):
    def look(self, packet: bytes) -> int:
        self.begun = True
        return super().look(packet)


class BelievesWhatALaterBeaconOvertook(Reader):
    def check(self, report: bytes) -> bool:
        before = self.epoch
        if self.asked:
            self.epoch = self.asked[0]
        believed = super().check(report)
        self.epoch = before
        return believed


class AsksWithOneNonce(Reader):
    def request(self, nonce: bytes) -> Sent:
        return super().request(b"ab")


MUTANTS = {
    BeginsAtTheStoredBlock: "replay", KeepsNoBlock: "replay", StoresTheBlockLate: "reused",
    GoesOnWhenStoringFails: "replay", ForgetsCountsOfSenders: "replay", TakesAfterReset: "replay",
    StoresNoAnnounce: "replay", TakesTheSameAnnounceAgain: "replay", TakesTheLastEpochToo: "old",
    TakesCountsTwice: "replay", HearsOldBeacons: "order", KeepsNoOwnEpoch: "lockout",
    StoresItsOwnEpochLate: "order", AsksWithOneNonce: "stale", TakesBeforeItHasBegun: "replay",
    BelievesWhatALaterBeaconOvertook: "held",
}


def test_the_attacker_finds_nothing() -> None:
    assert keyed_attack.search(600, 400) == {}


@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if issubclass(mutant, Agent)],
                         ids=lambda mutant: str(mutant.__name__))
def test_the_vectors_notice_each_agent_that_is_wrong(mutant: type[Agent],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Or their script does, as a step does not come as far as the check that it is for."""
    right = iter([*keyed_vectors.steps(False)])
    monkeypatch.setattr(keyed_vectors, "Agent", mutant)
    try:
        noticed = any(step != next(right) for step in keyed_vectors.steps(False))
    except AssertionError:
        noticed = True
    assert noticed


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.__name__))
def test_the_attacker_finds_each_mutant(mutant: type[Agent | Hearer | Sender | Reader]) -> None:
    role = next(name for name, kind in (("agent", Agent), ("hearer", Hearer), ("sender", Sender),
                                        ("reader", Reader)) if issubclass(mutant, kind))
    roles = Roles(**{role: mutant})  # type: ignore[arg-type]
    found: Counter[str] = Counter()
    for first in range(0, 4000, 50):
        found.update(keyed_attack.search(50, 400, lambda: roles, first))
        if found[MUTANTS[mutant]]:
            return
    raise AssertionError(f"only found {dict(found)}")


# ---- The C code on this computer.

def library() -> ctypes.CDLL:
    made = load_library(f"-DDUMPULSE_ALONE={ALONE}", "extras/dumpulse_keyed.c",
                        "tests/keyed_host.c")
    for name in ("keyed_begin", "keyed_tick", "hear", "sender_begin", "keyed_heartbeat",
                 "keyed_request", "keyed_check"):
        getattr(made, f"dumpulse_{name}").restype = ctypes.c_bool
    made.dumpulse_keyed_process.restype = ctypes.c_uint8
    return made


class Host:
    """An agent, a node that hears, one that only sends, and a reader, all in C."""

    def __init__(self) -> None:
        self.c = library()
        self.master = self.array("host_master", 16)
        self.numbers, self.sent = self.array("host_numbers", 66 * 3), self.array("host_sent", 264)
        self.fails = ctypes.c_bool.in_dll(self.c, "host_fails")
        self.now = ctypes.c_uint16.in_dll(self.c, "host_now")
        self.sends = ctypes.c_uint.in_dll(self.c, "host_sends")
        self.length = ctypes.c_size_t.in_dll(self.c, "host_sent_length")
        self.size, _, self.last, self.report, self.node_size, self.reader_size = (
            ctypes.c_size_t * 6).in_dll(self.c, "host_sizes")
        self.zeros()

    def array(self, name: str, size: int) -> ctypes.Array[ctypes.c_uint8]:
        return (ctypes.c_uint8 * size).in_dll(self.c, name)

    def zeros(self) -> None:
        guarded = len(GUARD) + self.size + len(GUARD)
        self.memory = (ctypes.c_uint8 * guarded)(*GUARD, *bytes(self.size), *GUARD)
        self.agent = ctypes.byref(self.memory, len(GUARD))
        self.node, self.sender = ((ctypes.c_uint8 * self.node_size)() for _ in range(2))
        self.reader = (ctypes.c_uint8 * self.reader_size)()

    def taken(self) -> Sent:
        """What was sent since this was called the last time."""
        sent = bytes(self.sent[:self.length.value]) if self.sends.value else None
        assert self.sends.value < 2
        self.sends.value = 0
        return sent

    def state(self) -> tuple[bytes, ...]:
        assert bytes(self.memory[:len(GUARD)]) == bytes(self.memory[-len(GUARD):]) == GUARD
        agent = bytes(self.memory[len(GUARD):-len(GUARD)])
        at = self.report + 264
        return (agent[:8], agent[self.last:self.last + 65], agent[self.report:at],
                agent[at:at + 4 * ALONE])


HOST = Host()


def state_of(agent: Agent) -> tuple[bytes, ...]:
    return (agent.beacon(), bytes(agent.last), agent.report(),
            b"".join(own.to_bytes(3, "big") + b"\0" for own in agent.own))


small = st.integers(0, 5)
byte = st.integers(0, 255)


class Roles4(RuleBasedStateMachine):
    """All roles, in C and as models, with an attacker between them. Only the C code's packets are
    delivered. The models get them, too."""

    @initialize(master=st.binary(min_size=16, max_size=16), block=st.integers(0, 0x3EFFFF),
                own=st.integers(OWN_FIRST, 0xFFFFFF))
    def begin(self, master: bytes, block: int, own: int) -> None:
        HOST.zeros()
        HOST.master[:] = list(master)
        keys = Keys(master)
        # The agent and the node have numbers of their own, here in one place: labels 2 and 3.
        self.numbers = Numbers({BEACON_LABEL: block, 3: own})
        HOST.numbers[:] = [0] * (66 * 3)
        for label, number in self.numbers.numbers.items():
            HOST.numbers[3 * label:3 * label + 3] = list(number.to_bytes(3, "big"))
        HOST.fails.value = False
        self.keys, self.agent = keys, Agent(keys, self.numbers, ALONE)
        self.hearer, self.reader = Hearer(keys, 20), Reader(keys)
        self.sender = Sender(keys, 3, self.numbers)
        self.packets: list[bytes] = [keys.announce(2, OWN_FIRST + 1)]
        self.reports: list[bytes] = [bytes(264)]
        self.reset_agent()

    def sent(self, result: int, expected: tuple[int, Sent]) -> None:
        sent = HOST.taken()
        assert (result, sent) == expected
        if sent:
            (self.packets if len(sent) == 8 else self.reports).append(sent)

    @rule()
    def reset_agent(self) -> None:
        HOST.memory[len(GUARD):-len(GUARD)] = [0] * HOST.size
        self.agent = Agent(self.keys, self.numbers, ALONE)
        beacon = self.agent.begin()
        self.sent(HOST.c.dumpulse_keyed_begin(HOST.agent, None), (beacon is not None, beacon))

    @rule(times=st.sampled_from((1, 1, 2, 255)))
    def tick(self, times: int) -> None:
        for _ in range(times):
            beacon = self.agent.tick()
            self.sent(HOST.c.dumpulse_keyed_tick(HOST.agent, None), (beacon is not None, beacon))

    @rule(fails=st.booleans())
    def storing(self, fails: bool) -> None:
        HOST.fails.value = self.numbers.fails = fails

    @rule(first=byte, second=byte, times=st.sampled_from((1, 2, 255)))
    def beat(self, first: int, second: int, times: int) -> None:
        room = (ctypes.c_uint8 * 8)()
        for role, node, variable in ((self.hearer, HOST.node, 20), (self.sender, HOST.sender, 3)):
            for _ in range(times):
                made = HOST.c.dumpulse_keyed_heartbeat(node, room, variable, first, second)
                assert (bytes(room) if made else None) == role.heartbeat(first, second)
                if made:
                    self.packets.append(bytes(room))

    @rule(reset=st.booleans())
    def renew(self, reset: bool) -> None:
        if reset:
            HOST.sender[:] = [0] * HOST.node_size
            self.sender = Sender(self.keys, 3, self.numbers)
        begun = self.sender.begin()
        assert HOST.c.dumpulse_sender_begin(HOST.sender, 3) == begun
        room = (ctypes.c_uint8 * 8)()
        if begun:
            HOST.c.dumpulse_sender_announce(HOST.sender, room, 3)
            assert bytes(room) == self.sender.announce()
            self.packets.append(bytes(room))

    @rule()
    def reset_hearer(self) -> None:
        HOST.node[:] = [0] * HOST.node_size
        self.hearer.forget()

    @rule(nonce=st.binary(min_size=2, max_size=2))
    def ask(self, nonce: bytes) -> None:
        room = (ctypes.c_uint8 * 8)()
        made = HOST.c.dumpulse_keyed_request(HOST.reader, room, nonce)
        assert (bytes(room) if made else None) == self.reader.request(nonce)
        if made:
            self.packets.append(bytes(room))

    @rule(back=small, times=st.integers(1, 2), flip=st.integers(0, 200), now=st.integers(0, 65535),
          length=st.sampled_from((8, 8, 8, 8, 8, 8, 0, 7, 9)))
    def deliver(self, back: int, times: int, flip: int, now: int, length: int) -> None:
        packet = self.packets[-1 - back % len(self.packets)]
        if flip < 64:
            packet = bytearray(packet)  # type: ignore[assignment]
            packet[flip // 8] ^= 1 << flip % 8  # type: ignore[index]
        packet = (bytes(packet) + b"\0")[:length]
        for _ in range(times):
            HOST.now.value = now
            result = HOST.c.dumpulse_keyed_process(HOST.agent, packet, len(packet), None)
            self.sent(result, self.agent.process(now, packet))
            assert HOST.c.dumpulse_hear(HOST.node, packet, len(packet)) == self.hearer.hear(packet)
            assert HOST.c.dumpulse_hear(HOST.reader, packet, len(packet)) == \
                self.reader.hear(packet)

    @rule(back=small, flip=st.integers(0, 4 * 264 * 8))
    def believe(self, back: int, flip: int) -> None:
        report = bytearray(self.reports[-1 - back % len(self.reports)])
        if flip < 264 * 8:
            report[flip // 8] ^= 1 << flip % 8
        room = (ctypes.c_uint8 * 264)(*report)
        believed = HOST.c.dumpulse_keyed_check(HOST.reader, room, 264)
        assert believed == self.reader.check(bytes(report)) and bytes(room) == report

    @invariant()
    def same(self) -> None:
        assert HOST.state() == state_of(self.agent)
        stored = {label: int.from_bytes(bytes(HOST.numbers[3 * label:3 * label + 3]), "big")
                  for label in range(66)}
        assert {label: number for label, number in stored.items() if number} == \
            {label: number for label, number in self.numbers.numbers.items() if number}


TestRoles = Roles4.TestCase
TestRoles.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)


# ---- The C code on all targets.

def data(cell: str) -> bytes:
    return bytes.fromhex("" if cell == "-" else cell)


class Stepper:
    """Takes the steps of the vectors in a simulator, as tests/vectors_keyed.c does."""

    def __init__(self, machine: Machine, agent_fits: bool) -> None:
        self.machine, self.agent_fits = machine, agent_fits
        self.keyed = Keyed(machine, ALONE)
        self.keyed.packet = machine.agent + (self.keyed.size + 16 if agent_fits else 300)
        # The node and the reader lie where the agent does: small RAMs have no room for all.
        self.agent = b""

    def step(self, kind: str, cell: list[str]) -> bool:
        """Returns whether all is as it should be."""
        machine = self.machine
        if kind == "master":
            machine.keys, machine.numbers = Keys(data(cell[0])), Numbers()
        elif kind == "key":
            return machine.keys.of(int(cell[0])) == data(cell[1])
        elif kind == "number":
            machine.numbers.numbers[int(cell[0])] = int(cell[1], 16)
        elif kind == "stored":
            return not self.agent_fits or machine.numbers.load(int(cell[0])) == int(cell[1], 16)
        elif kind == "fails":
            machine.numbers.fails = cell[0] == "yes"
        elif kind in ("agent", "begin", "tick", "table", "beacon", *NAMES):
            return not self.agent_fits or self.of_agent(kind, cell)
        elif kind in ("node", "hear", "sender", "announced", "beat"):
            return self.of_node(kind, cell)
        elif kind in ("reader", "listen", "request", "check"):
            return self.of_reader(kind, cell)
        elif kind in ("slots", "slot"):
            return self.of_slots(kind, cell)
        else:
            raise AssertionError(f"unknown step {kind}")
        return True

    def of_agent(self, kind: str, cell: list[str]) -> bool:
        machine = self.machine
        if kind == "agent":
            machine.write(machine.agent - len(GUARD), GUARD + bytes(self.keyed.size) + GUARD)
            self.agent = bytes(8 + 65 + 4 * ALONE)
            self.report = bytes(264)
            return True
        if kind == "table":
            self.report = self.report[:8] + data(cell[0])
            machine.write(machine.agent + self.keyed.report + 8, data(cell[0]))
            return True
        if kind in ("begin", "tick"):
            call = machine.call(f"dumpulse_keyed_{kind}", machine.agent, 9)
            good, sent, state = call.result == (cell[0] == "yes"), data(cell[1]), data(cell[2])
        elif kind == "beacon":
            call = machine.call("dumpulse_keyed_beacon", machine.agent, 9)
            good, sent, state = True, data(cell[0]), b""
        else:
            now, packet = int(cell[0]), data(cell[1])
            call = self.keyed.process(now, packet, 9)
            good, sent, state = call.result == NAMES.index(kind), data(cell[2]), data(cell[3])
            if kind == "heartbeat":
                at = 8 + 4 * (packet[4] - 0x80)
                self.report = self.report[:at] + now.to_bytes(2, "big") + packet[6:] + \
                    self.report[at + 4:]
            if kind == "report":
                self.report = sent[:8] + self.report[8:]
        self.agent = state or self.agent
        beacon, last, report, own = self.keyed.state()
        sends = [bytes(hook[4]) for hook in call.hooks  # type: ignore[call-overload]
                 if hook[0] == "send" and hook[1] == 9]
        before = machine.read(machine.agent - len(GUARD), len(GUARD))
        behind = machine.read(machine.agent + self.keyed.size, len(GUARD))
        return good and sends == [sent][:len(sent)] and beacon + last + own == self.agent and \
            report == self.report and before == behind == GUARD

    def of_node(self, kind: str, cell: list[str]) -> bool:
        machine, packet = self.machine, self.keyed.packet
        node = machine.agent
        if kind == "node":
            machine.write(node, bytes(5))
        elif kind == "hear":
            machine.write(packet, data(cell[1]))
            call = machine.call("dumpulse_hear", node, packet, len(data(cell[1])))
            return call.result == (cell[0] == "yes")
        elif kind == "sender":
            call = machine.call("dumpulse_sender_begin", node, int(cell[0]))
            return call.result == (cell[1] == "yes")
        elif kind == "announced":
            machine.call("dumpulse_sender_announce", node, packet, int(cell[0]))
            return machine.read(packet, 8) == data(cell[1])
        else:
            variable, sender, value = map(int, cell[:3])
            call = machine.call("export_keyed_heartbeat", node, packet, variable,
                                sender * 256 + value)
            return (machine.read(packet, 8) if call.result else b"") == data(cell[3])
        return True

    def of_reader(self, kind: str, cell: list[str]) -> bool:
        """The report lies where the agent does, and the reader behind it."""
        machine, packet, reader = self.machine, self.keyed.packet, self.machine.agent + 272
        if kind == "reader":
            machine.write(reader, bytes(17))
            return True
        if kind == "listen":
            machine.write(packet, data(cell[1]))
            return machine.call("dumpulse_hear", reader, packet, 8).result == (cell[0] == "yes")
        if kind == "request":
            machine.write(packet + 8, data(cell[0]))
            call = machine.call("dumpulse_keyed_request", reader, packet, packet + 8)
            return (machine.read(packet, 8) if call.result else b"") == data(cell[1])
        report = data(cell[0])
        machine.write(machine.agent, report[:264])
        call = machine.call("dumpulse_keyed_check", reader, machine.agent, len(report))
        return call.result == (cell[1] == "yes") and \
            machine.read(machine.agent, len(report[:264])) == report[:264]

    def of_slots(self, kind: str, cell: list[str]) -> bool:
        machine, memory, room = self.machine, self.keyed.packet, self.keyed.packet + 16
        machine.write(memory, data(cell[0]))
        if kind == "slots":
            machine.call("dumpulse_slots_read", memory, room)
            return machine.read(room, 3) == data(cell[1])
        machine.write(room, data(cell[1]))
        call = machine.call("dumpulse_slots_write", memory, room + 4, room)
        return call.result == int(cell[2]) and machine.read(room + 4, 6) == data(cell[3])


@pytest.mark.parametrize("name", tiered(EVERY, lambda name: EVERY[name].quick))
def test_vectors_on_every_target(name: str) -> None:
    with closing(load(name, SOURCE, f"-DDUMPULSE_ALONE={ALONE}")) as machine:
        machine.counted = False
        # An ATtiny has 512 bytes of RAM. With ALONE the agent and its stack need more.
        stepper = Stepper(machine, not name.startswith("ATtiny"))
        lines = vectors("vectors_keyed.tsv").read_text().splitlines()
        for number, line in enumerate(lines, 1):
            kind, *cell = line.split("\t")
            assert line.startswith("#") or stepper.step(kind, cell), f"line {number}: {line}"
    assert number > 2100


# An agent in one piece with the library. The compiler tells how much it knows of what is sent.
AGENT = """
#include "dumpulse.h"
static size_t known;
inline __attribute__((always_inline)) void dumpulse_send_packet(
    void *context, const uint8_t *packet, size_t length)
{
    (void)context, (void)length;
    known = __builtin_object_size(packet, 1);
}
#include "dumpulse_keyed.c"
#include "keyed_host.c"
int main(void)
{
    static dumpulse_keyed keyed;
    send_report(&keyed, host_master, NULL);
    return known < DUMPULSE_KEYED_REPORT_SIZE;
}
"""


def test_a_report_is_sent_from_where_it_lies_and_not_from_its_first_part(tmp_path: Path) -> None:
    """A pointer to a part of the agent must not reach the next one: a compiler may say that it does
    not, and a hook with _FORTIFY_SOURCE ends the program."""
    host = (ROOT / "tests/keyed_host.c").read_text()
    sends = host.index("void dumpulse_send_packet")
    (tmp_path / "keyed_host.c").write_text(host[:sends])
    (tmp_path / "agent.c").write_text(AGENT)
    run(["gcc", "-O2", "-std=gnu11", f"-I{ROOT}", f"-I{ROOT}/extras", tmp_path / "agent.c",
         "-o", tmp_path / "agent"])
    run([tmp_path / "agent"])


# A node in one piece with the library, as -flto makes it.
NODE = """
#include "dumpulse_keyed.c"
#ifdef __clang__
#define CALLED
#else
#define CALLED __attribute__((externally_visible))
#endif
CALLED void tag(uint8_t *packet, const uint8_t *number);
CALLED void tag(uint8_t *packet, const uint8_t *number)
{
    store32(packet, dumpulse_tag_(packet, LABEL, number, NULL));
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), [
    (name, how) for name in EVERY if name.startswith(("ATmega328P", "Cortex-M0+"))
    for how in ("", "-flto", "-fwhole-program")
    if not (how and EVERY[name].clang) and (how != "-flto" or "gcc" not in name)])
def test_a_label_that_the_compiler_knows(name: str, how: str, tmp_path: Path) -> None:
    """The tag is right for each, also where the compiler reuses a register that has this number."""
    chance = random.Random(9)
    (tmp_path / "node.c").write_text(NODE)
    for label in range(66):
        with closing(image_of(name, [tmp_path / "node.c"], ["tag"],
                              ["-DDUMPULSE_NODE", f"-DLABEL={label}", *how.split()])) as machine:
            machine.keys, machine.label_keys = Keys(chance.randbytes(16)), True
            number, four = chance.randbytes(4), chance.randbytes(4)
            machine.write(machine.packet, bytes(4) + four + number)
            machine.call("tag", machine.packet, machine.packet + 8)
            packet = machine.keys.packet(label, int.from_bytes(number, "big"), four)
            assert machine.read(machine.packet, 8) == packet, label


@pytest.mark.parametrize("name", tiered(EVERY, lambda name: EVERY[name].quick))
def test_time_does_not_depend_on_keys(name: str) -> None:
    """A heartbeat takes the same number of cycles or instructions for every key, packet and wrong
    tag: no compiler has made several comparisons of one."""
    chance = random.Random(8)
    with closing(load(name, SOURCE)) as machine:
        place, costs = Keyed(machine, 0), {kind: Counter[int]() for kind in (HEARTBEAT, WRONG_TAG)}
        for _ in range(6):
            machine.keys = Keys(chance.randbytes(16))
            machine.numbers = Numbers({BEACON_LABEL: chance.randrange(0x3EFF00)})
            agent = Agent(machine.keys, Numbers(machine.numbers.numbers), 0)
            machine.write(machine.agent, bytes(place.size))
            assert machine.call("dumpulse_keyed_begin", machine.agent, 0).result
            agent.begin()
            for variable in chance.sample(range(64), 5):
                good = machine.keys.counted(variable, agent.epoch, chance.randrange(1, FULL),
                                            *chance.randbytes(2))
                wrong = bytes(one ^ chance.randrange(1, 256) for one in good[:4])
                for tag in (wrong, wrong[:1] + good[1:4], good[:3] + wrong[3:], good[:4]):
                    call = place.process(1, tag + good[4:])
                    costs[call.result][call.cost] += 1
    assert sum(costs[HEARTBEAT].values()) == 30 and len(costs[HEARTBEAT]) == 1, costs
    assert sum(costs[WRONG_TAG].values()) == 90 and len(costs[WRONG_TAG]) == 1, costs


def test_results_have_the_numbers_of_the_header() -> None:
    header = (ROOT / "extras/dumpulse_keyed.h").read_text()
    for name in ("ANNOUNCE", "OLD", "WRONG_TAG", "NOT_BEGUN", "NOT_STORED", "NEW"):
        assert f"    DUMPULSE_{name} = {getattr(keyed, name)}" in header
    assert (REFUSED, HEARTBEAT, REPORT, ANNOUNCE, OLD) == (0, 1, 2, 3, 4)
