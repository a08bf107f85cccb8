"""Agents on serial lines beside others. A line is a pty."""

import contextlib
import os
import pty
import threading
import time
import tty
from collections.abc import Iterator
from typing import Any

import pytest

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests.collecting import collecting, profile, until
from tools.agents import report

QUICK = profile(now_from="0", expect="1-3", warn="2s", crit="3s")


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
        with contextlib.suppress(OSError):  # The test closes the socket.
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


def test_a_line_beside_others() -> None:
    """Alive, a node dies, the agent falls silent, and all is well again: on a line as over UDP, and
    nobody disturbs the others. The client has the tests of CAN: here it only has to fail alone."""
    line, other = Node(), Node()
    with FakeFleet(1) as fake, on_a_line(line) as address, on_a_line(other) as second:
        table = Table([Agent("net", fake.address(0), QUICK, period=0.5),
                       Agent("line", address, QUICK, period=0.5, misses=2),
                       Agent("other line", second, QUICK, period=0.5),
                       Agent("no line", "serial:/dev/no-such-line", QUICK, period=0.5),
                       Agent("no bus", "can:no-such-bus", QUICK, period=0.5)])
        with collecting(table) as (_, heard, _):
            until(lambda: (table.agent_state[:3] == State.ALIVE).all()
                     and (table.agent_state[3:] == State.UNREACHABLE).all())
            assert table.entry[1, 3] & 0xFFFF == 13 << 8 | 103
            line.kill(2)
            until(lambda: table.state[1, 2] == State.DEAD)
            assert abs(ages(table, 1)[2] - (time.time() - line.dead_at)) < 3
            assert ages(table, 1)[1] <= 2
            line.answers = False
            until(lambda: table.agent_state[1] == State.UNREACHABLE)
            assert (table.state[1, 1:4] == State.UNKNOWN).all()
            before = table.reports.copy()
            until(lambda: (table.reports[[0, 2]] > before[[0, 2]] + 4).all())  # nobody waits
            assert (table.agent_state[[0, 2]] == State.ALIVE).all()
            assert (table.lost[[0, 2]] <= 3).all()
            line.dead = set()
            line.answers = True
            until(lambda: (table.agent_state[:3] == State.ALIVE).all())
            assert not heard.of("rebooted") and not heard.of("clock")
            told = [event.now for event in heard.of("state", agent="line", variable=-1)]
            assert (told[0], told[-1]) == ("alive", "alive")
            assert {"dead", "unreachable"} <= {*told[1:-1]} <= {"late", "dead", "unreachable"}


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
