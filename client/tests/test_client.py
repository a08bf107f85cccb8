"""client.py: against the model, an agent that misbehaves on purpose, and the real udpserver."""

import asyncio
import contextlib
import json
import math
import os
import random
import re
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import client
from spec import model
from tools.agents import (GOOD, STRANGER, VEHICLE, WRONG_SUM, FakeAgent,
                                  ask_again_after, report, run, unused_port)
from tools.programs import PATIENCE, ROOT, wait_until
from tools.servers import Server

LOOPBACKS = ["127.0.0.1", "::1"]

examples = settings(max_examples=200, deadline=None, derandomize=True, database=None,
                    print_blob=True)


class Result:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


Call = Callable[..., Result]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Runs the command in this process. This is quicker, and its second request comes sooner."""
    monkeypatch.setattr(client, "CLOCK_PAUSE", 0.01)
    return lambda *words: Result(client.run_command(words), *capsys.readouterr())


# ---------------------------------------------------------------- packets and ages


@examples
@given(st.integers(-2, 66), st.integers(-2, 258), st.integers(-2, 258))
def test_heartbeats_are_the_models(variable: int, sender: int, value: int) -> None:
    if 0 <= variable < 64 and 0 <= sender < 256 and 0 <= value < 256:
        assert client.heartbeat(variable, sender, value) == model.heartbeat(variable, sender, value)
    else:
        with pytest.raises(ValueError, match="is 0 to"):
            client.heartbeat(variable, sender, value)


@examples
@given(st.integers(0, 2**64))
def test_reports_are_read(seed: int) -> None:
    table = random.Random(seed).randbytes(256)
    entries = client.parse_report(model.checksummed(table))
    assert entries == tuple(struct.unpack_from(">HBB", table, 4 * index) for index in range(64))
    assert [entry.never for entry in entries] \
        == [table[at:at + 4] == bytes(4) for at in range(0, 256, 4)]


def test_one_zero_byte_less_is_not_never() -> None:
    entries = client.parse_report(report(v0=(1, 0, 0), v1=(0, 1, 0), v2=(0, 0, 1)))
    assert [entry.never for entry in entries] == [False] * 3 + [True] * 61


@settings(examples, max_examples=1000)
@given(st.integers(0, 10**6), st.integers(0, 65536 - 64 - 1))
def test_ages_over_the_wrap(heard: int, passed: int) -> None:
    """The clocks never wrap here. The packets carry 16 bits of them."""
    assert client.age((heard + passed) % 65536, heard % 65536) == passed


@examples
@given(st.integers(0, 65535), st.integers(1, 64))
def test_a_clock_that_is_a_little_ahead(now: int, ahead: int) -> None:
    assert client.age(now, (now + ahead) % 65536) == 0


@pytest.mark.parametrize("tick_ms", [1, 100, 1000, 3_600_000])
def test_the_clock_is_unix_time(tick_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_123_456_789_012)
    assert client.clock(tick_ms) == 1_700_000_123_456 // tick_ms & 0xFFFF


# ---------------------------------------------------------------- asking

def resolve(monkeypatch: pytest.MonkeyPatch, *places: tuple[str, int]) -> None:
    """The name service knows these hosts, with their ports."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [
        (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", (host, port, 0, 0)) if ":" in host else
        (socket.AF_INET, socket.SOCK_DGRAM, 17, "", (host, port)) for host, port in places])


def test_waits_grow_and_vary() -> None:
    usual = [wait for wait, _ in zip(client.draw_waits(lambda low, high: 1.0), range(24))]
    assert usual[:7] == pytest.approx([0.2, 0.4, 0.5, 0.5, 0.5, 0.525, 0.65625])
    assert usual == sorted(usual) and usual[-1] == 2.0
    drawn: list[tuple[float, float]] = []

    def draw(low: float, high: float) -> float:
        drawn.append((low, high))
        return 1.0
    next(client.draw_waits(draw))
    assert drawn == [(0.75, 1.25)]
    assert len({wait for wait, _ in zip(client.draw_waits(), range(20))}) > 10


BAD = {
    "length": ([b"", GOOD[:259], GOOD + b"\0"], "bytes long, not 260"),
    "checksum": ([WRONG_SUM], "its checksum is [0-9a-f]{8}, not [0-9a-f]{8}"),
}


@pytest.mark.parametrize("host", LOOPBACKS)
@pytest.mark.parametrize("cause", BAD)
def test_bad_reports(cause: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no good report comes, the error says what was wrong. A bad report does not hide the good
    one."""
    answers, text = BAD[cause]
    with FakeAgent(answers, host=host) as agent:
        with pytest.raises(client.BadReport, match=text) as caught:
            client.Agent(agent.address).ask(0.5)
        assert caught.value.cause == cause
    ask_again_after(PATIENCE, monkeypatch)
    with FakeAgent([*answers * 20, GOOD], host=host) as agent:
        assert client.Agent(agent.address).ask(PATIENCE)[3].value == 9
        assert len(agent.asked) == 1


def test_a_late_report_is_not_taken_for_the_next() -> None:
    """A report that comes after the reader has given up is no answer to its next request."""
    with FakeAgent([], [report(v3=(1, 1, 2))]) as agent:
        asking = client.Agent(agent.address)
        with pytest.raises(client.NoAnswer):
            asking.ask(0.05)
        wait_until(lambda: len(agent.askers) > 0, "the agent has been asked")
        agent._socket.sendto(GOOD, agent.askers[0])
        assert asking.ask(PATIENCE)[3].value == 2


def test_nobody_listens_and_no_processor_is_wasted() -> None:
    before = time.process_time()
    with pytest.raises(client.NoAnswer, match="in 1 s: nothing listens at 127.0.0.1:"):
        client.Agent(f"127.0.0.1:{unused_port()}").ask(1)
    assert time.process_time() - before < 0.1


def test_a_timeout_that_is_no_number() -> None:
    for address in ("localhost:1", "serial:/dev/null"):
        agent = client.Agent(address)
        uses: list[Callable[[], object]] = [partial(agent.ask, math.nan),
                                             partial(agent.beat, 1, 2, 3, math.nan)]
        for use in uses:
            with pytest.raises(client.BadUsage, match="a time is a number of seconds, not nan"):
                use()


def test_no_descriptor_is_kept() -> None:
    with FakeAgent([GOOD], [WRONG_SUM]) as agent:
        asking = client.Agent(agent.address)
        before = os.listdir("/proc/self/fd")
        asking.ask(PATIENCE)
        with pytest.raises(client.BadReport):
            asking.ask(1)
        asking.beat(1, 2, 3)
        assert os.listdir("/proc/self/fd") == before


def test_a_host_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """After silence, the client looks up the address again. After an answer, it does not."""
    with FakeAgent([GOOD]) as agent:
        ports = iter([unused_port(), agent.port])
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [
            (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", next(ports)))])
        asking = client.Agent("moving")
        with pytest.raises(client.NoAnswer):
            asking.ask(0.05)
        for _ in range(2):
            assert asking.ask(PATIENCE)[3].value == 9


def test_a_beat_goes_to_the_address_that_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server("--bind", "127.0.0.1") as server:
        resolve(monkeypatch, ("::1", server.port), ("127.0.0.1", server.port))
        client.Agent("several").beat(3, 76, 9)
        assert server.wait_for(lambda counters: counters["packets"] == 1,
                               "it arrives")["heartbeats"] == 1


@contextlib.contextmanager
def silent_name_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """It answers at the end, and knows numeric hosts at once."""
    ended, look_up = threading.Event(), socket.getaddrinfo

    def answer(host: str, port: int, type: int, flags: int = 0) -> Any:
        return look_up(host, port, type=type, flags=flags) if flags else [][:ended.wait()]
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", answer)
        yield
        ended.set()


def test_a_silent_name_service_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_name_service(monkeypatch):
        with pytest.raises(client.NoAnswer, match="no answer from the name service in 0.1 s"):
            client.Agent("slow").ask(0.1)
        with pytest.raises(client.NoAnswer, match="no answer from the name service in 0.2 s"):
            client.Agent("slow").beat(1, 2, 3, timeout=0.2)


def test_addresses() -> None:
    for text, host, port in (
            ("here", "here", 9060), ("here:1", "here", 1), ("[::1]:65535", "::1", 65535),
            ("[::1]", "::1", 9060), ("fe80::1%lo", "fe80::1%lo", 9060),
            ("10.0.0.1:9061", "10.0.0.1", 9061)):
        assert client.parse_udp(text) == (host, port)
    for text in ("", ":9060", "here:", "here:0", "here:65536", "here:-1", "here:1e3", "here:٣",
                 "[::1", "[::1]9060", "[]:1", "[::1]:x", "serial:/dev/ttyACM0", "::1:9060"):
        with pytest.raises(client.BadUsage):
            client.parse_udp(text)


# ---------------------------------------------------------------- small parts

@pytest.mark.parametrize("length", [0, 600, 601, 10_000])
def test_a_long_error_loses_its_middle(length: int) -> None:
    text = "".join(chr(33 + at % 90) for at in range(length))
    assert str(client.Error(text)) == (
        text if length <= 600 else f"{text[:300]} ... {text[length - 300:]}")


@pytest.mark.parametrize("before, now, passed_ms, tick_ms, ticks", [
    (5000, 5064, 0, 1000, 0), (5000, 5065, 0, 1000, 65), (5000, 4936, 0, 1000, 0),
    (5000, 4935, 0, 1000, -65), (5000, 5500, 0, 10, 0), (5000, 5501, 0, 10, 501),
    (5000, 5165, 100_000, 1000, 65), (5000, 5164, 100_400, 1000, 0), (65_500, 64, 36_000, 1000, 64),
    (0, 32_767, 0, 1000, 32_767), (0, 32_768, 0, 1000, -32_768), (30_000, 8000, 0, 1000, -22_000)])
def test_by_how_much_a_clock_jumped(before: int, now: int, passed_ms: int, tick_ms: int,
                                    ticks: int) -> None:
    """Up to 64 ticks or 5 s are no jump."""
    found = client.measure_jump(before, now, passed_ms, tick_ms)
    assert found == (0 if abs(ticks) == 64 else ticks)


def test_uptime_is_of_the_clock_that_counts_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda clock: {time.CLOCK_BOOTTIME: 70.0}.get(clock))
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    assert client.uptime() == 70.0
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_MONOTONIC: 60.0}.get)
    assert client.uptime() == 60.0  # macOS
    monkeypatch.setattr(sys, "platform", "win32")
    assert client.uptime() == 50.0


def test_what_may_hang_does_not_keep_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.within(PATIENCE, lambda: threading.current_thread().daemon) is True
    hanging = threading.Event()
    assert client.within(0.1, hanging.wait) is None
    hanging.set()


def test_numbers_and_times() -> None:
    for text in ("1000000000", "0x123456789", "-1", "+1", "1_0", "", "0x", "1e3", "٣"):
        with pytest.raises(client.BadUsage,
                           match=f"^a {re.escape(repr(text))} is not a number from 0 to 9$"):
            client.parse_number(text, 0, 9, "a ")
    assert [client.parse_number(text, 0, 10**9) for text
            in ("0", "999999999", "0x1F", "0X1f", "007")] == [
        0, 999_999_999, 31, 31, 7]
    assert [client.parse_duration(text) for text in (
        "1ms", "1", "1s", "1.5", "2min", "2m", "1h", "0.001", "1 ms", "100000h", "0.000501s")] == [
        1, 1000, 1000, 1500, 120_000, 120_000, 3_600_000, 1, 1, 360_000_000_000, 1]
    for text in ("0", "0.4ms", "100000.1h", "-1s", "1d", "s", "1.s", "1234567890"):
        with pytest.raises(client.BadUsage,
                           match="is not a time: write it like 500ms, 5s, 2min or 1h"):
            client.parse_duration(text)
    assert client.parse_tick("1h") == 3_600_000
    with pytest.raises(client.BadUsage, match="'3600.001' is not a tick, at most 1h: write it"):
        client.parse_tick("3600.001")


@pytest.mark.parametrize("text, good", [
    ("a", True), ("a" * 24, True), ("a" * 25, False), ("", False), ("-", False), ("1-2", False),
    ("12", False), ("a=b", False),
    ("1-2a", True), ("Türen (links)/1_2.3+4-5", True), ("a,b", False), ("a\tb", False),
    ("漢", False), ("Ａ", False)])
def test_names(text: str, good: bool) -> None:
    if good:
        assert client.parse_name(text) == text
    else:
        with pytest.raises(client.BadUsage):
            client.parse_name(text)


@pytest.mark.parametrize("text, numbers", [
    ("0", [0]), ("3,7-9, 63", [3, 7, 8, 9, 63]), ("5-5", [5]), ("engine,3", [1, 3]),
    ("engine", [1])])
def test_variables_are_numbers_ranges_and_names(text: str, numbers: list[int]) -> None:
    variables = [client.Variable(0), client.Variable(1, "engine"), client.Variable(2, "")]
    assert client.parse_variables(text, variables) == numbers


@pytest.mark.parametrize("duration_ms, text, at_least", [
    (0, "0 s", ">0 s"), (1, "0.001 s", ">0 s"), (1500, "1.5 s", ">1 s"), (10_000, "10 s", ">10 s"),
    (99_999_999, "99999.999 s", ">99999 s"), (100_000_000, "27.7778 h", ">27 h"),
    (235_695_600_000, "65471 h", ">65471 h")])
def test_how_times_are_shown(duration_ms: int, text: str, at_least: str) -> None:
    assert client.format_age(duration_ms) == text
    assert client.format_age(duration_ms, True) == at_least


@pytest.mark.parametrize("listed, expected, state, wanted, shown", [
    (False, False, client.NEVER, [], False), (True, False, client.NEVER, [], True),
    (False, True, client.NEVER, [], True), (False, False, client.OK, [], True),
    (True, True, client.OK, [7], False), (False, False, client.NEVER, [7, 3], True)])
def test_what_is_worth_showing(listed: bool, expected: bool, state: str, wanted: list[int],
                               shown: bool) -> None:
    variable = client.Variable(3, "", listed, expected)
    reading = client.Reading(variable, client.Entry(0, 0, 0), None, state, False)
    assert client.worth_showing([reading], wanted) == [reading] * shown


# ---------------------------------------------------------------- sockets

def test_addresses_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeAgent([GOOD]) as one, FakeAgent([GOOD]) as two, FakeAgent([GOOD]) as three:
        resolve(monkeypatch, *(("127.0.0.1", each.port) for each in (one, two, three)))
        transport = client.Udp("several", 9060)
        for asked in (one, two, three, one):  # the first one first
            before = len(asked.asked)
            transport.send(client.REQUEST)
            assert transport.receive(PATIENCE) == GOOD and len(asked.asked) == before + 1
            transport.next_address()
        assert transport.addresses == 3
        transport.close()


@pytest.mark.parametrize("why", ["Address family not supported", "Network is unreachable"])
def test_an_address_that_cannot_be_reached(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no IPv6, or no route. Then the others are used, and no descriptor stays."""
    class Refusing(socket.socket):
        def __init__(self, family: int = -1, *more: Any) -> None:
            if family == socket.AF_INET6 and "family" in why:
                raise OSError(97, why)
            super().__init__(family, *more)

        def connect(self, address: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(101, why)
            super().connect(address)
    monkeypatch.setattr(socket, "socket", Refusing)
    with FakeAgent([GOOD]) as agent:
        places = [("::1", agent.port), ("127.0.0.1", agent.port)]
        before = os.listdir("/proc/self/fd")
        for found in (places, places[::-1]):
            resolve(monkeypatch, *found)
            transport = client.Udp("several", 9060)
            transport.open(1)
            assert transport.addresses == 1
            transport.close()
        resolve(monkeypatch, places[0])
        with pytest.raises(client.NoAnswer, match=rf"^\[::1\]:[0-9]+: {why}$"):
            client.Udp("several", 9060).open(1)
        assert os.listdir("/proc/self/fd") == before


def test_sockets_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not block even if one only seems to be ready, or takes no packet."""
    waited: list[float] = []

    class Busy(socket.socket):
        def recv(self, *_: object) -> Any:
            raise BlockingIOError

        def send(self, *_: object) -> Any:
            raise BlockingIOError
    with FakeAgent([GOOD]) as agent:
        transport = client.Udp("127.0.0.1", agent.port)
        transport.open(1)
        assert not transport._sockets[0].getblocking()
        transport.close()
        monkeypatch.setattr(socket, "socket", Busy)
        transport.send(client.REQUEST)

        def ready(self: selectors.DefaultSelector, left: float) -> list[tuple[Any, int]]:
            waited.append(left)
            return [(key, 1) for key in self.get_map().values()]
        monkeypatch.setattr(selectors.DefaultSelector, "select", ready)
        monkeypatch.setattr(time, "monotonic", lambda: sum(waited))
        for seconds in (3.0, -1.0, 1e6 + 1):
            assert transport.receive(seconds) is None
        transport.close()
    assert waited == [3.0, 0.0, 1e6, 1.0] and not agent.asked  # poll() counts no more.


# ---------------------------------------- what an agent is asked for, and when

class Scripted(client.Transport):
    """Answers each packet with the next step: a report, an error, or nothing until the time is
    up."""

    FORM = "scripted"
    name = "scripted"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *steps: Any, addresses: int = 1) -> None:
        self.steps, self.now, self.addresses = list(steps), 50.0, addresses
        self.calls: list[Any] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(client, "draw_waits", lambda: iter([1.0, 2.0, 4.0, 8.0]))

    def opening(self, seconds: float) -> client.Steps[None]:
        self.calls.append(("open", seconds))
        yield from ()

    def close(self) -> None:
        self.calls.append("close")

    def send(self, packet: bytes) -> None:
        self.calls.append(("send", self.now - 50))

    def receiving(self, end: float) -> client.Steps[Optional[bytes]]:
        yield from ()
        self.calls.append(("receive", seconds := end - self.now))
        step = self.steps.pop(0) if self.steps else None
        if step is None:
            self.now += max(0.0, seconds)
        else:
            self.now += 0.25
        if isinstance(step, Exception):
            raise step
        answer: Optional[bytes] = step
        return answer

    def next_address(self) -> None:
        self.calls.append("next")

    def forget_addresses(self) -> None:
        self.calls.append("forget")


def agent_on(transport: client.Transport) -> client.Agent:
    agent = client.Agent("127.0.0.1")
    agent._transport = transport
    agent.name = transport.name
    return agent


SILENCE = client.NoAnswer("somebody said no")
SHORT, REFUSED = client.BadReport("length", "short"), client.BadReport("refused", "rejected")


@pytest.mark.parametrize("steps, addresses, calls, ending", [
    ([GOOD], 1, [("send", 0), ("receive", 1.0)], None),
    ([], 1, [("send", 0), ("receive", 1.0), "next", ("send", 1.0), ("receive", 2.0), "next",
             ("send", 3.0), ("receive", 0.5), "forget"],
     "NoAnswer: no answer in 3.5 s from scripted after 3 requests; it may have a key: give --key"),
    ([SHORT, None, GOOD], 1, [("send", 0), ("receive", 1.0), ("receive", 0.75), "next",
                              ("send", 1.0), ("receive", 2.0)], None),
    ([SHORT], 1, [("send", 0), ("receive", 1.0), ("receive", 0.75), "next", ("send", 1.0),
                  ("receive", 2.0), "next", ("send", 3.0), ("receive", 0.5), "forget"],
     "BadReport: bad report from scripted: short"),
    ([SHORT, REFUSED, None], 1, [
        ("send", 0), ("receive", 1.0), ("receive", 0.75), ("send", 0.5), ("receive", 0.5), "next",
        ("send", 1.0), ("receive", 2.0), "next", ("send", 3.0), ("receive", 0.5), "forget"],
     "BadReport: bad report from scripted: short"),
    ([SILENCE, None, GOOD], 1, [("send", 0), ("receive", 1.0), ("receive", 0.75), "next",
                                ("send", 1.0), ("receive", 2.0)], None),
    ([SILENCE, GOOD], 2, [("send", 0), ("receive", 1.0), "next", ("send", 0.25), ("receive", 0.75)],
     None),
    ([client.NoAnswer("a"), client.NoAnswer("b")], 2, [
        ("send", 0), ("receive", 1.0), "next", ("send", 0.25), ("receive", 0.75), ("receive", 0.5),
        "next", ("send", 1.0), ("receive", 2.0), "next", ("send", 3.0), ("receive", 0.5), "forget"],
     "NoAnswer: no answer in 3.5 s: b")])
def test_what_is_asked_and_when(steps: list[Any], addresses: int, calls: list[Any],
                                ending: Optional[str], monkeypatch: pytest.MonkeyPatch) -> None:
    transport = Scripted(monkeypatch, *steps, addresses=addresses)
    said = None
    try:
        assert agent_on(transport).ask(3.5)[3].value == 9
    except client.Error as error:
        said = f"{type(error).__name__}: {error}"
    assert said == ending
    assert transport.calls == [("open", 3.5), *calls, "close"]


def test_no_request_is_sent_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = Scripted(monkeypatch, *[GOOD] * 9)
    with pytest.raises(client.NoAnswer, match="after 4 requests"):
        client.wait(agent_on(transport)._talk(1.0, lambda: client.REQUEST, lambda packet: None))
    assert [call[1] for call in transport.calls if call[0] == "send"] == [0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize("steps, addresses, calls, ending", [
    ([], 1, [("send", 0), ("receive", 0.5)], None),
    ([SHORT, GOOD], 1, [("send", 0), ("receive", 0.5), ("receive", 0.25)], None),
    ([SILENCE], 1, [("send", 0), ("receive", 0.5), "next"],
     "cannot send to scripted: somebody said no"),
    ([SILENCE], 2, [("send", 0), ("receive", 0.5), "next", ("send", 0.25), ("receive", 0.25)],
     None),
    ([SILENCE] * 2, 2, [("send", 0), ("receive", 0.5), "next", ("send", 0.25), ("receive", 0.25),
                        "next"],
     "cannot send to scripted: somebody said no")])
def test_what_is_sent_and_how_long_a_refusal_is_waited_for(
        steps: list[Any], addresses: int, calls: list[Any], ending: Optional[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    transport = Scripted(monkeypatch, *steps, addresses=addresses)
    said = None
    try:
        agent_on(transport)._send(b"packet", time.monotonic() + 0.5, lambda: None)
    except client.NoAnswer as error:
        said = str(error)
    assert (said, transport.calls) == (ending, calls)


@pytest.mark.parametrize("timeout, took, listens",
                         [(3.0, 0.0, 0.1), (0.2, 0.0, 0.05), (3.0, 2.95, 0.05), (3.0, 4, 0)])
def test_how_long_a_beat_listens(timeout: float, took: float, listens: float,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """It listens for a tenth of a second, for a quarter of the timeout, or for the time that is
    left after the name was looked up."""
    transport = Scripted(monkeypatch)
    agent = agent_on(transport)
    waited: list[float] = []

    def open_(seconds: float) -> None:
        transport.now += took
    transport.open = open_  # type: ignore[method-assign]
    monkeypatch.setattr(agent, "_send", lambda packet, end, sent: waited.append(
        max(0.0, end - time.monotonic())))
    agent.beat(3, 76, 9, timeout)
    assert waited == pytest.approx([listens]) and transport.calls == ["close"]


@pytest.mark.parametrize("words, timeouts", [
    (["get", "x"], [3.0]), (["get", "x", "-t", "5s"], [5.0]), (["x", "-t", "5s"], [5.0]),
    (["check", "x", "--expect", "3", "-t", "5s"], [5.0]), (["check", "x", "--expect", "3"], [3.0]),
    (["set", "x", "3", "9", "-t", "5s"], [5.0]),
    (["set", "x", "3", "9", "--sender", "76", "-t", "1s"], [1.0])])
def test_how_long_each_command_waits(words: list[str], timeouts: list[float], call: Call,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """--timeout limits the whole command. Sending takes 1.5 s here."""
    asked: list[float] = []
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(client, "clock", lambda tick_ms: 0x1234)

    def ask(self: client.Agent, timeout: float) -> client.Entries:
        asked.append(timeout)
        return client.parse_report(report(v3=(0x1233 + len(asked), 76, 9)))

    def beat(self: client.Agent, variable: int, sender: int, value: int, timeout: float) -> None:
        assert (variable, sender, value) == (3, 76 if "--sender" in words else 1, 9)
        asked.append(timeout)
        now[0] += 1.5
    monkeypatch.setattr(client.Agent, "ask", ask)
    monkeypatch.setattr(client.Agent, "beat", beat)
    assert call(*words).status == 0 and asked == timeouts


# ---------------------------------------------------------------- the command line

# What is typed, the exit status and what must be said. HERE is an agent that answers,
# NOBODY a port where none is, SHORT and SUM agents whose reports are bad. STRANGER answers from
# another port.
TYPED = [
    ("", 2, "HOST"),
    ("--version", 0, f"client.py {client.VERSION}"),
    ("HERE", 0, "report verified, 1 of 64"),
    ("set [::1]:1 3 1 --timeout 1s", 3, "nothing listens at [::1]:1"),
    ("HERE --tick 0.1ms", 2, "'0.1ms' is not a tick, at most 1h"),
    ("HERE --now-from 64", 2, "must be 0 to 63"),
    ("HERE --now-from 3,4", 2, "only one is the clock"),
    ("HERE --names /", 2, "Is a directory"),
    ("HERE --names /dev/zero", 2, "longer than 65536 bytes"),
    ("get", 2, "required: HOST[:PORT] (see"),
    ("HERE 9060", 2, "variable 9060 is out of range: it must be 0 to 63\n"),
    ("--names nowhere HERE", 2, "'nowhere': No such file or directory\n"),
    ("wacth HERE", 2, "; the commands are get, set, watch, check, names, status, key\n"),
    ("wacth localhost", 2, "write it like 3,7-12, or a name; the commands are get, set, watch"),
    ("::1:9060", 2, "'::1:9060' is not an address: write HOST, HOST:PORT or [IPV6]:PORT"),
    ("get HERE 3 --now-from 4", 0, "variable 4, the agent's clock, was never received"),
    ("get HERE 3,9", 0, "never"),
    ("get HERE 3,", 2, "'' is not a variable"),
    ("get HERE 9-3", 2, "lower one first"),
    ("get HERE engine", 2, "'engine' is not a variable"),
    ("get serial:/dev/nosuch", 3, "no such device: check that it is plugged in"),
    ("get serial:/dev/null", 2, "/dev/null is not a serial line"),
    ("get serial:ttyACM0", 2, "is not a serial line: write it like serial:/dev/ttyACM0@115200"),
    ("get serial:/dev/x@", 2, "'' is not a baud rate of this system: try 9600, 19200, 38400, "
     "57600, 115200, 230400"),
    ("get serial:/dev/ttyACM0@115201", 2, "'115201' is not a baud rate"),
    ("get nosuch.invalid", 3, "cannot find the host 'nosuch.invalid'"),
    ("get HERE --timeout 100000h", 0, "report verified"),
    ("get NOBODY --timeout 0.2", 3, "nothing listens at"),
    ("get SILENT --timeout 300ms", 3, "requests; this address may not be allowed, or above the "
     "rate limit; it may have a key: give --key"),
    ("get SHORT --timeout 500ms", 4, "8 bytes long, not 260"),
    ("get SUM --timeout 500ms", 4, "its checksum is"),
    ("get STRANGER --timeout 500ms", 3, "no answer in 0.5 s from"),
    ("set HERE 3", 2, "VALUE"),
    ("set HERE 3,4 8", 2, "one at a time"),
    ("set NOBODY 3 1", 3, "cannot send to"),
    ("watch HERE --count 0", 2, "must be 1 to"),
    ("watch HERE --count 1", 0, '"value": 9, "value_ok": true'),
    ("watch NOBODY --count 1 --timeout 100ms", 3, '"error": "no answer in 0.1 s'),
    ("watch SUM --count 1 --timeout 500ms", 4, "its checksum is"),
    ("watch HERE --warn 40s --crit 30s", 2, "warn, 40 s, is longer than crit, 30 s"),
    ("watch HERE --tick 1ms --crit 65.471s", 2, "ages end at 65.471 s"),
    ("localhost:65536", 2, "port 65536 is out of range: it must be 1 to 65535"),
    ("get HERE --time 1s", 2, "unrecognized arguments: --time"),
]


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    answers = {"HERE": [GOOD], "SHORT": [GOOD[:8]], "SUM": [WRONG_SUM], "SILENT": [],
               "STRANGER": [STRANGER + GOOD]}
    with contextlib.ExitStack() as stack:
        agents = {name: stack.enter_context(FakeAgent(answer)) for name, answer in answers.items()}
        nobody = unused_port()
        yield {**{name: agent.address for name, agent in agents.items()}, "VEHICLE": VEHICLE,
               "NOBODY": f"127.0.0.1:{nobody}"}


@pytest.mark.parametrize("typed, status, text", TYPED, ids=[row[0] for row in TYPED])
def test_typed(typed: str, status: int, text: str, addresses: dict[str, str], call: Call) -> None:
    words = " ".join(addresses.get(word, word) for word in typed.split()).split()
    result = call(*words)
    assert result.status == status, (result.out, result.err)
    assert text in (result.err if status in (1, 2) else result.out + result.err), (result.out,
                                                                                   result.err)
    if status == 2:
        assert result.err.startswith("client.py: ") and result.err.count("\n") == 1 \
            and not result.out


SECRET = "f0e1d2c3b4a5968778695a4b3c2d1e0f"


@pytest.mark.parametrize("typed", [
    "TEXT", "get TEXT:x", "get 127.0.0.1 TEXT", "get 127.0.0.1 --names TEXT", "set TEXT TEXT 1",
    "get 127.0.0.1 --TEXT", "get 127.0.0.1 --tick TEXT", "serial:TEXT", "can:TEXT", "can:can0:TEXT",
    "serial:/dev/TEXT@TEXT", "localhost TEXT", "check TEXT --expect 3", "key TEXT FILE",
    "check 127.0.0.1 --expect TEXT", "get 127.0.0.1 --key no/TEXT", "key new no/TEXT",
    "set 127.0.0.1 3 TEXT"])
def test_what_was_typed_is_not_repeated_at_length_nor_if_it_may_be_a_key(
        typed: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may give a key where something else belongs, and others see the terminal. An error is
    one line, whatever was typed."""
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    for text in ("x" * 60_000, SECRET, f"{SECRET.upper()}0", SECRET * 40, "a\nb", "\x1b[31m",
                 "a\x85b", "\udcff", "\u202ehost"):
        result = call(*(word.replace("TEXT", text) for word in typed.split()))
        said = (result.out + result.err).lower()
        assert result.status in (2, 3) and 0 < len(said) < 1000
        assert said.endswith("\n") and said[:-1].isprintable()
        assert not any(SECRET[at:at + 4] in said for at in range(28)), said
    result = call(*f"watch {SECRET} --count 1 --json".split())  # its name is a key
    assert SECRET not in result.out + result.err
    assert client.hide_keys(f"{SECRET[1:]} {SECRET}.") == f"{SECRET[1:]} {'*' * 32}."


@pytest.mark.parametrize("command", ["", *client.COMMANDS])
def test_help_fits(command: str) -> None:
    result = run(*command.split(), "--help", env={**os.environ, "COLUMNS": "80"})
    # Of check it is 3, so that no service is OK by it.
    assert result.returncode == (3 if command == "check" else 0) and not result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert len(result.stdout.splitlines()) <= 40 and not result.stdout.endswith("\n\n")
    epilog = client.COMMANDS[command].epilog if command else client.STATUSES
    assert result.stdout.endswith(epilog + "\n" * bool(epilog))


# ---------------------------------------------------------------- against the real server

@pytest.mark.parametrize("host", LOOPBACKS)
def test_set_and_get_the_real_server(host: str, call: Call) -> None:
    with Server("--self", "0", "--bind", host) as server:
        address = f"[{host}]:{server.port}"
        assert call("set", address, "7", "70", "--sender", "77").status == 0
        assert call("set", address, "3", "30", "--sender", "33").status == 0
        assert call("set", address, "radio", "44", "--names", VEHICLE).status == 0
        server.wait_for(lambda counters: counters["heartbeats"] == 3, "three arrive")
        shown = call(address, "--now-from", "0").out.splitlines()
        assert "4 of 64 variables received, ages by variable 0" in shown[0]
        assert [line.split()[:3] for line in shown[2:]] == [
            ["0", "0", "1"], ["3", "30", "33"], ["7", "70", "77"], ["8", "44", "1"]]
        assert all(re.search(r" [0-9]+ s ago$", line) for line in shown[2:])
        document = json.loads(call("get", address, "3", "--json", "--tick", "1s").out)
        assert 0 <= document["variables"][0]["age"] < PATIENCE \
            and (int(time.time()) - document["now"]) % 65536 < PATIENCE


def test_get_in_json(call: Call) -> None:
    with FakeAgent([report(v0=(NOW, 1, 0), v3=(NOW - 70, 76, 9))]) as agent:
        result = call("get", agent.address, "3,5", "--now-from", "0", "--tick", "100ms", "--json")
    assert (result.status, result.err) == (0, "") and json.loads(result.out) == {
        "agent": agent.address, "tick": 0.1, "now": NOW,
        "clock": {"from": "now-from", "variable": 0, "text": "ages by variable 0"},
        "variables": [{
            "variable": 3, "name": None, "state": "late", "age": 7.0, "age_at_least": False,
            "value": 9, "value_ok": True, "value_unusual": False, "sender": 76,
            "timestamp": NOW - 70},
            {**dict.fromkeys(("name", "age", "value", "value_ok", "value_unusual", "sender",
                              "timestamp")), "variable": 5, "state": "never",
             "age_at_least": False}]}


# ---------------------------------------------------------------- files of names

WRONG_FILES = [
    ("[3]\nboots = 5\n[4]\nboots = 5\n", "[3]: boots must be another variable, of no other"),
    ("[dumpulse]\nwran = 5s\n", "[dumpulse]: key 1 is unknown: use tick"),
    ("[3]\ntick = 5s\n", "[3]: key 1 is unknown: use name"),
    ("[engine]\n", "section 1 is neither"),
    ("[3]\nname = a\n\n  b\n", "line 4: this is neither a section"),
    ("[DEFAULT]\nname = x\n[3]\n", "section 1 is neither"),
    ("[0]\n[00]\n", "[00]: this variable has a section already"),
    ("[3]\nname=a\n[3]\n", "line 3: this is a duplicate"),
    ("name = x\n", "line 1: this is neither a section"),
    ("[3]\nname\n", "line 2: this is neither a section"),
    ("[3]\nname = \x1b[31m\n", "[3]: name must be 1 to 24 letters"),
    ("[3]\nname = a\n  b\n", "name must be"),
    ("[3]\nname = a\n[4]\nname = a\n", "3 and 4 have the same name"),
    ("[3]\nvalue = 5\n", "must be two values of 0 to 255 like 0..80"),
    ("[3]\nvalue = 5..4\n", "lower one first"),
    ("[3]\nvalue = 5..256\n", "of 0 to 255"),
    ("[3]\nvalue = 5..9\nvalue-warn = 4..9\n",
     "variable 3: value-warn, 4..9, is not within value, 5..9"),
    ("[3]\nvalue = 5..9\nvalue-warn = 5..10\n",
     "variable 3: value-warn, 5..10, is not within value, 5..9"),
    ("[3]\nexpect = maybe\n", "expect must be yes or no"),
    ("[3]\nwarn = 50s\n", "variable 3: warn, 50 s, is longer than crit, 40 s"),
    ("[dumpulse]\ntick = 1ms\n[3]\ncrit = 70s\n", "is never reached"),
    ("[dumpulse]\nnow-from = 64\n", "[dumpulse]: now-from must be a variable, 0 to 63"),
    ("[3]\nname = \udcff\n", "byte 11 is not UTF-8"),
    (f"{'[64]':65536}", "section 1 is neither"),
    (f"{'[64]':65537}", "is longer than 65536 bytes"),
]


@pytest.mark.parametrize("content, text", WRONG_FILES, ids=[row[1] for row in WRONG_FILES])
def test_wrong_files_of_names(content: str, text: str, tmp_path: Path, call: Call) -> None:
    path = tmp_path / "names.ini"
    path.write_text(content, "utf-8", "surrogateescape")
    result = call("get", "127.0.0.1:1", "--names", str(path)) if "warn = 50s" not in content else \
        call("watch", "127.0.0.1:1", "--crit", "40s", "--names", str(path))
    assert result.status == 2 and text in result.err
    assert result.err.count("\n") == 1 and ("names.ini" in result.err or "variable 3" in result.err)
    assert result.err.rstrip("\n").isprintable()


# ---------------------------------------------------------------- one description of a vehicle

NAMED = """[dumpulse]
tick = 10ms
[2]
name = a b
warn = 95ms
crit = 250ms
value = 3..7
[4]
name = a-b
warn = 5ms
crit = 1s
[5]
name = A_B_4
expect = no
[6]
[63]
name = φ6
expect = no
"""


def test_names_for_firmware(tmp_path: Path, call: Call) -> None:
    """The compiler accepts the table, and it has the deadlines of the file, in ticks."""
    path = tmp_path / "names.ini"
    path.write_text(NAMED)
    header = call("names", str(path), "--c").out
    assert re.findall(r"    (\w+) = (\d+),", header) == [
        ("VARIABLE_A_B", "2"), ("VARIABLE_A_B_4", "4"), ("VARIABLE_A_B_4_5", "5"),
        ("VARIABLE_6", "6"), ("VARIABLE_6_63", "63")]
    (tmp_path / "names.h").write_text(header)
    (tmp_path / "shown.c").write_text("""#include <stdio.h>
#include "dumpulse_watch.h"
#include "names.h"
DUMPULSE_WATCH(watch, WATCHED_VARIABLES);
uint16_t dumpulse_get_timestamp(void) { return 0; }
void dumpulse_send_packet(void *to, const uint8_t *packet, size_t length) {}
void dumpulse_changed(dumpulse *c, uint8_t v, dumpulse_state was, dumpulse_state is) {}
int main(void)
{
    for (int i = 0; i < watch.count; ++i) {
        const dumpulse_line_ one = watch.table[i];
        printf("%d %d %d %d %d %d\\n", one.variable, one.late - 64, one.dead - 64, one.grace - 64,
               one.lowest, one.lowest + one.span);
    }
}
""")
    program = tmp_path / "shown"
    subprocess.run(["cc", "-std=c99", "-I", ROOT, "-I", ROOT / "extras", tmp_path / "shown.c", "-o",
                    program, ROOT / "dumpulse.c", ROOT / "extras/dumpulse_watch.c"], check=True)
    lines = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert lines.splitlines() == ["2 9 27 27 3 7", "4 1 100 100 0 255", "6 500 3000 3000 0 255"]
    assert "grace(27), values(3, 7)) /* crit is 25 */" in header and header.count("crit") == 1
    assert "A tick has 10 ms" in header and "1 s" not in header
    assert "4: a-b" not in (shown := call("names", str(path)).out)
    assert "4 a-b: warn 0.005 s, crit 1 s, value 0..255\n5 A_B_4: not expected\n" in shown
    path.write_text("[dumpulse]\n")
    assert "has no variables" in call("names", str(path), "--c").err
    assert call("names", str(path)).out == ""


def test_names_for_can_tools(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "names.ini"
    path.write_text(f"{NAMED}[7]\nname = {'x' * 24}\n[8]\nname = {'x' * 23}y\n")
    made = call("names", str(path), "--dbc", "--base", "00000700").out
    names = re.findall(r"^(?: SG_|BO_ \d+) (\w+) ?:", made, re.M)
    assert max(map(len, names)) == 32 and len(re.findall("^BO_", made, re.M)) == 98
    assert {"Heartbeat_a_b", "Timestamp_A_B_4_5", "Value_" + "x" * 22} < set(names)
    assert len(set(names)) == 98 + 3 * 64 + 6  # Checksum, Magic, Variable, Sender, Value, AreYouOK
    assert f"BO_ {(1 << 31) + 0x702} Heartbeat_a_b: 8 Node" in made
    for base in ("68", "681", "800", "20000000"):
        assert call("names", str(path), "--dbc", "--base", base).status == 2


# ---------------------------------------------------------------- many agents in one program

async def ask_among_silent(live: str, silent: list[client.Agent], seconds: float) -> float:
    """Polls silent agents, and then a live one. Returns how long that took; ends them within 50 ms.
    """
    others = [asyncio.create_task(agent.ask_async(seconds)) for agent in silent]
    await asyncio.sleep(0.1)
    begun = time.monotonic()
    assert (await client.Agent(live).ask_async(PATIENCE))[3].value == 9
    took, begun = time.monotonic() - begun, time.monotonic()
    for task in others:
        task.cancel()
    done = await asyncio.gather(*others, return_exceptions=True)
    assert all(isinstance(error, asyncio.CancelledError) for error in done)
    assert time.monotonic() - begun < 0.0005 * len(others) + 0.05
    return took


def test_silent_agents_delay_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does a silent name service. A task that is cancelled ends, and keeps nothing open."""
    before = os.listdir("/proc/self/fd")
    with FakeAgent([]) as silent, FakeAgent([GOOD]) as live:
        agents = [client.Agent(silent.address) for _ in range(200)]
        begun = time.monotonic()
        assert asyncio.run(ask_among_silent(live.address, agents, 3.0)) < 1
        with silent_name_service(monkeypatch):
            agents = [client.Agent(f"slow{number}") for number in range(40)]
            assert asyncio.run(ask_among_silent(live.address, agents, 3.0)) < 1
        assert time.monotonic() - begun < 3
    wait_until(lambda: os.listdir("/proc/self/fd") == before, "all is closed")


def test_a_flood_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task gets a turn before each packet."""
    parse, turns = client.parse_report, 0
    seen: list[int] = []  # the turns at each packet

    def note(packet: bytes) -> client.Entries:
        seen.append(turns)
        return parse(packet)
    monkeypatch.setattr(client, "parse_report", note)

    async def count_turns() -> None:
        nonlocal turns
        task = asyncio.create_task(client.Agent(flooding.address).ask_async(0.5))
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert isinstance(task.exception(), client.BadReport)
    with FakeAgent([WRONG_SUM] * 3000) as flooding:
        asyncio.run(count_turns())
    assert len(set(seen)) == len(seen) > 9


def test_a_loop_that_cannot_wait_for_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, asyncio's usual loop is one."""
    def refuse(*_: object) -> None:
        raise NotImplementedError
    waits: list[float] = []
    later = asyncio.SelectorEventLoop.call_later

    def note(self: Any, seconds: float, *what: Any) -> Any:
        waits.append(seconds)
        return later(self, seconds, *what)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", refuse)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "call_later", note)

    with FakeAgent([GOOD]) as fake:
        begun = time.process_time()
        assert asyncio.run(client.Agent(f"localhost:{fake.port}").ask_async(PATIENCE))[3].value == 9
        with pytest.raises(client.NoAnswer):
            asyncio.run(client.Agent(f"127.0.0.1:{unused_port()}").ask_async(0.4))
        assert time.process_time() - begun < 0.3
    assert max(waits) <= 0.02


def test_nothing_is_left_in_the_loop() -> None:
    """No reader, and no timer that has not run."""
    async def left(agent: client.Agent) -> tuple[int, list[Any]]:
        loop: Any = asyncio.get_running_loop()
        before = len(loop._selector.get_map())
        await agent.ask_async(PATIENCE)
        return (len(loop._selector.get_map()) - before,
                [timer for timer in loop._scheduled if not timer.cancelled()])
    with FakeAgent([GOOD]) as fake:
        assert asyncio.run(left(client.Agent(fake.address))) == (0, [])


def test_changes_for_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first change has all; then only what is new comes, or why no report came. The interval is
    from one question to the next, so the pause is shorter."""
    pauses: list[float] = []
    monotonic, skipped = time.monotonic, [0.0]

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        skipped[0] += seconds

    monkeypatch.setattr(asyncio, "sleep", pause)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + skipped[0])
    names = tmp_path / "names.ini"
    names.write_text("[dumpulse]\nnow-from = 0\n[3]\nname = engine\n")

    async def follow(address: str, count: int, interval: float) -> list[client.Change]:
        found = []
        async for change in client.Agent(address).changes(interval, str(names), PATIENCE
                                                          if count > 1 else 0.1):
            found.append(change)
            if len(found) == count:
                break
        return found

    old = report(v0=(0x1234, 1, 0), v3=(0x1234, 76, 9))
    new = report(v0=(0x1235, 1, 0), v3=(0x1234, 76, 9), v4=(0x1235, 77, 8))
    with FakeAgent([old], [old], [old], [new]) as fake:
        assert asyncio.run(client.Agent(fake.address).ask_async(PATIENCE))[3].value == 9
        found = asyncio.run(follow(fake.address, 2, 9 * PATIENCE))
    assert [[one.variable.number for one in change.readings] for change in found] == [[0, 3], [4]]
    assert len(pauses) == 2 and 8 * PATIENCE < min(pauses) < max(pauses) < 9 * PATIENCE
    assert found[0].readings[1].variable.name == "engine" and found[1].error is None
    (change,) = asyncio.run(follow(f"127.0.0.1:{unused_port()}", 1, 1.0))
    assert not change.readings and isinstance(change.error, client.NoAnswer)
    with FakeAgent([old], [old], [new]) as fake:
        asyncio.run(follow(fake.address, 2, -1.0))
    assert pauses[2:] == [0.1, 0.1]
    with pytest.raises(client.BadUsage, match="a time is a number"):
        asyncio.run(follow(fake.address, 1, math.nan))


@pytest.mark.parametrize("content", [f"{SECRET}\n", f"readers {SECRET}\n", f"[{SECRET}]",
                                     f"[3]\n{SECRET}", f"[3]\n{SECRET} = 1", f"[3]\nname={SECRET}",
                                     f"[3]\nwarn={SECRET}", f"[3]\nvalue={SECRET}..{SECRET}",
                                     f"[dumpulse]\nnow-from={SECRET}", f"{SECRET.upper()}",
                                     f"[3]\n{SECRET}=1\n{SECRET}=2", f"{SECRET}0\n"])
def test_a_key_in_the_place_of_another_file_is_not_printed(content: str, tmp_path: Path,
                                                           call: Call) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(0o600)
    with FakeAgent([GOOD]) as agent:
        for arguments in ("check HERE --names FILE", "get HERE --names FILE",
                          "check HERE --expect 3 --memory FILE", "key show FILE",
                          "key split --out O --readers FILE", "get HERE --key FILE"):
            if content == f"{SECRET}\n" and " FILE" in arguments and "key" in arguments:
                continue  # it is in its place there
            if content.startswith("readers") and arguments.startswith(("key", "get HERE --key")):
                continue
            result = call(*arguments.replace("HERE", agent.address).replace(
                "FILE", f"{path}").split())
            assert result.status in (2, 3) and f"{path}" in result.out + result.err
            said = (result.out + result.err).lower()
            assert not any(SECRET[at:at + 4] in said for at in range(28)), said


def test_a_pipe_that_nobody_writes_to(tmp_path: Path, call: Call,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gives up after a while. If somebody writes to the pipe, it is read."""
    monkeypatch.setattr(client, "TIMEOUT", 0.2)
    path, other = tmp_path / "pipe", tmp_path / "other"
    os.mkfifo(path)
    os.mkfifo(other)
    result = call("get", "127.0.0.1:1", "--names", str(path))
    assert result.status == 2 and result.err \
        == f"client.py: cannot read '{path}': no data within 0.2 s\n"
    path.write_text("[3]\nname = late\n")  # The thread that waits there ends.
    monkeypatch.setattr(client, "TIMEOUT", PATIENCE)
    writer = threading.Thread(target=other.write_text, args=("[64]\n",))
    writer.start()
    assert "section 1 is neither" in call("get", "127.0.0.1:1", "--names", str(other)).err
    writer.join()


def test_a_file_without_a_name(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "the name of the file is empty" in call("get", "127.0.0.1:1", "--names", "").err
    with FakeAgent([GOOD]) as agent:
        result = call("check", agent.address, "--expect", "3", "--now-from", "3", "--memory", "")
    assert result.status == 3 and "the name of the file is empty" in result.out
    assert not list(tmp_path.iterdir())  # no lock, either


NAMES = f"--names {VEHICLE}"


@pytest.mark.parametrize("typed, warn, crit, numbers", [
    ("", 5000, 30_000, (0,)), ("--crit 3s", 3000, 3000, (0,)),
    ("--warn 1min", 60_000, 60_000, (0,)), ("--tick 0.25s", 5000, 30_000, (0,)),
    ("--tick 1ms", 5000, 30_000, (0,)), (NAMES, 1500, 3000, (1, 9)),
    (f"{NAMES} --warn 2s --crit 3s", 2000, 3000, (1, 9)),
    (f"{NAMES} --crit 2min", 1500, 120_000, (1, 9)),
    (f"{NAMES} --warn 1s --crit 1s", 1000, 1000, (1, 7, 8, 9))])
def test_deadlines(typed: str, warn: int, crit: int, numbers: tuple[int, ...]) -> None:
    """Options are used before the file of names. A default makes way for the other deadline."""
    variables = client.make_settings(
        client.build_parser("check").parse_args(["x", *typed.split()])).variables
    assert {(variables[number].warn_ms, variables[number].crit_ms)
            for number in numbers} == {(warn, crit)}


# ---------------------------------------------------------------- check

NOW = 40_000  # the agent's, as variable 0 says
CHECKED = report(v0=(NOW, 1, 0), v1=(NOW - 2, 11, 90), v2=(NOW - 7, 12, 8), v3=(NOW - 31, 13, 126),
                 v4=(NOW - 3, 14, 81), v5=(NOW - 40, 15, 200), v6=((NOW + 3), 16, 1))

# What is typed after `check HERE --now-from 0`, the status, and all of the line up to the |.
CHECKS = [
    ("--expect 1", 0, "OK - 1 alive at HERE"),
    ("--expect 2", 1, "WARNING - 2 late: silent for 7 s, warn 5 s"),
    ("--expect 2 --warn 7s", 0, "OK - 1 alive at HERE"),
    ("--expect 2 --warn 6.9s", 1, "WARNING - 2 late: silent for 7 s, warn 6.9 s"),
    ("--expect 2 --crit 6s", 2, "CRITICAL - 2 dead: silent for 7 s, crit 6 s"),
    ("--expect 3", 2, "CRITICAL - 3 dead: silent for 31 s, crit 30 s"),
    ("--expect 3 --crit 31s", 1, "WARNING - 3 late: silent for 31 s, warn 5 s"),
    ("--expect 63", 2, "CRITICAL - 63 never received"),
    ("--expect 1,2,3,63", 2, "CRITICAL - 3 dead: silent for 31 s, crit 30 s; 63 never received; "
                             "2 late: silent for 7 s, warn 5 s"),
    ("[1];value=0..90", 0, "OK - 1 alive at HERE"),
    ("[4];value=0..80", 2, "CRITICAL - 4 bad value: 81 is not in 0..80"),
    ("[2];value=9..9", 2,
     "CRITICAL - 2 late: silent for 7 s, warn 5 s; 2 bad value: 8 is not in 9..9"),
    ("[5];value=0..80", 2,
     "CRITICAL - 5 dead: silent for 40 s, crit 30 s; 5 bad value: 200 is not in 0..80"),
    ("[1];[4];value=0..100;[6];value=1..1", 0, "OK - 3 alive at HERE"),
    ("[4];value-warn=0..81", 0, "OK - 1 alive at HERE"),
    ("[4];value-warn=0..80", 1, "WARNING - 4 unusual value: 81 is not in 0..80"),
    ("[4];value=0..80;value-warn=0..70", 2, "CRITICAL - 4 bad value: 81 is not in 0..80"),
    ("[4];value=0..81;value-warn=0..70", 1, "WARNING - 4 unusual value: 81 is not in 0..70"),
    ("[2];value-warn=9..9", 1,
     "WARNING - 2 late: silent for 7 s, warn 5 s; 2 unusual value: 8 is not in 9..9"),
    ("[5];value-warn=0..80", 2,
     "CRITICAL - 5 dead: silent for 40 s, crit 30 s; 5 unusual value: 200 is not in 0..80"),
    ("[9];value-warn=0..80", 2, "CRITICAL - 9 never received"),
    ("--expect 2 -w 7", 0, "OK - 1 alive at HERE"),
    ("--expect 2 -c 6 -t 20", 2, "CRITICAL - 2 dead: silent for 7 s, crit 6 s"),
    ("--expect 2 -p 9060", 3, "UNKNOWN - 'HERE' is not a host alone, so --port cannot follow it"),
    ("--expect 2 -v", 1, "WARNING - 2 late: silent for 7 s, warn 5 s; 1 late at HERE; ages by "
                         "variable 0"),
    ("--expect 2 -H HERE", 3, "UNKNOWN - name one agent, as HOST[:PORT] or -H HOST[:PORT]"),
    ("--expect 2 -t 0", 3, "UNKNOWN - argument -t/--timeout: '0' is not a time: write it like "
                           "500ms, 5s, 2min or 1h (see client.py check --help)"),
    ("a|b", 3, "UNKNOWN - unrecognized arguments: a/b (see client.py check --help)"),
    ("a\x1bb", 3, "UNKNOWN - unrecognized arguments: a\\x1bb (see client.py check --help)"),
    ("--expect 1 --now-from 9", 3,
     "UNKNOWN - 1 age unknown; no ages: variable 9, the agent's clock, "
                                   "was never received"),
    ("--expect 1,10 --now-from 9", 2,
     "CRITICAL - 10 never received; 1 age unknown; no ages: variable 9, the "
                                      "agent's clock, was never received"),
    ("", 3, "UNKNOWN - nothing is expected: name variables with --expect or in --names FILE"),
    ("--names /nonexistent", 3, "UNKNOWN - cannot read '/nonexistent': No such file or directory"),
    ("--expect 1 --tick 1ms --crit 70s", 3,
     "UNKNOWN - crit, 70 s, is never reached: with this tick, ages end "
                                            "at 65.471 s"),
    ("--expcet 1", 3, "UNKNOWN - unrecognized arguments: --expcet 1 (see client.py check --help)"),
]

def test_a_plugin_is_told_host_port_and_how_much_to_print(call: Call) -> None:
    with FakeAgent([CHECKED]) as agent:
        words = ("check", "-H", "127.0.0.1", "-p", str(agent.port), "--now-from", "0")
        brief = call(*words, "--expect", "1").out
        long = call(*words, "--expect", "1", "-vv").out
        longest = call(*words, "--expect", "1", "-vvv").out
        assert call(*words, "--expect", "1", "-p", "0").status == 3
    (first, *lines), data = long.splitlines(), brief.rstrip("\n").partition(" | ")[2]
    assert first.startswith(f"DUMPULSE OK - 1 alive at {agent.address}; 1 ok at {agent.address}; ")
    assert first.endswith(data) and lines == [
        "1: ok, value 90, sender 11, age 2 s; warn 5 s, crit 30 s, value 0..255"]
    assert longest.startswith(first) and set(lines) < set(more := longest.splitlines()[1:])
    assert "5: dead, value 200, sender 15, age 40 s; not expected" in more and len(more) == 7


# The guideline: 'label'=value[UOM];[warn];[crit];[min];[max], and U for an unknown value; a
# range is [@][start:][end].
DATUM = re.compile(r"'(?P<label>[^'=]+)'=(?P<value>-?[0-9.]+|U)(?P<unit>s|)"
                   r";(?P<warn>@?(?:~|[-0-9.]*:)?[-0-9.]*);(?P<crit>@?(?:~|[-0-9.]*:)?[-0-9.]*)"
                   r";(?P<min>[-0-9.]*);(?P<max>[-0-9.]*)(?: |$)")


def performance_data(line: str) -> dict[str, dict[str, str]]:
    data = line.partition(" | ")[2]
    found = list(DATUM.finditer(data))
    assert "".join(datum[0] for datum in found) == data
    return {datum["label"]: datum.groupdict() for datum in found}


@pytest.mark.parametrize("typed, status, text", CHECKS, ids=[row[0] for row in CHECKS])
def test_checks(typed: str, status: int, text: str, tmp_path: Path, call: Call) -> None:
    names = tmp_path / "names.ini"
    names.write_text(typed.replace(";", "\n") if typed.startswith("[") else "")
    with FakeAgent([CHECKED]) as agent:
        words = ["--names", str(names)] if typed.startswith("[") else \
            typed.replace("HERE", agent.address).split()
        result = call("check", agent.address, "--now-from", "0", *words)
        assert (result.status, result.err) == (status, "")
        assert result.out.count("\n") == 1
        line = result.out.rstrip("\n")
        assert line.partition(" | ")[0] == "DUMPULSE " + text.replace("HERE", agent.address)
        assert bool(performance_data(line)) == (status != 3 or "age unknown" in text)


def test_performance_data(tmp_path: Path, call: Call) -> None:
    names = tmp_path / "names.ini"
    names.write_text("[1]\nname = left engine\nvalue = 10..120\nvalue-warn = 20..100\n"
                     "warn = 1500ms\n[9]\n")
    with FakeAgent([CHECKED]) as agent:
        data = performance_data(call("check", agent.address, "--now-from", "0", "--names",
                                     str(names)).out.strip())
    assert [tuple(datum.values()) for datum in data.values()] == [
        ("left engine age", "2", "s", "1.5", "30", "0", ""),
        ("left engine value", "90", "", "20:100", "10:120", "0", "255"),
        ("variable 9 age", "U", "", "5", "30", "0", ""),
        ("variable 9 value", "U", "", "", "0:255", "0", "255")]


def test_performance_data_of_a_long_tick(call: Call) -> None:
    """Ages of years are printed, without an exponent."""
    with FakeAgent([report(v0=(NOW, 1, 0), v1=((NOW - 65000) % 65536, 1, 1))]) as agent:
        line = call("check", agent.address, "--now-from", "0", "--expect", "1", "--tick", "1h",
                    "--crit", "65470h").out
    assert performance_data(line.strip())["variable 1 age"]["value"] == str(65000 * 3600)
    assert "late: silent for 65000 h" in line


def test_check_of_an_agent_that_is_not_there(addresses: dict[str, str], call: Call) -> None:
    for where, text in (("NOBODY", "nothing listens at"), ("SHORT", "8 bytes long"),
                        ("SUM", "its checksum")):
        result = call("check", addresses[where], "--expect", "1", "--timeout", "500ms")
        assert result.status == 2 and not result.err
        assert result.out.startswith("DUMPULSE CRITICAL - ") and text in result.out
    assert call("check", "nosuch.invalid", "--expect", "1").status == 2


def test_the_options_of_plugins(call: Call) -> None:
    """The options are those of the guidelines. If somebody takes --help or --version for the check
    of a service, that service does not become OK."""
    with FakeAgent([CHECKED]) as agent:
        words = ("--now-from", "0", "--expect", "1")
        for where in (("-H", agent.address), (f"-H{agent.address}",), (agent.address,)):
            assert call("check", *where,
                        *words).out.startswith(f"DUMPULSE OK - 1 alive at {agent.address} | ")
            assert call("check", *words, *where).status == 0
        nobody = call("check", *words)
        assert (nobody.status, nobody.out) == (
            3, "DUMPULSE UNKNOWN - name one agent, as HOST[:PORT] or -H HOST[:PORT]\n")
    for short, long in (("-h", "--help"), ("-V", "--version")):
        shown = call("check", short)
        assert (shown.status, shown.err) == (3, "") and shown.out == call("check", long).out
    assert shown.out == \
        f"client.py {client.VERSION}, keys {client.KEYS_VERSION} (experimental)\n"
    help_text = call("check", "-h").out
    assert all(f"{status} {name}" in help_text for status, name in enumerate(client.STATES))
    assert call("get", "-V").status == 0


def test_unusual_values_elsewhere(tmp_path: Path, call: Call) -> None:
    names = tmp_path / "names.ini"
    names.write_text("[1]\nvalue = 10..120\nvalue-warn = 91..100\n[4]\nvalue = 0..80\n")
    options = ("--names", str(names), "--now-from", "0")
    with FakeAgent([CHECKED]) as agent:
        shown = call("get", agent.address, *options).out
        assert re.search(r"^1 +90! ", shown, re.M) and re.search(r"^4 +81! ", shown, re.M) \
            and shown.count("!") == 2
        one, four = json.loads(call("get", agent.address, "1,4", *options, "--json").out)[
            "variables"]
        assert (one["value_ok"], one["value_unusual"], four["value_ok"], four["value_unusual"]) \
            == (True, True, False, False)


def test_the_commands_of_the_readme(call: Call) -> None:
    page = (ROOT / "client/README.md").read_text()
    lines = re.findall(r"^    \./client\.py (?!serial:|can:|key )([^#\n]+)", page, re.M)
    with Server("--self", "0", "--rate", "1000") as server:
        for line in lines:
            words = line.replace("localhost", f"127.0.0.1:{server.port}").replace(
                "examples/", f"{ROOT}/examples/").split()
            done = call(*words, *["--count", "1"] * (words[0] == "watch"))
            assert (done.status, done.err) == (2 * (words[0] == "check"), ""), line
    assert len(lines) == 4 and "never received" in done.out


def test_the_status_of_a_server(tmp_path: Path, call: Call) -> None:
    """For people, as JSON and as Prometheus' text."""
    path = str(tmp_path / "stats")
    (tmp_path / "names").write_text("[3]\nname = pump\n[4]\nvalue = 0..9\n")
    with Server("--stats", path, "--watch", str(tmp_path / "names")) as server:
        for words in ("3 5", "4 50", "9 0"):
            assert call("set", f"127.0.0.1:{server.port}", *words.split()).status == 0
        server.says("variable 4: out-of-range")
        about, counters, *rows = call("status", path).out.splitlines()
        assert about.endswith(f"s: --stats {path} --watch {tmp_path / 'names'} 0")
        assert "heartbeats 3, " in counters and "lost_lines 0" in counters
        assert [" ".join(re.sub("[0-9.]+ s ago", "ago", row).split()) for row in rows] == [
            "3 pump alive ago, value 5, sender 1", "4 out-of-range ago, value 50, sender 1",
            "9 not watched ago, value 0, sender 1"]
        status = json.loads(call("status", path, "--json").out)
        assert (status["table"][3]["name"], status["table"][3]["number"]) == ("pump", 1)
        metrics = call("status", path, "--prometheus").out.splitlines()
        assert {"# TYPE dumpulse_heartbeats_total counter", "dumpulse_heartbeats_total 3",
                'dumpulse_variable_value{variable="3",name="pump"} 5',
                'dumpulse_variable_value{variable="9",name=""} 0',
                'dumpulse_variable_alive{variable="4",name=""} 1'} < set(metrics)
        assert len([line for line in metrics if line.startswith("dumpulse_variable_age")]) == 3
    for gone in (path, str(tmp_path / "names")):
        result = call("status", gone)
        assert result.status == 2 and "cannot read the status of" in result.err


@pytest.mark.parametrize("answer", [b"", b"3", b"[]", b"{}", b'{"table": [{}]}', b"\xff"])
def test_the_status_of_another_program(answer: bytes, tmp_path: Path, call: Call) -> None:
    def reply() -> None:
        with other.accept()[0] as connection:
            connection.sendall(answer)
    path = str(tmp_path / "other")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen()
        threading.Thread(target=reply).start()
        result = call("status", path)
    assert result.status == 2 and "is not the socket of a server's --stats" in result.err
