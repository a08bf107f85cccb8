"""The firmware on serial lines, booted in simulators: packets, noise, floods, the real client.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
import zlib

import pytest

from sim import model
from sim.boards import BOARDS, SENDER, SILENCE, Board, Line
from sim.model import REQUEST, heartbeat
from sim.targets import ROOT, run
from tests.agents import run as client

SEED = int(os.environ.get("DUMPULSE_SEED") or random.randrange(10**6))
SOAK = int(os.environ.get("DUMPULSE_SOAK") or 0)  # packets; or else as many as are quick
SELF = 0  # the variable that the agent stamps; its value counts bytes that it lost

Placed = list[tuple[int, bytes]]  # packets, and where in a stream they begin


@pytest.fixture(params=BOARDS.values(), ids=lambda board: board.name)
def board(request: pytest.FixtureRequest) -> Board:
    found: Board = request.param
    return found


@pytest.fixture
def chance() -> random.Random:
    print(f"DUMPULSE_SEED={SEED} replays it")  # pytest shows it when a test fails
    return random.Random(SEED)


def packets(chance: random.Random, count: int) -> list[bytes]:
    """From nodes 1 to 63, but not 0: that is the agent's own."""
    return [heartbeat(chance.randrange(1, 64), chance.randrange(256), chance.randrange(256))
            for _ in range(count)]


def taken(stream: bytes) -> Placed:
    """What SPEC.md has an agent accept: the leftmost packet, then the leftmost behind it."""
    found, at = [], 0
    while at + 8 <= len(stream):
        packet = stream[at:at + 8]
        valid = packet == REQUEST or packet[4] == 0xF1 and packet[5] < 64 \
            and int.from_bytes(packet[:4], "big") == zlib.adler32(packet[4:])
        if valid:
            found.append((at, packet))
        at += 8 if valid else 1
    return found


def noisy(chance: random.Random, sent: list[bytes], rate: float) -> tuple[bytes, Placed]:
    """The packets on a line that drops, doubles and flips bytes, and puts some between packets;
    and which of them are whole."""
    stream, whole = bytearray(), []
    for packet in sent:
        if chance.random() < rate:
            stream += chance.randbytes(chance.randrange(1, 9))
        at, damaged = len(stream), False
        for byte in packet:
            fault = chance.choice(("drop", "double", "flip")) if chance.random() < rate else ""
            damaged |= bool(fault)
            if fault == "flip":
                byte ^= 1 << chance.randrange(8)
            stream += bytes((byte,)) * {"drop": 0, "double": 2}.get(fault, 1)
        if not damaged:
            whole.append((at, packet))
    return bytes(stream), whole


def check_cost(whole: Placed, found: Placed) -> None:
    """A damaged packet costs one: itself or, where the next begins with the very bytes that it
    lost from its end, so that it was accepted with them, that next one."""
    for at, _ in set(whole) - set(found):
        assert any(at - 8 < other < at for other, _ in found), f"missed at {at}"
    assert len(found) >= len(whole)


def entries(report: bytes) -> list[bytes]:
    assert int.from_bytes(report[:4], "big") == zlib.adler32(report[4:])
    return [report[at:at + 4] for at in range(4, 260, 4)]


def said(heartbeats: list[bytes]) -> list[bytes]:
    """Sender and value of every variable, after these; the agent's own is left out."""
    agent = model.Agent()
    for packet in heartbeats:
        agent.process(1, packet)
    return [entry[2:] for entry in agent.entries[1:]]


def ask(line: Line, quiet: bytes = b"") -> list[bytes]:
    line.send(quiet + REQUEST)
    return entries(line.receive(260))


def straddled() -> list[tuple[bytes, bytes]]:
    """Pairs of heartbeats with a third within, 5 bytes into the first:
    variable sender value b_high | f1 a_high a_low f1."""
    pairs = []
    for variable in range(64):
        for sender in range(256):
            value = (0xF1 - (968 + 3 * variable + 2 * sender)) % 256  # so that b_low is f1
            second = heartbeat(variable, sender, value)
            within = heartbeat(second[2], second[3], 0xF1)
            if within[3] == second[0] and within[0] < 64:
                pairs.append((heartbeat(*within[:3]), second))
    return pairs


def test_no_packet_within_two_others() -> None:
    """The 64 of 2^44 in SPEC.md, counted: windows that straddle two heartbeats."""
    every = [{sum_ >> 8 for sum_ in range(968, 1923)}, set(range(256)), set(range(4)), set(range(256)),
             {0xF1}, set(range(64)), set(range(256)), set(range(256))]  # what a byte can be, or more
    possible = [shift for shift in range(1, 8)
                if all(every[at] & every[(at + shift) % 8] for at in range(8))]
    assert possible == [3, 5]
    ask_bytes = [{byte} for byte in REQUEST]
    for first, second in ((every, every), (every, ask_bytes), (ask_bytes, every), (ask_bytes, ask_bytes)):
        for shift in range(1, 8):
            window = (first + second)[shift:shift + 8]
            assert not all(a & b for a, b in zip(window, ask_bytes, strict=True))  # is no request
            if (first, second) != (every, every):  # nor, with a request's bytes, a heartbeat
                assert not all(a & b for a, b in zip(window, every, strict=True))
    count = 0
    for b_high in range(3, 8):  # shift 3: a_low f1 variable sender | f1 b_high b_low a_high
        for b_low in range(256):
            for a_high in range(4):
                # a heartbeat of f1 b_high b_low a_high: its sums must begin a_low f1 variable sender
                packet = heartbeat(b_high, b_low, a_high)
                before = heartbeat(packet[2], packet[3], 0xF1)
                count += packet[1] == 0xF1 and packet[0] == before[3] and packet[2] < 64
    assert count == 0 and len(straddled()) == 64
    for first, second in straddled():  # shift 5
        window = (first + second)[5:13]
        assert window == heartbeat(*window[5:])


def test_a_lost_byte_that_the_next_packet_has() -> None:
    first, second, third = heartbeat(3, 76, 4), heartbeat(7, 1, 255), heartbeat(9, 1, 1)
    assert first[-1] == second[0]
    assert taken(first[:-1] + second + third) == [(0, first), (15, third)]


def test_the_window_of_the_model(chance: random.Random) -> None:
    """No more packets are lost than are damaged: the rule of SPEC.md."""
    for rate in (0.001, 0.02, 0.2):
        stream, whole = noisy(chance, packets(chance, 2000), rate)
        check_cost(whole, taken(stream))


@pytest.mark.parametrize(("name", "core"), [
    ("uart_mps2-m0plus", r"Tag_CPU_arch: v6S-M$"), ("uart_mps2-m4", r"Tag_CPU_arch: v7E-M$"),
    ("uart_virt", r'Tag_RISCV_arch: "rv32i\dp\d_m\dp\d_a\dp\d_c\dp\d(_z\w+)*"$')])
def test_an_image_is_for_its_core(name: str, core: str) -> None:
    """All that is linked into it: QEMU's board for the Cortex-M0+ runs what a Cortex-M3 does."""
    assert re.search(core, run(["readelf", "-A", BOARDS[name].image()]), re.M)


def test_every_page_says_what_was_tried() -> None:
    """And no image is without a page."""
    pages = {page.stem: page.read_text() for page in (ROOT / "firmware").glob("*.md") if page.stem != "README"}
    assert set(pages) == {source.stem for source in (ROOT / "firmware").glob("*.c")}
    for name, text in pages.items():
        (tried,) = re.findall(r"^\*\*Tried\.\*\* (.*?)\n(?:\n|\Z)", text + "\n", re.M | re.S)
        assert re.fullmatch(r"On a simulator: \w.*\. On\shardware: \w.*\.", tried, re.S), name


def test_packets_junk_and_short_ones(board: Board, chance: random.Random) -> None:
    good = [heartbeat(3, 76, 9), heartbeat(63, 255, 128), heartbeat(7, 1, 255)]
    refused = [heartbeat(5, 6, 7)[:7] + b"\x08", heartbeat(64, 1, 1), heartbeat(5, 1, 1)[:7],
               b"AreyouO", b"areyouOK", bytes(100), b"\xff" * 100, chance.randbytes(500)]
    with Line(board) as line:
        line.send(b"".join(junk + packet for junk, packet in zip(refused, good * 3, strict=False)))
        table = ask(line)
        assert [entry[2:] for entry in table[1:]] == said(good)
        assert table[SELF][2:] == b"\x01\x00"  # nothing was lost


def test_no_byte_is_in_two_packets(board: Board) -> None:
    pairs = straddled()
    with Line(board) as line:
        line.send(b"".join(first + second for first, second in pairs))
        assert [entry[2:] for entry in ask(line)[1:]] == said([beat for pair in pairs for beat in pair])


def test_a_noisy_line(board: Board, chance: random.Random) -> None:
    with Line(board) as line:
        heard: list[bytes] = []
        for rate in (0.003, 0.03, 0.3):
            stream, whole = noisy(chance, packets(chance, 1000), rate)
            stream += bytes(8)  # so that the end of it and a request are not one packet
            found = taken(stream)
            check_cost(whole, found)
            heard += [packet for _, packet in found]
            line.send(stream)
            assert [entry[2:] for entry in ask(line)[1:]] == said(heard)


def test_the_real_client(board: Board) -> None:
    with Line(board, pty=True) as line:
        address = f"serial:{line.path}@{board.baud}"
        for variable, sender, value in ((3, 76, 9), (5, 12, 200), (63, 255, 255)):
            done = client("set", address, str(variable), str(value), "--sender", str(sender), "--confirm",
                          "--timeout", "20s")
            assert done.returncode == 0, done.stderr
        done = client("get", address, "--json", "--now-from", "0", "--timeout", "20s")
        assert done.returncode == 0, done.stderr
        told = {entry["variable"]: (entry["sender"], entry["value"])
                for entry in json.loads(done.stdout)["variables"]}
        assert told[3] == (76, 9) and told[5] == (12, 200) and told[63] == (255, 255)
        assert told[SELF] == (1, 0)


def test_a_flood_while_reports_go_out(board: Board, chance: random.Random) -> None:
    """At the line's full speed. A board that is deaf meanwhile is in order again afterwards."""
    with Line(board) as line:
        flood = packets(chance, 100)
        line.send(REQUEST + b"".join(flood))
        entries(line.receive(260))
        # ones: a receiver that woke in the midst of a byte finds the next start bit after them
        table = ask(line, b"\xff" * 4 + heartbeat(9, 1, 2))
        if not board.deaf:
            assert [entry[2:] for entry in table[1:]] == said([*flood, heartbeat(9, 1, 2)])
            assert table[SELF][3] == 0
        assert table[9][2:] == b"\x01\x02"


def test_the_edges_of_a_report_while_bytes_come(chance: random.Random) -> None:
    """Bits in software are in their places, to 12 of their 416 cycles, whatever comes when the report begins: as
    above all the end of a byte, when the receiver goes on to listen for the next. Of each byte here the end comes
    at any time from 17 counts of the timer before that moment to 8 after it, as the first two runs find it."""
    board = BOARDS["uart_attiny85"]
    bit = board.hertz / board.baud

    def counted(value: int, rest: int) -> dict[str, int]:
        with Line(board, script=REQUEST + bytes([value]) + b"\x55" * 20, more=[str(rest)]) as line:
            line.receive(25)  # of the report; as many bytes come meanwhile
            return line.end(at_once=True)

    for value in (0x00, 0x01, 0x0F, 0x1F, chance.randrange(256)):
        rest = 100
        for _ in range(2):
            seen = counted(value, rest)
            rest += round(seen["answered"] - bit - (seen["resumed"] + 8.5 * bit))
            rest %= round(10 * bit)
        for later in range(-136, 72, 8):
            assert counted(value, max(0, rest + later))["jitter"] <= 12, (value, later)


def test_the_watchdog_bites_a_loop_that_hangs(board: Board) -> None:
    with Line(board, board.image("hanging")) as line:
        line.send(heartbeat(3, 76, 9))
        assert ask(line)[3][2:] == b"\x4c\x09"
        line.send(b"HangHere")
        end = time.monotonic() + 60
        while True:  # what comes while it hangs is lost; then it has forgotten everything
            line.send(bytes(8) + REQUEST)
            try:
                begun = line.receive(1, 1.0)  # the rest of a report may take longer
                break
            except TimeoutError:
                assert time.monotonic() < end, "the watchdog has not bitten"
        table = entries(begun + line.receive(259))
        assert table[3] == bytes(4)


def test_a_machine_that_stood_still() -> None:
    """Its loop had no turn, but does not hang: the table stays, and the clock has gone on."""
    with Line(BOARDS["uart_virt"]) as line:
        line.send(heartbeat(3, 76, 9))
        before = ask(line)
        line.process.send_signal(signal.SIGSTOP)
        time.sleep(3)  # longer than the watchdog waits, 2 s
        line.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)  # the watchdog would have its turn
        after = ask(line)
        assert after[3] == before[3] and after[3][2:] == b"\x4c\x09"
        then, now = (int.from_bytes(table[SELF][:2], "big") for table in (before, after))
        assert now >= then + 3


def test_soak(board: Board, chance: random.Random) -> None:
    """At full speed, with junk between, a report now and then; the watchdog never bites."""
    count = SOAK or (100_000 if board.mcu else 10_000)
    with Line(board) as line:
        heard: list[bytes] = []
        for _ in range(10):
            fresh = packets(chance, count // 10)
            line.send(b"".join(fresh) + chance.randbytes(3) + bytes(8))
            heard = [*heard[-2000:], *fresh]
            table = ask(line)
            assert [entry[2:] for entry in table[1:]] == said(heard)
            assert table[SELF][3] == 0
        if board.mcu:
            stats = line.end()
            assert stats["boots"] == 1 and stats["bytes"] >= 8 * count
            # The clock: a little over SILENCE seconds have passed since the last report.
            then = stats["cycles"] / board.hertz - SILENCE
            now = int.from_bytes(table[SELF][:2], "big") / board.ticks
            assert -board.drift * then <= then - now <= 1 / board.ticks + 0.5 + board.drift * then


def test_the_sender() -> None:
    """An ATtiny13A that says nothing but heartbeats, one a second."""
    with Line(SENDER) as line:
        line.send_no_more()
        assert line.receive(8 * 300) == b"".join(heartbeat(7, 7, beat % 256) for beat in range(300))
