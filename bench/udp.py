"""Compares udpserver with a plain recvfrom loop around the same library.

    make figures ONLY=bench

Both run in turns on this machine's loopback, at full load: one core sends heartbeats as fast as it
can, another one runs the server. The kernel says how much CPU time the server's process has used.
The packets taken are those sent, minus those that the kernel says it has dropped.
SPDX-License-Identifier: MIT"""

import os
import socket
import statistics
import subprocess
import time
from dataclasses import dataclass

from bench import figures
from tests.support.programs import as_program, built, free_port, wait_until

ROUNDS = 9
MILLISECONDS = 1000
SENDER_CORE, SERVER_CORE = 0, (os.cpu_count() or 1) - 1
SERVERS = {"recvfrom loop": "build/recvfrom_loop", "udpserver": "build/udpserver"}


@dataclass(frozen=True)
class Round:
    sent: int
    dropped: int
    cpu: float  # seconds in user mode and in the kernel

    @property
    def taken(self) -> int:
        return self.sent - self.dropped

    @property
    def nanoseconds(self) -> float:
        return self.cpu / self.taken * 1e9


def queued_and_dropped(port: int) -> tuple[int, int] | None:
    """Returns how many bytes wait in the socket at that port, and how many packets it has lost.
    None: there is no such socket."""
    with open("/proc/net/udp") as table:
        for line in table:
            cells = line.split()
            if cells[1] == f"0100007F:{port:04X}":
                return int(cells[4].split(":")[1], 16), int(cells[-1])
    return None


def pinned(core: int, *command: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    os.sched_setaffinity(process.pid, {core})
    return process


def measure(program: str) -> Round:
    port = free_port(socket.SOCK_DGRAM)
    server = pinned(SERVER_CORE, built(program), str(port))
    try:
        wait_until(lambda: queued_and_dropped(port) is not None, f"{program} listens")
        sent = int(pinned(SENDER_CORE, built("build/flood"), str(port),
                          str(MILLISECONDS)).communicate()[0])
        wait_until(lambda: (queued_and_dropped(port) or (1, 0))[0] == 0, f"{program} has taken all")
        state = queued_and_dropped(port)
        assert state is not None, f"{program} has ended"
    finally:
        server.kill()
        _, _, usage = os.wait4(server.pid, 0)
        server.returncode = 0  # so that Popen does not wait for it again
    return Round(sent, state[1], usage.ru_utime + usage.ru_stime)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f}, from {min(values):.2f} to {max(values):.2f}"


def main() -> None:
    rounds: dict[str, list[Round]] = {name: [] for name in SERVERS}
    for _ in range(ROUNDS):
        for name, program in SERVERS.items():
            rounds[name].append(measure(program))
            time.sleep(0.1)
    print(figures.stamp())
    print(f"{ROUNDS} rounds of {MILLISECONDS / 1000:g} s, medians   ns of CPU/packet  packets "
          "taken  dropped")
    for name, measured in rounds.items():
        print(f"{name:<28}{statistics.median(one.nanoseconds for one in measured):>17.0f}"
              f"{statistics.median(one.taken for one in measured):>15.0f}"
              f"{statistics.median(one.dropped for one in measured):>9.0f}")
    pairs = list(zip(*rounds.values(), strict=True))
    print("udpserver's figure divided by the recvfrom loop's, median of the rounds:")
    print("  CPU per packet  ",
          spread([ours.nanoseconds / plain.nanoseconds for plain, ours in pairs]))
    print("  packets taken   ", spread([ours.taken / plain.taken for plain, ours in pairs]))


if __name__ == "__main__":
    as_program(main)
