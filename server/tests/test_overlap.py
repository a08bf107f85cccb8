"""Tests udpserver --key-before: two master keys for a stated time.

An attacker keeps all packets, and has keys of nodes that were replaced. What else two keys could
change, test_udpserver_keyed.py tests with one."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import client
from server.tests.test_udpserver_keyed import (
    Peer, has_new_key, noted, run, write_key)
from spec import keyed
from spec.keyed import Hearer, Keys, Reader, chaskey12, question
from tools.programs import built, wait_until
from tools.servers import Server, lasting

OLD, NEW = Keys(bytes(range(16))), Keys(bytes(range(100, 116)))
READERS = keyed.READER_LABEL
USED_UP = bytes((0, 255, 255, 255))
FAR, YESTERDAY, TOO_FAR = (time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(time.time() + 86400 * days))
                  for days in (30, -1, 367))


def numbers_of(keys: Keys) -> str:
    return f"table.{chaskey12(keys.master, bytes((255,)) * 16)[:4].hex()}.numbers"


@pytest.fixture
def alone(tmp_path: Path) -> dict[Keys, list[str]]:
    """What a server needs for one of the keys. It has numbers of both."""
    found = {keys: ["--key", str(write_key(tmp_path / name, keys.master.hex() + "\n")),
                    "--state", str(tmp_path / "table")] for keys, name in ((OLD, "old"),
                                                                          (NEW, "new"))}
    for options in found.values():
        assert run(*options, "--key-is-new")[0] == 0
    return found


@pytest.fixture
def both(alone: dict[Keys, list[str]], tmp_path: Path) -> list[str]:
    return [*alone[NEW], "--key-before", str(tmp_path / "old"), "--key-until", FAR]


@pytest.fixture
def server(both: list[str]) -> Iterator[Server]:
    with Server(*lasting(both)) as server:
        yield server


@pytest.fixture
def peer(server: Server) -> Iterator[Peer]:
    with Peer(server) as peer:
        yield peer


class Known:
    """What whoever has a key hears of a server: there are so many beacons, each in its own
    epoch."""

    def __init__(self, peer: Peer, count: int = 2) -> None:
        self._peer, self._count = peer, count

    def beacons(self, label: int) -> list[bytes]:
        self._peer.send(question(label))
        return [self._peer.answer() for _ in range(self._count)]

    def reader(self, keys: Keys) -> Reader:
        reader = Reader(keys)
        assert sum(reader.hear(beacon) for beacon in self.beacons(READERS)) == 1
        return reader

    def node(self, keys: Keys, variable: int) -> Hearer:
        """It knows its epoch, also if the server does not send it its beacon any more."""
        node = Hearer(keys, variable)
        node.epoch = self.reader(keys).epoch
        return node

    def entries(self, keys: Keys) -> list[bytes]:
        """By a report that a new reader asks for."""
        return [entry[2:] for entry in self._peer.report(self.reader(keys))]


# ---- Arguments ------------------------------------------------------------------------------

@pytest.mark.parametrize("more, mention", [
    (["--key-before", "old"], "give it together with --key-until TIME"),
    (["--key-until", FAR], "give it together with --key-until TIME"),
    (["--key-before=", "--key-until", FAR], "--key-before must be the name of a file"),
    (["--key-before", "none", "--key-until", FAR], "cannot read --key-before none: No such file"),
    (["--key-before", "new", "--key-until", FAR], "--key and --key-before have the same key"),
    *((["--key-before", "old", "--key-until", text], "must be a time in UTC like 2026-12-31T23:59Z")
      for text in ("", "tomorrow", "2026-12-31", "2026-12-31T23:59", "2026-12-31T23:59Zx",
                   "2026-2-3T01:02Z", "2026-02-30T00:00Z", "2026-12-31T24:00Z", "+3600"))])
def test_wrong_arguments(alone: dict[Keys, list[str]], tmp_path: Path,
                         monkeypatch: pytest.MonkeyPatch, more: list[str], mention: str) -> None:
    monkeypatch.chdir(tmp_path)
    status, (line,) = run(*alone[NEW], *more)
    assert status == 2 and mention in line


def test_a_key_is_needed() -> None:
    status, (line,) = run("--key-before", "old", "--key-until", FAR)
    assert status == 2 and "give --key FILE, too" in line


def test_two_beacons_that_cannot_leave_are_one_answer(both: list[str]) -> None:
    with noted(lasting(both), UNSENT=f"{errno.EAGAIN} {errno.EAGAIN}")[0] as server, \
            Peer(server) as peer:
        peer.send(question(3))
        server.wait_for(lambda now: now["packets"] == 1, "the question is counted")
        assert not peer.has_answer()
        counters = server.stop()
        assert (counters["beacons"], counters["unsent"]) == (0, 1)


def test_the_numbers_of_both_keys_are_needed(both: list[str], tmp_path: Path) -> None:
    (tmp_path / numbers_of(OLD)).unlink()
    status, lines = run(*both, "0")
    assert status == 1 and lines[-1] == f"{tmp_path}/{numbers_of(OLD)} is not there: without it, " \
        "leave out --key-before"


def test_both_keys_have_one_epoch(both: list[str], tmp_path: Path) -> None:
    write_key(tmp_path / "old", OLD.master.hex() + "\nepoch 30\n")
    status, (line,) = run(*both)
    assert status == 2 \
        and re.search("--key-before .* sets an epoch of 30 s, but the epoch here is 10", line)


def test_a_clock_that_is_far_behind(both: list[str]) -> None:
    """As after a start without a battery: the time would last for years."""
    status, lines = run(*both[:-1], TOO_FAR, "0")
    assert status == 1 and "--key-until is more than a year ahead" in lines[-1]


# ---- While both are taken -------------------------------------------------------------------

def test_the_client_reads_under_either_key(server: Server, tmp_path: Path) -> None:
    """Also with what it remembers, and after the other key's beacon."""
    for value in range(3):
        for variable, name in enumerate(("old", "new")):
            agent = client.Agent(f"127.0.0.1:{server.port}",
                                 keys=client.KeyFile(str(tmp_path / name)))
            agent.beat(variable, 1, value)
            assert agent.ask()[variable].value == value
    assert server.stop()["tag"] == 0


def test_the_old_key_is_refused_when_the_new_one_was_heard(both: list[str], tmp_path: Path) -> None:
    """For that variable alone, and over a restart. An insider with the old key of a node speaks
    for nothing but its variable, and cannot stop the move."""
    with Server(*lasting(both)) as server, Peer(server) as peer:
        known = Known(peer)
        stolen, new, other = known.node(OLD, 3), known.node(NEW, 3), known.node(OLD, 8)
        peer.send(*(stolen.heartbeat(9, 9) for _ in range(100)), other.heartbeat(1, 1),
                  Keys(b"", {4: OLD.of(3)}).counted(4, stolen.epoch, 200, 9, 9))
        server.wait_for(lambda now: now["tag"] == 1, "it cannot speak for another")
        peer.send(new.heartbeat(2, 2), stolen.heartbeat(9, 9), other.heartbeat(1, 2))
        counters = server.wait_for(lambda now: now["packets"] == 3 + 102 + 3, "all are counted")
        assert counters["heartbeats"] == 103
        server.wait_for(lambda now: now["key_before"] == 1, "it is stored that it is retired")
        assert known.entries(NEW)[3] == b"\2\2"
        peer.send(question(3))
        assert peer.answer() == NEW.beacon(3, new.epoch) and peer.is_silent()
        said = "variable 3 has its new key; the key before was used for 0 reports, and is all " \
            "that was received of variables: 8"
        server.says(said)
        server.kill()
    with Server(*lasting(both)) as server, Peer(server) as peer:
        known = Known(peer)
        peer.send(known.node(OLD, 3).heartbeat(9, 9), known.node(NEW, 3).heartbeat(2, 3))
        counters = server.wait_for(lambda now: now["heartbeats"] == 1, "the new one is taken")
        assert counters["tag"] == 1
        server.stop()


def test_who_was_moved_is_said_when_the_old_key_comes_back(
        both: list[str], alone: dict[Keys, list[str]], tmp_path: Path) -> None:
    """Or when somebody exchanges the two keys: nobody would know why a node is not heard."""
    said = "nothing that is made with --key is accepted from variables: "
    with Server(*lasting(both)) as server, Peer(server) as peer:
        known = Known(peer)
        peer.send(*(known.node(NEW, variable).heartbeat(1, 1) for variable in (3, 7, 8)))
        server.wait_for(lambda now: now["heartbeats"] == 3, "they have moved")
        assert not any(said in line for line in server.stderr.lines)
        server.stop()
    for more in ([], ["--key-before", str(tmp_path / "new"), "--key-until", FAR]):
        with Server(*lasting(alone[OLD]), *more) as server:
            server.says(said + "3,7-8; they had")
            server.stop()


def test_generations_of_both_keys(server: Server, peer: Peer, tmp_path: Path) -> None:
    """A node that was stolen meanwhile gets its next key, the old one or the new one. One that has
    moved stays refused under each old key. The answer to SIGHUP says who has not moved."""
    known = Known(peer)
    old, new, moved = known.node(OLD, 1), known.node(NEW, 2), known.node(NEW, 3)
    peer.send(old.heartbeat(1, 1), new.heartbeat(1, 1), moved.heartbeat(1, 1))
    server.wait_for(lambda now: now["heartbeats"] == 3, "all are taken")
    write_key(tmp_path / "old", OLD.master.hex() + "\n1 1\n3 1\nepoch 3600\n")
    write_key(tmp_path / "new", NEW.master.hex() + "\n2 1\nepoch 3600\n")
    server.process.send_signal(signal.SIGHUP)
    for said in (has_new_key(1, 1), has_new_key(2, 1), "has read its files again",
                 "two keys are accepted; the key before was used for 0 reports, and is all that "
                 "was received of variables: 1"):
        server.says(said)
    renewed = {OLD: Keys(OLD.master, generations={1: 1, 3: 1}),
               NEW: Keys(NEW.master, generations={2: 1})}
    again = [known.node(renewed[keys], variable)
             for keys, variable in ((OLD, 1), (NEW, 2), (OLD, 3))]
    peer.send(*(node.heartbeat(2, 2) for node in again), old.heartbeat(9, 9), new.heartbeat(9, 9))
    counters = server.wait_for(lambda now: now["packets"] == 14, "all are counted")
    assert counters["heartbeats"] == 5 and counters["tag"] + counters["old"] == 3
    assert known.entries(NEW)[1:4] == [b"\2\2", b"\2\2", b"\1\1"]
    server.stop()


@pytest.mark.parametrize("restarts", [False, True])
def test_renewed_is_refused_under_both_keys(both: list[str], tmp_path: Path, restarts: bool
                                            ) -> None:
    """Whoever stole variable 6 and the readers' key has those of both master keys. None of their
    new keys was used yet."""
    with Server(*lasting(both)) as first, contextlib.ExitStack() as stack:
        write_key(tmp_path / "new", f"{NEW.master.hex()}\n6 1\nreaders 1\nepoch 3600\n")
        first.process.send_signal(signal.SIGHUP)
        first.says("has read its files again")
        if restarts:
            first.stop()
        server = stack.enter_context(Server(*both)) if restarts else first
        peer = stack.enter_context(Peer(server))
        stolen, renewed = {}, Keys(NEW.master, generations={6: 1, READERS: 1})
        for keys, beacon in zip((NEW, OLD), Known(peer).beacons(5)):
            hears = Hearer(keys, 5)
            assert hears.hear(beacon)
            stolen[keys] = Hearer(keys, 6), Reader(keys)
            for one in stolen[keys]:
                one.epoch = hears.epoch
        for node, reader in stolen.values():
            peer.send(node.heartbeat(1, 6), reader.request(b"no"))
        for label in (6, READERS):
            peer.send(question(label))
        counters = server.wait_for(lambda now: now["packets"] == 7, "all are counted")
        assert counters["heartbeats"] == counters["reports"] == 0
        answers = []
        while peer.has_answer():
            answers.append(peer.answer())
        epoch = stolen[NEW][0].epoch
        assert {*answers} == {renewed.beacon(label, epoch) for label in (6, READERS)}
        server.stop()


def test_a_slow_disk_delays_no_answer(both: list[str], tmp_path: Path) -> None:
    """Neither when a variable is retired, nor when a block ends or the clock is set: a new block
    begins when its number is stored. A store takes 0.8 s."""
    slept, clock, delays = tmp_path / "slept", tmp_path / "clock", []
    with noted(lasting(both, 65), SLOW="400", SLEPT=str(slept), CLOCK=str(clock))[0] as server, \
            Peer(server) as peer:
        known = Known(peer)

        def blocks() -> set[int]:
            asked = time.monotonic()
            beacons = known.beacons(5)
            delays.append(time.monotonic() - asked)
            return {int.from_bytes(beacon[4:], "big") // 256 for beacon in beacons}
        before = blocks()
        peer.send(known.node(OLD, 61).heartbeat(1, 1), known.node(NEW, 61).heartbeat(1, 1))
        wait_until(lambda: blocks() and "has its new key" in server.stderr.lines[-1], "retired")

        def ends(sleeps: int = 0) -> bool:
            for _ in range(300 * (sleeps != 0)):
                slept.write_text(f"{sleeps + 67 * len(delays)}")
                blocks()
            time.sleep(0.02)
            return not blocks() & before
        wait_until(lambda: ends(10), "the block has ended")
        before = blocks()
        clock.write_text("1000000")
        wait_until(ends, "another block begins")
        print(f"of {len(delays)} questions, one was answered after {max(delays):.3f} s")
        assert max(delays) < 0.3
        server.stop()


# ---- The end --------------------------------------------------------------------------------

def secrets_in(pid: int) -> list[str]:
    """The names of the secrets that are in the memory of a process: of both keys, the master key,
    as bytes and as text, and keys that are made of it."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            at, end = (int(text, 16) for text in line.split()[0].split("-"))
            if " rw" not in line or "[v" in line:
                continue
            memory.seek(at)
            content = memory.read(end - at)
            for name, keys in (("old", OLD), ("new", NEW)):
                found |= {name for _ in range(content.count(keys.master) > 0)}
                found |= {f"{name} text" for _ in range(keys.master.hex().encode() in content)}
                found |= {f"{name} {label}" for label in range(65) if keys.of(label) in content}
    return sorted(found)


def test_the_old_key_ends(both: list[str], alone: dict[Keys, list[str]], tmp_path: Path
                          ) -> None:
    """At its time, though somebody sets the clock forward and back. It is refused at once and is
    wiped, and cannot be started again. The new one goes on."""
    clock, slept = tmp_path / "clock", tmp_path / "slept"
    with noted(lasting(both, 65), CLOCK=str(clock), SLEPT=str(slept))[0] as server, \
            Peer(server) as peer, Peer(server) as later:  # beacons that nobody asks for go to one
        known = Known(peer)
        begun, held = known.reader(NEW).epoch, known.node(OLD, 60).heartbeat(9, 9)
        slept.write_text("67")
        peer.send(held)  # after a stop, which ends the epochs of both keys
        clock.write_text(f"{40 * 86400}")
        wait_until(lambda: min(int.from_bytes(beacon[4:], "big") for beacon in known.beacons(61))
                   > begun + 4096, "it follows the clock")
        # The next epoch of these variables begins a minute later.
        old, new, idle = known.node(OLD, 61), known.node(NEW, 62), known.node(OLD, 63)
        reader = known.reader(OLD)
        peer.report(reader)
        recorded = [idle.heartbeat(9, 9), reader.request(b"no")]
        peer.send(old.heartbeat(1, 1), new.heartbeat(1, 1))
        before = server.wait_for(lambda now: now["heartbeats"] == 2, "both are taken")
        if os.geteuid() == 0:
            assert {"old", "new"} <= {*secrets_in(server.process.pid)}
        clock.write_text("-1000000")
        slept.write_text(f"{30 * 86400}")
        new = Known(later, 1).node(NEW, 62)
        later.send(*recorded, old.heartbeat(1, 2), new.heartbeat(1, 2))
        counters = server.wait_for(lambda now: now["packets"] == before["packets"] + 5, "counted")
        assert counters["heartbeats"] == 3 and counters["tag"] == before["tag"] + 2
        assert later.answer() == NEW.beacon(READERS, new.epoch)
        said = "the time of the key before is over, and it is forgotten; the key before was used " \
            "for 1 reports, and is all that was received of variables: 61"
        server.says(said)
        assert server.stats()["key_before"] == 0
        if os.geteuid() == 0:
            assert not [name for name in secrets_in(server.process.pid)
                        if name.startswith("old") or "text" in name]
        server.kill()
    for options, said in (
            (both, "no new epoch of --key-before can begin: all epochs of this key are used up: "
                   "leave it out"),
            (alone[OLD], "no new epoch can begin: all epochs of this key are used up: make a new "
                         "one")):
        with Server(*lasting(options)) as server:
            lines = server.stderr.lines
            wait_until(lambda: any(said in line for line in lines), said)  # noqa: B023
            server.stop()


def test_the_end_when_the_disk_is_full(both: list[str], tmp_path: Path) -> None:
    """The numbers say that the key has ended as soon as they can be written."""
    full, slept, numbers = tmp_path / "full", tmp_path / "slept", tmp_path / numbers_of(OLD)
    with noted(lasting(both, 65), FULL=str(full), SLEPT=str(slept))[0] as server:
        full.touch()
        slept.write_text(f"{31 * 86400}")
        server.says("cannot write state")
        said = "the time of the key before is over"
        assert numbers.read_bytes()[16:20] != USED_UP
        assert not any(said in line for line in server.stderr.lines)
        full.unlink()
        server.says(said)
        assert numbers.read_bytes()[16:20] == USED_UP
        server.stop()
    assert sum(said in line for line in server.stderr.lines) == 1


@pytest.mark.parametrize("until, ahead, there, ends", [
    (FAR, 31, True, True), (FAR, 30 + 367, True, False), (FAR, 31, False, False),
    ("2020-01-01T00:00Z", 0, True, False), (YESTERDAY, 0, True, False)],
    ids=["ended", "a year late", "key gone", "typing error", "before its use"])
def test_a_start_after_the_end(both: list[str], tmp_path: Path, until: str, ahead: int,
                               there: bool, ends: bool) -> None:
    """Whoever forgets to take the options away has a server nevertheless, also if the old key is
    gone. It never comes back. But if the time must be a typing error, as the key was used after it,
    or if the clock may be wrong, nothing is lost."""
    with Server(*lasting(both)) as server, Peer(server) as peer:
        recorded = Known(peer).node(OLD, 1).heartbeat(1, 1)
        server.stop()
    numbers, clock = tmp_path / numbers_of(OLD), tmp_path / "clock"
    before = numbers.read_bytes()
    clock.write_text(str(ahead * 86400))
    if ahead > 100:  # days
        assert run(*both[:4], "--key-to-date", program=[built("build/udpserver-calls")],
                   CLOCK=str(clock))[0] == 0
    if not there:
        (tmp_path / "old").unlink()
    for _ in range(2):
        with noted([*lasting(both[:-1]), until], CLOCK=str(clock))[0] as server, \
                Peer(server) as peer:
            server.says("the time of --key-before is over: nothing made with it is accepted; "
                        "leave out")
            peer.send(recorded, question(1))
            node = Hearer(NEW, 1)
            assert node.hear(peer.answer()) and peer.is_silent()
            assert server.stop()["tag"] == 1
    assert (numbers.read_bytes() == before) == (not ends)
    assert (numbers.read_bytes()[16:20] == USED_UP) == ends
    if there:
        used_up = "no new epoch of --key-before can begin: all epochs of this key are used up"
        with Server(*lasting(both)) as server:
            server.stats()  # the first epochs have begun, or could not
            if ends:
                server.says(used_up)
            server.stop()
        assert ends == any(used_up in line for line in server.stderr.lines)


def test_a_key_that_is_given_twice_does_not_end(alone: dict[Keys, list[str]], tmp_path: Path
                                                ) -> None:
    """A server that runs after --key-until goes on, though it has its own key as the one before."""
    clock = tmp_path / "clock"
    clock.write_text(f"{31 * 86400}")
    options = [*lasting(alone[NEW]), "--key-before", str(tmp_path / "new"), "--key-until", FAR]
    for _ in range(2):
        with noted(options, CLOCK=str(clock))[0] as server, Peer(server) as peer:
            peer.send(Known(peer, 1).node(NEW, 1).heartbeat(1, 1))
            server.wait_for(lambda now: now["heartbeats"] == 1, "it is taken")
            server.stop()


def test_the_time_ends_while_epochs_begin(both: list[str], tmp_path: Path) -> None:
    """The machine slept, so all epochs begin, and it sleeps again while the server sends the first
    beacon. Then the old key is over before the packet is looked at."""
    slept = tmp_path / "slept"
    slept.write_text("0")
    with noted(lasting(both, 65), SLEPT=str(slept),
               BEFORE=f"sendmsg echo {31 * 86400} >{slept}")[0] as server, Peer(server) as peer:
        known = Known(peer)
        new, old = known.node(NEW, 40), known.node(OLD, 41)
        peer.send(new.heartbeat(1, 1), old.heartbeat(2, 2))
        server.wait_for(lambda now: now["heartbeats"] == 2, "both are taken")
        slept.write_text("67")
        peer.send(old.heartbeat(3, 3))
        server.wait_for(lambda now: now["packets"] == 5, "it is looked at")
        assert server.stop()["heartbeats"] == 2 and slept.read_text() != "67"
