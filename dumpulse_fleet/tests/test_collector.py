"""The collector against fake fleets and real agents."""

import contextlib
import pathlib
import signal
import socket
import threading
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, strategies

from dumpulse_fleet import client
from dumpulse_fleet.collect import wire
from dumpulse_fleet.collect.ages import Answers
from dumpulse_fleet.collect.collector import most_tries
from dumpulse_fleet.collect.judge import Judge
from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.snapshot import Snapshot
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests.collecting import agents, ANY, collecting, profile, QUICK, until
from tools.agents import unused_port
from tools.servers import Server
from tools.tiers import SEED


def test_agents_die_lie_reboot_fall_silent_and_come_back() -> None:
    with FakeFleet(50) as fake:
        table = Table(agents(fake, 50, QUICK, period=0.5, misses=4))
        with collecting(table) as (_, heard, _):
            until(lambda: (table.agent_state == State.ALIVE).all())
            until(lambda: (table.kind == 1).all())
            fake.tell("die", 0, 9)
            fake.tell("lie", 10, 19)
            fake.tell("stop", 20, 39)  # Then a report without entries comes, however late.
            fake.tell("reboot", 20, 29)
            fake.tell("stop", 40, 44, 7)
            fake.tell("odd", 45, 49, 7)
            until(lambda: (table.agent_state[:10] == State.UNREACHABLE).all()
                  and (table.agent_state[10:20] == State.DAMAGED).all())
            assert (table.state[:20, 1:16] == State.UNKNOWN).all()
            assert (table.bad[10:20] > 0).all() and (table.bad[20:] == 0).all()
            until(lambda: (table.reboots[20:30] == 1).all())
            fake.tell("go", 20, 29)
            until(lambda: (table.state[20:30, 1:16] == State.ALIVE).all())
            until(lambda: (table.state[30:40, 1:16] == State.DEAD).all())
            until(lambda: (table.state[40:45, 7] == State.DEAD).all())
            assert (table.state[40:, 1:7] == State.ALIVE).all()
            assert (table.entry[45:, 7] & 255 == 255).all() and (table.entry[:, 6] & 255 == 6).all()
            assert not [event for event in heard.events if event.variable > 0
                        and event.agent in {f"agent{row}" for row in range(20)}]
            assert len(heard.of("rebooted")) == 10
            fake.tell("live", 0, 9)
            fake.tell("honest", 10, 19)
            fake.tell("go", 30, 39)
            fake.tell("go", 40, 44)
            until(lambda: (table.agent_state == State.ALIVE).all())
    for now in ("unreachable", "damaged"):
        assert len(heard.of("state", was="alive", now=now)) >= 10
    assert len(heard.of("state", was="dead", now="alive", variable=7)) == 15
    assert (table.reboots[:20] == 0).all() and (table.reboots[30:] == 0).all()


def test_real_agents_of_all_kinds_and_some_that_do_not_answer() -> None:
    """IPv4, IPv6, a name, several at one host; a closed port, a name that does not exist."""
    closed = unused_port()
    with Server("--self", "0:9") as one, Server("--tick", "100") as two:
        own = profile(expect="3", now_from="0", warn="2s", crit="4s")
        tenth = profile(expect="3", tick="100ms", warn="2s", crit="4s")
        table = Table([
            Agent("four", f"127.0.0.1:{one.port}", own, period=0.5),
            Agent("six", f"[::1]:{one.port}", own, period=0.5),
            Agent("named", f"localhost:{two.port}", tenth, period=0.5),
            Agent("closed", f"127.0.0.1:{closed}", ANY, period=0.5),
            Agent("nowhere", "no-such-host.invalid:9060", ANY, period=0.5),
        ])
        with collecting(table) as (collector, heard, _):
            for _ in range(6):
                for port in (one.port, two.port):
                    client.Agent(f"127.0.0.1:{port}").beat(3, 76, 9)
                time.sleep(0.3)
            until(lambda: (table.state[:3, 3] == State.ALIVE).all())
            until(lambda: table.agent_state[3] == State.UNREACHABLE)
            until(lambda: "the names of 1 agents have no addresses yet" in collector.trouble())
            assert table.agent_state[4] == State.PENDING and table.lost[4] == 0
            assert collector.figures.lookups_failed >= 1
            until(lambda: (table.state[:3, 3] == State.DEAD).all() or
                     (table.state[:3, 3] >= State.LATE).all())
    assert table.kind.tolist()[:2] == [1, 1] and table.entry[0, 3] & 0xFFFF == 76 << 8 | 9
    assert len(heard.of("state", agent="closed")) == 1 and not heard.of("state", agent="nowhere")


def test_a_new_table_keeps_what_is_known_and_what_goes_is_over() -> None:
    with FakeFleet(30) as fake:
        table = Table(agents(fake, 20, QUICK, period=0.5))
        with collecting(table) as (collector, heard, _):
            until(lambda: (table.agent_state == State.ALIVE).all())
            fake.tell("stop", 0, 5)
            until(lambda: (table.state[:6, 1:16] == State.DEAD).all())
            reports = table.reports.copy()
            new = Table(agents(fake, 25, QUICK, first=5, period=0.5))
            collector.replace(new)
            assert collector.table is new
            assert new.state[0, 1] == State.DEAD and new.since[0, 1] == table.since[5, 1]
            assert (new.reports[:15] >= reports[5:]).all()
            ended = heard.of("state", was="dead", now="unwatched")
            assert {event.agent for event in ended} == {f"agent{row}" for row in range(5)}
            before = len(heard.events)
            until(lambda: (new.reports[15:] > 3).all() and (new.reports[:15] > 3).all())
            assert not [event for event in heard.events[before:] if event.agent in table.row]


def test_a_restart_keeps_the_dead_dead_and_tells_nothing_twice(tmp_path: pathlib.Path) -> None:
    store = Store(tmp_path / "events.sqlite", say=lambda text: None)
    kept = Snapshot(store)
    with contextlib.closing(store), FakeFleet(20) as fake:
        whole = agents(fake, 20, QUICK, period=0.5)
        with collecting(Table(whole), kept=kept) as (collector, heard, _):
            table = collector.table
            until(lambda: (table.agent_state == State.ALIVE).all())
            until(lambda: not table.at_least[:5, 1:16].any())  # each has beaten again
            fake.tell("stop", 0, 4)
            fake.tell("die", 5, 9)
            until(lambda: (table.state[:5, 1:16] == State.DEAD).all())
            until(lambda: (table.agent_state[5:10] == State.UNREACHABLE).all())
        ages = (table.clock[:, None] - table.stamped)[0, 1]
        time.sleep(1)
        with collecting(Table(whole), kept=kept) as (collector, heard, complaints):
            again = collector.table
            until(lambda: (again.reports[10:] > table.reports[10:] + 2).all())
            until(lambda: (again.lost[5:10] > table.lost[5:10] + 4).all())
            assert (again.clock[:, None] - again.stamped)[0, 1] >= ages + 1
            assert not again.at_least[0, 1]
        assert heard.events == [] and complaints == []


# ---------------------------------------------------------------- faults
PATIENT = profile(now_from="0", expect="1-15", warn="30s", crit="60s")


def false_alarms(count: int, loss: float, rounds: int, seed: int) -> int:
    """How often one of so many agents that answer is called unreachable: with the collector's rule
    of repetitions and the judge, without packets. An answer that follows another tells nothing new,
    so the judge gets only those after a miss."""
    print(f"seed {seed}")
    draw, plain = np.random.default_rng(seed), profile()
    table = Table([Agent(f"{row}", "127.0.0.1", plain) for row in range(count)])
    judge, rows = Judge(table), np.arange(count)
    lost, alarms = 1 - (1 - loss) ** 2, 0  # the request, or the answer
    for number in range(rounds):
        gone = draw.random(count, np.float32) < lost ** most_tries(table, rows)
        alarms += len(judge.miss(np.flatnonzero(gone), number * PERIOD))
        heard = np.flatnonzero(~gone & ((table.misses > 0) | (table.reports == 0)))
        when = np.full(len(heard), number * PERIOD)
        judge.take(Answers(heard, when, when, when,
                           np.zeros((len(heard), 64), np.uint32)))
    return alarms


PERIOD = 10.0  # s
WEEK = 10_000 * int(7 * 86_400 / PERIOD)  # rounds: ten thousand agents, each 10 s
MANY = 50_000  # agents that are simulated at the same time, because each is for itself


@pytest.mark.slow
@pytest.mark.parametrize("share", [30, pytest.param(1, marks=pytest.mark.long)])
def test_no_false_alarm_of_ten_thousand_in_a_share_of_a_week(share: int) -> None:
    assert false_alarms(MANY, 0.05, WEEK // MANY // share, SEED) == 0
    assert false_alarms(1000, 0.40, 300, SEED) > 0  # the test can fail


@pytest.mark.slow
def test_a_flood_at_a_port_does_not_stop_the_rounds() -> None:
    stop = threading.Event()
    with FakeFleet(50) as fake:
        table = Table(agents(fake, 50, PATIENT, period=1.0))
        with collecting(table) as (collector, _, _):
            until(lambda: len(collector._sockets) >= 4)
            ports = [each.getsockname()[1] for each in collector._sockets.values()]

            def flood() -> None:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                    while not stop.is_set():
                        for port in ports:
                            stranger.sendto(bytes(client.REPORT_SIZE), ("127.0.0.1", port))

            thread = threading.Thread(target=flood)
            thread.start()
            before = table.reports.copy()
            until(lambda: (table.reports > before + 2).all())
            stop.set()
            thread.join()
    assert collector.figures.strange > 1000


def test_the_collectors_own_clock_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unix time jumps by hours, there and back: agents with a variable of their own do not care."""
    by = 0.0
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() + by)
    # If a late answer seemed to come when it was asked for, clocks would seem to jump.
    fine = profile(now_from="0", tick="1ms")
    with FakeFleet(20, 1000) as fake:
        table = Table(agents(fake, 20, fine, period=0.5))
        with collecting(table) as (_, heard, _):
            until(lambda: (table.reports > 2).all())
            for by in (7200.0, -7200.0, 0.0):
                before = table.reports.copy()
                fake.process.send_signal(signal.SIGSTOP)
                time.sleep(0.2)
                fake.process.send_signal(signal.SIGCONT)
                until(lambda: (table.reports > before + 3).all())
    assert not [event for event in heard.events if event.what != "state"], heard.events


# ---------------------------------------------------------------- packets in arrays
REPORT = strategies.one_of(
    strategies.binary(min_size=256, max_size=256),
    strategies.builds(lambda one, count: bytes([one]) * count + bytes([255]) * (256 - count),
                      strategies.integers(0, 255), strategies.integers(0, 256)))


@given(strategies.lists(REPORT, min_size=1, max_size=40))
def test_checksums_are_those_of_zlib(contents: list[bytes]) -> None:
    packets = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, 256)
    assert wire.checksums(packets).tolist() == [zlib.adler32(each) for each in contents]


@given(REPORT, strategies.integers(0, 259), strategies.integers(0, 255))
def test_good_reports_are_those_of_the_client(content: bytes, at: int, other: int) -> None:
    packet = bytearray(zlib.adler32(content).to_bytes(4, "big") + content + bytes(4))
    for length in (0, 8, 259, 260, 261, 65507):
        packets = np.frombuffer(bytes(packet), np.uint8).reshape(1, -1)
        assert wire.good(packets, np.array([length], np.uint32))[0] == (length == 260)
    entries = [entry for entry in client.parse_report(bytes(packet[:260]))]
    assert wire.entries(packets)[0].tolist() == [
        one.timestamp << 16 | one.sender << 8 | one.value for one in entries]
    packet[at] = other
    packets = np.frombuffer(bytes(packet), np.uint8).reshape(1, -1)
    try:
        client.parse_report(bytes(packet[:260]))
        right = True
    except client.BadReport:
        right = False
    assert wire.good(packets, np.array([260], np.uint32))[0] == right


@pytest.mark.parametrize("family,host", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_datagrams_go_out_and_come_back(family: int, host: str) -> None:
    """More than fit into a batch, and one that is longer than a report."""
    where, room = wire.open_socket(family, 4 << 20)
    assert room > 100
    with where, socket.socket(family, socket.SOCK_DGRAM) as peer:
        peer.bind((host, 0))
        out, into = wire.Batch(10, 8), wire.Batch(4)
        name = np.frombuffer(wire.pack(family, peer.getsockname()), np.uint8)
        out.packets[:] = np.frombuffer(client.REQUEST, np.uint8)
        out.address(10, np.tile(name, (10, 1)))
        assert out.send(where, 0, 10) == (10, 0)
        for _ in range(10):
            packet, address = peer.recvfrom(1000)
            assert packet == client.REQUEST
        for number in range(5):
            peer.sendto(bytes([number]) * 260, address)
        peer.sendto(b"\xff" * 1000, address)
        assert into.receive(where, 1) == 3
        assert into.packets[1:4, 259].tolist() == [0, 1, 2]
        assert into.receive(where) == 3
        assert into.lengths(3).tolist() == [260, 260, 1000]
        assert (np.abs(into.times(3) - time.time()) < 5).all()
        book = wire.Book.of(name.reshape(1, -1), np.array([0]))
        assert book.find(into.names[:3], name.reshape(1, -1)).tolist() == [0, 0, 0]
        assert into.receive(where) == 0


@given(strategies.lists(strategies.tuples(strategies.integers(0, 3), strategies.integers(1, 3)),
                        max_size=20), strategies.tuples(strategies.integers(0, 3),
                                                        strategies.integers(1, 3)))
def test_a_book_finds_whom_a_dictionary_finds(places: list[tuple[int, int]],
                                              asked: tuple[int, int]) -> None:
    def name(place: tuple[int, int]) -> bytes:
        host, port = place
        return wire.pack(socket.AF_INET6, (f"fe80::{host % 2}", port, 0, host // 2)) if host \
            else wire.pack(socket.AF_INET, ("127.0.0.1", port))

    names = np.frombuffer(b"".join(map(name, places)), np.uint8).reshape(-1, wire.NAME)
    book = wire.Book.of(names, np.arange(len(places)))
    query = np.frombuffer(name(asked), np.uint8).reshape(1, -1).copy()
    if query[0, 0] == socket.AF_INET6:
        query[0, 4:8] = 7  # a flow label
    (found,) = book.find(query, names)
    same = [row for row, place in enumerate(places) if place == asked]
    assert found == (same[0] if same else -1)
    if same:
        assert sorted(book.twins(found).tolist()) == same
