"""Many datagrams with one system call, and the checksums of many reports at once. Linux only. A
datagram makes no Python object here: the kernel reads and writes arrays that are made once."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet import client
from dumpulse_fleet.model.table import Rows

Bytes = NDArray[np.uint8]

NAME = 28  # bytes of an address of IPv6, which is the longest
ROOM = 268  # bytes for a report of version 2, and a few to see that a packet is too long
CONTROL = 32  # bytes of a control message with a time: 16 of header, seconds, nanoseconds
NO_ROOM = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)
# Constants of Linux that Python does not name.
SO_TIMESTAMPNS, SO_RCVBUFFORCE, SO_MEMINFO, SK_MEMINFO_DROPS = 35, 33, 55, 8
MSG_TRUNC_, MSG_DONTWAIT_ = 0x20, 0x40
REPORT_ROOM = 1280  # bytes that a report takes in a receive buffer

libc = ctypes.CDLL(None, use_errno=True)


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Header(ctypes.Structure):
    """struct msghdr"""

    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32),
                ("iov", ctypes.c_void_p), ("iov_count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
                ("flags", ctypes.c_int)]


class BatchMessage(ctypes.Structure):
    """struct mmsghdr"""

    _fields_ = [("header", Header), ("length", ctypes.c_uint32)]


class Batch:
    """Room for so many datagrams."""

    def __init__(self, count: int, size: int = 0) -> None:
        """`size`: the bytes of each packet to send; 0: the batch is for receiving."""
        self.count = count
        self.names: Bytes = np.zeros((count, NAME), np.uint8)
        self.packets: Bytes = np.zeros((count, size or ROOM), np.uint8)
        self._control = np.zeros((count, CONTROL // 8), np.int64)
        self._iov = np.zeros(count, np.dtype(Iovec))
        index = np.arange(count, dtype=np.uint64)
        self._iov["base"] = np.uint64(self.packets.ctypes.data) + index * np.uint64(size or ROOM)
        self._iov["length"] = size or ROOM
        self.messages = np.zeros(count, np.dtype(BatchMessage))
        self._header = self.messages["header"]
        self._header["name"] = np.uint64(self.names.ctypes.data) + index * np.uint64(NAME)
        self._header["iov"] = np.uint64(self._iov.ctypes.data) \
            + index * np.uint64(self._iov.dtype.itemsize)
        self._header["iov_count"] = 1
        if not size:
            self._header["control"] = np.uint64(self._control.ctypes.data) \
                + index * np.uint64(CONTROL)
        self._address = self.messages.ctypes.data
        self._size = self.messages.dtype.itemsize

    def lengths(self, count: int) -> NDArray[np.uint32]:
        lengths: NDArray[np.uint32] = self.messages["length"][:count]
        return lengths

    def address(self, count: int, names: Bytes) -> None:
        """The first `count` datagrams go to these addresses."""
        self.names[:count] = names
        self._header["name_length"][:count] = np.where(
            family_of(names) == socket.AF_INET, 16, NAME)

    def send(self, where: socket.socket, first: int, last: int) -> tuple[int, int]:
        """How many of the datagrams from first to last the kernel took, and an error number."""
        done = libc.sendmmsg(where.fileno(), ctypes.c_void_p(self._address + first * self._size),
                             last - first, MSG_DONTWAIT_)
        return (done, 0) if done >= 0 else (0, ctypes.get_errno())

    def receive(self, where: socket.socket, first: int = 0) -> int:
        """Fills the places from `first` on. Returns how many came."""
        room = self._header[first:]
        room["name_length"], room["control_length"] = NAME, CONTROL
        done = libc.recvmmsg(where.fileno(), ctypes.c_void_p(self._address + first * self._size),
                             self.count - first, MSG_DONTWAIT_ | MSG_TRUNC_, None)
        return max(int(done), 0)

    def times(self, count: int) -> NDArray[np.float64]:
        """Unix time at which each came; 0 if the kernel did not say it."""
        has_time = self._header["control_length"][:count] >= CONTROL
        when = self._control[:count, 2] + self._control[:count, 3] * 1e-9
        return np.where(has_time, when, 0.0)


def open_socket(family: int, room: int) -> tuple[socket.socket, int]:
    """A socket for many agents, and for how many reports its buffer has room."""
    new = socket.socket(family, socket.SOCK_DGRAM)
    try:
        new.setblocking(False)
        new.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        try:
            new.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, room)
        except OSError:  # only root may have more than net.core.rmem_max
            new.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        new.bind(("", 0) if family == socket.AF_INET else ("::", 0))
    except OSError:
        new.close()
        raise
    return new, new.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // REPORT_ROOM


def overflowed(where: socket.socket) -> int:
    """How many packets found no room in the socket's buffer."""
    counters = where.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * (SK_MEMINFO_DROPS + 1))
    return int.from_bytes(counters[4 * SK_MEMINFO_DROPS:], sys.byteorder)


# ---------------------------------------------------------------- reports
WEIGHTS = np.arange(256, 0, -1, dtype=np.float32)


def checksums(packets: Bytes) -> NDArray[np.uint32]:
    """Adler-32 of the 256 bytes of each row. All sums are whole numbers below 2^24, the greatest is
    255 * 256 * 257 / 2, so they are exact in a float of 32 bits, in any order."""
    numbers = packets.astype(np.float32)
    a = np.einsum("ij->i", numbers).astype(np.uint32) + 1
    b = np.einsum("ij,j->i", numbers, WEIGHTS).astype(np.uint32) + 256
    sums: NDArray[np.uint32] = (b % 65521) << 16 | a
    return sums


def good(packets: Bytes, lengths: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which of these are reports, whole and undamaged?"""
    claimed = packets[:, :4].copy().view(">u4")[:, 0]
    is_valid: NDArray[np.bool_] = (checksums(packets[:, 4:client.REPORT_SIZE]) == claimed) \
        & (lengths == client.REPORT_SIZE)
    return is_valid


def entries(packets: Bytes) -> NDArray[np.uint32]:
    """The 64 entries of each report, as numbers: timestamp, sender, value."""
    return packets[:, 4:client.REPORT_SIZE].copy().view(">u4").astype(np.uint32)


# ---------------------------------------------------------------- addresses
def pack(family: int, address: tuple[str, int] | tuple[str, int, int, int]) -> bytes:
    """A socket address of IPv4 or IPv6 as the kernel has it, NAME bytes long."""
    start = family.to_bytes(2, sys.byteorder) \
        + address[1].to_bytes(2, "big")
    host = address[0].partition("%")[0]
    if family == socket.AF_INET:
        name = start + socket.inet_pton(family, host)
    else:
        scope = address[3] if len(address) == 4 else 0
        name = start + bytes(4) + socket.inet_pton(family, host) \
            + scope.to_bytes(4, sys.byteorder)
    return name.ljust(NAME, b"\0")


class Book(NamedTuple):
    """Finds the row of an agent by the address of its answer."""

    keys: NDArray[np.uint64]  # sorted
    rows: Rows  # The row of each key.

    @staticmethod
    def of(names: Bytes, rows: Rows) -> Book:
        keys = digest(names[rows])
        order = np.argsort(keys, kind="stable")
        return Book(keys[order], rows[order])

    def find(self, names: Bytes, places: Bytes) -> Rows:
        """The rows of `known` that have these names; -1 for strangers. Of several, the first."""
        if not len(self.keys):
            return np.full(len(names), -1, np.intp)
        names = names.copy()
        v6 = family_of(names) == socket.AF_INET6
        names[v6, 4:8] = 0  # the flow label means nothing here
        names[~v6, 8:] = 0
        place = np.minimum(np.searchsorted(self.keys, digest(names)), len(self.keys) - 1)
        rows = self.rows[place]
        same = (places[rows].view(np.uint32) == names.view(np.uint32)).all(axis=1)
        return np.where(same, rows, -1)

    def twins(self, row: int) -> Rows:
        """All rows with the address of this one. `row` was found."""
        key = self.keys[np.flatnonzero(self.rows == row)[0]]
        twins: Rows = self.rows[self.keys == key]
        return twins


# Secret: an attacker cannot choose addresses whose digests are the same.
SECRETS = np.frombuffer(os.urandom(NAME // 4 * 8), np.uint64) | np.uint64(1)


def digest(names: Bytes) -> NDArray[np.uint64]:
    """64 bits of each address."""
    words = np.ascontiguousarray(names).view(np.uint32).astype(np.uint64)
    mixed: NDArray[np.uint64] = (words * SECRETS).sum(axis=1, dtype=np.uint64)
    return mixed


def family_of(names: Bytes) -> NDArray[np.uint16]:
    return np.ascontiguousarray(names[:, :2]).view(np.uint16)[:, 0]
