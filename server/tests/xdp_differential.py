"""Sends the same frames to a udpserver with --xdp and to one without, and compares what they did.

    python3 -m server.tests.xdp_differential [--count N] [--seed N]

make part ONLY=xdp-differential sends a million frames, and test_xdp.py some thousands. Most of
them are heartbeats in frames of every kind: with options, extension headers, fragments, lengths
that lie, wrong checksums, addresses of others. Some have flipped bits, or are cut. After each
batch, both servers must have the same table and the same counters.

A packet may overtake another one on its way through the socket. So all heartbeats of a batch for
one variable are the same. SPDX-License-Identifier: MIT"""

import argparse
import errno
import random
import struct
import time
from collections import Counter
from collections.abc import Callable

from spec.model import REQUEST, heartbeat
from tests.support.network import ETHERNET_IPV4, ETHERNET_IPV6, Cable, frame, ipv4, ipv6
from tests.support.programs import PATIENCE, as_program
from tests.support.servers import Server

PORT, BATCH = 9060, 1000
FAST = ("--rate", "1000000", "--burst", "1000000", "--rate-total", "1000000")
OPTIONS = {  # ways to listen, which the frames are sent to in turn
    "some": ("--bind", "10.77.0.1", "--bind", "fd77::1", "--allow", "10.77.0.0/24",
             "--allow", "fd77::/64"),
    "all": ("--bind", "::", "--allow", "10.77.0.0/24", "--allow", "fd77::/64",
            "--allow-heartbeats", "10.77.0.0/29", "--allow-heartbeats", "::/0"),
}
# Of these, the kernel takes some and refuses others.
IPV4_SOURCES = ["10.77.0.2", "10.77.0.3", "10.77.0.200", "192.0.2.9"]
IPV4_ODD = ["10.77.0.1", "10.77.0.0", "10.77.0.255", "0.0.0.0", "0.1.2.3", "127.0.0.1", "127.9.8.7",
            "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255"]
IPV6_SOURCES = ["fd77::2", "fd77::3", "2001:db8::9", "fe80::ff:fe00:2"]
IPV6_ODD = ["fd77::1", "::", "::1", "ff02::1", "::ffff:10.77.0.2", "::10.77.0.2", "fec0::1",
            "64:ff9b::1"]
IPV4_PLACES = ["10.77.0.9", "10.77.0.255", "10.77.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.1",
               "0.0.0.0", "192.0.2.1"]
IPV6_PLACES = ["fd77::9", "ff02::1", "::1", "fe80::ff:fe00:1", "2001:db8::1", "::ffff:10.77.0.1"]
BROADCAST, OTHER = b"\xff" * 6, bytes((2, 0, 0, 0, 0, 9))


def payload(chosen: random.Random, batch: int) -> bytes:
    """Mostly a heartbeat; sometimes something that is refused, or a request."""
    variable = chosen.choice((chosen.randrange(64), chosen.randrange(64), chosen.randrange(256)))
    good = heartbeat(variable, batch % 255 + 1, variable ^ 0x5A)
    kind = chosen.randrange(40)
    at = chosen.randrange(8)
    return {0: good[:at], 1: good + bytes(at), 2: REQUEST, 3: chosen.randbytes(8),
            4: good[:at] + bytes((good[at] ^ 1 << chosen.randrange(8),)) + good[at + 1:],
            5: heartbeat(variable, 1, 2, magic=0xF0), 6: b"",
            7: chosen.randbytes(chosen.randrange(100))}.get(kind, good)


def odd_ipv4(chosen: random.Random, data: bytes) -> bytes:
    some = chosen.randrange
    ways: list[Callable[[], bytes]] = [
        lambda: ipv4(data, PORT, source=chosen.choice(IPV4_ODD)),
        lambda: ipv4(data, PORT, to=chosen.choice(IPV4_PLACES)),
        lambda: ipv4(data, PORT, options=chosen.choice((
            bytes(4), b"\1" * 8, b"\x83\7\4\x0a\x4d\0\2\0", chosen.randbytes(4 * some(1, 10))))),
        lambda: ipv4(data, PORT, fragment=chosen.choice((0x2000, 1, 0x2001, 0x4000, 0x8000))),
        lambda: ipv4(data, PORT, length=some(60)),
        lambda: ipv4(data, PORT, version=some(16)),
        lambda: ipv4(data, PORT, words=some(16)),
        lambda: ipv4(data, PORT, udp_length=some(40)),
        lambda: ipv4(data, PORT, udp_checksum=some(65536)),
        lambda: ipv4(data, PORT, udp_checksum=0),
        lambda: ipv4(data, PORT, checksum=chosen.choice((0, 0xFFFF, some(65536)))),
        lambda: ipv4(data, PORT, protocol=chosen.choice((1, 6, 136, some(256)))),
        lambda: ipv4(data, PORT, from_port=chosen.choice((0, PORT, 65535))),
        lambda: ipv4(data, PORT, hops=chosen.choice((0, 1, 255))),
        lambda: ipv4(data, some(65536)),
        lambda: ipv4(data, PORT + 1),
    ]
    return chosen.choice(ways)()


def odd_ipv6(chosen: random.Random, data: bytes) -> bytes:
    some = chosen.randrange
    options = b"\x11\0" + b"\1\4\0\0\0\0"
    ways: list[Callable[[], bytes]] = [
        lambda: ipv6(data, PORT, source=chosen.choice(IPV6_ODD)),
        lambda: ipv6(data, PORT, to=chosen.choice(IPV6_PLACES)),
        lambda: ipv6(data, PORT, extension=options, first=chosen.choice((0, 60, 43))),
        lambda: ipv6(data, PORT, extension=b"\x11\0\0\0" + chosen.randbytes(4), first=44),
        lambda: ipv6(data, PORT, extension=b"\x11\0" + bytes(6), first=44),
        lambda: ipv6(data, PORT, length=some(60)),
        lambda: ipv6(data, PORT, version=some(16)),
        lambda: ipv6(data, PORT, udp_length=some(40)),
        lambda: ipv6(data, PORT, udp_checksum=some(65536)),
        lambda: ipv6(data, PORT, udp_checksum=0),
        lambda: ipv6(data, PORT, first=chosen.choice((59, 6, 58, some(256)))),
        lambda: ipv6(data, some(65536)),
    ]
    return chosen.choice(ways)()


def made(chosen: random.Random, batch: int) -> list[bytes]:
    """Returns a frame, or the two fragments of a packet."""
    data = payload(chosen, batch)
    six = chosen.random() < 0.4
    kind = ETHERNET_IPV6 if six else ETHERNET_IPV4
    if chosen.random() < 0.4:
        packet = (odd_ipv6 if six else odd_ipv4)(chosen, data)
    elif six:
        packet = ipv6(data, PORT, source=chosen.choice(IPV6_SOURCES))
    else:
        packet = ipv4(data, PORT, source=chosen.choice(IPV4_SOURCES))
    way = chosen.randrange(100)
    if way < 3 and not six:
        whole = ipv4(data, PORT)[20:]
        number = chosen.randrange(65536)
        return [frame(fragment_of(whole[:8], 0, True, number)),
                frame(fragment_of(whole[8:], 1, False, number))]
    if way < 6:
        return [frame(packet, kind, vlan=chosen.choice((0, 1, 0x2000, 0xFFF)))]
    if way < 12:
        return [frame(packet, kind, to=chosen.choice((BROADCAST, OTHER, b"\1\0\x5e\0\0\1",
                                                      b"\x33\x33\0\0\0\1")))]
    if way < 16:
        return [frame(packet, kind, pad=chosen.randrange(1, 60))]
    if way < 18:
        return [frame(packet, chosen.choice((ETHERNET_IPV4, ETHERNET_IPV6, 0x0806, 0x88A8, 36)))]
    done = frame(packet, kind)
    if way < 21:
        return [done[:chosen.randrange(14, len(done))]]
    if way < 45:
        bits = bytearray(done)
        for _ in range(chosen.randrange(1, 4)):
            bits[chosen.randrange(len(bits))] ^= 1 << chosen.randrange(8)
        return [bytes(bits)]
    return [done]


def fragment_of(part: bytes, offset: int, more: bool, number: int) -> bytes:
    packet = bytearray(ipv4(b"", PORT, fragment=offset | more << 13, length=20 + len(part))[:20])
    packet[4:6] = struct.pack("!H", number)
    packet[10:12] = bytes(2)
    total = sum(struct.unpack("!10H", packet))
    total = (total & 0xFFFF) + (total >> 16)
    packet[10:12] = struct.pack("!H", (total & 0xFFFF) + (total >> 16) ^ 0xFFFF)
    return bytes(packet) + part


class Way:
    """A server on a cable of its own."""

    def __init__(self, *options: str) -> None:
        self.cable = Cable()
        self.frames = self.cable.node.raw()
        with self.cable.agent.entered():
            self.server = Server(*options, *FAST, "--tick", "3600000", port=PORT)
        self.asker = self.cable.node.udp()
        self.asker.settimeout(PATIENCE)

    def entries(self) -> list[bytes]:
        self.asker.sendto(REQUEST, ("10.77.0.1", PORT))
        report = self.asker.recv(1000)
        return [report[at:at + 4] for at in range(4, 260, 4)]

    def close(self) -> None:
        self.asker.close()
        self.frames.close()
        self.server.kill()
        self.cable.__exit__(None, None, None)


def is_same(one: list[bytes], other: list[bytes]) -> bool:
    """An hour may end between the two servers."""
    return all(a[2:] == b[2:] and (int.from_bytes(a[:2], "big") - int.from_bytes(b[:2], "big") + 1)
               % 65536 <= 2 for a, b in zip(one, other, strict=True))


def send(way: Way, one: bytes) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            way.frames.send(one)
            return
        except OSError as error:  # the queue of the interface is full
            if error.errno != errno.ENOBUFS or time.monotonic() > deadline:
                raise
            time.sleep(0.001)


def compare(socket_way: Way, xdp_way: Way, frames: list[bytes]) -> Counter[str]:
    """Sends a batch to both. Returns what became of it."""
    before = socket_way.server.stats()
    for way in (socket_way, xdp_way):
        for one in frames:
            send(way, one)
    deadline = time.monotonic() + PATIENCE
    wanted, found = socket_way.server.stats(), xdp_way.server.stats()
    steady = 0
    while (wanted != found or steady < 2) and time.monotonic() < deadline:
        time.sleep(0.01)
        steady = steady + 1 if wanted == found else 0
        wanted, found = socket_way.server.stats(), xdp_way.server.stats()
    assert wanted == found, f"the socket has counted {wanted}, and XDP {found}"
    assert is_same(socket_way.entries(), xdp_way.entries()), \
        (socket_way.entries(), xdp_way.entries())
    return Counter({name: wanted[name] - before[name] for name in wanted})


def run(count: int, seed: int, batch_size: int = BATCH) -> Counter[str]:
    """Compares `count` frames. Returns what became of them, and how many XDP took."""
    chosen = random.Random(seed)
    total: Counter[str] = Counter()
    for number, options in enumerate(OPTIONS.values()):
        ways = Way(*options), Way(*options, "--xdp", "veth1")
        try:
            sent = batch = 0
            while sent < count // len(OPTIONS):
                frames: list[bytes] = []
                while len(frames) < batch_size:
                    frames += made(chosen, batch)
                try:
                    total += compare(*ways, frames)
                except AssertionError:
                    print(f"seed {seed}, way {number} to listen, batch {batch}: "
                          f"{culprit(ways, frames)}")
                    raise
                sent += len(frames)
                batch += 1
            total["frames"] += sent
            total["in the kernel"] += ways[0].cable.agent.received() - \
                ways[1].cable.agent.received()
        finally:
            for way in ways:
                way.close()
    return total


def culprit(ways: tuple[Way, Way], frames: list[bytes]) -> str:
    """Finds a frame of which alone the two servers count different things."""
    for one in frames:
        counts = []
        for way in ways:
            before = way.server.stats()
            send(way, one)
            time.sleep(0.05)
            after = way.server.stats()
            counts.append({name: after[name] - before[name] for name in after
                           if after[name] != before[name]})
        if counts[0] != counts[1]:
            return f"{one.hex(' ')}: socket {counts[0]}, XDP {counts[1]}"
    return "no frame alone makes the difference"




def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    wanted = parser.parse_args()
    done = run(wanted.count, wanted.seed)
    print(f"xdp-differential, seed {wanted.seed}: {done['frames']} frames, of which udpserver "
          f"counted {done['packets']} and took {done['heartbeats']} heartbeats, "
          f"{done['in the kernel']} of them in the kernel: no difference")


if __name__ == "__main__":
    as_program(main, ".*")
