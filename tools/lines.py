"""Lines for client.py: a CAN interface, which is a pair of sockets here, and a serial
line, which is a pseudo-terminal with an agent's answers."""

import errno
import os
import socket
import struct
import threading
import tty
from collections.abc import Iterator
from typing import Any, Self

import pytest

from spec import model
from tools.agents import GOOD, Answer
from tools.programs import PATIENCE

FRAME = struct.Struct("=LB3x8s")  # the kernel's struct can_frame
FD_FRAME = struct.Struct("=LB3x64s")  # its struct canfd_frame


class FakeBus:
    """Replaces the socket that socket.socket() makes for AF_CAN."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Any] = []  # The calls, with their arguments.
        self.fails: dict[str, int] = {}  # The errno of each call that fails.
        self.ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.setblocking(False)
        monkeypatch.setattr(socket, "socket", self.made)

    def made(self, *kind: int) -> Self:
        self._note("socket", *kind)
        return self

    def _note(self, *what: Any) -> None:
        self.asked.append(what)
        if what[0] in self.fails:
            raise OSError(self.fails[what[0]], os.strerror(self.fails[what[0]]))

    def setsockopt(self, *option: Any) -> None:
        self._note("setsockopt", *option)

    def bind(self, address: tuple[str]) -> None:
        self._note("bind", address)

    def setblocking(self, blocking: bool) -> None:
        self._note("setblocking", blocking)
        self._theirs.setblocking(blocking)

    def detach(self) -> int:
        return os.dup(self._theirs.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._note("close")

    def send(self, number: int, part: bytes) -> None:
        self.ours.send(FRAME.pack(number, len(part), part))

    def report(self, packet: bytes, base: int = 0x680, frames: range = range(33)) -> None:
        for index in frames:
            self.send(base + 64 + index, packet[8 * index:8 * index + 8])

    def report_fd(self, packet: bytes, frames: range = range(5)) -> None:
        for index in frames:
            part = packet[64 * index:64 * index + 64]
            self.ours.send(FD_FRAME.pack(0x680 + 64 + index, len(part), part))

    def heard(self) -> tuple[int, int, bytes]:
        frame = self.ours.recv(100)
        number, length, data = (FRAME if len(frame) == FRAME.size else FD_FRAME).unpack(frame)
        return number, length, data


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBus]:
    fake_bus = FakeBus(monkeypatch)
    yield fake_bus
    fake_bus.ours.close()
    fake_bus._theirs.close()


class FakeLine:
    """Answers the first request with script[0], the next one with script[1], and so on. It repeats
    the last answer."""

    def __init__(self) -> None:
        self.end, self.kept = os.openpty()
        tty.setraw(self.kept)
        self.path = os.ttyname(self.kept)
        self.address = f"serial:{self.path}"
        self.script: list[Answer] = [[GOOD]]
        self.heard = b""
        self._asked = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while fresh := os.read(self.end, 1000):
                self.take(fresh)
        except OSError as error:
            assert error.errno == errno.EIO  # it has been pulled out

    def take(self, fresh: bytes) -> None:
        self.heard += fresh
        while self.heard.count(model.REQUEST) > self._asked:
            step = self.script[min(self._asked, len(self.script) - 1)]
            for answer in step() if callable(step) else step:
                os.write(self.end, answer)
            self._asked += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pull_out()
        assert not self._thread.is_alive()

    def pull_out(self) -> None:
        os.close(self.kept)
        self._thread.join(PATIENCE)
        os.close(self.end)


@pytest.fixture
def line() -> Iterator[FakeLine]:
    with FakeLine() as fake_line:
        yield fake_line
