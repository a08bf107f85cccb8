"""Compares udpserver --xdp with udpserver over a veth, and with a plain loop of recvfrom.

`make figures ONLY=bench` prints this, too. One core sends heartbeats as fast as it can, over a
cable between two network namespaces. The three ways take turns. The kernel says how much processor
time the server's process has used, and the program in the kernel. Timing a program takes time, too:
so an empty program is timed, and its time is subtracted. SPDX-License-Identifier: MIT"""

import contextlib
import os
import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.network import Cable
from tests.support.programs import as_program, built, wait_until

PACKETS, ROUNDS, PORT = 2_000_000, 3, 9060
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
ADDRESS = "10.77.0.1"
LOOP, PLAIN, XDP = WAYS = ("recvfrom loop", "udpserver", "udpserver --xdp")
COMMANDS = {LOOP: ["build/recvfrom_loop", f"{PORT}", ADDRESS],
            PLAIN: ["build/udpserver", "--bind", ADDRESS, f"{PORT}"],
            XDP: ["build/udpserver", "--bind", ADDRESS, "--xdp", "veth1", f"{PORT}"]}


@dataclass(frozen=True)
class Round:
    """Of each packet that was taken, in ns of processor time; and how many were lost of all."""

    process: float
    program: float
    machine: float
    seconds: float
    lost: int


@contextlib.contextmanager
def timed_programs() -> Iterator[None]:
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def busy() -> float:
    """Returns the seconds that all cores together have worked so far."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def flood(cable: Cable) -> float:
    """Sends all packets. Returns how many seconds that took."""
    begun = time.monotonic()
    with cable.node.entered():
        done = subprocess.run([built("build/flood"), f"{PORT}", f"-{PACKETS}", ADDRESS],
                              capture_output=True, text=True, check=True)
    assert int(done.stdout) == PACKETS
    return time.monotonic() - begun


def used(process: int) -> float:
    """Returns the ns of processor time that a process has used."""
    return float(Path(f"/proc/{process}/schedstat").read_text().split()[0])


def program_time(process: int) -> float:
    """Returns the ns that the programs have run which this process has loaded."""
    infos = Path(f"/proc/{process}/fdinfo").iterdir()
    return float(sum(int(found) for info in infos
                     for found in re.findall(r"^run_time_ns:\t(\d+)", info.read_text(), re.M)))


def measure(way: str) -> Round:
    with Cable() as cable:
        cable.node.make_checksums()
        program, *options = COMMANDS[way]
        with cable.agent.entered():
            server = subprocess.Popen([built(program), *options], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        wait_until(lambda: f"{ADDRESS}:{PORT} " in cable.agent.run("ss -Huln"), f"{way} listens")
        while way != LOOP and "reports to" not in server.stderr.readline():
            pass
        try:
            worked, before = busy(), used(server.pid)
            seconds = flood(cable)
            wait_until(lambda: cable.agent.queued() == 0, "all is taken")
            worked, after = busy() - worked, used(server.pid)
            in_kernel = program_time(server.pid)
        finally:
            server.terminate()
            said = server.communicate()[0]
        taken = int(re.findall(r"heartbeats (\d+)", said)[0]) if way != LOOP else \
            cable.agent.received()
    return Round((after - before) / taken, in_kernel / taken, worked / taken * 1e9, seconds,
                 PACKETS - taken)


def timing() -> float:
    """Returns the ns that the kernel says of an empty program."""
    with Cable() as cable:
        cable.node.make_checksums()
        cable.node.run(f"ip neighbour add {ADDRESS} lladdr {cable.agent.hardware.hex(':')} "
                       f"dev {cable.node.interface}")
        cable.agent.run(f"ip link set {cable.agent.interface} xdpdrv obj "
                        f"{built('build/empty_program.o')} sec xdp")
        flood(cable)
        found = re.findall(r"run_time_ns (\d+) run_cnt (\d+)",
                           cable.agent.run("bpftool prog show name empty"))
    return int(found[-1][0]) / int(found[-1][1])


def main() -> None:
    rows: dict[str, list[Round]] = {way: [] for way in WAYS}
    empty = []
    with timed_programs():
        for _ in range(ROUNDS):
            for way, rounds in rows.items():
                rounds.append(measure(way))
            empty.append(timing())
    nothing = statistics.median(empty)
    used_by = {way: [one.process + max(0.0, one.program - nothing) for one in rounds]
               for way, rounds in rows.items()}
    print(f"Over a veth, {ROUNDS} rounds of {PACKETS:,} heartbeats. ns of CPU/packet:")
    print(f"{'medians':<18}{'process':>9}{'in the kernel':>15}{'whole machine':>15}"
          f"{'packets/s':>12}{'lost':>9}")
    for name, rounds in rows.items():
        program = statistics.median(max(0.0, one.program - nothing) for one in rounds)
        print(f"{name:<18}{statistics.median(one.process for one in rounds):>9.0f}{program:>15.0f}"
              f"{statistics.median(one.machine for one in rounds):>15.0f}"
              f"{statistics.median(PACKETS / one.seconds for one in rounds):>12.0f}"
              f"{sum(one.lost for one in rounds):>9}")
    print("CPU of the process and of the program in the kernel, one way divided by another:")
    for more, less in ((LOOP, PLAIN), (PLAIN, XDP), (LOOP, XDP)):
        ratios = [one / other for one, other in zip(used_by[more], used_by[less], strict=True)]
        print(f"  {f'{more} / {less}':<33}{statistics.median(ratios):.1f}, "
              f"from {min(ratios):.1f} to {max(ratios):.1f}")
    print(f"Timing an empty program takes {nothing:.0f} ns, which are subtracted.")


if __name__ == "__main__":
    as_program(main)
