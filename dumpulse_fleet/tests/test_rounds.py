"""The collector's packets: which are used, and when it asks.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import socket
import time

import numpy as np
import pytest

from dumpulse_fleet.collect import wire
from dumpulse_fleet.collect.collector import Roster
from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.tests.core import ANY, QUICK, WELL, agents, collecting, until
from dumpulse_fleet.trials.fake import Fake
from tests.support.agents import GOOD, WRONG_SUM, FakeAgent, unused_port


def test_strangers_bad_reports_and_late_answers_are_counted_and_change_nothing() -> None:
    def late() -> list[bytes]:
        time.sleep(0.7)
        return [GOOD]

    with FakeAgent([WRONG_SUM, b"short", b"x" * 500], [GOOD, GOOD]) as liar, \
            FakeAgent(late) as slow, FakeAgent([GOOD]) as well:
        table = Table([Agent("liar", liar.address, ANY, period=0.5),
                       Agent("slow", slow.address, ANY, period=0.5),
                       Agent("well", well.address, ANY, period=0.5)])
        with collecting(table) as (collector, _, _):
            until(lambda: collector._sockets)
            port = next(iter(collector._sockets.values())).getsockname()[1]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for _ in range(5):
                    stranger.sendto(GOOD, ("127.0.0.1", port))
            figures = collector.figures
            until(lambda: figures.unknown >= 5 and figures.late >= 3
                     and table.reports[0] > 2 and table.reports[2] > 2)
    assert table.bad.tolist() == [3, 0, 0] and figures.bad == 3
    assert table.reports[1] == 0 and table.reports[2] > 2 and table.lost[2] <= 3


def test_two_names_for_one_agent() -> None:
    with Fake(1) as fake:
        table = Table([Agent(name, fake.address(0), WELL, period=0.5) for name in "ab"])
        with collecting(table):
            until(lambda: (table.reports > 3).all())
    assert (table.lost == 0).all()


def test_small_buffers_are_told_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    real = wire.open_socket

    def small(family: int, room: int) -> tuple[socket.socket, int]:
        new, _ = real(family, room)
        new.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 106_496)
        return new, new.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // wire.REPORT_ROOM

    monkeypatch.setattr(wire, "open_socket", small)
    with Fake(1000) as fake:
        table = Table(agents(fake, 1000, WELL, period=1.0))
        with collecting(table) as (collector, _, complaints):
            until(lambda: (table.reports >= 3).all())
            assert collector._tick() < 0.05 or collector._room >= 100
    assert len(complaints) == 1 and "net.core.rmem_max" in complaints[0]


def test_many_refused_at_once_do_not_hold_up_the_others() -> None:
    """The kernel reports the refusal of one as the error of another."""
    port = unused_port()
    with Fake(20) as fake:
        table = Table([*agents(fake, 20, WELL, period=0.5), *(
            Agent(f"closed{row}", f"127.0.9.{row}:{port}", ANY, period=0.5)
            for row in range(1, 201))])
        with collecting(table) as (collector, _, _):
            until(lambda: (table.agent_state[20:] == State.UNREACHABLE).all())
            until(lambda: (table.reports[:20] > 4).all())
    assert (table.refused[:20] == 0).all() and (table.refused[20:] > 0).all()
    assert (table.agent_state[:20] == State.ALIVE).all()


def test_no_answer_of_an_earlier_round_is_used() -> None:
    """Each round has the next port of the ring; an agent that answers to the wrong one is late."""
    ports: list[int] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(10)
        table = Table([Agent("a", f"127.0.0.1:{agent.getsockname()[1]}", ANY, period=0.5)])
        with collecting(table) as (collector, _, _):
            first = ("", 0)
            while len(set(ports)) < 4:
                _, asker = agent.recvfrom(100)
                ports.append(asker[1])
                first = first if first[1] else asker
                if asker != first:
                    agent.sendto(GOOD, first)
            assert table.reports[0] == 0 and collector.figures.late > 0
            until(lambda: table.lost[0] > 2)


def test_rounds_are_spread_over_the_period() -> None:
    with Fake(400) as fake:
        table = Table(agents(fake, 400, WELL, period=2.0))
        with collecting(table):
            until(lambda: (table.reports >= 2).all())
            # A machine that stood still has put some together: not for long.
            until(lambda: np.histogram(table.asked % 2.0, 4, (0, 2))[0].min() > 50)


def test_rounds_begin_when_all_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """To prepare 100,000 agents takes seconds. Those due then must not be asked at once."""
    table = Table([Agent("a", "127.0.0.1:9", QUICK, period=0.01)])
    monkeypatch.setattr(Roster, "make_book", lambda self: time.sleep(0.1))
    assert (Roster(table).due > table.now() - 0.05).all()
