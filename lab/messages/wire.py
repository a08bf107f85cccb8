"""What sending costs: bytes, packets, instructions, system calls, round trips.

    make figures ONLY=lab-wire

    python -m lab.messages.wire [--write | --kept]

A client and a server run in two network namespaces. The wire between them is this program: it
counts each packet of both directions, from its IP header on, and can delay them. Needs root.
SPDX-License-Identifier: MIT"""

import datetime
import fcntl
import hashlib
import heapq
import os
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import callgrind
from lab import arguments
from lab.messages.counts import Figures, moved
from lab.messages.energy import NETWORK_MILLIJOULES_A_BYTE
from tests.support.programs import BUILD, ROOT, as_program, run

FILE = Path(__file__).with_name("wire.tsv")
SOURCE = Path(__file__).parent / "net" / "wire.c"
NEAR, FAR, PORT = "10.7.0.1", "10.7.0.2", 7000
DELAY = 0.035  # seconds each way, from New York to London
QUIET = 0.3  # seconds without a packet, after which there will be no more
PATIENCE = 60.0  # seconds
REPEATED = 5
SLACK = 0.001  # the share by which instructions may differ from day to day
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


@dataclass(frozen=True)
class Way:
    """How a message is sent. The group is that of a TLS key exchange."""

    name: str
    protocol: str
    group: str = ""


WAYS = (Way("a heartbeat, UDP", "udp"), Way("1 kB, TCP", "tcp"),
        Way("1 kB, TLS 1.3, P-256", "tls", "P-256"), Way("1 kB, TLS 1.3, X25519", "tls", "X25519"))
COLUMNS = ("bytes there", "bytes back", "packets there", "packets back", "round trips",
           "instructions", "system calls")
HEAD = ("# What sending costs: make figures ONLY=lab-wire ARGS=--write makes this file.\n"
        "# " + "\t".join(("way", *COLUMNS)) + "\n")
WIDTHS = (7, 6, 6, 5, 7, 12, 8)
Row = dict[str, int]


def is_last(packet: bytes) -> bool:
    """Whether this end of a TCP connection will send nothing more."""
    return packet[9] == socket.IPPROTO_TCP and bool(packet[(packet[0] & 0xF) * 4 + 13] & 1)


def is_bare_acknowledgement(packet: bytes) -> bool:
    """Of TCP, with no data, and neither the first nor the last of a connection. How many there are
    depends on which of two timers is first."""
    header = (packet[0] & 0xF) * 4
    if packet[9] != socket.IPPROTO_TCP:
        return False
    data_at = header + (packet[header + 12] >> 4) * 4
    return len(packet) == data_at and packet[header + 13] == 0x10


def has_own_network(process: int) -> bool:
    try:
        return os.readlink(f"/proc/{process}/ns/net") != os.readlink("/proc/self/ns/net")
    except OSError:  # it has just ended
        return False


class Wire:
    """Two namespaces, and the packets between them."""

    def __init__(self, delay: float) -> None:
        if os.geteuid() != 0:
            raise SystemExit("lab-wire: only root may make network namespaces: run it as root")
        self.delay = delay
        self.holders: list[subprocess.Popen[bytes]] = []
        self.ends: list[int] = []
        self.counted = [[0, 0], [0, 0]]  # by the end that sends: packets, bytes
        self.told = [0, 0]  # by the end: how many crossings led to what it has been sent, at most
        self.closing = False
        self.last = time.monotonic()
        self.over = False
        self.thread = threading.Thread(target=self.relay)
        try:
            for number, address in enumerate((NEAR, FAR)):
                self.holders.append(subprocess.Popen(["unshare", "--net", "sleep", "infinity"]))
                self.ends.append(self.end(self.holders[-1], address, number))
        except BaseException:
            self.close()
            raise
        self.thread.start()

    def end(self, holder: subprocess.Popen[bytes], address: str, number: int) -> int:
        """The file of a device that only the namespace of this process has."""
        process = holder.pid
        deadline = time.monotonic() + PATIENCE
        while not has_own_network(process):
            if holder.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("lab-wire: no namespace was made: is this a container without the "
                                 "right to?")
            time.sleep(0.01)
        name = f"lab{os.getpid()}x{number}"
        try:
            file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
        except OSError as error:
            raise SystemExit(f"lab-wire: /dev/net/tun: {error.strerror}: "
                             "no network device can be made here") from None
        run(["ip", "link", "set", "dev", name, "netns", process])
        within = ["nsenter", "--net", "--target", process]
        run([*within, "sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"])
        run([*within, "ip", "address", "add", f"{address}/24", "dev", name])
        run([*within, "ip", "link", "set", "dev", name, "up"])
        return file

    def relay(self) -> None:
        waiting: list[tuple[float, int, int, int, bytes]] = []
        number = 0
        while not self.over:
            pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.05
            readable, _, _ = select.select(self.ends, [], [], min(pause, 0.05))
            for file in readable:
                packet = os.read(file, 65536)
                side = self.ends.index(file)
                crossings = 0
                if not is_bare_acknowledgement(packet):
                    self.counted[side][0] += 1
                    self.counted[side][1] += len(packet)
                    self.closing = self.closing or is_last(packet)
                    crossings = 0 if self.closing else self.told[side] + 1
                self.last = time.monotonic()
                heapq.heappush(waiting, (self.last + self.delay, number, 1 - side, crossings,
                                         packet))
                number += 1
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, side, crossings, packet = heapq.heappop(waiting)
                self.told[side] = max(self.told[side], crossings)
                os.write(self.ends[side], packet)

    def inside(self, side: int, *words: object) -> list[str]:
        """A command in the namespace of the near (0) or the far end (1)."""
        return ["nsenter", "--net", "--target", str(self.holders[side].pid), *map(str, words)]

    def settle(self) -> None:
        """Waits: a packet that was sent just now may not have been counted yet."""
        asked = time.monotonic()
        while time.monotonic() < max(asked, self.last) + QUIET + 4 * self.delay:
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.over = True
        self.thread.join()
        self.close()

    def close(self) -> None:
        for file in self.ends:
            os.close(file)
        for holder in self.holders:
            holder.kill()
            holder.wait()


def programs(folder: Path) -> None:
    """The client and server, and a certificate. It is the same each time, and so is the length of
    its key's signatures: with ECDSA, bytes on the wire could not be compared. It protects nothing:
    the key is known to all."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519
    run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", SOURCE,
         "-lssl", "-lcrypto", "-o", folder / "wire"])
    key = ed25519.Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(b"no secret: a key for tests").digest())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "agent")])
    certificate = x509.CertificateBuilder(
        name, name, key.public_key(), 1, datetime.datetime(2020, 1, 1),
        datetime.datetime(2100, 1, 1)).sign(key, None)
    (folder / "certificate").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))


class Sender:
    def __init__(self, wire: Wire, folder: Path, way: Way) -> None:
        self.wire, self.folder, self.way = wire, folder, way

    def send(self, count: int, *before: object) -> None:
        """A client sends so many messages to a new server."""
        place: list[object] = [self.way.protocol, FAR, PORT]
        server = subprocess.Popen(
            self.wire.inside(1, self.folder / "wire", "server", *place,
                             self.folder / "certificate", self.folder / "key"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            if server.stdout.readline() != "ready\n":
                raise SystemExit(f"lab-wire: no server: {server.communicate()[1]}")
            client = [*before, self.folder / "wire", "client", *place, count,
                      self.folder / "certificate", self.way.group]
            environment = {"LD_BIND_NOW": "1", "OPENSSL_ia32cap": "0", "PATH": os.environ["PATH"],
                           **dict([callgrind.TUNABLES.split("=", 1)])}
            done = subprocess.run(self.wire.inside(0, *client), capture_output=True, text=True,
                                  timeout=PATIENCE, check=False, env=environment)
            if done.returncode:
                raise SystemExit(f"lab-wire: {self.way.name}: {done.stderr}")
            self.wire.settle()
        finally:
            server.kill()
            server.communicate()

    def crossing(self, count: int) -> list[int]:
        """Bytes and packets, and the round trips until the last answer. As the wire is slow, an end
        sends a packet before it has the next one, unless it waits for that: so crossings that
        follow from each other are counted, not time. The least of several runs, as on a busy
        machine an answer may be late, and packets are sent again."""
        seen = []
        for _ in range(REPEATED if count else 1):
            before = [cell for side in self.wire.counted for cell in side]
            self.wire.told, self.wire.closing = [0, 0], False
            self.send(count)
            after = [cell for side in self.wire.counted for cell in side]
            there, there_bytes, back, back_bytes = (
                new - old for old, new in zip(before, after, strict=True))
            seen.append([there_bytes, back_bytes, there, back, self.wire.told[0] // 2])
        return min(seen, key=sum)

    def instructions(self, count: int) -> int:
        output = self.folder / "callgrind"
        self.send(count, "valgrind", "--quiet", "--tool=callgrind",
                  f"--callgrind-out-file={output}")
        return callgrind.parse(output.read_text()).main

    def system_calls(self, count: int) -> int:
        output = self.folder / "strace"
        self.send(count, "strace", "-o", output)
        return len(re.findall(r"^\w+\(", output.read_text(), re.M))

    def measured(self, count: int) -> list[int]:
        return [*self.crossing(count), callgrind.agreed(lambda: self.instructions(count)),
                callgrind.agreed(lambda: self.system_calls(count))]


def rows(wire: Wire, folder: Path, way: Way) -> dict[str, Row]:
    """The first message with the connection that it needs, and one more in the same connection."""
    sender = Sender(wire, folder, way)
    none, one = sender.measured(0), sender.measured(1)
    if way.protocol == "udp":
        return {way.name: minus(one, none)}
    return {f"{way.name}, with its connection": minus(one, none),
            f"{way.name}, one more": minus(sender.measured(2), one)}


def minus(more: Sequence[int], less: Sequence[int]) -> Row:
    return dict(zip(COLUMNS, (a - b for a, b in zip(more, less, strict=True)), strict=False))


def parse(text: str) -> Figures:
    lines = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {("lab-wire", name, column): cell for name, *cells in lines
            for column, cell in zip(COLUMNS, cells, strict=False)}


def steady(before: Figures, now: Figures) -> Figures:
    """Returns today's counts. If instructions have hardly moved, they stay as before: some depend
    on how TLS records fall into packets."""
    def close(key: tuple[str, str, str]) -> bool:
        return (key[2] == "instructions" and key in before
                and abs(int(now[key]) - int(before[key])) <= SLACK * int(before[key]))

    return {key: before[key] if close(key) else cell for key, cell in now.items()}


def table(found: dict[str, Row]) -> list[str]:
    lines = [f"{'':<42}{'bytes':>13}{'packets':>11}{'round':>7}{'instruc-':>12}{'system':>8}",
             f"{'':<42}{'there':>7}{'back':>6}{'there':>6}{'back':>5}{'trips':>7}{'tions':>12}"
             f"{'calls':>8}"]
    for name, row in found.items():
        cells = [f"{row[column]:,}" if column in row else "-" for column in COLUMNS]
        lines.append(f"{name:<42}" + "".join(
            f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True)))
    way = "1 kB, TCP, with its connection"
    sent = found[way]["bytes there"] + found[way]["bytes back"]
    low, high = (sent * each for each in NETWORK_MILLIJOULES_A_BYTE)
    return [*lines, f"A model: for {way}, the Internet between takes {low:.0f} to {high:.0f} mJ."]


def main() -> None:
    parser = arguments.Parser("lab-wire", "Counts what sending costs.")
    parser.add_argument("--write", action="store_true", help="put the counts into wire.tsv")
    parser.add_argument("--kept", action="store_true",
                        help="print the counts of wire.tsv, and count nothing")
    options = parser.parse_args()
    if options.kept:
        kept: dict[str, Row] = defaultdict(dict)
        for (_, name, column), cell in parse(FILE.read_text()).items():
            kept[name][column] = int(cell)
        print("\n".join(table(kept)))
        return
    found: dict[str, Row] = {}
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as name, Wire(DELAY) as wire:
        folder = Path(name)
        programs(folder)
        for way in WAYS:
            print(f"lab: {way.name}", file=sys.stderr)
            found |= rows(wire, folder, way)
    print("\n".join(table(found)))
    print("Packets from the IP header on, without TCP's bare acknowledgements, of 52 bytes each:\n"
          "how many of these there are depends on timers.")
    now = "".join("\t".join([name, *map(str, row.values())]) + "\n" for name, row in found.items())
    if options.write:
        FILE.write_text(HEAD + now)
        return
    before = parse(FILE.read_text())
    if faults := moved(before, steady(before, parse(now))):
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    as_program(main, ".*")
