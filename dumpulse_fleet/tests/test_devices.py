"""Agents on serial lines and on CAN beside others. A serial line is a pty, and CAN a pair of
sockets, as in the tests of client.py.   SPDX-License-Identifier: MIT"""

import contextlib
import errno
import os
import pty
import socket
import struct
import threading
import time
import tty
from collections.abc import Iterator
from typing import Any

import pytest

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.tests.core import collecting, profile, until
from dumpulse_fleet.trials.fake import Fake
from tests.support.agents import report
from tests.support.lines import FakeBus

QUICK = profile(now_from="0", expect="1-3", warn="2s", crit="3s")
FRAME = struct.Struct("=LB3x8s")  # the kernel's struct can_frame
BASE = 0x680


class Node:
    """What an agent has heard: three nodes that beat each second, and its own clock."""

    def __init__(self) -> None:
        self.begun = time.time() - 40_000
        self.dead: set[int] = set()
        self.dead_at = 0.0
        self.answers = True

    def kill(self, node: int) -> None:
        self.dead.add(node)
        self.dead_at = time.time()

    def report(self) -> bytes:
        now = time.time()
        return report(v0=(int(now - self.begun), 1, 0), **{
            f"v{node}": (int((self.dead_at if node in self.dead else now) - self.begun), 10 + node,
                         100 + node) for node in (1, 2, 3)})


@contextlib.contextmanager
def on_a_line(node: Node) -> Iterator[str]:
    """The address of an agent on a serial line."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)

    def answer() -> None:
        heard = b""
        with contextlib.suppress(OSError):  # until it is closed
            while more := os.read(ours, 1000):
                heard += more
                if heard.endswith(client.REQUEST) and node.answers:
                    os.write(ours, b"noise" + node.report())

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield f"serial:{os.ttyname(theirs)}"
    finally:
        os.close(theirs)
        thread.join(20)
        os.close(ours)
        assert not thread.is_alive()


class Bus(FakeBus):
    """An interface with an agent on it."""

    def __init__(self, node: Node) -> None:
        self.asked: list[Any] = []
        self.fails: dict[str, int] = {}
        self.ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.node, self.requests = node, 0
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        while frame := self.ours.recv(100):
            number, _, part = FRAME.unpack(frame)
            if (number, part) == (BASE + 127, client.REQUEST):
                self.requests += 1
                if self.node.answers:
                    self.send(0x123, b"of others")
                    self.report(self.node.report(), BASE)

    def send(self, number: int, part: bytes) -> None:
        super().send(number, part[:8])

    def end(self) -> None:
        self.ours.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.ours.close()
        self._theirs.close()


class Unbound(contextlib.nullcontext[Any]):
    """A socket of AF_CAN: which bus it is, is known when it is bound. Until then, its options do
    nothing."""

    def __init__(self, buses: dict[str, Bus]) -> None:
        super().__init__(self)
        self._buses = buses
        self._bus: Bus | None = None

    def bind(self, address: tuple[str]) -> None:
        if address[0] not in self._buses:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        self._bus = self._buses[address[0]]
        self._bus.bind(address)
        self._bus.setblocking(False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name) if self._bus else lambda *_: None


@contextlib.contextmanager
def buses(monkeypatch: pytest.MonkeyPatch, **nodes: Node) -> Iterator[dict[str, Bus]]:
    made, real = {name: Bus(node) for name, node in nodes.items()}, socket.socket
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", lambda *kind, **more: Unbound(made)
                      if kind[:1] == (socket.AF_CAN,) else real(*kind, **more))
        try:
            yield made
        finally:
            for bus in made.values():
                bus.end()


def ages(table: Table, row: int) -> Any:
    found, known = table.clock[:, None] - table.stamped, table.entry != 0
    assert known[row, :4].all()
    return found[row, :4]


def test_whatever_a_device_raises_the_next_round_asks_again(monkeypatch: pytest.MonkeyPatch
                                                            ) -> None:
    asked: list[float] = []

    def ask(_: client.Agent, __: float) -> client.Entries:
        asked.append(time.monotonic())
        raise RuntimeError("no device does this")

    monkeypatch.setattr(client.Agent, "ask", ask)
    table = Table([Agent("line", "serial:/dev/ttyS9", QUICK, period=0.2, misses=2)])
    with collecting(table):
        until(lambda: table.agent_state[0] == State.UNREACHABLE and len(asked) > 4)


def test_each_kind_of_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alive, a node dies, the agent falls silent, and all is well again: on a line and on a bus as
    over UDP, and none disturbs the others."""
    line, can, other = Node(), Node(), Node()
    with Fake(1) as fake, on_a_line(line) as address, \
            buses(monkeypatch, can0=can, can1=other) as made:
        table = Table([Agent("net", fake.address(0), QUICK, period=0.5),
                       Agent("line", address, QUICK, period=0.5, misses=2),
                       Agent("bus", "can:can0", QUICK, period=0.5, misses=2),
                       Agent("other bus", "can:can1", QUICK, period=0.5),
                       Agent("no line", "serial:/dev/no-such-line", QUICK, period=0.5),
                       Agent("no bus", "can:can7", QUICK, period=0.5)])
        with collecting(table) as (_, heard, _):
            until(lambda: (table.agent_state[:4] == State.ALIVE).all()
                     and (table.agent_state[4:] == State.UNREACHABLE).all())
            assert table.entry[2, 3] & 0xFFFF == 13 << 8 | 103
            line.kill(2)
            can.kill(3)
            until(lambda: table.state[1, 2] == State.DEAD and table.state[2, 3] == State.DEAD)
            for row in (1, 2):
                assert abs(ages(table, row)[row + 1] - (time.time() - (line, can)[row - 1].dead_at)
                           ) < 3 and ages(table, row)[1] <= 2
            line.answers = can.answers = False
            until(lambda: (table.agent_state[1:3] == State.UNREACHABLE).all())
            assert (table.state[1:3, 1:4] == State.UNKNOWN).all()
            before = table.reports.copy()
            until(lambda: (table.reports[[0, 3]] > before[[0, 3]] + 4).all())  # nobody waits
            assert (table.agent_state[[0, 3]] == State.ALIVE).all()
            assert (table.lost[[0, 3]] <= 3).all()
            line.dead, can.dead = set(), set()
            line.answers = can.answers = True
            until(lambda: (table.agent_state[:4] == State.ALIVE).all())
            assert not heard.of("rebooted") and not heard.of("clock")
            told = [event.now for event in heard.of("state", agent="bus", variable=-1)]
            assert (told[0], told[-1]) == ("alive", "alive")
            assert {"dead", "unreachable"} <= {*told[1:-1]} <= {"late", "dead", "unreachable"}
            assert made["can0"].requests > int(table.reports[2])


def test_a_line_with_noise_that_is_pulled_out() -> None:
    """It is unreachable, and the others go on."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    os.set_blocking(ours, False)
    ending = threading.Event()

    def make_noise() -> None:
        while not ending.wait(0.01):
            with contextlib.suppress(BlockingIOError):
                os.write(ours, bytes(range(256)))

    writer = threading.Thread(target=make_noise)
    with on_a_line(Node()) as address:
        table = Table([Agent("steady", address, QUICK, period=0.5),
                       Agent("noisy", f"serial:{os.ttyname(theirs)}", QUICK, period=0.5, misses=2)])
        writer.start()
        try:
            with collecting(table):
                until(lambda: table.agent_state[0] == State.ALIVE
                         and table.agent_state[1] == State.DAMAGED)
                before = int(table.reports[0])
                os.close(theirs)
                until(lambda: table.reports[0] > before + 6)
        finally:
            ending.set()
            writer.join()
            os.close(ours)
        assert table.reports[1] == 0 and table.lost[0] <= 3
