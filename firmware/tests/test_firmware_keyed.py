"""The firmware with keys, in simavr: an agent on a CAN bus and one on a serial line, a node, and
floods of junk.

DUMPULSE_SEED repeats a run."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from firmware.costs import images
from firmware.simulators.boards import (BOARDS, REPORT_AT, REQUEST_AT, Board, LiveBus, LiveLine,
                                        eeprom, eeprom_of_node, frame, serial_frame,
                                        serial_frames)
from firmware.tests.test_serial_firmware import straddled
from spec.keyed import (HEARTBEAT, IS_HEARTBEAT, IS_REQUEST, LABELS, READER_LABEL, Agent, Hearer,
                        Keys, Number, Reader, question, slots_read)
from spec.model import REQUEST, heartbeat
from tools.programs import EXTRAS, INCLUDES, ROOT, run

KEYS = Keys(bytes(range(16)))
CAN, ON_LINE = BOARDS["can_avr-keyed"], BOARDS["keyed_atmega328p"]
NODE = BOARDS["keyed_attiny85"]
CAN_LED = replace(CAN, pins=("C5",))
FLASH, FLASH_NODE = BOARDS["keyed_stm32"], BOARDS["node_stm32"]
BASE, BEACON_AT = CAN.can_id, 97
EPOCH = 0x12300  # the first one after block 122
# A second after its start, the agent begins. That takes 20 ms of its EEPROM and 65 beacons.
STARTED = "wait 1150000"
BEGUN = {CAN: STARTED, ON_LINE: "wait 1100000", FLASH: "wait 2600000"}


class Rig:
    """An agent in a simulator, and all that it has sent."""

    def __init__(self, keys: Keys = KEYS, block: int = 0x122, image: Path | None = None,
                 board: Board = CAN, memory: bytes | None = None) -> None:
        self.keys, self.reader = keys, Reader(keys)
        self.beacons: list[tuple[int, int]] = []  # epoch and label, in the order in which they came
        self.hearers: list[Hearer] = []  # nodes on this bus
        self.reports: list[bytes] = []
        self.frames: list[tuple[int, bytes]] = []
        self._labels: dict[int, dict[bytes, int]] = {}  # epoch: beacon: label
        memory = eeprom(keys, block, board) if memory is None else memory
        self.bus: LiveBus | LiveLine = (
            LiveLine if board.baud else LiveBus)(board, memory, image)
        self._is_cut = False
        self._report, self._frame = b"", b""  # the beginnings of the next report and frame

    def do(self, *script: str, send: bytes = b"") -> None:
        """On a line, power that fails cuts a frame; the rest may look like one, with the next."""
        if isinstance(self.bus, LiveBus):
            frames = self.bus.exchange(*script)
        else:
            self._is_cut |= any(line.startswith(("cut", "fail")) for line in script)
            self._frame += self.bus.do(*script, send=send)
            frames = serial_frames(self._frame)
            assert len(self._frame) - 10 * len(frames) < 20
            if frames:
                last = serial_frame(*frames[-1])
                self._frame = self._frame[self._frame.rindex(last) + 10:]
        self.frames += frames
        for offset, data in frames:
            assert len(data) == 8
            if offset == REPORT_AT + len(self._report) // 8:
                self._report += data
                if len(self._report) == 264:
                    self.reports.append(self._report)
                    self._report = b""
            else:
                assert offset == BEACON_AT and self._hear(data) or self._is_cut

    def _hear(self, beacon: bytes) -> bool:
        """Returns whether it is authentic."""
        epoch = int.from_bytes(beacon[4:], "big")
        if epoch not in self._labels:
            self._labels[epoch] = {self.keys.beacon(label, epoch): label
                                   for label in range(LABELS)}
        label = self._labels[epoch].get(beacon)
        if label is None:
            return False
        self.beacons.append((epoch, label))
        for hearer in (self.reader, *self.hearers):
            if hearer.label == label:
                hearer.hear(beacon)
        return True

    def epoch(self, label: int) -> int:
        """The last one that was heard for this label."""
        return next(epoch for epoch, of in reversed(self.beacons) if of == label)

    def counted(self, variable: int, count: int, first: int, second: int) -> bytes:
        return self.keys.counted(variable, self.epoch(variable), count, first, second)

    def send(self, *packets: bytes) -> None:
        placed = [(REQUEST_AT if packet[4] == IS_REQUEST else packet[4] % 64, packet)
                  for packet in packets]
        if isinstance(self.bus, LiveBus):
            self.do(*(frame(BASE + offset, packet) for offset, packet in placed), "wait 2000")
        else:
            self.do(send=b"".join(serial_frame(offset, packet) for offset, packet in placed))

    def ask(self, *before: bytes) -> list[bytes] | None:
        """Asks for a report, and waits. The report has to be authentic, if one has come."""
        request, reports = self.reader.request(b"no"), len(self.reports)
        assert request is not None
        self.send(*before, request)
        self.do("wait 22000" if isinstance(self.bus, LiveBus) else "wait 700000")
        return self.answer() if self.reports[reports:] else None

    def answer(self) -> list[bytes] | None:
        """The entries of the report that has come to the last request, if no later beacon has."""
        assert self.reader.asked
        if self.reader.asked[0] != self.reader.epoch:
            return None
        assert self.reader.check(self.reports[-1])
        return [self.reports[-1][at:at + 4] for at in range(8, 264, 4)]

    def table(self) -> list[bytes]:
        """The agent does not take a request of the epoch that has just ended, and says so."""
        table = self.ask() or self.ask()
        assert table is not None
        return table

    def end(self, boots: int) -> None:
        """It has begun as often as its power was switched on: its watchdog has never reset it."""
        counts = self.bus.end()
        assert counts["boots"] == boots
        assert counts["stack"] <= images.sizes(self.bus.board)["bound"]

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.bus.__exit__()


def test_a_conversation() -> None:
    """Beacons of all labels; heartbeats of a node; what is refused."""
    with Rig() as rig:
        rig.do("wait 900000")
        assert rig.beacons == []
        rig.do("wait 250000")
        begun = [beacon for beacon in rig.beacons if beacon != (EPOCH + 1, 0)]
        assert sorted(begun) == [(EPOCH, label) for label in range(LABELS)]
        rig.beacons.clear()
        node = Hearer(KEYS, 3)
        rig.hearers.append(node)
        rig.send(question(3), question(READER_LABEL))
        assert [label for _, label in rig.beacons] == [3, READER_LABEL]
        beat, again = node.heartbeat(76, 9), node.heartbeat(76, 10)
        assert beat and again
        rig.send(beat)
        assert rig.table()[3] == bytes((0, 1, 76, 9))
        rig.send(again, beat, heartbeat(3, 1, 1))
        rig.do(frame(BASE + REQUEST_AT, REQUEST), "wait 20000")  # version 1 gets no answer
        assert len(rig.reports) == 1
        table = rig.table()
        assert table[3] == bytes((0, 1, 76, 10)) and table[0] == bytes((0, 1, 1, 0))
        rig.do("until 5000000")
        for count in range(0, 200, 40):  # an old request is answered with a beacon
            before = len(rig.beacons)
            rig.send(KEYS.counted(READER_LABEL, EPOCH - 1, count, 1, 2))
            assert rig.beacons[before:] == [(EPOCH, READER_LABEL)]
        rig.end(1)


def test_it_is_silent_until_a_node_asks() -> None:
    """It only listens until the first good frame. Then the beacons leave that had to wait."""
    with LiveBus(CAN, eeprom(KEYS, 0x122), silent=True) as bus:
        assert bus.do("wait 5000000") == []
        sent = bus.do(frame(BASE + 3, question(3)), "wait 100000")
        label_of = {KEYS.beacon(label, epoch): label
                    for label in range(LABELS) for epoch in (EPOCH, EPOCH + 1)}
        assert {label_of[data] for _, data in sent} == {*range(LABELS)}
        assert bus.end()["destroyed"] == 0


def test_an_epoch_has_ten_seconds() -> None:
    """One label begins it after the other. Then each next beacon of a label comes 10 s after the
    one before, however full the bus is: here nobody lets the agent's frames through for 3 s, and
    when the first label begins the next one. Its beacon leaves later."""
    with Rig() as rig:
        rig.do("until 1150000")
        for step in range(1, 108):
            rig.do(*(["alone"] if step in (20, 97) else ["together"] if step in (50, 105) else []),
                   f"until {1_150_000 + step * 100_000}")
            assert rig.beacons[0][0] == EPOCH
            begun = len({label for epoch, label in rig.beacons if epoch == EPOCH + 1})
            if not 20 <= step < 56 and step < 97:
                assert abs(begun - step * 0.651) < 3, step
        assert begun >= LABELS - 2 and (EPOCH + 2, 0) in rig.beacons
        rig.end(1)


def test_a_generation_is_a_byte_of_the_eeprom() -> None:
    """The variable has another key then, and the old one is worth nothing."""
    keys = Keys(KEYS.master, generations={7: 2, 63: 255})
    with Rig(keys, 0x122) as rig:
        rig.do(STARTED)
        for variable in (6, 7, 63):
            rig.send(rig.counted(variable, 1, 2, variable),
                     KEYS.counted(variable, rig.epoch(variable), 2, 3, variable))
        table = rig.table()
        assert [table[at][2] for at in (6, 7, 63)] == [3, 2, 2]
        rig.end(1)


def test_only_answers_have_a_limit() -> None:
    """In a second, 65 questions and refused requests, old or forged, are answered, and 16 more
    after a pause. Nothing else is limited, and what is repeated costs no tag."""
    with Rig() as rig:
        rig.do("until 2010000")
        assert rig.table()[60] == bytes(4) and rig.reader.count >= 1  # a request of 1 is old
        first, more = (rig.counted(60, count, 7, count) for count in (1, 2))
        rig.send(first, *[first, KEYS.beacon(0, EPOCH)] * 300)
        old, forged = (bytes(4) + bytes((IS_REQUEST, count, 1, 1)) for count in (1, 255))
        for kind in (None, old, forged):
            rig.do("wait 300000")
            now = len(rig.beacons)
            asked = [kind or question(40 + at % 20) for at in range(80)]
            rig.do(*(line for packet in asked for line in (frame(BASE + packet[4] % 64, packet),
                                                           "wait 2000")))
            # In 0.2 s, with those that come by themselves.
            assert 16 + 8 <= len(rig.beacons) - now <= 16 + 13 + 3, kind
        rig.send(more)
        assert rig.table()[60][2:] == b"\7\2"
        assert rig.ask(*[question(50)] * 40), "a request needs no answer that is left"
        rig.do("wait 300000")
        before = len(rig.beacons)
        rig.send(question(64), question(63))
        assert len(rig.beacons) >= before + 2
        rig.end(1)


def test_one_more_request_is_kept_while_a_report_leaves() -> None:
    with Rig() as rig:
        rig.do(STARTED)
        rig.send(*(KEYS.counted(64, EPOCH, count, 1, count) for count in (1, 2, 3)))
        rig.do("wait 40000")
        assert [report[:8] for report in rig.reports] == [
            KEYS.report(report[8:], EPOCH, KEYS.counted(64, EPOCH, count, 1, count))[:8]
            for report, count in zip(rig.reports, (1, 3), strict=True)]
        assert len({*rig.beacons}) == len(rig.beacons), "nobody has asked for one"
        rig.end(1)


@pytest.mark.slow
def test_a_block_ends() -> None:
    """Then the number of the next one is written in 20 ms, while heartbeats come, and the first
    label begins its epoch when it is there. If the power is cut meanwhile, no epoch is used
    again, either."""
    for cut_in in (False, True):
        with Rig() as rig:
            rig.do("wait 2540000000", "writing 1", "wait 2000")
            assert rig.beacons[-1] == (EPOCH + 255, READER_LABEL)
            if cut_in:
                rig.do("cut 55", STARTED)
            else:
                rig.send(rig.counted(9, 1, 8, 8))
                rig.do("wait 400000")
                assert rig.table()[9][2:] == b"\x08\x08"
            assert rig.epoch(0) in (EPOCH + 256, EPOCH + 257)
            assert {epoch for epoch, _ in rig.beacons} == {*range(EPOCH, rig.epoch(0) + 1)}
            assert len({*rig.beacons}) == len(rig.beacons), "an epoch was used before it was stored"
            rig.end(1 + cut_in)


def unkeyed(board: Board, folder: Path) -> Path:
    """Its image with -DUNKEYED=2,4,45,46."""
    name = "can_avr" if board is CAN else "keyed_serial"
    parts = ("tag.c", "tag_avr.S", "agent.c", "mixed.c", "report.c", "master.c", "slots.c")
    run(["avr-gcc", *board.options, "-std=c11", "-Os", "-DKEYED", "-DUNKEYED=2,4,45,46",
         *INCLUDES, f"-I{ROOT / 'firmware'}", ROOT / "firmware" / f"{name}.c",
         *(ROOT / f"firmware/keyed_{part}.c" for part in ("avr", "agent")), ROOT / "dumpulse.c",
         *(EXTRAS / f"dumpulse_{part}" for part in parts), "-o", folder / "unkeyed.elf"])
    return folder / "unkeyed.elf"


def junk(chance: random.Random) -> bytes:
    """Only its tag gives it away, and questions have none."""
    label = chance.randrange(64)
    four = chance.choice(8 * [(IS_HEARTBEAT + label, 255)] + [
        (IS_REQUEST, 255), (IS_HEARTBEAT + chance.randrange(65), 0)])
    return chance.randbytes(4) + bytes(four) + chance.randbytes(2)


@pytest.mark.slow
def test_junk_silences_nobody(chance: random.Random) -> None:
    """Junk has 40 % of the bus for 12 seconds: in these, each label begins its next epoch."""
    frame_us, step_us, nodes = 256, 20_000, range(21, 64)  # a frame has 128 bits
    with Rig() as rig:
        rig.do("gap 0", "until 2000000")
        sent = dict.fromkeys(nodes, 0)
        for step in range(600):
            variable = nodes[step % len(nodes)]
            sent[variable] += 1
            packets = [junk(chance) for _ in range(step_us * 4 // 10 // frame_us)]
            packets.insert(chance.randrange(len(packets)),
                           rig.counted(variable, sent[variable], 1, sent[variable]))
            begin = 2_000_000 + step * step_us
            rig.do(*(line for at, packet in enumerate(packets) for line in (
                f"until {begin + at * step_us // len(packets)}",
                frame(BASE + (REQUEST_AT if packet[4] == IS_REQUEST else packet[4] % 64), packet))))
        assert all(rig.epoch(label) > EPOCH for label in range(LABELS))
        table = rig.table()
        rig.end(1)
    lost = [at for at in nodes if table[at][2:] != bytes((1, sent[at]))]
    assert len(lost) <= 1, lost  # one may be on its way when its epoch ends


def test_nodes_of_version_1(tmp_path: Path) -> None:
    """A variable in UNKEYED is accepted in version 1, and not in version 2. All others are accepted
    in version 2 only. Requests have a key."""
    with Rig(KEYS, 0x122, unkeyed(CAN, tmp_path)) as rig:
        rig.do(STARTED)
        rig.send(*(heartbeat(at, 1, at) for at in (44, 45, 46, 63)))
        rig.send(*(rig.counted(at, 1, 2, at) for at in (3, 45, 46, 62)))
        begun = len(rig.beacons)
        rig.send(question(45))
        rig.do(frame(BASE + REQUEST_AT, REQUEST), "wait 20000")
        assert rig.reports == [] and 45 not in [label for _, label in rig.beacons[begun:]]
        table = rig.table()
        assert {at: entry[2:] for at, entry in enumerate(table) if any(entry[2:]) and at} == {
            3: b"\2\3", 45: b"\1\x2d", 46: b"\1\x2e", 62: b"\2\x3e", 63: b"\1\x21"}  # its boot
        rig.send(heartbeat(45, 1, 9)[:7] + b"\x08")
        assert rig.table()[45][2:] == b"\1\x2d", "its checksum is wrong"
        rig.end(1)


# ---------------------------------------------------------------- a node on an ATtiny85

def packets(sent: bytes) -> list[bytes]:
    """The packets in frames of spec/keyed.md, of variable 7. What the power cut off is left out."""
    return [packet for offset, packet in serial_frames(sent) if offset == 7]


QUESTION = serial_frame(7, question(7))


def apart(sent: bytes) -> bytes:
    """Three copies of a frame. While the node transmits, it receives nothing: at most one copy is
    lost. The zeros let it find the next start bit, and no 10 bytes that begin within a copy reach
    into the next one."""
    return (sent + bytes(12)) * 3


@pytest.mark.slow
def test_a_node(chance: random.Random) -> None:
    """It speaks only after its authentic beacon, of a later epoch; begins to count again with each
    epoch; and knows nothing after a power cut. An agent takes what it sends."""
    keys = Keys(chance.randbytes(16))
    agent = Agent(keys, Number(0x122))
    agent.begin()
    beacons = agent.round()
    damaged = bytearray(serial_frame(97, beacons[7]))
    damaged[chance.randrange(1, 9)] ^= 1 << chance.randrange(8)
    noise = [bytes(damaged), serial_frame(97, bytes([beacons[7][0] ^ 1]) + beacons[7][1:]),
             *(serial_frame(97, beacons[label]) for label in (6, 8, 64)),
             serial_frame(96, beacons[7]), chance.randbytes(50), beacons[7]]
    with LiveLine(NODE, eeprom_of_node(keys, 7)) as line:
        for _ in range(2):
            assert line.do("wait 500000") == QUESTION
            assert line.do("wait 2000000", send=b"".join(noise)) == b""
            for _ in range(2):
                found = packets(line.do("wait 3000000", send=apart(serial_frame(97, beacons[7]))))
                if found[0][5] > 2:  # perhaps one was on its way before the beacon
                    del found[0]
                assert [packet[5] for packet in found] == [1, 2, 3, 4][:len(found)]
                assert len(found) >= 2
                assert {agent.process(0, packet)[0] for packet in found} == {HEARTBEAT}
                before, beacons = beacons, agent.round()
                line.do("wait 20000", send=serial_frame(97, before[7]))
            line.do(f"cut {chance.randrange(256):x}", "wait 1")
        counts = line.end()
    assert counts["boots"] == 3 and counts["stack"] <= images.sizes(NODE)["bound"]


@pytest.mark.slow
def test_a_node_asks_and_forgets() -> None:
    """While it hears a beacon of its epoch, it does neither: so it never counts from 1 again.
    Otherwise it asks after a bit more than an epoch, here 2.5 s, twice an epoch, and forgets its
    epoch after 60 questions. That is the way out after a beacon of a far epoch that somebody has
    guessed."""
    with LiveLine(NODE, eeprom_of_node(KEYS, 7, epoch=2)) as line:
        assert line.do("wait 500000") == QUESTION
        beats = [line.do("wait 1000000", send=serial_frame(97, KEYS.beacon(7, 0x1F000000)))
                 for _ in range(8)]
        counts = [packet[5] for packet in packets(b"".join(beats))]
        assert counts == list(range(1, len(counts) + 1)) and len(counts) > 5
        sent = packets(line.do("wait 68000000"))
        asked = [at for at, packet in enumerate(sent) if packet == question(7)]
        assert 60 < len(asked) < 70
        assert len(sent) - asked[59] == len(asked) - 59, "only questions follow"
        assert 55 < len(sent) - len(asked)
        sent = [packet for packet in packets(
            line.do("wait 500000", send=serial_frame(97, KEYS.beacon(7, 1))))
            if packet != question(7)]
        assert KEYS.counted(7, 1, 1, *sent[0][6:]) == sent[0]
        line.end()


def test_a_node_without_a_key_and_one_whose_clock_stops() -> None:
    """The first sends nothing. The watchdog resets the second, although 2 s of bytes come."""
    for board in (NODE, FLASH_NODE):
        with LiveLine(board, b"\xff") as line:
            assert line.do("wait 1500000") == b""
            assert line.end()["boots"] == 1
    with LiveLine(FLASH_NODE, eeprom_of_node(KEYS, 60, board=FLASH_NODE)) as line:
        line.do("wait 500000", "stop")
        line.do(send=bytes(1920))
        assert line.end()["boots"] == 2


# ---------------------------------------------------------------- an agent on a serial line

def test_beacons_on_a_line_have_a_pause() -> None:
    """A node without a UART hears nothing while it checks a tag, which takes 0.6 ms. A frame takes
    10.4 ms."""
    with Rig(board=ON_LINE) as agent:
        agent.do("wait 1100000")
        before = len(agent.beacons)
        agent.do("wait 500000")
        assert 500 / 16 < len(agent.beacons) - before <= 500 / 12.4 + 1


@pytest.mark.parametrize("board", [ON_LINE, FLASH], ids=lambda board: board.name)
def test_an_agent_on_a_line_loses_no_byte(board: Board) -> None:
    """Frames come without a pause, also while a report leaves; with junk before them, and frames
    that are for others or damaged."""
    with Rig(board=board) as agent:
        agent.do(BEGUN[board], "wait 900000")
        beats = [serial_frame(at, KEYS.counted(at, EPOCH, 1, 7, at)) for at in range(32, 64)]
        request = serial_frame(98, KEYS.counted(READER_LABEL, EPOCH, 1, 1, 1))  # the first reader
        others = [serial_frame(at, KEYS.counted(12, EPOCH, 1, 7, 12)) for at in (64, 96, 97, -116)]
        damaged = serial_frame(13, KEYS.counted(13, EPOCH, 1, 7, 13))
        agent.do("wait 800000", send=request + b"\x8d\xff" + b"".join(
            beats + others + [damaged[:9] + bytes([damaged[9] ^ 1])]))
        assert len(agent.reports) == 1
        agent.reader.count = 1
        table = agent.table()
        assert [table[at][2:] for at in range(32, 64)] == [bytes((7, at)) for at in range(32, 64)]
        assert table[12] == table[13] == bytes(4) and table[0][2:] == b"\1\0"
        assert len({*agent.beacons}) == len(agent.beacons), "nobody has asked for one"


def test_nodes_of_version_1_on_a_line(tmp_path: Path) -> None:
    """They have no frames. What is not accepted stays a part of what follows, and no byte is in two
    packets: the pair contains a heartbeat of variable 2."""
    pair = straddled()[45]  # the slot of variables 4 and 45
    with Rig(image=unkeyed(ON_LINE, tmp_path), board=ON_LINE) as agent:
        agent.do("wait 2300000")
        keyed = [serial_frame(at, KEYS.counted(at, EPOCH, 1, 2, at)) for at in (46, 50)]
        agent.do("wait 100000", send=b"".join((
            *pair, heartbeat(45, 1, 5), heartbeat(44, 1, 4), keyed[0], heartbeat(46, 1, 6), b"\xff",
            keyed[1], REQUEST)))
        table = agent.table()
        assert {at: entry[2:] for at, entry in enumerate(table) if any(entry[2:]) and at} == {
            4: pair[0][6:], 45: b"\1\5", 46: b"\1\6", 50: b"\2\x32", 63: b"\1\x21"}


@pytest.mark.parametrize("fault", [b"HangHere", b"StopTime"])
@pytest.mark.parametrize("board", [CAN, ON_LINE, pytest.param(FLASH, marks=pytest.mark.slow)],
                         ids=lambda board: board.name)
def test_the_watchdog_of_an_agent(board: Board, fault: bytes) -> None:
    """It resets a loop or a clock that hangs, although 2.5 s of bytes come. Then the agent begins
    in a block that was never used, with an empty table."""
    with Rig(image=board.image("hanging"), board=board) as agent:
        agent.do(BEGUN[board], "wait 1200000")
        agent.send(beat := agent.counted(40, 1, 7, 7))
        table = agent.table()
        assert table[40][2:] == b"\7\7"
        assert table[63] == b"\0\0\1\x21", "the first boot, a power-up"
        agent.send(fault)
        agent.do("wait 4500000", send=bytes(2400) if board.baud else b"")
        agent.send(beat)
        table = agent.table()
        assert agent.reader.epoch == EPOCH + 256 and table[40] == bytes(4)
        assert table[63] == b"\0\0\1\x82", "the second boot, by the watchdog"
        agent.end(2)


@pytest.mark.parametrize(("operation", "full"), [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0), (4, 1),
                                                 (8, 0)])
def test_the_power_fails_while_flash_is_written(operation: int, full: int,
                                                chance: random.Random) -> None:
    """One page is full, so it is erased when the other one is: operation 0 is half a word of its
    last record, 4 the erasure of the full page, and 5 to 8 the next record. No epoch is used again,
    and the agent begins."""
    first, records = 0x122, 2 * 1024 // 8
    numbers = b"".join(number.to_bytes(4, "big") + (number ^ 0xFFFFFFFF).to_bytes(4, "big")
                       for number in range(first, first + records - 1)) + b"\xff" * 8
    at, last = 1024 * full, first + records - 2
    memory = eeprom(KEYS, 0, FLASH)[:1024] + numbers[at:] + numbers[:at]
    with Rig(board=FLASH, memory=memory) as agent:
        agent.do(f"fail {operation} {chance.getrandbits(32)}", "wait 3500000")
        before = set[int]()
        for block in range(3):
            if block:
                agent.do(f"cut {chance.randrange(256):x}", BEGUN[FLASH])
            epochs = {epoch for epoch, _ in agent.beacons} - before
            assert min(epochs) % 256 == 0 and min(epochs) > max(before, default=256 * last)
            before |= epochs
        assert min(before) // 256 <= last + 2 and max(before) // 256 <= last + 4
        ended = agent.bus.end()
        assert ended["boots"] == 4 and ended["erased"] >= 1


@pytest.mark.parametrize(("board", "memory", "flashes", "pin"), [
    (ON_LINE, b"\xff" * 93, 2, "C5"), (ON_LINE, eeprom(KEYS, 0x1FFFFF), 3, "C5"),
    (CAN_LED, eeprom(KEYS, 1)[:16] + b"\xff" * 77, 2, "C5"),
    (FLASH, b"", 2, "C13"), (FLASH, bytes(3072), 2, "C13"),
    (FLASH, eeprom(KEYS, 0x1FFFFF, FLASH), 3, "C13"), (FLASH, eeprom(KEYS, 1, FLASH), 0, "C13"),
    (FLASH, eeprom(KEYS, 2, FLASH), 1, "C13"), (ON_LINE, eeprom(KEYS, 2), 1, "C5")],
    ids=["blank", "used-up", "bus", "flash-ff", "flash-00", "flash-used-up", "flash-begins",
         "protected", "worn"])
def test_an_led_shows_why_an_agent_has_not_begun(board: Board, memory: bytes, flashes: int,
                                                 pin: str) -> None:
    """It flashes once if a number cannot be stored, 2 times if there is none, and 3 times if all
    epochs are used up."""
    with (LiveLine if board.baud else LiveBus)(board, memory) as line:
        protect = ["protect"] * (flashes == 1)
        assert (not line.do(*protect, "wait 8500000")) == bool(flashes)
        assert line.end()["boots"] == 1
        changes = [at for at, name, _ in line.pin_changes if name == pin and 3.9 < at < 7.8]
        assert len(changes) == 2 * flashes


@pytest.mark.parametrize("board", [CAN, ON_LINE, FLASH, NODE, FLASH_NODE],
                         ids=lambda board: board.name)
def test_a_board_begins_with_what_key_eeprom_makes(
        board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variable 7 has its third key, and the node has the duration of the agent's epochs."""
    keys, is_node = Keys(KEYS.master, generations={7: 2}), board in (NODE, FLASH_NODE)
    (tmp_path / "a key").touch(0o600)
    (tmp_path / "a key").write_text(f"{KEYS.master.hex()}\nepoch 600\n7 2\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run([ROOT / "client.py", "key", "eeprom", tmp_path / "a key", "--image", board.name,
         "--out", tmp_path / "made", *["--variable=7"] * is_node])
    (file,) = (tmp_path / "made").glob("a key-*")
    rows = [bytes.fromhex(row[1:]) for row in file.read_text().split()]
    memory = b"".join(row[4:-1] for row in rows if row[3] == 0)
    if is_node:
        with LiveLine(board, memory) as line:
            line.do("wait 500000")
            first = packets(line.do("wait 2000000", send=serial_frame(97, keys.beacon(7, 9))))[0]
        assert first == keys.counted(7, 9, 1, 7, first[7]) and memory[-2:] == b"\x58\2"
        return
    block = int.from_bytes(memory[1024:], "big") >> 32 if board is FLASH else \
        slots_read(memory[16:28])
    if board is CAN:
        with LiveBus(board, memory) as bus:
            sent = [data for _, data in bus.do("wait 1150000")]
    else:
        with LiveLine(board, memory) as line:
            sent = [data for _, data in serial_frames(line.do("wait 3500000"))]
    assert {keys.beacon(label, (block + 1) * 256) for label in range(LABELS)} <= {*sent}
