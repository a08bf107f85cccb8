"""Runs the real udpserver on loopback, for tests.

    with Server("--tick", "100") as server:
        ... server.port ...
        counters = server.stop()

DUMPULSE_SERVER names another command to run in its place: a sanitized build, or valgrind.

    with Namespace() as network:
        network.run("ip address add 10.77.0.1 dev lo")
        with network.entered():
            ... start a server in this network namespace, which needs root ..."""

import contextlib
import ctypes
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tools.programs import PATIENCE, built, wait_until

Counters = dict[str, int]  # Its keys are the names that --stats prints.
KEYS = {"refused for length": "length", "reports unsent": "unsent", "bus-offs": "bus_offs",
        "dropped by the kernel": "drops", "variables with the key before": "key_before",
        "wrong tags in the last epoch": "epoch_tags"}

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def command() -> list[str]:
    """The command that runs the server."""
    return shlex.split(os.environ.get("DUMPULSE_SERVER", "")) or [built("build/udpserver")]


def lasting(options: list[str], seconds: int = 3600) -> list[str]:
    """Gives epochs so many seconds in the files of these options' keys. Returns the options."""
    for option, path in zip(options, map(Path, options[1:]), strict=False):
        if option in ("--key", "--key-before") and path.exists():
            text = re.sub("epoch .*\n", "", path.read_text())
            path.write_text(f"{text}epoch {seconds}\n")
    return options


def takes_hang_up() -> None:
    """In a program that starts: if the tests run under nohup, it would ignore SIGHUP."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Lines:
    """The lines that a program has written so far, read by a thread."""

    def __init__(self, stream: IO[str]) -> None:
        self.lines: list[str] = []
        self._stream = stream
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._stream:
            self.lines.append(line.rstrip("\n"))

    def all(self) -> list[str]:
        """Waits until the program has ended. Returns all lines, and closes the pipe."""
        self._reader.join(PATIENCE)
        assert not self._reader.is_alive()
        self._stream.close()
        return self.lines


class Server:
    """A running udpserver. At the end of the context it is killed, if it has not been stopped."""

    def __init__(self, *options: str, port: int | None = 0, wrap: Sequence[str] = (),
                 program: Sequence[str] = (), **popen: object) -> None:
        argv = [*wrap, *(program or command()), *options]
        if port is not None:  # None: the server gets bound sockets, as from systemd
            argv.append(str(port))
        popen.setdefault("preexec_fn", takes_hang_up)
        self.process = subprocess.Popen(  # type: ignore[call-overload]
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, **popen)
        self.stdout = Lines(self.process.stdout)
        self.stderr = Lines(self.process.stderr)
        try:
            wait_until(lambda: self.process.poll() is not None or self._started(),
                       "the server starts")
            if not self._started():
                raise AssertionError(
                    f"exit status {self.process.wait()}: {argv}: {self.stderr.all()}")
        except BaseException:
            self.kill()
            raise
        self.port = int(re.findall(r"listening on .*?:(\d+)(?: |$)",
                                   "\n".join(self.stderr.lines), re.M)[0])

    def _started(self) -> bool:
        """Has it logged the last line of its start? After that it takes packets."""
        return any("udpserver: reports to " in line for line in self.stderr.lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills it with SIGKILL, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for lines in (self.stdout, self.stderr):
            lines.all()

    def stats(self) -> Counters:
        """Asks for the counters by SIGUSR1, and returns them."""
        before = len(self.stdout.lines)
        self.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: len(self.stdout.lines) > before, "the counters are printed")
        return self.counters(self.stdout.lines[before])

    def wait_for(self, condition: Callable[[Counters], bool], what: str) -> Counters:
        """Waits until the counters fulfil the condition, and returns them."""
        counters = self.stats()
        deadline = time.monotonic() + PATIENCE
        while not condition(counters):
            assert time.monotonic() < deadline, f"{what}: this did not happen: {counters}"
            time.sleep(0.02)
            counters = self.stats()
        return counters

    def says(self, text: str, since: int = 0) -> None:
        """Waits until it has logged a line with this text, after so many lines."""
        wait_until(lambda: any(text in line for line in self.stderr.lines[since:]), text)

    def stop(self, status: int = 0) -> Counters:
        """Ends it by SIGTERM, and returns the last counters that it printed. It must still run: it
        is an error if the server has ended by itself."""
        assert self.process.poll() is None, f"it has ended already: {self.stderr.all()}"
        self.process.terminate()
        return self.ended(status)

    def ended(self, status: int = 0) -> Counters:
        """Waits until it has ended after a signal. Returns the last counters that it printed."""
        assert self.process.wait(PATIENCE) == status, self.stderr.all()
        return self.counters(self.stdout.all()[-1])

    @staticmethod
    def counters(line: str) -> Counters:
        counters = {KEYS.get(name, name.replace(" ", "_")): int(count)
                    for name, count in re.findall("([a-z][a-z -]*) ([0-9]+)", line)}
        kinds = ("heartbeats", "reports", "unsent", "length", "magic", "checksum", "variable",
                 "not_allowed", "rate")
        with_keys = ("beacons", "old", "tag")
        assert counters["packets"] == sum(counters[kind] for kind in kinds) + \
            sum(counters.get(kind, 0) for kind in with_keys), counters
        return counters


class Talker:
    """A socket that talks to a server."""

    def __init__(self, server: Server, host: str = "127.0.0.1", source: str = "") -> None:
        self.server = server
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET,
                                    socket.SOCK_DGRAM)
        if source:
            self.socket.bind((source, 0))
        self.socket.settimeout(PATIENCE)
        self.there = (host, server.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, *packets: bytes | None) -> None:
        for packet in packets:
            assert packet is not None
            self.socket.sendto(packet, self.there)

    def answer(self) -> bytes:
        """Returns the next packet. It must come from the address that was asked."""
        packet, source = self.socket.recvfrom(1000)
        assert source[:2] == self.there
        return packet

    def has_answer(self) -> bool:
        return bool(select.select([self.socket], [], [], 0)[0])


def check(status: int, what: str) -> None:
    if status:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}: this test"
                      " needs root, and a kernel with network namespaces")


class Namespace:
    """A network in which tests may make interfaces and addresses. It has the loopback interface,
    which is up, and ends with the processes and sockets that use it."""

    def __enter__(self) -> Self:
        with open("/proc/thread-self/ns/net") as before:
            check(LIBC.unshare(CLONE_NEWNET), "unshare")
            self.descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            check(LIBC.setns(before.fileno(), CLONE_NEWNET), "setns")
        self.run("ip link set lo up")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        os.close(self.descriptor)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Processes and sockets that this thread makes meanwhile are in this namespace."""
        with open("/proc/thread-self/ns/net") as before:
            check(LIBC.setns(self.descriptor, CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                check(LIBC.setns(before.fileno(), CLONE_NEWNET), "setns")

    def run(self, command: str) -> None:
        with self.entered():
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
