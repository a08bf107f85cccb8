"""Attacks on udpserver --key that outsiders made, as scenes with the real program. The attacker
keeps all packets, kills the server, sets its clock, or has one key; spec/keyed.py is attacker and
nodes. Those that other files have are in the table of spec/README.md."""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import pytest

from server.tests.test_udpserver_keyed import (
    KEYS, Peer, block_of, epoch_of, node, noted, options, reader)
from spec.keyed import EPOCH_LAST, READER_LABEL, Hearer, Keys
from tools.programs import wait_until
from tools.servers import Server, lasting

__all__ = ["options"]
pytestmark = pytest.mark.slow
BLOCKS = EPOCH_LAST // 256


def refuses(server: Server, peer: Peer, packets: list[bytes | None]) -> None:
    """None of these packets changes an entry."""
    before = server.stats()
    peer.send(*packets)
    counters = server.wait_for(
        lambda now: now["packets"] + now["drops"] >= before["packets"] + before["drops"] +
        len(packets), "all are counted")
    assert (counters["heartbeats"], counters["drops"]) == (before["heartbeats"], before["drops"])


def test_kills_and_replays(options: list[str], tmp_path: Path) -> None:
    """Killed at any moment, 20 times: nothing that was taken before is taken again. The labels
    begin an epoch each second meanwhile."""
    tape: list[bytes | None] = []
    chance = random.Random(9)
    for _ in range(20):
        with Server(*lasting(options, 1)) as server, Peer(server) as peer:
            peer.beacon()
            refuses(server, peer, tape[-200:])
            for variable in range(0, 64, 9):
                one = Hearer(KEYS, variable)
                assert one.hear(peer.beacon(variable))
                tape += [one.heartbeat(1, value) for value in range(3)]
                peer.send(*tape[-3:])
            time.sleep(chance.random() * 0.1)
            server.kill()
    assert len(tape) == 20 * 8 * 3


@pytest.mark.parametrize("steps", [[*range(4, 33, 4)], [40, -50, 100, -50, 100] * 3],
                         ids=["ahead", "to and fro"])
def test_whoever_sets_the_clock(options: list[str], tmp_path: Path, steps: list[int]) -> None:
    """By so many years: all steps together use up less than 1 % of the blocks. With the right clock
    the server starts again, and takes nothing of before."""
    clock = tmp_path / "clock"
    clock.write_text("0")
    first = block_of(tmp_path)
    with noted(lasting(options, 1), CLOCK=str(clock))[0] as server, Peer(server) as peer:
        held = node(3, peer.beacon()).heartbeat(1, 1)
        for years in steps:
            clock.write_text(f"{int(years * 365.25 * 86400)}")
            time.sleep(1.2)
        refuses(server, peer, [held])
        server.stop()
    assert 0 < block_of(tmp_path) - first < BLOCKS / 100
    with Server(*lasting(options)) as server, Peer(server) as peer:
        assert block_of(tmp_path) - first < BLOCKS / 100
        refuses(server, peer, [held])
        peer.send(node(3, peer.beacon()).heartbeat(1, 2))
        server.wait_for(lambda now: now["heartbeats"] == 1, "a new one is taken")
        server.stop()


@pytest.mark.parametrize("seconds, begins", [(31, True), (30 * 60, True), (25, False)])
def test_a_clock_that_jumps(options: list[str], tmp_path: Path, seconds: int, begins: bool) -> None:
    """As that of a snapshot does that runs again: what was made for it before is refused within a
    second."""
    clock = tmp_path / "clock"
    clock.write_text("0")
    with noted(lasting(options, 30), CLOCK=str(clock))[0] as server, Peer(server) as peer:
        held = node(63, peer.beacon()).heartbeat(1, 1)
        before = epoch_of(peer.beacon())
        time.sleep(1)
        clock.write_text(str(seconds))
        if begins:
            wait_until(lambda: epoch_of(peer.beacon()) // 256 > before // 256, "a block begins")
            refuses(server, peer, [held])
        else:
            time.sleep(2)
            assert epoch_of(peer.beacon()) == before
        server.stop()


def test_31_readers_that_know_nothing(options: list[str]) -> None:
    """All ask at once, with no memory, and all are answered within one epoch: whoever is refused
    leaves counts out, as spec/keyed.md says."""
    with Server(*lasting(options)) as server, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(server, source=f"127.0.8.{n + 1}")) for n in range(31)]
        waiting = {peer: (reader(peer.beacon()), 0) for peer in peers}
        for _ in peers:
            for peer, (one, refused) in waiting.items():
                one.count = min(one.count + refused // 2, 254)
                peer.send(one.request(b"no"))
            for peer, (one, refused) in [*waiting.items()]:
                answer = peer.answer()
                if one.check(answer):
                    del waiting[peer]
                else:
                    assert len(answer) == 8
                    waiting[peer] = one, refused + 1
        assert not waiting and server.stop()["reports"] == 31


def test_an_insider(options: list[str]) -> None:
    """With the key of variable 5: its packets for every other label, and beacons that it makes
    up, change nothing. The other 63 nodes are heard."""
    with Server(*lasting(options)) as server, Peer(server) as peer, \
            Peer(server, source="127.0.0.66") as insider:
        beacon = peer.beacon()
        epoch = epoch_of(beacon)
        theirs = [label for label in range(READER_LABEL + 1) if label != 5]
        forged = Keys(bytes(16), dict.fromkeys(theirs, KEYS.of(5)))
        refuses(server, insider, [forged.counted(label, epoch, 255, 9, 9) for label in theirs])
        refuses(server, insider, [KEYS.beacon(5, epoch + 1), KEYS.beacon(5, EPOCH_LAST)])
        refuses(server, insider, [forged.beacon(label, EPOCH_LAST) for label in theirs])
        for variable in theirs[:-1]:
            one = node(variable, beacon)
            assert not any(one.hear(forged.beacon(variable, number))
                           for number in (epoch + 1, EPOCH_LAST))
            peer.send(one.heartbeat(1, 7))
        entries = peer.report(reader(beacon))
        assert {entry[2:] for entry in entries[:5] + entries[6:]} == {b"\1\7"}
        assert entries[5] == bytes(4) and server.stop()["reports"] == 1
