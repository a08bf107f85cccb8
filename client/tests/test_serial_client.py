"""client.py on a serial line, a pty here, whose other end misbehaves on purpose."""

import asyncio
import errno
import fcntl
import io
import os
import sys
import termios
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

import client
from spec import model
from tools.agents import GOOD, WRONG_SUM
from tools.lines import FakeLine, line
from tools.programs import PATIENCE, wait_until


NOISE = b"\xff\x00 booting...\r\n" + GOOD[:100]


@pytest.mark.parametrize("answers", [
    [GOOD], [NOISE + GOOD], [NOISE, GOOD + NOISE], [GOOD[:1], GOOD[1:259], GOOD[259:]],
    [WRONG_SUM + GOOD], [GOOD[1:] + GOOD], [b"\x01" + GOOD], [model.REQUEST + GOOD]])
def test_a_report_is_found_among_anything(line: FakeLine, answers: list[bytes]) -> None:
    line.script = [answers]
    assert client.Agent(line.address).ask(PATIENCE)[3] == (0x1234, 76, 9)


@pytest.mark.parametrize("answer, cause, text", [
    (WRONG_SUM, "checksum", "260 bytes without a report"),
    (GOOD[:259], "length", "259 bytes without")])
def test_a_bad_report(line: FakeLine, answer: bytes, cause: str, text: str) -> None:
    line.script = [[answer], []]
    with pytest.raises(client.BadReport, match=text) as caught:
        client.Agent(line.address).ask(1)
    assert caught.value.cause == cause
    line.script = [[answer], []]


def test_a_heartbeat(line: FakeLine) -> None:
    client.Agent(line.address + "@9600").beat(3, 76, 9)
    wait_until(lambda: line.heard == model.heartbeat(3, 76, 9), "the heartbeat arrives")
    assert termios.tcgetattr(line.kept)[4:6] == [termios.B9600] * 2


def test_what_came_before_is_dropped(line: FakeLine) -> None:
    os.write(line.end, GOOD)  # nobody has asked for it
    line.script = [[model.checksummed(bytes(256))]]
    assert client.Agent(line.address).ask(PATIENCE)[3].never


def test_a_line_in_use(line: FakeLine) -> None:
    with open(line.path, "rb", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(client.NoAnswer, match="in use by another program"):
            client.Agent(line.address).ask(0.2)
        release = threading.Timer(0.2, fcntl.flock, (other, fcntl.LOCK_UN))
        release.start()
        assert client.Agent(line.address).ask(PATIENCE)[3].value == 9  # it waits for its turn
        release.join()


def test_a_line_that_is_pulled_out(tmp_path: Path) -> None:
    end, kept = os.openpty()
    path = tmp_path / "tty"  # its own name: the kernel gives a pty's name to the next one at once
    path.symlink_to(os.ttyname(kept))
    os.close(kept)

    def pull() -> None:
        path.unlink()
        os.close(end)

    threading.Timer(0.3, pull).start()
    begun = time.process_time()
    with pytest.raises(client.NoAnswer,
                       match="no answer in 1.5 s: .*(disconnected|no such device)"):
        client.Agent(f"serial:{path}").ask(1.5)
    assert time.process_time() - begun < 0.7  # it does not spin


def test_addresses_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("serial:dev", "serial:/dev/tty\0", "serial:"):
        with pytest.raises(client.BadUsage, match="is not a serial line: write it like"):
            client.parse_serial(text)
    for rate in ("1234567890", "-9600", "9600.0", "0", "00000000", "RKINT"):
        with pytest.raises(client.BadUsage, match=f"'{rate}' is not a baud rate"):
            client.parse_serial(f"serial:/dev/x@{rate}")
    assert client.parse_serial("serial:/dev/a@b@50") == ("/dev/a@b", 50)


def test_a_line_on_windows(line: FakeLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyserial opens it. Nothing is locked, and no descriptor is waited for."""
    ports: list[Any] = []

    class Port(io.FileIO):
        def __init__(self, name: str, baud: int, **options: int) -> None:
            assert (name, baud, options) == ("COM3", 9600, {"timeout": 0, "write_timeout": 0})
            if ports[2:]:
                raise OSError("could not open port 'COM3'")
            super().__init__(os.open(line.path, os.O_RDWR | os.O_NONBLOCK), "r+")
            ports.append(self)

        def read(self, most: Any = -1) -> bytes:
            return super().read(most) or b""
    monkeypatch.setattr(client, "termios", None)
    monkeypatch.setitem(client.TRANSPORTS, "serial:", (client.parse_serial, client.ComPort))
    monkeypatch.setitem(sys.modules, "serial", types.SimpleNamespace(Serial=Port))
    line.script = [[], [GOOD[:100], GOOD[100:]], []]
    agent = client.Agent("serial:COM3@9600")
    assert agent.name == "serial:COM3@9600" and agent.ask(PATIENCE)[3] == (0x1234, 76, 9)
    agent.beat(3, 76, 9)
    wait_until(lambda: line.heard.endswith(model.heartbeat(3, 76, 9)), "the heartbeat arrives")
    with pytest.raises(client.NoAnswer, match="no answer in 0.3 s from serial:COM3@9600"):
        asyncio.run(agent.ask_async(0.3))
    assert len(ports) == 3 and all(port.closed for port in ports)
    with pytest.raises(client.NoAnswer, match="COM3: could not open port 'COM3'"):
        agent.ask(0.3)
    for text in ("COM", "/dev/ttyACM0", "COM0", "COM3 "):
        with pytest.raises(client.BadUsage, match="write it like serial:COM3@115200"):
            client.Agent(f"serial:{text}")
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(client.BadUsage, match="serial lines need pyserial on this system"):
        client.Agent("serial:COM3")


def test_what_the_kernel_is_asked_for(line: FakeLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is in raw mode, with 8 bits and no flow control. close() does not change the control
    lines."""
    opened: list[int] = []
    asked: list[list[Any]] = []
    open_, set_ = os.open, termios.tcsetattr

    def noted(path: str, flags: int) -> int:
        opened.append(flags)
        return open_(path, flags)

    def set_too(number: int, when: int, settings: list[Any]) -> None:
        asked.append([when, *settings[:6], settings[6][termios.VMIN], settings[6][termios.VTIME]])
        set_(number, when, settings)
    monkeypatch.setattr(os, "open", noted)
    monkeypatch.setattr(termios, "tcsetattr", set_too)
    transport = client.Serial(line.path, 38_400)
    transport.open(0)
    transport.close()
    assert opened == [os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK]
    control = termios.CS8 | termios.CREAD | termios.CLOCAL
    assert asked == [[termios.TCSANOW, 0, 0, control, 0, termios.B38400, termios.B38400, 1, 0]]


def test_opening_again_keeps_no_descriptor(line: FakeLine) -> None:
    """If opening fails because it is something else, no descriptor is kept, either."""
    before = os.listdir("/proc/self/fd")
    transport = client.Serial(line.path, 9600)
    for _ in range(3):
        transport.open(0)
        assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    transport.close()
    other = client.Serial("/dev/null", 9600)
    with pytest.raises(client.BadUsage):
        other.open(0)
    assert os.listdir("/proc/self/fd") == before


def test_what_is_left_of_the_bytes(line: FakeLine) -> None:
    """A report is taken once. Bytes that came after it begin the next report. Noise is
    forgotten."""
    other = model.checksummed(bytes(range(256)))
    transport = client.Serial(line.path, 9600)
    transport.open(0)
    os.write(line.end, GOOD + other[:100])
    assert transport.receive(PATIENCE) == GOOD
    assert transport.receive(0) is None  # nothing has come since
    os.write(line.end, other[100:])
    assert transport.receive(PATIENCE) == other
    os.write(line.end, b"x")
    for text in ("1 bytes without a report", ""):
        if text:
            with pytest.raises(client.BadReport, match=text) as caught:
                transport.receive(0.1)
            assert caught.value.cause == "length"
        else:
            assert transport.receive(0) is None
    for _ in range(20):
        assert transport._add_bytes(bytes(100)) is None
    with pytest.raises(OSError, match="it has hung up"):
        transport._add_bytes(b"")
    assert len(transport._bytes) == 259
    transport.close()


@pytest.mark.parametrize("end, naps", [(50.0, 0), (49.0, 0), (50.005, 1), (50.025, 3)])
def test_how_long_a_lock_is_waited_for(end: float, naps: int,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    now, waited = [50.0], []  # type: tuple[list[float], list[float]]

    def taken(descriptor: int, how: int) -> None:
        assert (descriptor, how) == (7, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise BlockingIOError

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(fcntl, "flock", taken)
    with pytest.raises(BlockingIOError):
        client.wait(client.locking(7, end))
    assert waited == pytest.approx([0.01] * naps)


def test_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may open everything, so the test makes up the kernel's answer."""
    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(client.NoAnswer, match="no permission: join the group that owns it"):
        client.Agent("serial:/dev/ttyACM0").ask(1)

