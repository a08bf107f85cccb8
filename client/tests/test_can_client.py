"""client.py on a CAN interface, which is a pair of sockets here. server/tests/vm_can.py has a real
one."""

import contextlib
import errno
import os
import selectors
import socket
import struct
import sys
import time
from typing import Any, Optional

import pytest

import client
from spec import model
from tools.agents import GOOD
from tools.lines import FakeBus, bus

OTHER = model.checksummed(bytes(range(256)))


def opened(address: str = "can:can0") -> client.Can:
    kind = client.CanFd if address.startswith("canfd:") else client.Can
    transport = kind(*client.parse_can(address))
    transport.open(0)
    return transport


@pytest.mark.parametrize("address, name, base, wide", [
    ("can:can0", "can:can0", 0x680, 0), ("can:can0:680", "can:can0", 0x680, 0),
    ("can:vcan1:080", "can:vcan1:080", 0x80, 0),
    ("can:can0:00000680", "can:can0:00000680", 0x680, 1 << 31),
    ("can:can0:1fffff80", "can:can0:1FFFFF80", 0x1FFFFF80, 1 << 31)])
def test_an_agent_is_asked(address: str, name: str, base: int, wide: int, bus: FakeBus) -> None:
    """The client hears only the agent's reports, and that the bus is off. Its request has the last
    identifier."""
    agent = client.Agent(address)
    assert agent.name == name
    bus.report(OTHER[:200] + GOOD[200:], base | wide)  # not one whose checksum is right
    bus.report(GOOD, base | wide)
    assert agent.ask(5)[3] == (0x1234, 76, 9)
    assert bus.heard() == ((base + 127) | wide, 8, model.REQUEST)
    assert bus.asked == [
        ("socket", socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW), ("setblocking", False),
        ("setsockopt", 101, 1, struct.pack("=LL", (base + 64) | wide, 0xDFFFFFC0)),
        ("setsockopt", 101, 2, struct.pack("=L", 0x40)),
        ("bind", (name.split(":")[1],)), ("close",)]


@pytest.mark.parametrize("variable", [0, 3, 63])
def test_each_variable_has_an_identifier(variable: int, bus: FakeBus) -> None:
    packet = model.heartbeat(variable, 76, 9)
    client.Agent("can:can0").beat(variable, 76, 9, timeout=0.01)
    assert bus.heard() == (0x680 + variable, 8, packet)
    opened().send(packet[:5] + bytes((64 + variable,)) + packet[6:])  # damaged
    assert bus.heard()[0] == 0x680 + variable


def test_reports_frame_by_frame(bus: FakeBus) -> None:
    """A report is complete after its 33rd frame. The next report begins with its first frame."""
    transport = opened()
    bus.report(OTHER, frames=range(20, 33))  # it began before we listened
    for packet in (GOOD, OTHER):
        bus.report(packet, frames=range(1))
        bus.send(0x680 + 127, model.REQUEST)  # Another reader's request.
        bus.send(0x680 + 64 + 33, b"later...")
        bus.report(packet, frames=range(1, 32))
        assert transport.receive(0) is None
        bus.report(packet, frames=range(32, 33))
        assert transport.receive(1) == packet
    bus.report(GOOD, frames=range(20))
    bus.report(OTHER)  # it begins again
    assert transport.receive(1) == OTHER
    bus.report(GOOD, frames=range(7, 8))
    assert transport.receive(0) is None
    transport.close()


@pytest.mark.parametrize("frames, missing", [([0, 2], 2), ([0, 1, 2, 4], 4), ([*range(31), 32], 32),
                                             ([0, 0, 1, 1], 3)])
def test_a_frame_that_does_not_come(frames: list[int], missing: int, bus: FakeBus) -> None:
    transport = opened()
    for at in frames:
        bus.report(GOOD, frames=range(at, at + 1))
    with pytest.raises(client.BadReport, match=f"its frame {missing} of 33 is missing") as caught:
        transport.receive(1)
    assert caught.value.cause == "length"
    bus.report(GOOD, frames=range(5, 9))  # the rest of it is no report
    assert transport.receive(0) is None
    bus.report(OTHER)
    assert transport.receive(1) == OTHER
    transport.close()


@pytest.mark.parametrize("at, part", [(0, b"1234567"), (31, b"1234"), (32, b"12345"), (32, b"123")])
def test_a_frame_of_another_length(at: int, part: bytes, bus: FakeBus) -> None:
    transport = opened()
    bus.report(GOOD, frames=range(at))
    bus.send(0x680 + 64 + at, part)
    with pytest.raises(client.BadReport, match=f"its frame {at + 1} of 33 is missing"):
        transport.receive(1)
    transport.close()


def test_can_fd(bus: FakeBus) -> None:
    """A request in a frame of CAN FD, and a report in five. Others ask with classic frames, and get
    classic reports. A heartbeat is classic, too."""
    agent = client.Agent("canfd:can0")
    assert agent.name == "canfd:can0"
    bus.report(OTHER)
    bus.report_fd(GOOD)
    assert agent.ask(5)[3] == (0x1234, 76, 9)
    assert bus.heard() == (0x680 + 126, 8, model.REQUEST.ljust(64, b"\0"))
    assert ("setsockopt", 101, 5, 1) in bus.asked
    agent.beat(3, 76, 9, timeout=0.01)
    assert bus.heard() == (0x683, 8, model.heartbeat(3, 76, 9))
    transport = opened("canfd:can0")
    bus.report_fd(GOOD, range(2))
    bus.report_fd(GOOD, range(3, 4))
    with pytest.raises(client.BadReport, match="its frame 3 of 5 is missing"):
        transport.receive(1)
    bus.send(1 << 29 | 0x40, bytes(8))
    with pytest.raises(client.NoAnswer, match="can0 is off the bus: check wiring and bit rate"):
        transport.receive(1)
    transport.close()


def test_can_fd_with_a_key(bus: FakeBus) -> None:
    transport = opened("canfd:can0:680:6E2")
    transport.keyed = True
    report, beacon = bytes(range(256)) + bytes(8), b"\1\2\3\4\0\0\0\5"
    bus.send(0x680 + 97, beacon)
    bus.report_fd(report)
    assert (transport.receive(1), transport.receive(1)) == (beacon, report)
    request = bytes((1, 2, 3, 4, client.IS_REQUEST, 1, 0, 0))
    transport.send(request)
    assert bus.heard() == (0x6E2, 8, request.ljust(64, b"\0"))
    transport.close()


@pytest.mark.parametrize("call, number, text", [
    ("socket", errno.EAFNOSUPPORT, "can0: this kernel has no CAN: modprobe can-raw may load it"),
    ("socket", errno.EPROTONOSUPPORT, "can0: this kernel has no CAN: modprobe can-raw may load it"),
    ("bind", errno.ENODEV, "can0: there is no CAN interface can0: ip link lists them"),
    ("setsockopt", errno.EPERM, "can0: Operation not permitted")])
def test_an_interface_that_cannot_be_opened(call: str, number: int, text: str,
                                            bus: FakeBus) -> None:
    bus.fails[call] = number
    with pytest.raises(client.NoAnswer) as caught:
        opened()
    assert str(caught.value) == text and (bus.asked[-1] == ("close",)) == (call != "socket")


@pytest.mark.parametrize("number, text", [
    (errno.ENETDOWN, "can0: can0 is down: ip link set can0 up"),
    (errno.ENXIO, "can0: there is no CAN interface can0: ip link lists them"),
    (errno.EAGAIN, None), (errno.ENOBUFS, None)])
def test_an_interface_that_takes_nothing(number: int, text: Optional[str], bus: FakeBus,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """If the interface is only full, the packet is lost. If the interface is lost, it is opened
    again."""
    transport = opened()

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refuse)
        if text is None:
            transport.send(model.REQUEST)
        else:
            with pytest.raises(client.NoAnswer) as caught:
                transport.send(model.REQUEST)
            assert str(caught.value) == text
    transport.send(model.REQUEST)
    assert bus.heard() == (0x6FF, 8, model.REQUEST)
    assert bus.asked.count(("bind", ("can0",))) == (1 if text is None else 2)
    transport.close()


def test_a_system_without_can(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.parse_can("can:can0") == ("can0", 0x680, 127)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "platform", "darwin")
        with pytest.raises(client.BadUsage, match="this system has no SocketCAN"):
            client.parse_can("can:can0")
    monkeypatch.delattr(socket, "AF_CAN")
    with pytest.raises(client.BadUsage, match="this system has no SocketCAN"):
        client.parse_can("can:can0")


def test_opening_and_closing_again_keeps_no_descriptor(bus: FakeBus) -> None:
    before = os.listdir("/proc/self/fd")
    transport = opened()
    transport.open(0)
    transport.open(0)
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    transport.close()
    transport.close()
    assert os.listdir("/proc/self/fd") == before


# ---------------------------------------------------------------- any descriptor, and any time

class Line(client.Device):
    """A device. Its report is any text that begins with an r."""

    FORM = "line"
    rest = 0

    def opening(self, seconds: float) -> client.Steps[None]:
        yield from ()
        self._descriptor = 7
        self.waited = seconds

    def _add_bytes(self, content: bytes) -> Optional[bytes]:
        return content if content.startswith(b"r") else None

    def _check_rest(self) -> None:
        self.rest += 1


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Notes the system calls. The selector returns at once as often as read() has something."""
    noted: list[Any] = []
    now = [50.0]
    coming: list[bytes] = []
    noted.append(coming)

    class Selector(contextlib.nullcontext[Any]):
        def __enter__(self) -> "Selector":
            return self

        def register(self, number: int, events: int) -> None:
            self.number = number
            assert events == selectors.EVENT_READ

        def select(self, left: float) -> None:
            noted.append(("select", self.number, left))
            if not coming:
                now[0] += left

    def read(number: int, count: int) -> bytes:
        now[0] += 1
        if coming[:1] in ([], [b"busy"]):
            del coming[:1]
            raise BlockingIOError(errno.EAGAIN, "")
        return coming.pop(0)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: noted.append(("sleep", seconds)))
    monkeypatch.setattr(selectors, "DefaultSelector", Selector)
    monkeypatch.setattr(os, "read", read)
    monkeypatch.setattr(os, "write", lambda number, packet: noted.append(("write", number, packet)))
    monkeypatch.setattr(os, "close", lambda number: noted.append(("close", number)))
    return noted


def test_descriptor_0_is_one_like_others(calls: list[Any]) -> None:
    """A device gets descriptor 0 if the program was started without a standard input."""
    line = Line("line", "line")
    line.close()  # it was never open
    assert line.receive(2) is None
    assert calls[1:] == [("sleep", 2)] and line._descriptor == -1
    line.send(b"packet")  # which opens it, and does not wait for a lock
    line._descriptor = 0
    line.send(b"packet")
    assert calls[2:] == [("write", 7, b"packet"), ("write", 0, b"packet")] and line.waited == 0
    assert line.receive(1) is None
    line.close()
    line.close()
    assert calls[4:] == [("select", 0, 1), ("close", 0)]


@pytest.mark.parametrize("seconds, coming, report, lefts", [
    (3, [], None, [3]), (-1, [], None, [0]), (1e6 + 2, [], None, [1e6, 1]),
    (3, [b"x", b"ready"], b"ready", [3, 2]), (3, [b"busy", b"ready"], b"ready", [3, 2]),
    (2, [b"x", b"x", b"x", b"ready"], None, [2, 1, 0]),
    (2, [b"x", b"x", b"ready"], b"ready", [2, 1, 0]),
    (-1, [b"ready"], b"ready", [0]), (0, [b"x", b"ready"], None, [0])])
def test_how_long_a_device_is_read(seconds: float, coming: list[bytes], report: Optional[bytes],
                                   lefts: list[float], calls: list[Any]) -> None:
    """It is read at least once, and once more after the time is up. Each time takes a second
    here."""
    line = Line("line", "line")
    line.open(0)
    calls[0][:] = coming
    assert line.receive(seconds) == report
    assert calls[1:] == [("select", 7, left) for left in lefts]
    assert line.rest == (report is None)
