"""Counts the instructions of a program in valgrind's callgrind.

The counts must be the same on every machine. So the environment has only the variables that are set
here, the server gets its sockets as from a service manager, and libc does not choose its routines
by the processor. The kernel's instructions are not counted."""

import fcntl
import os
import re
import socket
import struct
import subprocess
import termios
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.programs import ROOT, scratch

PATIENCE = 60.0  # seconds
ATTEMPTS = 3
ROOM = 250  # packets for one socket; an ordinary user's socket holds 277
# So that libc chooses the same functions on every amd64. valgrind's i386 has nothing to choose; and
# there a static program can crash if it reads these, by where its memory ends.
TUNABLES = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX,-ERMS,-FSRM,-AVX_Fast_Unaligned_Load"


@dataclass
class Counts:
    total: int = 0
    main: int = 0  # within main() only: the start of the loader and of libc varies by a few
    files: Counter[str] = field(default_factory=Counter)  # Instructions by source file.
    calls: Counter[str] = field(default_factory=Counter)  # number of calls, by callee
    # By caller and callee: instructions of the callee, with those that it calls.
    within: Counter[tuple[str, str]] = field(default_factory=Counter)


def parse(text: str) -> Counts:
    """Reads the file that callgrind writes. After the first time, it gives a name's number only."""
    counts, names, files = Counts(), dict[str, str](), dict[str, str]()
    caller = callee = file = ""
    for line in text.splitlines():
        if matched := re.match(r"(cfi|cfl|fl|fi|fe)=(\(\d+\))(?: (.*))?$", line):
            name = files.setdefault(matched[2], Path(matched[3] or "").name)
            file = file if matched[1].startswith("c") else name
        elif matched := re.match(r"(c?fn)=(\(\d+\))(?: (.*))?$", line):
            name = names.setdefault(matched[2], matched[3])
            caller, callee = (caller, name) if matched[1] == "cfn" else (name, "")
        elif line.startswith("calls="):
            counts.calls[callee] += int(line.split()[0].removeprefix("calls="))
        elif matched := re.match(r"(?:[+-]?\d+|\*) (\d+)$", line):
            if callee:
                counts.within[caller, callee] += int(matched[1])
                counts.main += int(matched[1]) if callee == "main" else 0
                callee = ""
            else:
                counts.files[file] += int(matched[1])
        elif line.startswith(("summary: ", "totals: ")):
            counts.total = int(line.split()[1])
    if not counts.total or sum(counts.files.values()) != counts.total:
        raise SystemExit("callgrind: its file does not add up")
    return counts


def command(output: Path, *words: str | Path) -> list[str]:
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", *map(str, words)]


def agreed(run: Callable[[], int]) -> int:
    """Repeats a count until two runs agree. One run of several hundred differs by a few
    instructions, in libc's strlen."""
    seen: list[int] = []
    while len(seen) < ATTEMPTS * 2:
        seen.append(run())
        if seen[-1] in seen[:-1]:
            return seen[-1]
    raise SystemExit(f"callgrind: no two runs count the same: {seen}")


def waiting(held: socket.socket) -> int:
    """Returns the bytes of the first packet that waits in a socket, or 0."""
    number: int = struct.unpack("i", fcntl.ioctl(held, termios.FIONREAD, bytes(4)))[0]
    return number


class Server:
    """A server in callgrind. This process has its sockets open, too.

    The packets are either queued before the server starts, or sent one by one. Then each is sent
    when the server has taken the one before, and sleeps."""

    def __init__(self, program: str, *options: str, sockets: int = 1) -> None:
        self.program, self.options = program, options
        self.folder = scratch()
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(sockets)]
        for bound in self.sockets:
            bound.bind(("127.0.0.1", 0))
        self.peers: dict[str, socket.socket] = {}

    def send(self, packet: bytes, number: int = 0, source: str = "127.0.0.1") -> None:
        """Sends a packet with this number to its socket: each socket gets ROOM packets."""
        if source not in self.peers:
            self.peers[source] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.peers[source].bind((source, 0))
        self.peers[source].sendto(packet, self.sockets[number // ROOM].getsockname())

    def start(self) -> None:
        """Starts the server. Its process number is written with ten digits, because the server
        needs more instructions to read more digits."""
        copies = [fcntl.fcntl(passed, fcntl.F_DUPFD, 100) for passed in self.sockets]
        passing = " ".join(f"{3 + i}<&{copy}" for i, copy in enumerate(copies))
        tunables = "" if self.program.endswith("i386") else TUNABLES
        script = (f'exec env -i {tunables} LISTEN_PID=$(printf %010d $$) LISTEN_FDS={len(copies)} '
                  f'"$@" {passing}')
        words = command(Path(self.folder.name) / "out", self.program, *self.options)
        self.process = subprocess.Popen(["bash", "-c", script, "bash", *words], pass_fds=copies,
                                        cwd=ROOT, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        for copy in copies:
            os.close(copy)
        assert self.process.stderr is not None
        stderr_lines = []
        for line in self.process.stderr:
            stderr_lines.append(line)
            if "reports to" in line:
                return
        raise SystemExit(f"callgrind: {self.program} did not start:\n{''.join(stderr_lines)}")

    def wait(self) -> None:
        """Waits until the server has taken all packets, and waits for more. Then it is in
        epoll_pwait; in the nap that udpserver takes under load, it is in ppoll. The number of
        epoll_pwait depends on the architecture."""
        deadline = time.monotonic() + PATIENCE
        while any(map(waiting, self.sockets)) or not self.sleeps():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"callgrind: {self.program} does not take its packets")
            time.sleep(0.0002)

    def sleeps(self) -> bool:
        words = Path(f"/proc/{self.process.pid}/syscall").read_text().split()
        return words[0] in ("281", "319")  # amd64, i386

    def stop(self) -> Counts:
        self.process.terminate()
        assert self.process.stderr is not None
        stderr = self.process.stderr.read()
        if self.process.wait(PATIENCE):
            raise SystemExit(f"callgrind: {self.program} failed:\n{stderr}")
        counts = parse((Path(self.folder.name) / "out").read_text())
        for open_socket in (*self.sockets, *self.peers.values()):
            open_socket.close()
        self.folder.cleanup()
        return counts


def serve(program: str, packets: list[tuple[bytes, str]], *, queued: bool,
          sockets: int = 1, keep_old: bool = True) -> Counts:
    """Counts a server, from start to end, that gets these packets from these addresses. With
    `keep_old`, the server does not look for old entries at its start. Otherwise that costs 4
    instructions more on i386 if a second begins meanwhile, which is often on a busy machine."""
    for _ in range(ATTEMPTS):
        # One report each µs is allowed, so no report has to wait, however fast this machine.
        # The stamp is made again each tick: with ticks of an hour, it is made once.
        server = Server(program, "--rate", "1000000", "--rate-total", "1000000",
                        "--tick", "3600000", "--allow", "127.0.0.0/8",
                        *["--keep-old"] * keep_old, sockets=sockets)
        if queued:
            for number, (packet, source) in enumerate(packets):
                server.send(packet, number, source)
        server.start()
        server.wait()
        if not queued:
            for packet, source in packets:
                server.send(packet, 0, source)
                server.wait()
        counts = server.stop()
        # There must be one call for each packet, and one for each socket at the end. If there are
        # fewer, a busy kernel has delivered two packets at once: then it is tried again.
        if queued or counts.calls["recvmmsg"] == len(packets) + sockets:
            return counts
    raise SystemExit(
        f"callgrind: {program} was not given its packets one by one: is the machine too busy?")
