"""The collector against fake fleets and real agents.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import socket
import threading
import time
import tty
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import client
from fleet import wire
from fleet.collector import Collector, Roster
from fleet.fake import Fake
from fleet.model import Agent, State
from fleet.table import Table
from fleet.tests.core import Heard, agents, profile, wait_for
from tests.agents import GOOD, WRONG_SUM, FakeAgent, unused_port
from tests.servers import Server

WELL = profile(now_from="0", expect="1-15", warn="6s", crit="12s")
QUICK = profile(now_from="0", expect="1-15", warn="2s", crit="3s")
ANY = profile(expect="3", warn="2s", crit="4s")


@contextlib.contextmanager
def collecting(table: Table, **options: Any) -> Iterator[tuple[Collector, Heard, list[str]]]:
    heard, complaints = Heard(), list[str]()
    collector = Collector(table, heard, complain=complaints.append, **options)
    collector.start()
    try:
        yield collector, heard, complaints
    finally:
        collector.stop()
    assert not collector.failure
    heard.check_chains()


def test_a_fake_fleet_of_a_thousand() -> None:
    with Fake(1000) as fake:
        table = Table(agents(fake, 1000, WELL, period=1.0))
        with collecting(table) as (collector, heard, _):
            wait_for(lambda: (table.reports >= 5).all())
    figures = collector.figures
    assert (table.agent_state == State.ALIVE).all()
    assert (table.state[:, 1:16] == State.ALIVE).all()
    assert figures.bad == figures.unknown == figures.stale == 0
    assert len(heard.of("state", was="pending", now="alive")) == 1000 == len(heard.events)
    ages, known = table.ages()
    assert known[:, :16].all() and not known[:, 16:].any()
    assert ages[known].min() >= 0 and ages[known].max() <= 3
    assert figures.rounds - figures.received - figures.lost <= 1000  # of the last round


def test_agents_die_lie_reboot_fall_silent_and_come_back() -> None:
    with Fake(50) as fake:
        table = Table(agents(fake, 50, QUICK, period=0.5, misses=4))
        with collecting(table) as (_, heard, _):
            wait_for(lambda: (table.agent_state == State.ALIVE).all())
            wait_for(lambda: (table.kind == 1).all())
            fake.tell("die", 0, 9)
            fake.tell("lie", 10, 19)
            fake.tell("reboot", 20, 29)
            fake.tell("silence", 30, 39)
            wait_for(lambda: (table.agent_state[:20] == State.UNREACHABLE).all())
            assert (table.state[:20, 1:16] == State.UNKNOWN).all()
            assert (table.bad[10:20] > 0).all() and (table.bad[20:] == 0).all()
            wait_for(lambda: (table.reboots[20:30] == 1).all())
            wait_for(lambda: (table.state[30:40, 1:16] == State.DEAD).all())
            assert not [event for event in heard.events if event.variable > 0
                        and event.agent in {f"agent{row}" for row in range(20)}]
            assert len(heard.of("rebooted")) == 10
            fake.tell("live", 0, 9)
            fake.tell("honest", 10, 19)
            fake.tell("speak", 30, 39)
            wait_for(lambda: (table.agent_state == State.ALIVE).all())
    assert len(heard.of("state", was="alive", now="unreachable")) >= 20
    assert len(heard.of("state", was="dead", now="alive", variable=7)) == 10
    assert (table.reboots[:20] == 0).all() and (table.reboots[30:] == 0).all()


def test_an_agent_whose_clock_is_set() -> None:
    with Fake(2) as fake:
        table = Table(agents(fake, 2, WELL, period=0.5))
        with collecting(table) as (_, heard, _):
            wait_for(lambda: (table.reports > 2).all())
            fake.tell("set 7200", 0, 0)
            wait_for(lambda: heard.of("clock"))
            wait_for(lambda: (table.reports > 8).all())
    assert [event.agent for event in heard.events if event.what != "state"] == ["agent0"]
    assert not heard.of("state", was="alive")


def test_real_agents_of_all_kinds_and_some_that_do_not_answer() -> None:
    """IPv4, IPv6, a name, several at one host; a closed port, a name that does not exist."""
    closed = unused_port()
    with Server("--self", "0:9") as one, Server("--tick", "100") as two:
        tenth = profile(expect="3", tick="100ms", warn="2s", crit="4s")
        table = Table([
            Agent("four", f"127.0.0.1:{one.port}", profile(expect="3", now_from="0"), period=0.5),
            Agent("six", f"[::1]:{one.port}", profile(expect="3", now_from="0"), period=0.5),
            Agent("named", f"localhost:{two.port}", tenth, period=0.5),
            Agent("closed", f"127.0.0.1:{closed}", ANY, period=0.5),
            Agent("nowhere", "no-such-host.invalid:9060", ANY, period=0.5),
        ])
        with collecting(table) as (collector, heard, _):
            for _ in range(6):
                for port in (one.port, two.port):
                    client.Agent(f"127.0.0.1:{port}").beat(3, 76, 9)
                time.sleep(0.3)
            wait_for(lambda: (table.state[:3, 3] == State.ALIVE).all())
            wait_for(lambda: (table.agent_state[3:] == State.UNREACHABLE).all())
            assert table.refused[3] > 0 and (table.refused[[0, 1, 4]] == 0).all()
            assert collector.figures.lookups >= 2
            wait_for(lambda: (table.state[:3, 3] == State.DEAD).all() or
                     (table.state[:3, 3] >= State.LATE).all())
    assert table.kind.tolist()[:2] == [1, 1] and table.entry[0, 3] & 0xFFFF == 76 << 8 | 9
    assert len(heard.of("state", agent="closed")) == len(heard.of("state", agent="nowhere")) == 1


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
            wait_for(lambda: collector._sockets)
            port = next(iter(collector._sockets.values())).getsockname()[1]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for _ in range(5):
                    stranger.sendto(GOOD, ("127.0.0.1", port))
            figures = collector.figures
            wait_for(lambda: figures.unknown >= 5 and figures.late >= 3
                     and table.reports[0] > 2 and table.reports[2] > 2)
    assert table.bad.tolist() == [3, 0, 0] and figures.bad == 3
    assert table.reports[1] == 0 and table.reports[2] > 2 and table.lost[2] <= 3


def test_two_names_for_one_agent() -> None:
    with Fake(1) as fake:
        table = Table([Agent(name, fake.address(0), WELL, period=0.5) for name in "ab"])
        with collecting(table):
            wait_for(lambda: (table.reports > 3).all())
    assert (table.lost == 0).all()


def serial_agent(end: int, stop: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while not stop.is_set():
            if os.read(end, 100).endswith(client.REQUEST):
                os.write(end, GOOD)


def test_a_serial_agent_beside_others_and_one_whose_device_is_gone() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    stop = threading.Event()
    thread = threading.Thread(target=serial_agent, args=(master, stop), daemon=True)
    thread.start()
    with Fake(1) as fake:
        table = Table([Agent("line", f"serial:{os.ttyname(slave)}", ANY, period=0.5),
                       Agent("gone", "serial:/dev/no-such-line", ANY, period=0.5),
                       Agent("net", fake.address(0), WELL, period=0.5)])
        with collecting(table):
            wait_for(lambda: table.reports[0] > 3 and table.reports[2] > 3)
            wait_for(lambda: table.agent_state[1] == State.UNREACHABLE)
    stop.set()
    os.close(slave)
    os.close(master)
    assert table.entry[0, 3] == 0x1234 << 16 | 76 << 8 | 9 and table.lost[2] <= 3


def test_a_new_table_keeps_what_is_known_and_what_goes_is_over() -> None:
    with Fake(30) as fake:
        table = Table(agents(fake, 20, QUICK, period=0.5))
        with collecting(table) as (collector, heard, _):
            wait_for(lambda: (table.agent_state == State.ALIVE).all())
            fake.tell("silence", 0, 5)
            wait_for(lambda: (table.state[:6, 1:16] == State.DEAD).all())
            reports = table.reports.copy()
            new = Table(agents(fake, 25, QUICK, first=5, period=0.5))
            collector.replace(new)
            assert collector.table is new
            assert new.state[0, 1] == State.DEAD and new.since[0, 1] == table.since[5, 1]
            assert (new.reports[:15] >= reports[5:]).all()
            ended = heard.of("state", was="dead", now="unwatched")
            assert {event.agent for event in ended} == {f"agent{row}" for row in range(5)}
            before = len(heard.events)
            wait_for(lambda: (new.reports[15:] > 3).all() and (new.reports[:15] > 3).all())
            assert not [event for event in heard.events[before:] if event.agent in table.row]


def test_a_restart_keeps_the_dead_dead_and_tells_nothing_twice(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "kept")
    with Fake(20) as fake:
        whole = agents(fake, 20, QUICK, period=0.5)
        with collecting(Table(whole), kept=path) as (collector, heard, _):
            table = collector.table
            wait_for(lambda: (table.agent_state == State.ALIVE).all())
            wait_for(lambda: not table.at_least[:5, 1:16].any())  # each has beaten again
            fake.tell("silence", 0, 4)
            fake.tell("die", 5, 9)
            wait_for(lambda: (table.state[:5, 1:16] == State.DEAD).all())
            wait_for(lambda: (table.agent_state[5:10] == State.UNREACHABLE).all())
        ages = (table.clock[:, None] - table.stamped)[0, 1]
        time.sleep(1)
        with collecting(Table(whole), kept=path) as (collector, heard, complaints):
            again = collector.table
            wait_for(lambda: (again.reports[10:] > table.reports[10:] + 2).all())
            wait_for(lambda: (again.lost[5:10] > table.lost[5:10] + 4).all())
            assert (again.clock[:, None] - again.stamped)[0, 1] >= ages + 1
            assert not again.at_least[0, 1]
        assert heard.events == [] and complaints == []
        pathlib.Path(path).write_bytes(b"rubbish")
        with collecting(Table(whole), kept=path) as (_, heard, complaints):
            wait_for(lambda: heard.events)
        assert len(complaints) == 1 and "all agents are new" in complaints[0]


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
            wait_for(lambda: (table.reports >= 3).all())
            assert collector._tick() < 0.05 or collector._room >= 100
    assert len(complaints) == 1 and "net.core.rmem_max" in complaints[0]


def test_a_collector_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[str] = []
    with FakeAgent([GOOD]) as fake:
        def publish(_: object) -> None:
            raise ArithmeticError("on purpose")
        collector = Collector(Table([Agent("a", fake.address, ANY, period=0.5)]), publish,
                              complain=complaints.append)
        collector.start()
        wait_for(lambda: not collector.running)
        collector.stop()
    assert "on purpose" in collector.failure and "on purpose" in complaints[0]


def test_many_refused_at_once_do_not_hold_up_the_others() -> None:
    """The kernel reports the refusal of one as the error of another."""
    port = unused_port()
    with Fake(20) as fake:
        table = Table([*agents(fake, 20, WELL, period=0.5), *(
            Agent(f"closed{row}", f"127.0.9.{row}:{port}", ANY, period=0.5)
            for row in range(1, 201))])
        with collecting(table) as (collector, _, _):
            wait_for(lambda: (table.agent_state[20:] == State.UNREACHABLE).all())
            wait_for(lambda: (table.reports[:20] > 4).all())
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
            wait_for(lambda: table.lost[0] > 2)


def test_rounds_are_spread_over_the_period() -> None:
    with Fake(400) as fake:
        table = Table(agents(fake, 400, WELL, period=2.0))
        with collecting(table):
            wait_for(lambda: (table.reports >= 2).all())
            # A machine that stood still has put some together: not for long.
            wait_for(lambda: np.histogram(table.asked % 2.0, 4, (0, 2))[0].min() > 50)


def test_rounds_begin_when_all_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """To prepare 100,000 agents takes seconds. Those due then must not be asked at once."""
    table = Table([Agent("a", "127.0.0.1:9", QUICK, period=0.01)])
    monkeypatch.setattr(Roster, "make_book", lambda self: time.sleep(0.1))
    assert (Roster(table).due > table.now() - 0.05).all()
