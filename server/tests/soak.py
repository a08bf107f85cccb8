"""Sends a million heartbeats from several sources at full speed, mixed with junk.

    make part ONLY=soak

It checks that the server accepts nothing wrong, that its memory does not grow, that it leaks no
descriptor, and that the counters add up: their sum is the number of packets sent, minus those that
the kernel has dropped.     SPDX-License-Identifier: MIT"""

import multiprocessing
import random
import socket
import sys
import time
from collections import Counter
from pathlib import Path

from server.tests.test_udpserver import Peer
from spec.model import MAGIC, Agent, checksummed, heartbeat
from tests.support.programs import open_files
from tests.support.servers import Counters, Server

SOURCES = 4
HEARTBEATS = 1_000_000
EACH = 1000  # packets in a source's cycle; one in five is junk
CYCLES = HEARTBEATS * 5 // 4 // SOURCES // EACH
MEMORY_SLACK = 128  # KB


def value_of(variable: int, source: int) -> int:
    """The value of good heartbeats for this variable. Junk always has another value."""
    return (variable * 3 + source * 50) % 256


def cycle_of(source: int, seed: int) -> list[tuple[bytes, str]]:
    """The packets that a source sends again and again, and which counter must count each."""
    chance = random.Random(seed + source)
    cycle = []
    for _ in range(EACH * 4 // 5):
        variable = chance.randrange(64)
        cycle.append((heartbeat(variable, source, value_of(variable, source)), "heartbeats"))
    while len(cycle) < EACH:
        variable = chance.randrange(64)
        wrong = (value_of(variable, source) + chance.randrange(1, 256)) % 256
        bad = heartbeat(variable, source, wrong)
        cycle.append(chance.choice([
            (bad[:chance.randrange(8)], "length"),
            (bad + chance.randbytes(chance.randrange(1, 500)), "length"),
            (heartbeat(variable, source, wrong, magic=chance.randrange(MAGIC)), "magic"),
            (bytes((bad[0] ^ 1 << chance.randrange(8),)) + bad[1:], "checksum"),
            (checksummed(bytes((MAGIC, chance.randrange(64, 256), source, wrong))), "variable")]))
    chance.shuffle(cycle)
    return cycle


def send(source: int, port: int, seed: int) -> None:
    packets = [packet for packet, _ in cycle_of(source, seed)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.bind((f"127.0.1.{source}", 0))
        out.connect(("127.0.0.1", port))
        for _ in range(CYCLES):
            for packet in packets:
                out.send(packet)


def memory_and_descriptors(server: Server) -> tuple[int, int]:
    process = Path(f"/proc/{server.process.pid}")
    (resident,) = (line.split()[1] for line in (process / "status").read_text().splitlines()
                   if line.startswith("VmRSS:"))
    return int(resident), open_files(server.process.pid)


def check_table(entries: list[bytes]) -> None:
    """Checks that every entry is unset, or is from a good heartbeat of one of the sources."""
    for variable, entry in enumerate(entries):
        source, value = entry[2:]
        assert entry == bytes(4) or 1 <= source <= SOURCES \
            and value == value_of(variable, source), \
            f"variable {variable} has {entry.hex()}, which no good heartbeat said"


def soak(seed: int, server: Server) -> Counters:
    with Peer(server) as peer:
        for source in range(1, SOURCES + 1):  # every path runs once before the memory is measured
            for packet, _ in cycle_of(source, seed):
                peer.send(packet)
        server.wait_for(lambda now: now["packets"] + now["drops"] >= EACH * SOURCES,
                        "that is taken")
        peer.ask()
        requests = 1
        before = memory_and_descriptors(server)
        senders = [multiprocessing.Process(target=send, args=(source, server.port, seed))
                   for source in range(1, SOURCES + 1)]
        for sender in senders:
            sender.start()
        peer.socket.settimeout(1)
        while any(sender.is_alive() for sender in senders):
            time.sleep(0.3)
            requests += 1
            try:
                check_table(peer.ask())
            except TimeoutError:
                continue  # the buffer was full when the request came
        for sender in senders:
            sender.join()
            assert sender.exitcode == 0
        sent = (CYCLES + 1) * EACH * SOURCES + requests
        server.wait_for(lambda now: now["packets"] + now["drops"] >= sent,
                        "every packet is counted")
        model = Agent()
        for variable in range(64):  # when nothing is dropped, the table must be the model's
            last = heartbeat(variable, 1 + variable % SOURCES,
                             value_of(variable, 1 + variable % SOURCES))
            model.process(0, last)
            peer.send(last)
        server.wait_for(lambda now: now["packets"] + now["drops"] >= sent + 64,
                        "the last are counted")
        assert [entry[2:] for entry in peer.ask()] == [entry[2:] for entry in model.entries]
        after = memory_and_descriptors(server)
        assert after[1] == before[1], f"{after[1] - before[1]} descriptors leaked"
        assert after[0] <= before[0] + MEMORY_SLACK, \
            f"memory grew from {before[0]} to {after[0]} KB"
        counters = server.stop()
    assert counters["packets"] + counters["drops"] == sent + 64 + 1
    expected = Counter({"heartbeats": 64})
    for source in range(1, SOURCES + 1):
        for _, kind in cycle_of(source, seed):
            expected[kind] += CYCLES + 1
    missing = 0
    for kind, count in expected.items():
        assert counters[kind] <= count, f"{kind}: {counters[kind]} of {count} sent"
        missing += count - counters[kind]
    assert missing <= counters["drops"]
    assert counters["not_allowed"] == counters["rate"] == 0
    print(f"soak: {counters['heartbeats']} heartbeats and "
          f"{sum(counters[kind] for kind in expected) - counters['heartbeats']} junk packets of "
          f"{SOURCES} sources "
          f"taken, {counters['drops']} dropped by the kernel, {after[0]} KB of memory")
    return counters


def main() -> None:
    seed = int(sys.argv[1]) if sys.argv[1:] else random.randrange(2**32)
    print(f"soak: seed {seed} (python3 -m server.tests.soak {seed} does it again)")
    with Server() as server:
        soak(seed, server)
    print("soak: 1 passed, 0 failed")


if __name__ == "__main__":
    main()
