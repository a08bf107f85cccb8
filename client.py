#!/usr/bin/env python3
"""Talks to Dumpulse agents: a command and a module in one file.   SPDX-License-Identifier: MIT

Needs Python 3.9 or later and nothing else. `client.py --help` is the command's manual. As a
module, with bytes and text checked wherever they come from (once it is installed, that is
`import dumpulse as client`):

    import client

    agent = client.Agent("localhost:9060")          # BadUsage: not an address
                                                    # or "serial:/dev/ttyACM0@115200"
                                                    # or "can:can0", "can:can0:680"
    agent.beat(variable=3, sender=76, value=9)      # ValueError: out of range; NoAnswer
    entries = agent.ask(timeout=3.0)                # 64 of them; NoAnswer, BadReport
    now = client.clock(tick_ms=1000)                # or entries[0].timestamp, if the agent
    if not entries[3].never:                        # stamps itself as variable 0
        print(entries[3].value, client.age(now, entries[3].timestamp))

`heartbeat` and `parse_report` are the packets alone, for other transports.

WHAT AN AGE CANNOT TELL
  A timestamp has 16 bits: after 65536 ticks without a heartbeat an age starts again from 0,
  and a dead node looks alive for a while. So no deadline may be longer than the wrap. Who
  looks again and again knows more: see `Silences`, which `watch` and `check --memory` use.
  Ages of the last SKEW ticks before the wrap are taken to be 0: the agent's clock, or that
  of the variable which stands for it, may be so much ahead of ours. A clock that differs by
  more makes everything look dead, or dead things alive. `Clock` finds that out if a node beats
  while it looks; --now-from has no such problem.
  Never heard is four zero bytes; value 0 from sender 0 at tick 0 is the same four.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import dataclasses
import difflib
import errno
import heapq
import io
import itertools
import json
import math
import os
import random
import re
import select
import selectors
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, Optional, Union

try:
    import fcntl
    import termios
except ImportError:  # Windows: `watch` writes plain text there, and no serial line can be asked
    termios = None  # type: ignore[assignment]

VERSION = "1.0.0-dev"
PROGRAM = "client.py"  # the name it is called by: see main()
PORT = 9060
MAGIC = 0xF1
VARIABLES = 64
REQUEST = b"AreyouOK"
REPORT_SIZE = 4 + VARIABLES * 4
WRAP = 65536  # ticks, after which a timestamp comes again
SKEW = 64     # ticks that a timestamp may be ahead of "now": see above
JUMP_MS = 5_000  # what a clock may seem to jump by, as answers take time

# ---------------------------------------------------------------- the packets


class Error(Exception):
    """What can go wrong with an agent; the text is one line for a human.

    It may repeat what somebody has typed: of a text that is too long, both ends are shown.
    """

    LONGEST = 600  # characters

    def __init__(self, text: str) -> None:
        half = self.LONGEST // 2
        super().__init__(text if len(text) <= self.LONGEST else f"{text[:half]} ... {text[-half:]}")


class BadUsage(Error):
    """An address or a setting that cannot be right."""


class NoAnswer(Error):
    """Silence, or the network said that nobody is there."""


class Refused(NoAnswer):
    """The agent's machine is there and said that nothing listens."""


class BadReport(Error):
    """What came is not a report of the agent's: `cause` is length, checksum or address."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class Entry(NamedTuple):
    """What a report says about a variable."""

    timestamp: int
    sender: int
    value: int

    @property
    def never(self) -> bool:
        return self == (0, 0, 0)


Entries = tuple[Entry, ...]


def heartbeat(variable: int, sender: int, value: int) -> bytes:
    """The 8 bytes that a node sends."""
    if not 0 <= variable < VARIABLES:
        raise ValueError(f"a variable is 0 to {VARIABLES - 1}, not {variable}")
    for what, number in (("sender", sender), ("value", value)):
        if not 0 <= number <= 255:
            raise ValueError(f"a {what} is 0 to 255, not {number}")
    said = bytes((MAGIC, variable, sender, value))
    return struct.pack(">L", zlib.adler32(said)) + said


def parse_report(packet: bytes) -> Entries:
    """The 64 entries of a report that is whole and undamaged."""
    if len(packet) != REPORT_SIZE:
        raise BadReport("length", f"it is {len(packet)} bytes long, not {REPORT_SIZE}")
    (claimed,) = struct.unpack_from(">L", packet)
    right = zlib.adler32(packet[4:])
    if claimed != right:
        raise BadReport("checksum", f"its checksum is {claimed:08x}, not {right:08x}")
    return entries_of(packet)


def entries_of(packet: bytes) -> Entries:
    """Of a report that somebody believes already."""
    return tuple(Entry(*fields) for fields in struct.iter_unpack(">HBB", packet[4:]))


def age(now: int, timestamp: int) -> int:
    """Ticks since a timestamp, right up to WRAP - SKEW - 1 of them."""
    ticks = (now - timestamp) % WRAP
    return ticks if ticks < WRAP - SKEW else 0


def clock(tick_ms: int) -> int:
    """This machine's time as agents on Linux count it: Unix time in ticks, 16 bits of it."""
    return time.time_ns() // (tick_ms * 1_000_000) % WRAP


def jump(before: int, now: int, passed_ms: int, tick_ms: int) -> int:
    """Ticks by which a clock went on more than it should have; 0 for as much as clocks differ."""
    ticks = (now - before - round(passed_ms / tick_ms) + WRAP // 2) % WRAP - WRAP // 2
    return ticks if abs(ticks) > max(SKEW, JUMP_MS // tick_ms) else 0


def uptime() -> float:
    """Seconds of a clock that nobody sets, and that goes on while this machine sleeps."""
    if sys.platform == "win32":
        return time.monotonic()
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


# ---------------------------------------------------------------- the network

TIMEOUT = 3.0  # seconds, unless told otherwise
# Seconds until the request is repeated. The first waits double, as a packet may be lost. Then
# they are a quarter of the time that has passed, but at least MIDDLE_WAIT: an agent that gets
# too many requests refuses some, and answers those that come again later. So an agent is asked
# 7 times in 3 s, and at most 5 times in 8 s more.
FIRST_WAIT, MIDDLE_WAIT, LAST_WAIT = 0.2, 0.5, 2.0
LONGEST_WAIT = 1e6  # seconds; poll() and its like count milliseconds in 31 bits
# Linux only: errors that routers and hosts report, on sockets that are not connected.
ERRORS_WANTED: dict[int, tuple[int, int]] = {
    socket.AF_INET: (socket.IPPROTO_IP, 11),  # IP_RECVERR
    socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}  # IPV6_RECVERR


def parse_address(text: str) -> tuple[str, int]:
    """HOST, HOST:PORT, [IPv6]:PORT or a bare IPv6 address."""
    host, port = text, None
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or rest[:1] not in ("", ":"):
            raise BadUsage(f"{text!r} is not an address: write [IPV6]:PORT")
        port = rest[1:] if rest else None
    elif text.count(":") == 1:
        host, port = text.split(":")
    elif text.endswith(f":{PORT}"):
        raise BadUsage(f"{text!r} can be read in two ways: write [{text.rpartition(':')[0]}]:{PORT}"
                       f", or [{text}] if all of it is the address")
    if not host:
        raise BadUsage(f"{text!r} names no host: write HOST or HOST:PORT")
    return host, PORT if port is None else parse_port(port)


def parse_port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise BadUsage(f"{text!r} is not a port: it must be 1 to 65535")
    return int(text)


def waits(draw: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
    """Seconds to wait for an answer: they grow, and readers that started together drift apart."""
    passed = 0.0
    for doubled in itertools.count():
        longest = min(max(MIDDLE_WAIT, passed / 4), LAST_WAIT)
        wait = min(FIRST_WAIT * 2 ** min(doubled, 16), longest) * draw(0.75, 1.25)
        passed += wait
        yield wait


def spoken(place: Any) -> str:
    """A socket's address."""
    return f"[{place[0]}]:{place[1]}" if ":" in place[0] else f"{place[0]}:{place[1]}"


def look_up(host: str, port: int, seconds: float) -> list[tuple[int, Any]]:
    """In a thread, as a name service may be silent for longer than anybody waits."""
    found: list[tuple[int, Any]] = []
    why = [f"no answer from the name service in {decimal(round(seconds * 1000))} s"]

    def ask() -> None:
        try:
            found.extend((family, place) for family, _, _, _, place in
                         socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM))
        except (OSError, ValueError) as error:  # ValueError: what cannot be a name
            why[0] = str(error.args[-1])

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise NoAnswer(f"cannot find the host {host!r}: {why[0]}")
    return found


class Udp:
    """Carries packets to an agent and back.

    Its sockets are not connected: a connected one would hide datagrams from elsewhere, and
    a reader would not learn why its agent seems to be silent.
    """

    SILENT = "; an agent does not answer those it does not allow, or who ask too often"

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._found: list[tuple[int, Any]] = []
        self._ways: list[tuple[Any, socket.socket]] = []  # one for each address of the host
        self._at = 0

    def open(self, seconds: float) -> None:
        """New sockets, so that nothing which was asked for earlier can come."""
        self.close()
        self._found = self._found or look_up(self._host, self._port, seconds)
        why = ""
        for family, place in self._found:
            try:
                new = socket.socket(family, socket.SOCK_DGRAM)
            except OSError as error:  # this kernel has no IPv6, or no descriptor is left
                why = f"cannot open a socket: {error.strerror}"
                continue
            self._ways.append((place, new))
            new.setblocking(False)
            if sys.platform == "linux":
                new.setsockopt(*ERRORS_WANTED[family], 1)
        if not self._ways:
            raise NoAnswer(why)

    def close(self) -> None:
        while self._ways:
            self._ways.pop()[1].close()

    def forget(self) -> None:
        """The host may have moved: look it up again."""
        self._found = []

    def __len__(self) -> int:
        """How many addresses the host has."""
        return len(self._ways)

    def turn(self) -> None:
        """On to the next of them."""
        self._at += 1

    def send(self, packet: bytes) -> None:
        """NoAnswer if the network says that it cannot get there."""
        place, way = self._ways[self._at % len(self)]
        try:
            way.sendto(packet, place)
        except BlockingIOError:
            pass  # the interface is busy: as good as lost on the way
        except OSError as error:
            raise self._unreachable(place, way, error) from error

    def receive(self, seconds: float) -> Optional[bytes]:
        """A datagram from one of the addresses, or nothing for (nearly) so long."""
        with selectors.DefaultSelector() as ready:
            for place, way in self._ways:
                ready.register(way, selectors.EVENT_READ, (place, way))
            for key, _ in ready.select(min(max(0.0, seconds), LONGEST_WAIT)):
                place, way = key.data
                packet: bytes
                try:
                    packet, source = way.recvfrom(65536)
                except BlockingIOError:
                    continue  # it was damaged, and the kernel has dropped it
                except OSError as error:
                    raise self._unreachable(place, way, error) from error
                # IPv6 has a flow label at 2, which means nothing here, and a scope at 3.
                if (source[:2], source[3:]) != (place[:2], place[3:]):
                    raise BadReport("address", f"it came from {spoken(source)}, "
                                               f"not from {spoken(place)}")
                return packet
        return None

    @staticmethod
    def _unreachable(place: Any, way: socket.socket, error: OSError) -> NoAnswer:
        """Also empties the socket's queue of errors: it would be ready for ever."""
        if sys.platform == "linux":
            try:
                while True:
                    way.recvmsg(0, 0, socket.MSG_ERRQUEUE)
            except OSError:
                pass  # now it is empty
        if error.errno == errno.ECONNREFUSED:
            return Refused(f"nothing listens at {spoken(place)}")
        return NoAnswer(f"{spoken(place)}: {error.strerror}")


def lock(descriptor: int, end: float) -> None:
    """For ourselves alone: BlockingIOError if somebody else has it until the end."""
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(0.01)


SERIAL = "serial:"  # what such an address begins with
BAUD = 115_200


def parse_serial(text: str) -> tuple[str, int]:
    """serial:/PATH or serial:/PATH@BAUD."""
    path, sign, baud = text[len(SERIAL):].rpartition("@")
    if not sign:
        path, baud = baud, str(BAUD)
    if not path.startswith("/") or "\0" in path:
        raise BadUsage(f"{text!r} is not a serial line: write it like serial:/dev/ttyACM0@{BAUD}")
    if termios is None:
        raise BadUsage("this system has no termios: serial lines cannot be asked from here")
    known = sorted(int(name[1:]) for name in dir(termios) if re.fullmatch("B[1-9][0-9]*", name))
    if not re.fullmatch(r"[0-9]{1,8}", baud) or int(baud) not in known:
        common = ", ".join(str(rate) for rate in known if 9600 <= rate <= BAUD)
        raise BadUsage(f"{baud!r} is not a baud rate: it may be {common} or others of this system")
    return path, int(baud)


class Serial:
    """Carries packets over a serial line, where nothing says where one ends: a report is what
    has the right checksum in any 260 bytes in a row, whatever comes before."""

    SILENT = "; is that its baud rate?"

    def __init__(self, path: str, baud: int) -> None:
        self._path, self._baud = path, baud
        self._device = -1
        self._bytes = b""  # the last of what came: fewer than a report
        self._came = 0  # how many in all since the last complaint

    def open(self, seconds: float) -> None:
        """The line, raw and to ourselves. What came before is dropped."""
        self.close()
        try:
            self._device = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            if not os.isatty(self._device):
                raise BadUsage(f"{self._path} is not a serial line")
            lock(self._device, time.monotonic() + seconds)
            settings: list[Any] = termios.tcgetattr(self._device)
            # Without HUPCL the line stays up between two runs: an Arduino resets when it rises.
            settings[:4] = [0, 0, termios.CS8 | termios.CREAD | termios.CLOCAL, 0]
            settings[4] = settings[5] = getattr(termios, f"B{self._baud}")
            settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self._device, termios.TCSANOW, settings)
            termios.tcflush(self._device, termios.TCIFLUSH)
        except (OSError, termios.error) as error:
            raise self._lost(error) from error
        except Error:
            self.close()
            raise

    def close(self) -> None:
        if self._device >= 0:
            os.close(self._device)
        self._device, self._bytes, self._came = -1, b"", 0

    def forget(self) -> None:
        """A path leads where it leads."""

    def __len__(self) -> int:
        return int(self._device >= 0)

    def turn(self) -> None:
        """There is one way only."""

    def send(self, packet: bytes) -> None:
        """NoAnswer if the device is not there (any more)."""
        if self._device < 0:  # it was pulled out: is it back?
            self.open(0)
        try:
            os.write(self._device, packet)
        except BlockingIOError:
            pass  # as good as lost on the way
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, seconds: float) -> Optional[bytes]:
        """The next report, or nothing for so long; BadReport if what came was none."""
        end = time.monotonic() + min(max(0.0, seconds), LONGEST_WAIT)
        if self._device < 0:
            time.sleep(end - time.monotonic() if time.monotonic() < end else 0)
            return None
        while True:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._device], [], [], left)[0]:
                break
            try:
                fresh = os.read(self._device, 4096)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._lost(error) from error
            if not fresh:
                raise self._lost(OSError(errno.EIO, "it has hung up"))
            self._came += len(fresh)
            self._bytes += fresh
            for at in range(len(self._bytes) - REPORT_SIZE + 1):
                found = self._bytes[at:at + REPORT_SIZE]
                if int.from_bytes(found[:4], "big") == zlib.adler32(found[4:]):
                    self._bytes, self._came = self._bytes[at + REPORT_SIZE:], 0
                    return found
            self._bytes = self._bytes[1 - REPORT_SIZE:]
            if not left:
                break
        came, self._came = self._came, 0
        if came:
            raise BadReport("length" if came < REPORT_SIZE else "checksum",
                            f"{came} bytes came, and no report among them")
        return None

    def _lost(self, error: Any) -> NoAnswer:
        """What went wrong with the device, and what to do; it is closed."""
        self.close()
        number, said = error.args[0], error.args[-1]
        advice = {errno.ENOENT: "there is no such device: is it plugged in?",
                  errno.EACCES: "no permission: join the group that owns it, often dialout",
                  errno.EAGAIN: "it is in use by another program",
                  errno.EIO: "it is gone: was it pulled out?"}
        return NoAnswer(f"{self._path}: {advice.get(number, said)}")


CAN = "can:"  # what such an address begins with
CAN_BLOCK = 128  # identifiers, of which
CAN_REPORT, CAN_REQUEST = 64, 127  # are for reports from 64 on, and the last one for requests
CAN_BASE = 0x680
CAN_FRAME = struct.Struct("=LB3x8s")  # Linux's struct can_frame; its first number has flags:
CAN_EXTENDED, CAN_REMOTE, CAN_ERROR, CAN_BUS_OFF = 1 << 31, 1 << 30, 1 << 29, 0x40
CAN_RAW_ERR_FILTER = 2  # of linux/can/raw.h; not every Python has it


def parse_can(text: str) -> tuple[str, int]:
    """can:INTERFACE or can:INTERFACE:ID, an identifier as cansend writes it."""
    interface, colon, digits = text[len(CAN):].partition(":")
    if not re.fullmatch(r"[^\s/:\0]+", interface) or len(interface.encode(errors="replace")) > 15:
        raise BadUsage(f"{text!r} is not a CAN interface: write it like can:can0")
    if sys.platform != "linux" or not hasattr(socket, "AF_CAN"):
        raise BadUsage("this system has no SocketCAN: CAN can be asked from Linux only")
    if not colon:
        return interface, CAN_BASE
    if not re.fullmatch(r"[0-9a-fA-F]{3}|[0-9a-fA-F]{8}", digits):
        raise BadUsage(f"{digits!r} is not a CAN identifier: it has 3 hexadecimal digits, or 8")
    base, extended = int(digits, 16), len(digits) == 8
    if base % CAN_BLOCK or base > (0x1FFFFFFF if extended else 0x7FF):
        raise BadUsage(f"{digits!r} cannot be the first of {CAN_BLOCK} identifiers: "
                       f"it must be a multiple of {CAN_BLOCK:x} hexadecimal, like {CAN_BASE:x}")
    return interface, base | (CAN_EXTENDED if extended else 0)


class Can:
    """Carries packets over a CAN interface of Linux, and puts reports together from frames."""

    SILENT = ""

    def __init__(self, interface: str, base: int) -> None:
        self._interface, self._base = interface, base
        self._way: Optional[socket.socket] = None
        self._parts: list[bytes] = []  # of a report, those that have come

    def open(self, seconds: float) -> None:
        """A new socket, which gets nothing that was sent earlier."""
        self.close()
        if sys.platform != "linux":
            return  # parse_can() has refused it
        try:
            self._way = socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW)
            self._way.setblocking(False)
            every_bit = CAN_EXTENDED | CAN_REMOTE | 0x1FFFFFFF
            self._way.setsockopt(socket.SOL_CAN_RAW, socket.CAN_RAW_FILTER, struct.pack(
                "=LL", self._base + CAN_REPORT, every_bit & ~(VARIABLES - 1)))
            self._way.setsockopt(socket.SOL_CAN_RAW, CAN_RAW_ERR_FILTER,
                                 struct.pack("=L", CAN_BUS_OFF))
            self._way.bind((self._interface,))
        except OSError as error:
            raise self._lost(error) from error

    def close(self) -> None:
        if self._way is not None:
            self._way.close()
        self._way, self._parts = None, []

    def forget(self) -> None:
        """A name of an interface is looked up each time."""

    def __len__(self) -> int:
        return int(self._way is not None)

    def turn(self) -> None:
        """There is one way only."""

    def send(self, packet: bytes) -> None:
        """NoAnswer if the interface is down or gone."""
        if self._way is None:
            self.open(0)
        if self._way is None:
            return
        # Nodes must not share an identifier, so a heartbeat has that of its variable.
        here = CAN_REQUEST if packet == REQUEST else packet[5] % VARIABLES
        try:
            self._way.send(CAN_FRAME.pack(self._base + here, len(packet), packet))
        except BlockingIOError:
            pass  # the queue is full: as good as lost on the way
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise self._lost(error) from error

    def receive(self, seconds: float) -> Optional[bytes]:
        """The next whole report, or nothing for so long; BadReport if a frame is missing.

        When time is up, one frame is still taken, however many there are.
        """
        end = time.monotonic() + min(max(0.0, seconds), LONGEST_WAIT)
        while True:
            left = max(0.0, end - time.monotonic())
            if self._way is None:  # lost: until the next request opens it again
                time.sleep(left)
                return None
            if not select.select([self._way], [], [], left)[0]:
                return None
            try:
                number, length, data = CAN_FRAME.unpack(self._way.recv(CAN_FRAME.size))
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._lost(error) from error
            if number & CAN_ERROR:
                raise NoAnswer(f"{self._interface} is off the bus: check wiring and bit rate")
            report = self._add(number - self._base - CAN_REPORT, data[:length])
            if report is not None or left == 0:
                return report

    def _add(self, at: int, part: bytes) -> Optional[bytes]:
        """The report that this frame completes, if it does."""
        if 8 * at >= REPORT_SIZE:
            return None  # somebody else's request, or what a later version may send
        if at == 0:
            self._parts = []
        due = len(self._parts)
        if at != due and not due:
            return None  # of a report that began before we listened
        if at != due or len(part) != min(8, REPORT_SIZE - 8 * due):
            self._parts = []
            raise BadReport("length", f"its frame {due + 1} of 33 did not come")
        self._parts.append(part)
        if 8 * (due + 1) < REPORT_SIZE:
            return None
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def _lost(self, error: OSError) -> NoAnswer:
        self.close()
        if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT):
            return NoAnswer("this kernel has no CAN: modprobe can-raw may load it")
        if error.errno in (errno.ENODEV, errno.ENXIO):  # ENXIO: it has gone since it was opened
            return NoAnswer(f"there is no CAN interface {self._interface}: ip link lists them")
        if error.errno == errno.ENETDOWN:
            return NoAnswer(f"{self._interface} is down: ip link set {self._interface} up")
        return NoAnswer(f"{self._interface}: {error.strerror}")


class Agent:
    """An agent at an address. Nothing is looked up or sent until it is asked for.

    `accept_bad_sum` believes reports whose checksum is wrong, as some agents send them: see
    SPEC.md. `bad_sum` says what was wrong with the last one.
    """

    _link: Union[Udp, Serial, Can]

    def __init__(self, address: str, accept_bad_sum: bool = False) -> None:
        self.bad_sum = ""
        self._accept_bad_sum = accept_bad_sum
        if accept_bad_sum and address.startswith(SERIAL):
            raise BadUsage("--accept-bad-sum is not for serial lines: nothing but the checksum "
                           "tells there where a report begins")
        if address.startswith(SERIAL):
            path, baud = parse_serial(address)
            self.name = f"{SERIAL}{path}@{baud}"
            self._link = Serial(path, baud)
        elif address.startswith(CAN):
            self.name = address
            self._link = Can(*parse_can(address))
        else:
            host, port = parse_address(address)
            self.name = spoken((host, port))
            self._link = Udp(host, port)

    def ask(self, timeout: float = TIMEOUT) -> Entries:
        """The entries of the first good report within so many seconds.

        A bad one does not end the waiting, or whoever can send one could hide the good one.
        """
        end = time.monotonic() + timeout
        bad: Optional[BadReport] = None
        asked = 0
        silence = ""
        kind = NoAnswer
        try:
            self._link.open(timeout)
            for wait in waits():
                again = min(end, time.monotonic() + wait)
                untried = len(self._link)
                asking = True
                while asking or time.monotonic() < again:
                    try:
                        if asking:
                            asking = False
                            asked += 1
                            self._link.send(REQUEST)
                        packet = self._link.receive(again - time.monotonic())
                        if packet is not None:
                            return self._entries(packet)
                    except BadReport as error:
                        bad = error
                    except NoAnswer as error:
                        silence = f": {error}"
                        untried -= 1
                        asking = untried > 0
                        if asking:
                            self._link.turn()
                        else:
                            kind = type(error)  # that of all addresses
                if again >= end:
                    break
                self._link.turn()
            self._link.forget()
            if bad is not None:
                raise BadReport(bad.cause, f"bad report from {self.name}: {bad}")
            silence = silence or f" from {self.name}, asked {asked} times{self._link.SILENT}"
            raise kind(f"no answer in {decimal(round(timeout * 1000))} s{silence}")
        finally:
            self._link.close()

    def _entries(self, packet: bytes) -> Entries:
        self.bad_sum = ""
        try:
            return parse_report(packet)
        except BadReport as error:
            if error.cause != "checksum" or not self._accept_bad_sum:
                raise
            self.bad_sum = str(error)
            return entries_of(packet)

    def beat(self, variable: int, sender: int, value: int, timeout: float = TIMEOUT) -> None:
        """Sends one heartbeat. Nobody says whether it arrives; NoAnswer if it cannot."""
        packet = heartbeat(variable, sender, value)
        end = time.monotonic() + timeout
        try:
            self._link.open(timeout)
            self.send(packet, min(0.1, timeout / 4, max(0.0, end - time.monotonic())))
        finally:
            self._link.close()

    def send(self, packet: bytes, listen: float) -> None:
        """Sends to the first of the host's addresses that does not refuse it within so many
        seconds, and returns after them."""
        end = time.monotonic() + listen
        if not len(self._link):
            self._link.open(TIMEOUT)
        refused = ""
        for _ in range(len(self._link)):
            try:
                self._link.send(packet)
                while True:
                    try:
                        self._link.receive(end - time.monotonic())
                    except BadReport:
                        pass  # whatever it was, it was no refusal
                    if time.monotonic() >= end:
                        return
            except NoAnswer as error:
                refused = str(error)
                self._link.turn()
        raise NoAnswer(f"cannot send to {self.name}: {refused}")


# ---------------------------------------------------------------- names and deadlines

WARN_MS, CRIT_MS = 5_000, 30_000  # deadlines when nobody names any
TICK_MS_MAX = 3_600_000
DURATION_MS_MAX = 100_000 * 3_600_000  # longer than the wrap with the longest tick
UNITS_MS = {"ms": 1, "s": 1_000, "": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000}
FILE_MAX = 65536  # bytes of a file of names


@dataclasses.dataclass
class Variable:
    """What is known beforehand about a variable."""

    number: int
    name: str = ""
    warn_ms: int = WARN_MS
    crit_ms: int = CRIT_MS
    low: int = 0
    high: int = 255
    warn_low: int = 0  # a range within low to high, or the same
    warn_high: int = 255
    every_ms: int = 1_000  # only `simulate` uses it
    listed: bool = False
    expected: bool = False

    @property
    def spoken(self) -> str:
        return f"{self.number} {self.name}".strip()


class Settings(NamedTuple):
    variables: list[Variable]
    tick_ms: int
    now_from: Optional[int]
    tick_given: bool = True

    def now(self, entries: Entries) -> Optional[int]:
        """The time now in ticks, if it is known."""
        if self.now_from is None:
            return clock(self.tick_ms)
        stamp = entries[self.now_from]
        return None if stamp.never else stamp.timestamp


def parse_number(text: str, low: int, high: int, what: str = "") -> int:
    if not re.fullmatch(r"[0-9]{1,9}|0[xX][0-9a-fA-F]{1,8}", text):
        raise BadUsage(f"{what}{text!r} is not a number from {low} to {high}")
    number = int(text, 16 if text[:2] in ("0x", "0X") else 10)
    if not low <= number <= high:
        raise BadUsage(f"{what}{text} is out of range: it must be {low} to {high}")
    return number


def parse_variable(text: str) -> int:
    return parse_number(text, 0, VARIABLES - 1, "variable ")


def parse_byte(text: str) -> int:
    return parse_number(text, 0, 255)


def parse_duration(text: str) -> int:
    """In milliseconds."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|min|m|h|)", text)
    duration = round(float(match[1]) * UNITS_MS[match[2]]) if match else 0
    if not 1 <= duration <= DURATION_MS_MAX:
        raise BadUsage(f"{text!r} is not a time: write it like 500ms, 5s, 2min or 1h")
    return duration


def parse_tick(text: str) -> int:
    tick_ms = parse_duration(text)
    if tick_ms > TICK_MS_MAX:
        raise BadUsage(f"{text} is too long for a tick: it must be 1 ms to 1 h")
    return tick_ms


def parse_range(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    if not dots:
        raise BadUsage(f"{text!r} is not a range of values: write it like 0..80")
    limits = parse_byte(low.strip()), parse_byte(high.strip())
    if limits[0] > limits[1]:
        raise BadUsage(f"no value is in {text}: write the lower one first")
    return limits


def parse_yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise BadUsage(f"{text!r} is neither yes nor no")
    return text == "yes"


def parse_name(text: str) -> str:
    """Names go to terminals, into lists and into performance data: nothing that means
    something there, and one column for each character."""
    for character in text:
        if not (character.isalnum() or character in " ._-/+()") \
                or unicodedata.east_asian_width(character) in "WF":
            raise BadUsage(f"{text!r} has {character!r} in it: "
                           "use letters, digits, spaces and ._-/+()")
    if not 1 <= len(text) <= 24 or re.fullmatch(r"[0-9-]+", text):
        raise BadUsage(f"{text!r} is not a name: it needs a letter, and at most 24 characters")
    return text


def parse_variables(text: str, variables: Sequence[Variable]) -> list[int]:
    """Numbers, ranges of them and names: 3,7-12,engine."""
    found: list[int] = []
    for part in (part.strip() for part in text.split(",")):
        named = [variable.number for variable in variables if variable.name == part != ""]
        match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", part)
        if named:
            found += named
        elif match:
            first, last = parse_variable(match[1]), parse_variable(match[2])
            if first > last:
                raise BadUsage(f"{part} is empty: write the lower one first")
            found += range(first, last + 1)
        elif re.match("[0-9]", part):
            found.append(parse_variable(part))
        else:
            raise BadUsage(f"{part!r} is no variable: write it like 3,7-12, or a name from --names")
    return found


GENERAL: dict[str, Callable[[str], Any]] = {
    "tick": parse_tick, "now-from": parse_variable, "warn": parse_duration, "crit": parse_duration}
OF_A_VARIABLE: dict[str, Callable[[str], Any]] = {
    "name": parse_name, "warn": parse_duration, "crit": parse_duration, "value": parse_range,
    "value-warn": parse_range, "every": parse_duration, "expect": parse_yes}


def read_names(path: str) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """A file's section [dumpulse], and those of variables, each of their keys checked."""
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_MAX + 1)
    except (OSError, ValueError) as error:
        raise BadUsage(f"cannot read {path!r}: {getattr(error, 'strerror', error)}") from error
    if len(content) > FILE_MAX:
        raise BadUsage(f"{path!r} is not a file of names: it is longer than {FILE_MAX} bytes")
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), default_section="",
                                       empty_lines_in_values=False)
    try:
        parser.read_string(content.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        raise BadUsage(f"{path!r}: byte {error.start} is not UTF-8") from error
    except configparser.Error as error:
        raise BadUsage(" ".join(f"{error}".split())[:300]) from error
    general: dict[str, Any] = {}
    sections: dict[int, dict[str, Any]] = {}
    for section in parser.sections():
        at = f"{path!r}, " + f"[{section!r}]".replace("'", "")
        into, known = general, GENERAL
        if section != "dumpulse":
            try:
                number = parse_variable(section)
            except BadUsage as error:
                raise BadUsage(f"{at}: a section is [dumpulse] or a variable's number") from error
            if number in sections:
                raise BadUsage(f"{at}: variable {number} has a section already")
            into, known = sections.setdefault(number, {}), OF_A_VARIABLE
        for key, text in parser[section].items():
            if key not in known:
                raise BadUsage(f"{at}: {key!r} is not known there: use {', '.join(known)}")
            try:
                into[key] = known[key](text)
            except BadUsage as error:
                raise BadUsage(f"{at}: {key}: {error}") from error
    names = [keys["name"] for keys in sections.values() if "name" in keys]
    for name in names:
        if names.count(name) > 1:
            raise BadUsage(f"{path!r}: two variables have the name {name!r}")
    return general, sections


def settle(options: argparse.Namespace) -> Settings:
    """What the file of names says, and over it what the command line says."""
    given = {key: value for key, value in vars(options).items() if value is not None}
    general, sections = read_names(given["names"]) if "names" in given else ({}, {})
    variables = [Variable(number) for number in range(VARIABLES)]
    for number, keys in sections.items():
        variable = variables[number]
        variable.listed = True
        variable.expected = keys.get("expect", True)
        variable.name = keys.get("name", "")
        variable.every_ms = keys.get("every", variable.every_ms)
    if "expect" in given:
        expected = parse_variables(given["expect"], variables)
        for variable in variables:
            variable.expected = variable.number in expected
    ranges = {option: {number: keys[option] for number, keys in sections.items() if option in keys}
              for option in ("value", "value-warn")}
    for option, of_file in ranges.items():
        typed = parse_value_ranges(option, given.get(f"{option}_ranges", ()), variables)
        for number in typed:
            variables[number].expected = True
        ranges[option] = {**of_file, **typed}
    for variable in variables:
        set_ranges(variable, *(of.get(variable.number) for of in ranges.values()))
    tick_ms: int = {**general, **given}.get("tick", 1_000)
    for variable in variables:
        own = sections.get(variable.number, {})
        keys = {**general, **own, **given}
        try:
            set_deadlines(variable, keys.get("warn"), keys.get("crit"), tick_ms)
        except BadUsage as error:  # that of all variables, unless this one has deadlines of its own
            who = f"variable {variable.spoken}: " if {"warn", "crit"} & {*own} else ""
            raise BadUsage(f"{who}{error}") from error
    now_from: Optional[int] = general.get("now-from")
    if "now_from" in given:
        now_from, *more = parse_variables(given["now_from"], variables)
        if more:
            raise BadUsage(f"{given['now_from']!r} is more than one variable: "
                           "only one is the clock")
    return Settings(variables, tick_ms, now_from, "tick" in {**general, **given})


def parse_value_ranges(option: str, texts: Sequence[str],
                       variables: Sequence[Variable]) -> dict[int, tuple[int, int]]:
    """What --value or --value-warn says, each time that it is given."""
    found: dict[int, tuple[int, int]] = {}
    for text in texts:
        which, colon, limits = text.rpartition(":")
        if not colon:
            raise BadUsage(f"{text!r} is not a variable and a range: write it like 4:0..80")
        for number in parse_variables(which, variables):
            if number in found:
                raise BadUsage(f"--{option} gives variable {number} a range twice")
            found[number] = parse_range(limits)
    return found


def set_ranges(variable: Variable, value: Optional[tuple[int, int]],
               warn: Optional[tuple[int, int]]) -> None:
    variable.low, variable.high = value or (0, 255)
    variable.warn_low, variable.warn_high = warn or (variable.low, variable.high)
    if variable.warn_low < variable.low or variable.warn_high > variable.high:
        raise BadUsage(f"variable {variable.spoken}: value-warn, "
                       f"{variable.warn_low}..{variable.warn_high}, is not within value, "
                       f"{variable.low}..{variable.high}")


def set_deadlines(variable: Variable, warn_ms: Optional[int], crit_ms: Optional[int],
                  tick_ms: int) -> None:
    """A deadline that nobody gave makes way for the one that somebody gave."""
    variable.warn_ms = min(WARN_MS, crit_ms or WARN_MS) if warn_ms is None else warn_ms
    variable.crit_ms = max(CRIT_MS, variable.warn_ms) if crit_ms is None else crit_ms
    longest = (WRAP - SKEW - 1) * tick_ms
    if crit_ms is None:
        variable.crit_ms = min(variable.crit_ms, longest)
    if variable.warn_ms > variable.crit_ms:
        raise BadUsage(f"warn, {seconds(variable.warn_ms)}, is longer than crit, "
                       f"{seconds(variable.crit_ms)}")
    if variable.crit_ms > longest:
        raise BadUsage(f"crit, {seconds(variable.crit_ms)}, can never be seen: with this tick, "
                       f"ages end at {seconds(longest)}")


# ---------------------------------------------------------------- what several reports tell

FRESH_TICKS, FRESH_MS = 5, 2_000  # "just now" is the longer of both
LOOKS = (1.25, 0.75)  # ticks, or seconds if they are longer, until a second and a third look
LONGEST_LOOK = 5.0  # seconds
UNLIKE = 1.8  # times: a tick that differs by less may be the rhythm of an ordinary node
TICKS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 250, 500, 1_000, 2_000, 5_000, 10_000, 60_000, 3_600_000)


class Stamp(NamedTuple):
    """A timestamp, and between which times (of uptime) it was in a report."""

    ticks: int
    asked: float
    received: float


class Clock:
    """The agent's clock, as far as its reports tell it.

    A report does not carry it. But an entry that has changed between two reports was stamped
    after we asked for the first. So at the second, the agent's clock is at that stamp, or after it
    by no more than the time since. If our clock is elsewhere, then it is not the agent's.
    """

    def __init__(self, settings: Settings, enough: int = 2) -> None:
        self.settings = settings
        self._enough = enough  # times in a row that a tick must seem to be another one
        self.source = "here" if settings.now_from is None else "now-from"  # or "seen"
        self.variable = settings.now_from  # whose stamps tell it
        self.now: Optional[int] = None  # in ticks, at the last report, if it is known
        self.agreed = False  # with ours, or there is nothing to compare
        self.entries: Entries = ()
        self.asked = self.received = 0.0  # of the last report, by uptime()
        self._anchor = (0, 0.0)  # ticks, and when: at that time, it was there or after it
        self._span = 0  # ticks by which it may have been after it
        self._first: Optional[Stamp] = None  # from which ticks are counted
        self._last = (-1, 0)  # a variable, and its last timestamp
        self._tick = (0.0, math.inf)  # ms: how long it is, if the agent stamps that variable itself
        self._measured = 0  # how often in a row that has been found
        self._typical = 0.0  # ms, in the middle

    def ask(self, agent: Agent, timeout: float) -> Entries:
        asked = uptime()
        entries = agent.ask(timeout)
        self.take(entries, asked, uptime())
        return entries

    def take(self, entries: Entries, asked: float, received: float) -> None:
        changed = [number for number, (old, new) in enumerate(zip(self.entries, entries))
                   if old != new and not new.never]
        newest = self._newest(entries, changed)
        if newest is not None:
            self._measure(newest, entries, asked, received)
        if self.source == "now-from":
            self.now = self.settings.now(entries)
        else:
            self.now = self._compare(newest, entries, asked, received)
        if self.wrong_tick and not self.settings.tick_given:
            self.now = None
        self.entries, self.asked, self.received = entries, asked, received

    def _newest(self, entries: Entries, changed: Sequence[int]) -> Optional[int]:
        """Of those that changed; the one of last time if there are several."""
        if self.source == "now-from":
            return self.variable if self.variable in changed else None
        ahead = [number for number in changed if all(
            (entries[number].timestamp - entries[other].timestamp) % WRAP < WRAP // 2
            for other in changed)]
        return self.variable if self.variable in ahead else ahead[0] if ahead else None

    def _measure(self, newest: int, entries: Entries, asked: float, received: float) -> None:
        """How long a tick is, if the agent stamps this variable itself at each report."""
        stamp, old = entries[newest].timestamp, self.entries[newest]
        first = self._first
        if first is None or self._last != (newest, old.timestamp):
            first = Stamp(old.timestamp, self.asked, self.received)
            self._tick, self._measured = (0.0, math.inf), 0
        ticks = (stamp - first.ticks) % WRAP
        self._first, self._last = first, (newest, stamp)
        if stamp == old.timestamp:
            return
        # Timestamps are rounded down: between two of them are up to a tick more, or less.
        low = (asked - first.received) * 1000 / (ticks + 1)
        high = (received - first.asked) * 1000 / (ticks - 1) if ticks > 1 else math.inf
        low, high = max(low, self._tick[0]), min(high, self._tick[1])
        if low > high or old.never:  # the agent restarted; or this is an ordinary node's rhythm
            self._first = None
            return
        self._tick, self._measured = (low, high), self._measured + 1
        self._typical = (received - first.asked) * 1000 / max(1, ticks)
        if ticks > WRAP // 2:
            self._first = Stamp(stamp, asked, received)

    def _compare(self, newest: Optional[int], entries: Entries, asked: float,
                 received: float) -> Optional[int]:
        """The time now, by our clock if it can be the agent's."""
        tick_ms = self.settings.tick_ms
        here = clock(tick_ms)
        fresh = max(FRESH_TICKS, FRESH_MS // tick_ms)
        span = math.ceil((received - self.asked) * 1000 / tick_ms) + 1

        def may_be_ours(stamp: int, ticks: int) -> bool:
            return (here - stamp + SKEW) % WRAP <= SKEW + fresh + ticks

        ticks, since = self._anchor
        guess = (ticks + int((asked - since) * 1000) // tick_ms) % WRAP
        if newest is not None and span < WRAP // 2:
            stamp = entries[newest].timestamp
            self.agreed = may_be_ours(stamp, span)
            if not self.agreed and (self.source == "here" or (guess - stamp) % WRAP > span):
                self._anchor, self._span, guess = (stamp, received), span, stamp
            self.source = "here" if self.agreed else "seen"
            self.variable = None if self.agreed else newest
        elif self.source == "here" and not self.agreed:
            stamps = [entry.timestamp for entry in entries if not entry.never]
            self.agreed = not stamps or any(may_be_ours(stamp, 0) for stamp in stamps)
        if self.source == "seen":
            return guess
        return here if self.agreed or self.entries else None

    @property
    def _unlike(self) -> bool:
        """Whether the tick that we were told can hardly be the agent's."""
        tick_ms, (low, high) = self.settings.tick_ms, self._tick
        return self.source != "here" and (tick_ms > high * UNLIKE or tick_ms * UNLIKE < low)

    @property
    def wrong_tick(self) -> str:
        """What to say about the tick, once it has seemed to be another one often enough."""
        if self._measured < self._enough or not self._unlike:
            return ""
        fits = min((tick for tick in TICKS_MS if self._tick[0] <= tick <= self._tick[1]),
                   key=lambda tick: abs(math.log(tick / self._typical)),
                   default=max(1, round(self._typical)))
        return f"--tick {seconds(self.settings.tick_ms)} seems to be wrong: {seconds(fits)} fits"

    @property
    def undecided(self) -> bool:
        """Whether another look may tell more."""
        first_look = self.source == "here" and self.now is None
        return first_look or (self.source == "seen" and self._unlike
                              and self._measured < self._enough)

    @property
    def how_near(self) -> str:
        """What to say about a variable that was chosen as the clock."""
        if self._measured and self._tick[0] <= self.settings.tick_ms <= self._tick[1]:
            return "which the agent seems to stamp itself"
        return f"the newest: up to {seconds(self._span * self.settings.tick_ms)} too short"

    @property
    def doubtful(self) -> bool:
        """Whether it may be another one than the user thinks."""
        return bool(self.wrong_tick) or self.source == "seen" or (
            self.source == "here" and not self.agreed)

    def for_json(self) -> dict[str, Any]:
        return {"from": self.source, "variable": self.variable, "says": whose_clock(self)}


def look(agent: Agent, settings: Settings, timeout: float) -> Clock:
    """One report, or as many as are needed to know whose clock it is by."""
    end = uptime() + timeout
    known = Clock(settings)
    known.ask(agent, timeout)
    for ticks in LOOKS:
        if not known.undecided:
            break
        pause = ticks * min(LONGEST_LOOK, max(1.0, settings.tick_ms / 1000))
        time.sleep(max(0.0, min(pause, (end - uptime()) / 2)))
        try:
            known.ask(agent, end - uptime())
        except (NoAnswer, BadReport):
            break
    if known.undecided and known.source == "here":
        known.now = clock(settings.tick_ms)
    return known


class Seen(NamedTuple):
    """An entry, and since when it has been like this."""

    entry: Entry
    at_ms: int  # when it was first seen, by uptime()
    age_ms: Optional[int]  # how old it was then; unknown if the clock was another one


class Silences:
    """How long entries have not changed, which 16 bits of a timestamp cannot tell.

    What does not change gets older by the time that passes here, whatever the agent's clock
    does meanwhile. An entry that is heard again with the same timestamp, a whole number of wraps
    later, does not seem to change: once in 65536 times, if nobody looked meanwhile.
    """

    def __init__(self) -> None:
        self.seen: dict[int, Seen] = {}  # by variable
        self.basis = ""  # the clock by which the ages were reckoned,
        self.now: Optional[int] = None  # what it said at the last report,
        self.at_ms = 0  # and when that came

    def ages(self, known: Clock) -> list[Optional[int]]:
        """Those of the clock's last report, in ms."""
        tick_ms, now = known.settings.tick_ms, known.now
        asked_ms, received_ms = int(known.asked * 1000), int(known.received * 1000)
        basis = f"{known.source} {known.settings.now_from} {tick_ms}"
        if basis != self.basis:
            self.now = None
            self.seen = {number: seen._replace(age_ms=None) for number, seen in self.seen.items()}
        if self._restarted(known, received_ms):
            self.seen = {}
        close = max(SKEW * tick_ms, JUMP_MS)  # as much as clocks may differ
        found: list[Optional[int]] = []
        before, self.seen = self.seen, {}
        for number, entry in enumerate(known.entries):
            told = None if entry.never or now is None else age(now, entry.timestamp) * tick_ms
            seen = before.get(number)
            if seen is None or seen.entry != entry:
                seen = Seen(entry, received_ms, told)
            passed = max(0, asked_ms - seen.at_ms) // tick_ms * tick_ms
            if seen.age_ms is None and told is not None:
                seen = seen._replace(age_ms=max(0, told - passed))
            least = (seen.age_ms or 0) + passed
            if told is not None and not least <= told <= least + close:
                told = least  # it has wrapped, or a clock was set
            if not entry.never:
                self.seen[number] = seen
            found.append(told)
        self.basis, self.now, self.at_ms = basis, now, received_ms
        return found

    def _restarted(self, known: Clock, received_ms: int) -> bool:
        """Whether the agent forgot its table: then what looks unchanged was heard again at the
        same time after its start. Sender 0 does not tell, as its entry may be four zeros."""
        if any(known.entries[number].never and seen.entry.sender
               for number, seen in self.seen.items()):
            return True
        if self.now is None or known.now is None:
            return False
        passed_ms, tick_ms = received_ms - self.at_ms, known.settings.tick_ms
        return jump(self.now, known.now, passed_ms, tick_ms) != 0 \
            and known.now <= passed_ms // tick_ms + 2


# ---------------------------------------------------------------- what a report means

NEVER, OK, LATE, DEAD, UNKNOWN = "never", "ok", "late", "dead", "?"


class Reading(NamedTuple):
    """An entry of a report, and what it means."""

    variable: Variable
    entry: Entry
    age_ms: Optional[int]  # unknown if never heard, or if the time now is
    state: str
    at_least: bool = False  # it may be older: the age is more than a timestamp can tell

    @property
    def bad_value(self) -> bool:
        return self.state != NEVER \
            and not self.variable.low <= self.entry.value <= self.variable.high

    @property
    def unusual_value(self) -> bool:
        """Not bad, and worth a warning."""
        return self.state != NEVER and not self.bad_value \
            and not self.variable.warn_low <= self.entry.value <= self.variable.warn_high

    @property
    def value(self) -> str:
        mark = "!" if self.bad_value or self.unusual_value else ""
        return "-" if self.state == NEVER else f"{self.entry.value}{mark}"

    @property
    def sender(self) -> str:
        return "-" if self.state == NEVER else str(self.entry.sender)

    @property
    def age(self) -> str:
        if self.age_ms is None:
            return "-" if self.state == NEVER else "?"
        return at_least(self.age_ms) if self.at_least else seconds(self.age_ms)

    def for_json(self) -> dict[str, Any]:
        never = self.state == NEVER
        return {"variable": self.variable.number, "name": self.variable.name or None,
                "state": self.state if self.state != UNKNOWN else "unknown",
                "age": None if self.age_ms is None else self.age_ms / 1000,
                "age_at_least": self.at_least,
                "value": None if never else self.entry.value,
                "value_ok": None if never else not self.bad_value,
                "value_unusual": None if never else self.unusual_value,
                "sender": None if never else self.entry.sender,
                "timestamp": None if never else self.entry.timestamp}


def read(known: Clock, silences: Silences) -> list[Reading]:
    """All 64 variables of the clock's last report."""
    settings = known.settings
    longest = (WRAP - SKEW) * settings.tick_ms
    readings = []
    for variable, entry, age_ms in zip(settings.variables, known.entries, silences.ages(known)):
        state = NEVER if entry.never else UNKNOWN
        if age_ms is not None:
            state = DEAD if age_ms > variable.crit_ms else LATE if age_ms > variable.warn_ms else OK
        readings.append(Reading(variable, entry, age_ms, state, (age_ms or 0) >= longest))
    return readings


def seconds(duration_ms: int) -> str:
    """Eight characters at most for an age, whatever the tick."""
    if duration_ms < 100_000_000:
        return f"{decimal(duration_ms)} s"
    return f"{duration_ms / 3_600_000:.6g} h"


def at_least(duration_ms: int) -> str:
    """Eight characters at most, too: so it is rounded, and down."""
    if duration_ms < 100_000_000:
        return f">{duration_ms // 1000} s"
    return f">{duration_ms // 3_600_000} h"


def decimal(duration_ms: int) -> str:
    """In seconds, and never with an exponent."""
    return f"{duration_ms / 1000:.3f}".rstrip("0").rstrip(".")


def worth_showing(readings: Sequence[Reading], wanted: Sequence[int]) -> list[Reading]:
    """Those asked for; or those that are heard or that somebody has named or expects."""
    return [reading for reading in readings if (
        reading.variable.number in wanted if wanted else
        reading.state != NEVER or reading.variable.listed or reading.variable.expected)]


def counts(readings: Sequence[Reading], wanted: Sequence[int]) -> str:
    """`7 ok, 1 dead, 2 never`, of those that are worth showing."""
    shown = worth_showing(readings, wanted)
    states = [reading.state for reading in shown]
    parts = [f"{states.count(state)} {state}" for state in (OK, LATE, DEAD, NEVER, UNKNOWN)
             if state in states]
    for what, number in (("a bad", sum(reading.bad_value for reading in shown)),
                         ("an unusual", sum(reading.unusual_value for reading in shown))):
        parts += [f"{number} with {what} value"] * (number > 0)
    return ", ".join(parts) or "nothing heard"


def whose_clock(known: Clock) -> str:
    ages = "no ages" if known.now is None else "ages"
    if known.wrong_tick:
        return f"{ages} by variable {known.variable}; {known.wrong_tick}"
    if known.source == "now-from":
        return f"{ages} by variable {known.variable}" if known.now is not None else \
            f"{ages}: variable {known.variable}, the agent's clock, was never heard"
    if known.source == "seen":
        return f"ages by variable {known.variable}, {known.how_near}"
    if known.now is None:
        return "no ages yet: by this machine's clock, nothing is new"
    doubt = "" if known.agreed else ", wrong if the agent has another"
    return f"ages by this machine's clock{doubt}"


# ---------------------------------------------------------------- get and set


def parse_wanted(options: argparse.Namespace, settings: Settings) -> list[int]:
    """The variables after HOST, where the older command line has a port."""
    wanted: list[int] = []
    for text in options.variables:
        try:
            wanted += parse_variables(text, settings.variables)
        except BadUsage as error:
            hint = "; a port is written HOST:PORT" if text.isdecimal() else ""
            raise BadUsage(f"{error}{hint}") from error
    return wanted


def unverified(agent: Agent) -> str:
    return f"report NOT verified: {agent.bad_sum}" if agent.bad_sum else ""


def belief(agent: Agent, known: Clock) -> dict[str, Any]:
    """For JSON: what the rest of a report depends on."""
    return {"checksum_ok": not agent.bad_sum, "clock": known.for_json()}


def run_get(options: argparse.Namespace) -> int:
    settings = settle(options)
    wanted = parse_wanted(options, settings)
    agent = Agent(options.address, options.accept_bad_sum)
    known = look(agent, settings, options.timeout / 1000)
    shown = worth_showing(read(known, Silences()), wanted)
    if options.json:
        print(json.dumps({"agent": agent.name, "tick": settings.tick_ms / 1000,
                          "now": known.now, **belief(agent, known),
                          "variables": [reading.for_json() for reading in shown]}))
        return 0
    heard = sum(not entry.never for entry in known.entries)
    verified = unverified(agent) or "report verified"
    print(f"{agent.name}: {verified}, {heard} of {VARIABLES} variables heard, "
          f"{whose_clock(known)}")
    if shown:
        print(f"{'variable':27} value  sender  last heard")
    for reading in shown:
        when = {NEVER: "never", UNKNOWN: "?"}.get(reading.state, f"{reading.age} ago")
        print(f"{reading.variable.spoken:27} {reading.value:>5}  {reading.sender:>6}  {when}")
    return 0


def run_set(options: argparse.Namespace) -> int:
    (variable, *more) = parse_variables(options.variable, settle(options).variables)
    if more:
        raise BadUsage(f"{options.variable!r} is more than one variable: set one at a time")
    agent = Agent(options.address)
    end = time.monotonic() + options.timeout / 1000
    agent.beat(variable, options.sender, options.value, options.timeout / 1000)
    if options.confirm:
        entry = agent.ask(max(0.0, end - time.monotonic()))[variable]
        if (entry.sender, entry.value) != (options.sender, options.value):
            says = f"value {entry.value} from sender {entry.sender}"
            print(f"{PROGRAM}: not confirmed: variable {variable} "
                  f"{'was never heard' if entry.never else 'has ' + says}", file=sys.stderr)
            return 1
    return 0


# ---------------------------------------------------------------- check

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")  # by exit status


def judge(reading: Reading) -> tuple[int, list[str]]:
    """The status of an expected variable, and what is wrong with it. Silence and a bad value
    are two things, and both may be wrong at once."""
    variable = reading.variable
    status, silence = {
        OK: (0, ""), NEVER: (2, "never heard"), UNKNOWN: (3, "age unknown"),
        DEAD: (2, f"dead: silent for {reading.age}, crit {seconds(variable.crit_ms)}"),
        LATE: (1, f"late: silent for {reading.age}, warn {seconds(variable.warn_ms)}"),
    }[reading.state]
    wrong = [silence] if silence else []
    if reading.bad_value:
        status = 2
        wrong.append(f"bad value: {reading.entry.value} is not in {variable.low}..{variable.high}")
    if reading.unusual_value:
        status = status or 1
        wrong.append(f"unusual value: {reading.entry.value} is not in "
                     f"{variable.warn_low}..{variable.warn_high}")
    return status, [f"{variable.spoken} {what}" for what in wrong]


def performance(reading: Reading) -> str:
    """'label'=value[unit];warn;crit;min;max, U for what is not known."""
    variable = reading.variable
    label = variable.name or f"variable {variable.number}"
    silence = "U" if reading.age_ms is None else f"{decimal(reading.age_ms)}s"
    value = "U" if reading.state == NEVER else str(reading.entry.value)
    warn, crit = (f"{variable.warn_low}:{variable.warn_high}", f"{variable.low}:{variable.high}")
    return (f"'{label} age'={silence};{decimal(variable.warn_ms)};{decimal(variable.crit_ms)};0; "
            f"'{label} value'={value};{warn if warn != crit else ''};{crit};0;255")


def check(options: argparse.Namespace) -> tuple[int, str, list[Reading], dict[str, Any]]:
    """The status, what is wrong, what was expected, and for JSON on what it depends."""
    end = uptime() + options.timeout / 1000
    try:
        if (options.address is None) == (options.plugin_host is None):
            raise BadUsage("name one agent, as HOST[:PORT] or -H HOST[:PORT]")
        settings = settle(options)
        if not any(variable.expected for variable in settings.variables):
            raise BadUsage("nothing is expected: name variables with --expect or in --names FILE")
        agent = Agent(options.address or options.plugin_host, options.accept_bad_sum)
        known = look(agent, settings, options.timeout / 1000)
        readings, trouble = remember(options.memory, agent, known, end)
    except BadUsage as error:
        return 3, str(error), [], {}
    except Error as error:
        return 2, str(error), [], {}
    expected = [reading for reading in readings if reading.variable.expected]
    verdicts = sorted(map(judge, expected), key=lambda verdict: (2, 1, 3, 0).index(verdict[0]))
    status = verdicts[0][0]
    notes = list(itertools.chain.from_iterable(what for _, what in verdicts))
    if not notes:
        notes.append(f"{len(expected)} alive at {agent.name}")
    unknown = any(reading.state == UNKNOWN for reading in expected)
    if unknown or known.wrong_tick or known.source == "seen" or (status and known.doubtful):
        notes.append(whose_clock(known))
    if (known.wrong_tick or trouble) and status == 0:
        status = 3
    notes += filter(None, (unverified(agent), trouble))
    return status, "; ".join(notes), expected, belief(agent, known)


def print_check(as_json: bool, status: int, text: str, expected: Sequence[Reading],
                facts: dict[str, Any]) -> int:
    if as_json:
        print(json.dumps({"status": STATES[status], "text": text, **facts,
                          "variables": [reading.for_json() for reading in expected]}))
    else:
        data = " | " + " ".join(map(performance, expected)) if expected else ""
        print(f"DUMPULSE {STATES[status]} - {text}".replace("|", "/") + data)
    return status


def run_check(options: argparse.Namespace) -> int:
    return print_check(options.json, *check(options))


# ---------------------------------------------------------------- check --memory

MEMORY_MAX = 65536  # bytes
MEMORY = re.compile(r"""dumpulse memory 1 ([0-9a-f]{8})
(agent (".{1,8000}")
boot ([0-9a-f-]{1,40})
clock ([ -~]{1,40})
at (-?[0-9]{1,15})
now ([0-9]{1,5}|-)
((?:(?:[0-9]|[1-5][0-9]|6[0-3])(?: [0-9]{1,5}){3} -?[0-9]{1,15} (?:[0-9]{1,15}|-)
){0,64}))""", re.ASCII)


def boot() -> str:
    """Which start of this machine uptime() counts from, where the system tells."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(40).strip()
    except OSError:
        return "-"


def remember(path: Optional[str], agent: Agent, known: Clock,
             end: float) -> tuple[list[Reading], str]:
    """What a report means to somebody who remembers the ones before; and what is wrong with the
    file if it could not be written. BadUsage: the file is not ours, and stays as it is."""
    if path is None:
        return read(known, Silences()), ""
    trouble = ""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(f"{path}.lock", max(end, uptime() + 1) - uptime()))
        except (OSError, ValueError) as error:
            trouble = getattr(error, "strerror", None) or str(error)
        silences = recall(path, agent.name, int(known.received * 1000))
        late = silences.at_ms > known.received * 1000  # somebody has asked and written since
        readings = read(known, silences)
        if not trouble and not late:
            try:
                write_memory(path, agent.name, silences)
            except OSError as error:
                trouble = error.strerror or str(error)
    return readings, f"cannot keep {path!r}: {trouble}" if trouble else ""


@contextlib.contextmanager
def locked(path: str, seconds_: float) -> Iterator[None]:
    """A file beside the memory, as that is replaced while others wait for it. It stays."""
    if termios is None:
        raise OSError(errno.ENOSYS, "this system has no locks for files")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        try:
            lock(descriptor, time.monotonic() + seconds_)
        except BlockingIOError:
            raise OSError(errno.EAGAIN, f"others keep {path!r} locked") from None
        yield
    finally:
        os.close(descriptor)


def recall(path: str, name: str, received_ms: int) -> Silences:
    silences = Silences()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return silences
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        if getattr(error, "errno", 0) == errno.ELOOP:
            why = "it is a symbolic link"
        raise BadUsage(f"cannot use {path!r}: {why}") from error
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise BadUsage(f"cannot use {path!r}: it is no ordinary file")
        if hasattr(os, "geteuid") and about.st_uid != os.geteuid():
            raise BadUsage(f"cannot use {path!r}: it belongs to another user")
        content = os.read(descriptor, MEMORY_MAX)
    finally:
        os.close(descriptor)
    found = MEMORY.fullmatch(content.decode("ascii", "replace"))
    if not found or int(found[1], 16) != zlib.adler32(found[2].encode()):
        raise BadUsage(f"{path!r} is no file of --memory, or is damaged: "
                       "remove it, or name another")
    if found[3] != json.dumps(name):
        raise BadUsage(f"{path!r} is of the agent {found[3]}: each agent needs its own --memory")
    silences.basis, silences.at_ms = found[5], int(found[6])
    silences.now = None if found[7] == "-" else int(found[7])
    # After another start, no time is known to have passed; nor can an answer be ten minutes old.
    another = found[4] != boot() or silences.at_ms > received_ms + 600_000
    for row_ in found[8].splitlines():
        number, ticks, sender, value, at_ms, age_ms = (
            None if word == "-" else int(word) for word in row_.split())
        seen = Seen(Entry(ticks or 0, sender or 0, value or 0), at_ms or 0, age_ms)
        if another:
            old_ms = (seen.age_ms or 0) + max(0, silences.at_ms - seen.at_ms)
            seen = Seen(seen.entry, received_ms - old_ms, None)
        silences.seen[number or 0] = seen
    if another:
        silences.at_ms, silences.now = received_ms, None
    return silences


def write_memory(path: str, name: str, silences: Silences) -> None:
    """All of it or nothing, whatever happens meanwhile."""
    rows = "".join(
        f"{number} {seen.entry.timestamp} {seen.entry.sender} {seen.entry.value} {seen.at_ms} "
        f"{'-' if seen.age_ms is None else seen.age_ms}\n"
        for number, seen in silences.seen.items())
    now = "-" if silences.now is None else silences.now
    rest = (f"agent {json.dumps(name)}\nboot {boot()}\nclock {silences.basis}\n"
            f"at {silences.at_ms}\nnow {now}\n{rows}")
    content = f"dumpulse memory 1 {zlib.adler32(rest.encode()):08x}\n{rest}"
    descriptor, new = tempfile.mkstemp(prefix=f"{os.path.basename(path)}.",
                                       dir=os.path.dirname(path) or ".")
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


# ---------------------------------------------------------------- watch

FIELDS = ("timestamp", "sender", "value", "state")


class Watched:
    """What is known of an agent that is asked again and again."""

    def __init__(self, settings: Settings, wanted: Sequence[int], name: str) -> None:
        self.settings = settings
        self.wanted = wanted
        self.name = name
        self.entries: Entries = ()
        self.readings: list[Reading] = []
        self.changed: dict[int, set[str]] = {}  # by variable, since the report before
        self.trouble: Optional[Error] = None  # why there was no report this time
        self.refused = False  # since the last report
        self.restarted = False  # between the last two
        self.event = ""  # the last one
        self.heard_at = uptime()
        self.clock = Clock(settings, enough=5)  # in no hurry
        self.silences = Silences()
        self.bad_sum = ""

    def ask(self, agent: Agent, timeout: float) -> None:
        asked = uptime()
        try:
            self.take(agent.ask(timeout), uptime(), asked)
            self.bad_sum = unverified(agent)
        except (NoAnswer, BadReport) as error:
            self.trouble = error
            self.refused = self.refused or isinstance(error, Refused)
            self.restarted = False
            self.changed = {}

    def take(self, entries: Entries, at: float, asked: Optional[float] = None) -> None:
        """A report that came at that time, in seconds of uptime()."""
        self.clock.take(entries, at if asked is None else asked, at)
        readings = read(self.clock, self.silences)
        restart = self._restart(entries, at) if self.entries else ""
        self.restarted = bool(restart)
        if self.entries and self.trouble:
            restart = restart or f"no report came for {at - self.heard_at:.0f} s"
        if restart:
            self.event = f"{time.strftime('%H:%M:%S')} {restart}"
        self.changed = {
            new.variable.number: {field for field, before, after in zip(
                FIELDS, (*old.entry, old.state), (*new.entry, new.state)) if before != after}
            for old, new in zip(self.readings, readings)}
        self.entries, self.readings, self.heard_at = entries, readings, at
        self.trouble, self.refused = None, False

    def _restart(self, entries: Entries, at: float) -> str:
        """What tells that the agent has restarted: it forgot variables, nothing listened there
        for a while, or its clock has not gone on as ours has. Nothing does if it was quick, has
        kept its table and counts Unix time."""
        forgotten = sum(new.never and not old.never for old, new in zip(self.entries, entries))
        if forgotten:
            return f"the agent restarted: it forgot {forgotten} variable{'s' * (forgotten > 1)}"
        if self.refused:
            return f"the agent restarted: it was away for {at - self.heard_at:.0f} s"
        before, now = self.settings.now(self.entries), self.settings.now(entries)
        if self.settings.now_from is None or before is None or now is None:
            return ""
        tick_ms = self.settings.tick_ms
        ticks = jump(before, now, round((at - self.heard_at) * 1000), tick_ms)
        return f"the agent's clock jumped by {seconds(ticks * tick_ms)}: it restarted, or was set" \
            if ticks else ""

    @property
    def remarkable(self) -> bool:
        """Whether there is more to say about the clock than what was asked for."""
        return bool(self.readings and (self.bad_sum or self.clock.doubtful))

    def news(self) -> str:
        """What the table depends on."""
        return "; ".join(filter(None, (self.bad_sum, whose_clock(self.clock))))

    def silence(self) -> str:
        """What to say when there was no report."""
        since = "" if self.readings else " yet"
        return f"no report{since} for {uptime() - self.heard_at:.0f} s; {self.trouble}"


def paint(text: str, *codes: str) -> str:
    """Colours (30 and up) only where the user has not refused them: see no-color.org."""
    shown = [code for code in codes if code and (len(code) == 1 or not os.environ.get("NO_COLOR"))]
    return f"\x1b[{';'.join(shown)}m{text}\x1b[0m" if shown else text


RED, YELLOW, REVERSE, BOLD, DIM = "31", "33", "7", "1", "2"
WIDTHS = {"#": 2, "name": 10, "value": 5, "from": 4, "age": 8, "state": 5}  # of a row's cells
GAP = "  "  # between two stacks of rows


def screen(watched: Watched, columns: int, rows: int) -> list[str]:
    """The lines of a terminal of that size."""
    tally = counts(watched.readings, watched.wanted)
    titles = [f"{watched.name}  {time.strftime('%H:%M:%S')}  {tally}", f"{watched.name}  {tally}"]
    title = next((title for title in titles if len(title) <= columns), tally)
    news = watched.silence() if watched.trouble else watched.news()
    more_news = watched.event or news[columns:].lstrip()
    head = [paint(title[:columns], BOLD), paint(news[:columns], REVERSE if watched.trouble else ""),
            paint(more_news[:columns], BOLD)]
    if rows < 6:  # in a low window, a variable in trouble is worth more than all but the title
        del head[max(1, rows - 3):]
    shown = worth_showing(watched.readings, watched.wanted)
    headings = rows >= 5
    room = max(1, rows - len(head) - headings - 1)
    stacks = max(1, min((columns + len(GAP)) // (whole_width(WIDTHS) + len(GAP)),
                        math.ceil(len(shown) / room)))
    hidden = max(0, len(shown) - stacks * room)
    if hidden:  # those in order are the first to go
        order = (DEAD, LATE, NEVER, UNKNOWN, OK)
        shown.sort(key=lambda reading: (not reading.bad_value, order.index(reading.state),
                                        not reading.unusual_value))
        shown = sorted(shown[:stacks * room], key=lambda reading: reading.variable.number)
    widths = fit((columns + len(GAP)) // stacks - len(GAP))
    heading = " ".join(f"{what:>{width}}" if what in ("#", "age") else f"{what:{width}}"
                       for what, width in widths.items())
    lines = [row(reading, watched, widths) for reading in shown]
    height = math.ceil(len(lines) / stacks)
    table = [GAP.join(lines[at::height]) for at in range(height)]
    more = f"; {hidden} hidden, the worst are shown" if hidden else ""
    return [*head, *[paint(GAP.join([heading] * stacks)[:columns], DIM)] * headings,
            *table, *[""] * (room - len(table)), f"q or Ctrl-C ends{more}"[:columns]]


def fit(columns: int) -> dict[str, int]:
    """The cells that a row has room for, and how wide they are: a longer name first of all."""
    widths = dict(WIDTHS)
    for spare in ("from", "value", "age"):
        if whole_width(widths) > columns:
            del widths[spare]
    widths["name"] = max(1, min(24, widths["name"] + columns - whole_width(widths)))
    return widths


def whole_width(widths: dict[str, int]) -> int:
    return sum(widths.values()) + len(widths) - 1  # with a space between each two


def shortened(name: str, width: int) -> str:
    """Names often differ at one of their ends: cut in the middle, where no name has a ~."""
    if len(name) <= width:
        return name
    end = width // 2
    return f"{name[:width - end - 1]}~{name[len(name) - end:]}"


def row(reading: Reading, watched: Watched, widths: dict[str, int]) -> str:
    """A variable's cells: what has changed since the last report stands out."""
    changed = watched.changed.get(reading.variable.number, set())
    stale = DIM if watched.trouble else ""
    alarm = {DEAD: RED, NEVER: RED if reading.variable.expected else "", LATE: YELLOW}
    value = RED if reading.bad_value else YELLOW if reading.unusual_value else ""
    name = widths["name"]
    cells = {  # the text, and how it is painted
        "#": (f"{reading.variable.number:2}", ""),
        "name": (f"{shortened(reading.variable.name, name):{name}}", ""),
        "value": (f"{reading.value:>5}", value, REVERSE if "value" in changed else ""),
        "from": (f"{reading.sender:>4}", REVERSE if "sender" in changed else ""),
        "age": (f"{reading.age:>8}", BOLD if "timestamp" in changed else ""),
        "state": (f"{reading.state:5}", alarm.get(reading.state, ""),
                  REVERSE if "state" in changed else "")}
    return " ".join(paint(text, stale, *codes) for text, *codes in map(cells.__getitem__, widths))


class Terminal:
    """The terminal's second screen, and the way back from it whatever happens."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
        self._saved: list[Any] = []

    def begin(self) -> None:
        if self._input is not None:  # what is typed must not appear in the table
            self._saved = termios.tcgetattr(self._input)
            quiet = termios.tcgetattr(self._input)
            quiet[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._input, termios.TCSANOW, quiet)
        self._write("\x1b[?1049h\x1b[?25l\x1b[?7l")  # second screen, no cursor, no wrapping
        signal.signal(signal.SIGTSTP, self._pause)

    def close(self) -> None:
        """As it was, however far begin() has come."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        self._write("\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l")
        if self._input is not None and self._saved:
            termios.tcsetattr(self._input, termios.TCSANOW, self._saved)

    def _pause(self, *_: object) -> None:
        """Ctrl-Z."""
        self.close()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.begin()

    @staticmethod
    def _write(text: str) -> None:
        """Past Python's buffers, as a signal may come while they are in use."""
        left = text.encode(sys.stdout.encoding, "replace")
        while left:
            left = left[os.write(sys.stdout.fileno(), left):]

    def show(self, watched: Watched) -> None:
        size = shutil.get_terminal_size()
        lines = screen(watched, size.columns, size.lines)[:size.lines]
        # Erased before it is written: after the last column, the cursor is still on it. Terminals
        # that know mode 2026 show nothing of this until all is done.
        self._write("\x1b[?2026h\x1b[H\x1b[K" + "\r\n\x1b[K".join(lines[:-1])
                    + ("\r\n" if lines[1:] else "") + "\x1b[J" + lines[-1] + "\x1b[?2026l")

    def wait(self, pause: float) -> bool:
        """False if somebody pressed q."""
        end = time.monotonic() + pause
        # Looked at once at least: what is asked may take all the time until it is asked again.
        while self._input is not None and select.select(
                [self._input], [], [], max(0.0, end - time.monotonic()))[0]:
            if os.read(self._input, 64)[:1] in (b"q", b"Q", b""):
                return False
        time.sleep(max(0.0, end - time.monotonic()))
        return True


class Lines:
    """For files, pipes and scripts: a line for each thing that has changed, or one of JSON."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._event = self._said = self._news = ""

    def begin(self) -> None:
        """Nothing to prepare, and nothing to close."""

    close = begin

    def show(self, watched: Watched) -> None:
        shown = worth_showing(watched.readings, watched.wanted)
        if self._as_json:
            print(json.dumps({"time": round(time.time(), 3), "agent": watched.name,
                              "error": str(watched.trouble) if watched.trouble else None,
                              "restarted": watched.restarted,
                              "checksum_ok": not watched.bad_sum, "clock": watched.clock.for_json(),
                              "variables": [reading.for_json() for reading in shown]}), flush=True)
            return
        now = time.strftime("%H:%M:%S")
        lines = [watched.event] if watched.event != self._event else []
        if watched.remarkable and watched.news() != self._news:
            self._news = watched.news()
            lines.append(f"{now} {self._news}")
        said = watched.silence() if watched.trouble else counts(watched.readings, watched.wanted)
        if watched.trouble or said != self._said:
            lines.append(f"{now} {said}")
        self._said, self._event = said, watched.event
        for reading in [] if watched.trouble else shown:
            changed = watched.changed.get(reading.variable.number, set(FIELDS))
            if changed - {"timestamp"}:
                marks = {field: "*" * (field in watched.changed.get(reading.variable.number, ()))
                         for field in FIELDS}
                lines.append(f"{now} {reading.variable.spoken}: "
                             f"value {reading.value}{marks['value']}, "
                             f"sender {reading.sender}{marks['sender']}, "
                             f"age {reading.age}, {reading.state}{marks['state']}")
        print("".join(f"{line}\n" for line in lines), end="", flush=True)

    def wait(self, pause: float) -> bool:
        """An error when nobody reads any more: otherwise it would be noticed only at the next
        change."""
        if hasattr(select, "poll"):
            reader = select.poll()
            reader.register(sys.stdout.fileno(), 0)  # which leaves errors and hang-ups
            if reader.poll(math.ceil(min(pause, LONGEST_WAIT) * 1000)):
                raise BrokenPipeError
        else:
            time.sleep(pause)
        return True


def run_watch(options: argparse.Namespace) -> int:
    settings = settle(options)
    wanted = parse_wanted(options, settings)
    agent = Agent(options.address, options.accept_bad_sum)
    watched = Watched(settings, wanted, agent.name)
    interval = options.interval / 1000
    timeout = min(options.timeout / 1000, max(1.0, interval))
    fancy = termios and not options.json and sys.stdout.isatty() \
        and os.environ.get("TERM") != "dumb"
    try:
        with contextlib.closing(Terminal() if fancy else Lines(options.json)) as view:
            view.begin()
            for done in itertools.count(1):
                begun = time.monotonic()
                watched.ask(agent, timeout)
                view.show(watched)
                left = max(0.0, begun + interval - time.monotonic())
                if done == options.count or not view.wait(left):
                    break
    except KeyboardInterrupt:
        pass
    if fancy:
        said = watched.silence() if watched.trouble else counts(watched.readings, wanted)
        print(f"{agent.name}: {said}")
    return exit_status(watched.trouble) if options.count and watched.trouble else 0


# ---------------------------------------------------------------- simulate

RATES_MS = (250, 500, 1_000)
FIRST_SENDER = 10
DAMAGED = 0.5  # of the heartbeats of a corrupt node


@dataclasses.dataclass
class Node:
    """A node that is not there."""

    variable: Variable
    period: float
    value: int
    corrupt: bool = False
    dies_at: float = math.inf
    sent: int = 0
    damaged: int = 0
    unsent: int = 0

    def next_heartbeat(self, chance: random.Random) -> bytes:
        low, high = self.variable.warn_low, self.variable.warn_high
        self.value = min(high, max(low, self.value + chance.randint(-3, 3)))
        packet = heartbeat(self.variable.number,
                           (FIRST_SENDER + self.variable.number) % 256, self.value)
        if not self.corrupt or chance.random() >= DAMAGED:
            return packet
        self.damaged += 1
        bit = chance.randrange(64)  # no agent takes a heartbeat with one flipped bit
        return (int.from_bytes(packet, "big") ^ 1 << bit).to_bytes(8, "big")


def make_nodes(options: argparse.Namespace, settings: Settings) -> list[Node]:
    """One for each variable that --names lists, or for 1, 2, 3 and so on."""
    chosen = [variable for variable in settings.variables
              if variable.listed and variable.number != settings.now_from]
    if not chosen:
        chosen = settings.variables[1:1 + (options.nodes or 8)]
        for variable in chosen:
            variable.every_ms = RATES_MS[variable.number % len(RATES_MS)]
    if len(chosen) < (options.nodes or 1):
        raise BadUsage(f"there are only {len(chosen)} nodes in {options.names!r}")
    nodes = {variable.number: Node(variable, variable.every_ms / 1000,
                                   (variable.warn_low + variable.warn_high) // 2)
             for variable in chosen[:options.nodes]}

    def named(text: Optional[str]) -> list[Node]:
        numbers = parse_variables(text, settings.variables) if text is not None else []
        for number in numbers:
            if number not in nodes:
                raise BadUsage(f"{text}: there is no node {number}, only "
                               f"{', '.join(map(str, nodes))}")
        return [nodes[number] for number in numbers]

    for text in options.die or ():
        which, sign, when = text.rpartition("@")
        if not sign:
            raise BadUsage(f"{text!r} does not say who dies when: write it like 5@8s")
        for node in named(which):
            node.dies_at = parse_duration(when) / 1000
    for node in named(options.late):
        node.period = node.variable.crit_ms * 0.9 / 1000  # which is late, and not quite dead
    for node in named(options.corrupt):
        node.corrupt = True
    return list(nodes.values())


def run_simulate(options: argparse.Namespace) -> int:
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    chance = random.Random(seed)
    nodes = make_nodes(options, settle(options))
    agent = Agent(options.address)
    beat = "node beats" if len(nodes) == 1 else "nodes beat"
    print(f"simulate: {len(nodes)} {beat} at {agent.name}, --seed {seed}", flush=True)
    begun = time.monotonic()
    try:
        beat_all(agent, nodes, chance, begun, (options.seconds or math.inf) / 1000)
    except KeyboardInterrupt:
        pass
    for node in nodes:
        died = f", dead since {node.dies_at:g} s" if time.monotonic() - begun > node.dies_at else ""
        unsent = f", {node.unsent} could not be sent" if node.unsent else ""
        print(f"simulate: {node.variable.spoken}: {node.sent} heartbeat{'s' * (node.sent != 1)}, "
              f"{node.damaged} damaged{unsent}{died}")
    return 3 if 0 < sum(node.sent for node in nodes) == sum(node.unsent for node in nodes) else 0


def beat_all(agent: Agent, nodes: Sequence[Node], chance: random.Random, begun: float,
             duration: float) -> None:
    """Every node in its turn, for so many seconds."""
    turns = [(begun + chance.uniform(0, min(1, node.period)), index)
             for index, node in enumerate(nodes)]
    turns.append((begun + duration, len(nodes)))
    heapq.heapify(turns)
    failed = False
    while (turn := heapq.heappop(turns))[1] < len(nodes):
        due, node = turn[0], nodes[turn[1]]
        time.sleep(max(0.0, due - time.monotonic()))
        if due - begun >= node.dies_at:
            continue
        pause = node.period * chance.uniform(0.9, 1.1)
        heapq.heappush(turns, (max(due, time.monotonic()) + pause, turn[1]))
        node.sent += 1  # before Ctrl-C can come, while send() listens
        try:
            agent.send(node.next_heartbeat(chance), max(0.0, turns[0][0] - time.monotonic()))
            failed = False
        except NoAnswer as error:
            node.unsent += 1
            if not failed:
                print(f"simulate: {error}", file=sys.stderr, flush=True)
            failed = True


# ---------------------------------------------------------------- the command line

ABOUT = """\
Talks to Dumpulse agents, which tell who is alive.

  %(prog)s get HOST[:PORT] [VARIABLE...]     show the report
  %(prog)s set HOST[:PORT] VARIABLE VALUE    send one heartbeat
  %(prog)s watch HOST[:PORT] [VARIABLE...]   a live table
  %(prog)s check HOST[:PORT] ...             for Nagios, Icinga, cron, scripts
  %(prog)s simulate HOST[:PORT] ...          nodes that beat, die, are late

  %(prog)s HOST [PORT]                       show the report
  %(prog)s HOST [PORT] -v VALUE [-n VARIABLE] [-s SENDER]   send one heartbeat

Each has its own --help. The port is 9060 unless given; IPv6 is [::1]:9060.
An agent on a serial line is serial:/dev/ttyACM0 or serial:/dev/ttyUSB0@9600.
HOST may be a CAN interface of Linux: can:can0, or can:can0:700 for other
identifiers than those from 680 on.
A first word that is a command's name is the command."""

STATUSES = """\
exit status: 0 fine; 1 not confirmed (set --confirm), or the output could not
be written; 2 bad usage; 3 no answer; 4 a report that cannot be believed; of
check: 0 OK, 1 WARNING, 2 CRITICAL (so is no answer), 3 UNKNOWN (bad usage)"""

CHECK_STATUSES = """\
exit status: 0 OK; 1 WARNING: one is late, or has an unusual value; 2 CRITICAL:
one is dead, was never heard or has a bad value, or no good report came;
3 UNKNOWN: bad usage, an unknown age, no output; also after --help, --version

"""

AGES = """\
A timestamp has 16 bits: an age ends at 65471 ticks, and a node that is silent
for longer looks alive again, but to `watch` and `check --memory FILE`.
Ages come from this machine's clock, if the agent's agrees with it to 64 ticks.
If it does not, they come from the newest heartbeat between two requests.
--now-from needs no guess, but an agent that stamps a variable of its own
(udpserver --self 0). Never heard is four zero bytes; value 0 from sender 0 at
tick 0 looks the same."""


def exit_status(error: Error) -> int:
    return 3 if isinstance(error, NoAnswer) else 4 if isinstance(error, BadReport) else 2


class Parser(argparse.ArgumentParser):
    """One line for what is wrong, and one place where to read on."""

    told = 0  # the exit status after --help and --version

    def error(self, message: str) -> NoReturn:
        line = "".join(character if character.isprintable() else ascii(character)[1:-1]
                       for character in message)  # argparse repeats arguments as they are
        raise BadUsage(f"{line} (see {self.prog} --help)")

    def exit(self, status: int = 0, message: Optional[str] = None) -> NoReturn:
        super().exit(status or self.told, message)


def checked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """For argparse, which asks for an exception of its own."""
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except Error as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    return convert


READERS = ("", "get", "watch", "check")  # "" is the older command line
ASKERS = (*READERS, "set")
JUDGES = ("watch", "check", "simulate")

# Which command lines have it, its name, how its value is read (True: it has none), what stands
# for the value in the help, and what it means.
OPTIONS: list[tuple[Sequence[str], str, Any, str, str]] = [
    (("",), "host", str, "HOST", argparse.SUPPRESS),
    (("",), "port", parse_port, "PORT", argparse.SUPPRESS),
    (("get", "set", "watch", "check", "simulate"), "address", str, "HOST[:PORT]",
     "the agent (port 9060), or serial:/DEVICE[@BAUD], or can:INTERFACE[:ID]"),
    (("check",), "-H", str, "HOST[:PORT]", "the agent, instead of an argument without -H"),
    (("get", "watch"), "variables", str, "VARIABLE",
     "only these: 3,7-12 or names (all heard or named)"),
    (("set",), "variable", str, "VARIABLE", "0 to 63, or its name"),
    (("set",), "value", parse_byte, "VALUE", "0 to 255"),
    (("",), "-v --value", parse_byte, "VALUE", "send this value, 0 to 255"),
    (("",), "-n --variable", str, "VARIABLE", "as this variable, 0 to 63 (0)"),
    (("",), "-s --sender", parse_byte, "SENDER", "from this sender, 0 to 255 (1)"),
    (("set",), "--sender", parse_byte, "SENDER", "who says so, 0 to 255 (1)"),
    (("set",), "--confirm", True, "", "ask the agent whether it has it now"),
    (("check",), "--expect", str, "VARIABLES", "who must be alive: 3,7-12 or names"),
    (("check",), "--value", str, "VARIABLES:LOW..HIGH", "expect these, with a value in that range"),
    (("check",), "--value-warn", str, "VARIABLES:LOW..HIGH", "warn of a value out of that range"),
    (JUDGES, "--warn", parse_duration, "TIME", "silent for longer is late (5s)"),
    (JUDGES, "--crit", parse_duration, "TIME", "silent for longer is dead (30s)"),
    (("watch",), "--interval", parse_duration, "TIME", "ask so often (1s)"),
    (("watch",), "--count", lambda text: parse_number(text, 1, 10**8), "N",
     "end after so many times"),
    (("simulate",), "--nodes", lambda text: parse_number(text, 1, VARIABLES - 1), "N",
     "how many nodes (all of --names, or 8)"),
    (("simulate",), "--die", str, "NODES@TIME", "they fall silent then: 5@8s"),
    (("simulate",), "--late", str, "NODES", "they beat too seldom"),
    (("simulate",), "--corrupt", str, "NODES", "half of their heartbeats are damaged"),
    (("simulate",), "--seconds", parse_duration, "TIME", "end after so long (on Ctrl-C)"),
    (("simulate",), "--seed", lambda text: parse_number(text, 0, 10**9), "N",
     "repeat an earlier run"),
    (READERS, "--tick", parse_tick, "TIME", "unit of the agent's timestamps (1s)"),
    (READERS, "--now-from", str, "VARIABLE", "the one that the agent stamps (the clock here)"),
    ((*ASKERS, "simulate"), "--names", str, "FILE",
     "names and deadlines: see examples/vehicle.ini"),
    (ASKERS, "--timeout", parse_duration, "TIME", "give up after so long (3s)"),
    (("check",), "--memory", str, "FILE", "keep ages there: no dead node gets young again"),
    (READERS, "--accept-bad-sum", True, "", "believe an old agent's wrong checksums"),
    (READERS, "--json", True, "", "for scripts"),
]
MORE: dict[str, dict[str, Any]] = {  # what argparse must know besides
    "port": {"nargs": "?"}, "variables": {"nargs": "*", "default": []}, "--sender": {"default": 1},
    "--interval": {"default": 1_000}, "--timeout": {"default": 3_000}, "--die": {"action": "append"},
    "--value": {"action": "append", "dest": "value_ranges"},
    "--value-warn": {"action": "append", "dest": "value-warn_ranges"},
    "-H": {"dest": "plugin_host"}, "check address": {"nargs": "?"}}
PLUGIN_OPTIONS = {"--warn": ["-w"], "--crit": ["-c"], "--timeout": ["-t"]}  # of check


def build_parser(command: str) -> Parser:
    """That of a command, or of the older command line."""
    run, about, epilog = COMMANDS.get(command, (run_older, ABOUT, STATUSES))
    parser = Parser(prog=f"{PROGRAM} {command}".strip(), description=about, epilog=epilog,
                    formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
                    usage=None if command else "%(prog)s COMMAND ... | HOST [PORT] [OPTION]...")
    parser.set_defaults(run=run)
    parser.add_argument("-V", "--version", action="version", version=f"{PROGRAM} {VERSION}",
                        help="show the version and exit")
    parser.told = 3 if command == "check" else 0
    for commands, name, parse, metavar, meaning in OPTIONS:
        if command in commands:
            how: dict[str, Any] = {"type": checked(parse), "metavar": metavar}
            if parse is True:
                how = {"action": "store_true"}
            short = PLUGIN_OPTIONS.get(name, []) if command == "check" else []
            how.update(MORE.get(f"{command} {name}", MORE.get(name, {})))
            parser.add_argument(*short, *name.split(), help=meaning, **how)
    return parser


def run_older(options: argparse.Namespace) -> int:
    """HOST PORT, as the command line has always been."""
    options.address = options.host
    if options.port is not None:
        if options.host.startswith((SERIAL, CAN)):
            raise BadUsage(f"{options.host!r} has no port, and {options.port} is one too many")
        if re.fullmatch(r"\[.*\]:.*|[^:]*:[^:]*", options.host):
            raise BadUsage(f"{options.host!r} names a port, and {options.port} is one too many")
        options.address = f"[{options.host.strip('[]')}]:{options.port}"
    options.variables, options.confirm = [], False
    if options.value is not None:
        options.variable = options.variable or "0"
        options.sender = 1 if options.sender is None else options.sender
        return run_set(options)
    if options.variable is not None or options.sender is not None:
        raise BadUsage(f"-n and -s go with -v VALUE (see {PROGRAM} --help)")
    return run_get(options)


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str, str]] = {
    "get": (run_get, "Show an agent's report, once it is verified. A value out of its range has a !.", AGES),
    "set": (run_set, "Send one heartbeat. Nobody says whether it arrives, but for --confirm.", ""),
    "watch": (run_watch, "Show who is alive, over and over. What has changed since the last\n"
              "report stands out; a value out of its range has a !. It waits for an answer for\n"
              "one interval, or 1 s, but never longer than --timeout. A restart of the agent is\n"
              "seen if it forgot a variable, if nothing listened there for a while, or if the\n"
              "clock of --now-from jumped.", AGES),
    "check": (run_check, "Print one line that says who is not alive, and performance data.\n"
              "Expected are those of --expect and --value, or all that --names does not except.",
              CHECK_STATUSES + AGES),
    "simulate": (run_simulate, "Be a number of nodes that beat, until Ctrl-C: the variables of\n"
                 "--names, or 1 to 8.", "Senders are the variables plus 10.")}


def ended(*_: object) -> NoReturn:
    """SIGTERM, SIGHUP, Ctrl-\\: the terminal is put in order on the way out."""
    raise SystemExit(128 + signal.SIGTERM)


def command(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    try:
        options = build_parser(name).parse_intermixed_args(arguments[bool(name):])
        return int(options.run(options))
    except Error as error:
        if name == "check":  # what runs it reads the standard output and the status alone
            return print_check("--json" in arguments, 3, str(error), [], {})
        near = [] if name else difflib.get_close_matches("".join(arguments[:1]), COMMANDS, 1)
        hint = f" (is it the command {near[0]!r} that you mean?)" if near else ""
        print(f"{PROGRAM}: {error}{hint}", file=sys.stderr)
        return exit_status(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def main() -> NoReturn:
    global PROGRAM
    called = os.path.basename(sys.argv[0])
    PROGRAM = called if called.isprintable() and called else PROGRAM
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)  # Windows has only the first
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, ended)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # somebody has closed it
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # one column each, whatever the locale
    try:
        status = command(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        status = 128 + 13  # as if SIGPIPE had ended it
    except OSError as error:
        print(f"{PROGRAM}: cannot write: {error.strerror}", file=sys.stderr)
        status = 3 if sys.argv[1:2] == ["check"] else 1
    else:
        sys.exit(status)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would try to write again
    sys.exit(status)


if __name__ == "__main__":
    main()
