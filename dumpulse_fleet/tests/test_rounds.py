"""The collector's packets: which are used, and when it asks."""

import contextlib
import dataclasses
import errno
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dumpulse_fleet.collect import wire
from dumpulse_fleet.collect.collector import Roster
from dumpulse_fleet.model.agents import Agent, ReaderKeys, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.snapshot import Snapshot
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests.collecting import ANY, QUICK, WELL, agents, collecting, until
from spec import keyed
from tools.agents import GOOD, WRONG_SUM, FakeAgent


@contextlib.contextmanager
def delayed(seconds: float, answer: Callable[[bytes], bytes | None] = lambda _: GOOD
            ) -> Iterator[str]:
    """An agent behind a slow link: its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(0.05)
        ending, waiting = threading.Event(), deque[tuple[float, bytes, tuple[str, int]]]()

        def serve() -> None:
            while not ending.is_set():
                with contextlib.suppress(TimeoutError):
                    waiting.append((time.monotonic() + seconds, *agent.recvfrom(100)))
                while waiting and waiting[0][0] <= time.monotonic():
                    _, packet, asker = waiting.popleft()
                    agent.sendto(answer(packet) or b"", asker)

        server = threading.Thread(target=serve)
        server.start()
        try:
            yield f"127.0.0.1:{agent.getsockname()[1]}"
        finally:
            ending.set()
            server.join()


def limit_buffers(monkeypatch: pytest.MonkeyPatch, octets: int, room: int = 0) -> None:
    """The collector believes that they have this room, or else what the kernel says."""
    real = wire.open_socket

    def limited(family: int, wanted: int) -> tuple[socket.socket, int]:
        new, _ = real(family, wanted)
        new.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, octets)
        has = new.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        return new, room or has // wire.REPORT_ROOM

    monkeypatch.setattr(wire, "open_socket", limited)


def test_a_late_answer_proves_life() -> None:
    """They come a round late, unless the machine stands still for a moment. None is used twice."""
    answers: list[bytes] = []

    def answer(packet: bytes) -> bytes:
        answers.append(packet)
        return GOOD

    with delayed(0.7, answer) as address:
        table = Table([Agent("far", address, ANY, period=0.5, misses=2)])
        with collecting(table) as (collector, heard, _):
            until(lambda: table.late[0] > 8)
            assert table.reports[0] <= len(answers) and collector.trouble() == ""
    assert heard.of("state", now="unreachable") == [] and table.round_trip[0] > 0.6


def test_a_late_answer_with_a_right_tag_proves_life(tmp_path: Path) -> None:
    """Beacons come a round late, too."""
    (tmp_path / "key").write_text("01" * 16)
    (tmp_path / "key").chmod(0o600)
    model = keyed.Agent(keyed.Keys(b"\1" * 16), keyed.Number())
    assert model.begin() == keyed.BEGUN
    model.entries[3] = GOOD[-4:]
    with delayed(0.7, lambda packet: model.process(7, packet)[1]) as address:
        table = Table([Agent("far", address, ANY, period=0.5, misses=2,
                             keys=ReaderKeys(str(tmp_path / "key")))])
        with collecting(table) as (collector, heard, _):
            until(lambda: table.reports[0] > 0)
            before = len(heard.events)
            until(lambda: table.reports[0] >= table.late[0] > 8)  # it counts the late ones first
    assert "unreachable" not in [event.now for event in heard.events[before + 1:]]
    assert heard.of("key") == []


def test_a_timeout_of_its_own() -> None:
    with delayed(1.5) as address:
        table = Table([Agent(f"{seconds}", address, ANY, period=2.0, timeout=seconds)
                       for seconds in (0.2, 1.8)])
        with collecting(table):
            until(lambda: table.lost[0] > 0 and table.reports[1] > 1)
    assert table.lost[1] == 0 and table.late[1] == 0


def test_damaged_reports_are_no_silence() -> None:
    """Nobody needs to drive to a machine that answers."""
    with FakeAgent([GOOD], *[[WRONG_SUM]] * 12, [GOOD]) as agent, FakeAgent([GOOD], []) as gone:
        table = Table([Agent("torn", agent.address, ANY, period=0.3, misses=2),
                       Agent("gone", gone.address, ANY, period=0.3, misses=2)])
        with collecting(table) as (_, heard, _):
            until(lambda: len(heard.of("state", agent="torn", variable=-1)) == 3
                  and heard.of("state", agent="gone", now="unreachable"))
    assert [event.now for event in heard.of("state", agent="torn", variable=-1)] == [
        "unknown", "damaged", "unknown"]
    assert not heard.of("state", agent="gone", now="damaged")


@pytest.mark.parametrize("name, broken, said, counted", [
    ("RECEIVE_FOR", 0.0, "9 agents are not watched", "void"),  # the answers lie in the buffers
    ("Collector._begin_rounds", lambda _: None, "s late: this machine cannot poll", "skipped")])
def test_a_machine_that_is_too_slow_makes_nobody_unreachable(
        name: str, broken: object, said: str, counted: str, monkeypatch: pytest.MonkeyPatch
        ) -> None:
    with FakeFleet(9) as fake:
        table = Table(agents(fake, 9, WELL, period=0.3, misses=1))
        with collecting(table) as (collector, heard, _):
            until(lambda: (table.reports > 2).all())
            before = table.lost.copy()
            monkeypatch.setattr(f"dumpulse_fleet.collect.collector.{name}", broken)
            until(lambda: said in collector.trouble(), collector.trouble)
            monkeypatch.undo()
            until(lambda: collector.trouble() == "", collector.trouble)
            assert getattr(collector.figures, counted) > 9 and (table.lost == before).all()
    assert heard.of("state", now="unreachable") == []


def test_the_last_good_addresses_are_used_while_look_ups_are_slow(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a restart, too. Of who has none, nothing is said but that it is not watched."""
    hang, known = threading.Event(), threading.Event()
    known.set()

    def look_up(host: str, port: int, **_: object) -> list[object]:
        if not known.is_set():
            hang.wait(60)
        return [(socket.AF_INET, 0, 0, "", (fake.address(int(host[1:])).partition(":")[0], port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with contextlib.closing(Store(tmp_path / "events.sqlite", say=lambda text: None)) as store, \
            FakeFleet(20) as fake:
        named = [Agent(f"n{row}", f"n{row}:{fake.port}", WELL, period=0.5, misses=2)
                 for row in range(20)]
        kept = Snapshot(store)
        with collecting(Table(named[:15]), kept=kept) as (collector, heard, _):
            until(lambda: (collector.table.reports > 0).all())
        known.clear()
        with collecting(Table(named), kept=kept) as (collector, heard, _):
            table = collector.table
            before = table.reports.copy()
            until(lambda: (table.reports[:15] > before[:15] + 3).all())
            until(lambda: "5 agents are not watched, such as n15" in collector.trouble())
            assert "the names of 5 agents have no addresses yet" in collector.trouble()
            assert not table.lost.any() and (table.agent_state[15:] == State.PENDING).all()
            assert np.flatnonzero(table.is_sought).tolist() == [15, 16, 17, 18, 19]
            hang.set()
            until(lambda: collector.trouble() == "", collector.trouble)
            assert not table.is_sought.any()
    assert heard.of("state", now="unreachable") == []


def test_a_name_that_never_resolves_is_a_trouble_of_its_agent(monkeypatch: pytest.MonkeyPatch
                                                              ) -> None:
    """It is told once, with the reason. If no name resolves, the name service is to blame."""
    for name in ("NAMELESS_S", "AGAIN"):
        monkeypatch.setattr(f"dumpulse_fleet.collect.collector.{name}", 1.0)
    nowhere = Agent("nowhere", "no-such-host.invalid", WELL, period=0.3)
    with FakeFleet(1) as fake:
        port = fake.address(0).partition(":")[2]
        table = Table([nowhere, Agent("here", f"localhost:{port}", WELL, period=0.3)])
        with collecting(table) as (collector, heard, _):
            assert until(lambda: "the names of 1 agents" in collector.trouble())
            until(lambda: table.agent_state[0] == State.UNREACHABLE)
            until(lambda: not collector.trouble() and not collector.is_blind)
            time.sleep(2)
            assert not collector.trouble() and table.lost[0] == 0
    assert [event.now for event in heard.events if event.agent == "nowhere"] == [
        "its name does not resolve", "unreachable"]
    table = Table([nowhere])
    with collecting(table) as (collector, heard, _):
        time.sleep(3)
        assert "the names of 1 agents" in collector.trouble() and heard.events == []


def test_a_request_that_cannot_leave_says_nothing_of_its_agent() -> None:
    """To 255.255.255.255, this machine sends nothing."""
    with FakeFleet(1) as fake:
        table = Table([*agents(fake, 1, WELL, period=0.2),
                       Agent("stuck", "255.255.255.255:9", WELL, period=0.2, misses=1)])
        with collecting(table) as (collector, heard, _):
            until(lambda: "1 agents are not watched, such as stuck" in collector.trouble())
            until(lambda: "nothing can be sent to 1 agents: Permission denied"
                  in collector.trouble())
            assert table.agent_state.tolist() == [State.ALIVE, State.PENDING]
            assert not table.lost.any()
    assert not heard.of("state", agent="stuck")


def test_without_ipv6_nothing_is_known_of_its_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    real = wire.open_socket

    def opened(family: int, room: int) -> tuple[socket.socket, int]:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "")
        return real(family, room)

    monkeypatch.setattr(wire, "open_socket", opened)
    with FakeFleet(1) as fake:
        table = Table([*agents(fake, 1, WELL, period=0.2),
                       Agent("six", "[::1]:9", WELL, period=0.2, misses=1)])
        with collecting(table) as (collector, _, _):
            until(lambda: "1 agents are not watched, such as six" in collector.trouble())
            until(lambda: "sent to 1 agents: Address family not supported" in collector.trouble())
            assert table.agent_state.tolist() == [State.ALIVE, State.PENDING]


def test_answers_without_room_are_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 agents that are all due at once, after a stand-still, and buffers for a few reports."""
    limit_buffers(monkeypatch, 4096, 100_000)
    monkeypatch.setattr(Roster, "_phases", lambda roster: np.zeros(len(roster.period)))
    with FakeFleet(300) as fake:
        table = Table(agents(fake, 300, WELL, period=0.5, misses=1))
        with collecting(table) as (collector, heard, _):
            until(lambda: collector.figures.void > 300 and "no room" in collector.trouble())
            assert collector.figures.overflowed > 100
    assert heard.of("state", now="unreachable") == []


def test_repeats_are_a_share_of_the_rounds() -> None:
    """300 agents die at once: the requests that look for them must not be the load."""
    with FakeFleet(300) as fake:
        table = Table(agents(fake, 300, QUICK, period=0.5, misses=6))
        with collecting(table) as (collector, _, _):
            until(lambda: (table.reports > 1).all())
            before = dataclasses.replace(collector.figures)
            fake.tell("die", 0, 299)
            until(lambda: (table.agent_state == State.UNREACHABLE).all())
            figures = collector.figures
            rounds = figures.rounds - before.rounds
            assert 300 < figures.repeated - before.repeated < rounds / 2 + 64 + 150 + 1


def test_strangers_and_bad_reports_are_counted_and_change_nothing() -> None:
    with FakeAgent([WRONG_SUM, b"short", b"x" * 500], [GOOD, GOOD]) as liar, \
            FakeAgent([GOOD]) as well:
        table = Table([Agent("liar", liar.address, ANY, period=0.5),
                       Agent("well", well.address, ANY, period=0.5)])
        with collecting(table) as (collector, _, _):
            until(lambda: collector._sockets)
            port = next(iter(collector._sockets.values())).getsockname()[1]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                for _ in range(5):
                    stranger.sendto(GOOD, ("127.0.0.1", port))
            figures = collector.figures
            until(lambda: figures.strange >= 5 and figures.late >= 3
                     and table.reports.min() > 2)
    assert table.bad.tolist() == [3, 0] and figures.bad == 3 and table.lost[1] <= 3


def test_two_names_for_one_agent() -> None:
    with FakeFleet(1) as fake:
        table = Table([Agent(name, fake.address(0), WELL, period=0.5) for name in "ab"])
        with collecting(table):
            until(lambda: (table.reports > 3).all())
    assert (table.lost == 0).all()


def test_small_buffers_are_told_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_buffers(monkeypatch, 106_496)
    with FakeFleet(1000) as fake:
        table = Table(agents(fake, 1000, WELL, period=1.0))
        with collecting(table) as (collector, _, complaints):
            until(lambda: (table.reports >= 3).all())
            assert collector._tick() < 0.05 or collector._room >= 100
    assert len(complaints) == 1 and "net.core.rmem_max" in complaints[0]


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
            assert table.reports[0] <= 1 and collector.figures.late > 0
            until(lambda: table.lost[0] > 2)


def test_rounds_are_spread_over_the_period() -> None:
    with FakeFleet(400) as fake:
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


def test_who_stays_goes_on(tmp_path: Path) -> None:
    """In other rows: what is known of their places, rounds and keys. Who has moved begins anew."""
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_text(f"{1:032x}\n")
    some = [Agent("plain", "127.0.0.1:9", QUICK, keys=ReaderKeys(str(tmp_path / "key"))),
            Agent("host", "somewhere.lan:9", QUICK), Agent("slower", "127.0.0.2:9", QUICK),
            Agent("last", "127.0.0.8:9", QUICK), Agent("gone", "127.0.0.3:9", QUICK)]
    old = Roster(Table(some))
    old.due[:], old.settled[:], old.port[:] = [1e9 + row for row in range(5)], 7.0, 3
    old.asked_at[3], old.readers.known[0], old.looked_up[1] = 5.0, 9, 6.0
    old.choices[1] = [wire.pack(socket.AF_INET, ("127.0.0.9", 9))]
    assert old.move(1)
    old.make_book()
    new = Roster(Table([some[3], dataclasses.replace(some[4], address="127.0.0.4:9"),
                        dataclasses.replace(some[2], period=20.0), some[1], some[0]]),
                 old)
    stay = np.array([3, 2, 1, 0])
    assert (new.names[[0, 2, 3, 4]] == old.names[stay]).all() and new.placed.all()
    assert new.due[[0, 3, 4]].tolist() == [1e9 + 3, 1e9 + 1, 1e9]
    assert not np.isin(new.due[[1, 2]], old.due).any() and (new.settled[[0, 3, 4]] == 7).all()
    assert new.port.tolist() == [3, 0, 3, 3, 3] and (new.asked_at[3, [0, 2, 3, 4]] == 5).all()
    assert new.hosts == {3: ("somewhere.lan", 9)} and new.choices == {3: old.choices[1]}
    assert new.looked_up[3] == 6 and new.readers.known.tolist() == [9]
