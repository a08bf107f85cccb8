"""Two network namespaces with a cable between them, in which udpserver --xdp is tried.

    with Cable() as cable:
        with cable.agent.entered():
            ... start a server ...
        frames = cable.node.raw()  # a socket that sends frames as they are

The namespaces end with the processes and sockets that use them. The cable is a veth: two interfaces
in software. It needs root. SPDX-License-Identifier: MIT"""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
ETHERNET_IPV4, ETHERNET_IPV6, VLAN = 0x0800, 0x86DD, 0x8100
UDP = 17
SIOCETHTOOL, ETHTOOL_STXCSUM, ETHTOOL_SFLAGS = 0x8946, 0x17, 0x26


def check(status: int, what: str) -> None:
    if status:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}: the tests of"
                      " XDP need root, and a kernel with network namespaces")


class Side:
    """One end of the cable, in a namespace of its own."""

    def __init__(self, number: int) -> None:
        self.interface = f"veth{number}"
        self.hardware = bytes((2, 0, 0, 0, 0, number))
        self.ipv4, self.ipv6 = f"10.77.0.{number}", f"fd77::{number}"
        with open("/proc/thread-self/ns/net") as before:
            check(LIBC.unshare(CLONE_NEWNET), "unshare")
            self.namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            check(LIBC.setns(before.fileno(), CLONE_NEWNET), "setns")
        self.run("ip link set lo up")
        with self.entered():  # its IPv6 addresses are valid at once
            for which in ("all", "default"):
                Path(f"/proc/sys/net/ipv6/conf/{which}/accept_dad").write_text("0")

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Processes and sockets that this thread makes meanwhile are in this namespace."""
        with open("/proc/thread-self/ns/net") as before:
            check(LIBC.setns(self.namespace, CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                check(LIBC.setns(before.fileno(), CLONE_NEWNET), "setns")

    def run(self, command: str) -> str:
        with self.entered():
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def begin(self) -> None:
        """Brings the interface up, with addresses."""
        self.run(f"ip link set {self.interface} address {self.hardware.hex(':')}")
        self.run(f"ip address add {self.ipv4}/24 dev {self.interface}")
        self.run(f"ip address add {self.ipv6}/64 dev {self.interface} nodad")
        self.run(f"ip link set {self.interface} up")

    def make_checksums(self) -> None:
        """Has the kernel make the checksums of packets that leave here, as hardware would do. With
        a veth, it leaves them out otherwise."""
        self._set(ETHTOOL_STXCSUM, 0)

    def keep_vlan_tags(self) -> None:
        """Has the interface leave the tags of VLANs in packets that come in."""
        self._set(ETHTOOL_SFLAGS, 0)

    def _set(self, what: int, to: int) -> None:
        value = ctypes.create_string_buffer(struct.pack("=II", what, to))
        request = struct.pack("=16sQ16x", self.interface.encode(), ctypes.addressof(value))
        with self.udp() as any_socket:
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)

    def raw(self) -> socket.socket:
        with self.entered():
            frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            frames.bind((self.interface, 0))
            return frames

    def udp(self, family: int = socket.AF_INET) -> socket.socket:
        with self.entered():
            return socket.socket(family, socket.SOCK_DGRAM)

    def received(self) -> int:
        """Returns how many packets the sockets of UDP have got here."""
        with self.entered():
            ipv4 = Path("/proc/thread-self/net/snmp").read_text()
            ipv6 = Path("/proc/thread-self/net/snmp6").read_text()
        return sum(int(found) for found in re.findall(r"^Udp: (\d+)", ipv4, re.M)
                   + re.findall(r"^Udp6InDatagrams\s+(\d+)", ipv6, re.M))

    def dropped(self) -> int:
        """Returns how many packets the cable itself has lost that left here: its queue was full."""
        (link,) = json.loads(self.run(f"ip -json -statistics link show {self.interface}"))
        return int(link["stats64"]["tx"]["dropped"])

    def queued(self) -> int:
        """Returns how many bytes wait in sockets of UDP here."""
        with self.entered():
            lines = Path("/proc/thread-self/net/udp").read_text().splitlines()[1:]
        return sum(int(line.split()[4].split(":")[1], 16) for line in lines)

    def close(self) -> None:
        os.close(self.namespace)


class Cable:
    """The node's side, which sends, and the agent's side."""

    def __init__(self, queues: int = 1) -> None:
        self.agent, self.node = Side(1), Side(2)
        self.queues = queues
        self.connect()

    def connect(self, number: str = "") -> None:
        queues = f"numtxqueues {self.queues} numrxqueues {self.queues}"
        with self.agent.entered():
            subprocess.run(
                f"ip link add veth1 {number} {queues} type veth peer name veth2 {queues} "
                f"netns /proc/{os.getpid()}/fd/{self.node.namespace}".split(), check=True)
        for side in (self.agent, self.node):
            side.begin()

    def cut(self) -> None:
        self.agent.run("ip link delete veth1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for side in (self.agent, self.node):
            side.close()


# ---- Packets, with everything in them that can be wrong --------------------------------------

def internet_checksum(data: bytes) -> int:
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total: int = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def udp_packet(pseudo: bytes, payload: bytes, source: int, port: int, length: int | None,
               checksum: int | None) -> bytes:
    length = 8 + len(payload) if length is None else length
    head = struct.pack("!HHHH", source, port, length, 0)
    if checksum is None:
        checksum = internet_checksum(pseudo + struct.pack("!HH", UDP, 8 + len(payload)) + head
                                     + payload) or 0xFFFF
    return head[:6] + struct.pack("!H", checksum) + payload


def ipv4(payload: bytes, port: int, *, source: str = "10.77.0.2", to: str = "10.77.0.1",
         options: bytes = b"", fragment: int = 0, length: int | None = None, version: int = 4,
         udp_length: int | None = None, udp_checksum: int | None = None,
         checksum: int | None = None, protocol: int = UDP, from_port: int = 40000,
         hops: int = 64, words: int | None = None) -> bytes:
    """`words` is the length of its header, as the header says."""
    addresses = socket.inet_aton(source) + socket.inet_aton(to)
    udp = udp_packet(addresses, payload, from_port, port, udp_length, udp_checksum)
    size = 20 + len(options)
    head = struct.pack("!BBHHHBBH", version << 4 | (size // 4 if words is None else words), 0,
                       size + len(udp) if length is None else length, 7, fragment, hops, protocol,
                       0) + addresses + options
    if checksum is None:
        checksum = internet_checksum(head)
    return head[:10] + struct.pack("!H", checksum) + head[12:] + udp


def ipv6(payload: bytes, port: int, *, source: str = "fd77::2", to: str = "fd77::1",
         extension: bytes = b"", first: int = UDP, length: int | None = None, version: int = 6,
         udp_length: int | None = None, udp_checksum: int | None = None,
         from_port: int = 40000) -> bytes:
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to)
    udp = udp_packet(addresses, payload, from_port, port, udp_length, udp_checksum)
    rest = extension + udp
    return struct.pack("!IHBB", version << 28, len(rest) if length is None else length, first,
                       64) + addresses + rest


def frame(packet: bytes, kind: int = ETHERNET_IPV4, *, to: bytes = bytes((2, 0, 0, 0, 0, 1)),
          vlan: int | None = None, pad: int = 0) -> bytes:
    tag = b"" if vlan is None else struct.pack("!HH", VLAN, vlan)
    return to + bytes((2, 0, 0, 0, 0, 2)) + tag + struct.pack("!H", kind) + packet + bytes(pad)
