"""Compares udpserver --xdp with udpserver over a veth.     make figures ONLY=bench prints this, too

One core sends heartbeats as fast as it can, over a cable between two network namespaces. The two
ways take turns. The kernel says how much processor time the server's process has used, and the
program in the kernel. Timing a program takes time, too: so an empty program is timed, and its time
is subtracted. SPDX-License-Identifier: MIT"""

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


@dataclass(frozen=True)
class Round:
    """Of each packet, in ns of processor time; and how many were lost of all."""

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


def measure(*options: str) -> Round:
    heartbeats = 0
    with Cable() as cable:
        cable.node.make_checksums()
        with cable.agent.entered():
            server = subprocess.Popen(
                [built("build/udpserver"), "--bind", ADDRESS, *options, f"{PORT}"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None and server.stdout is not None
        for line in server.stderr:
            if "reports to" in line:
                break
        try:
            worked, before = busy(), used(server.pid)
            seconds = flood(cable)
            wait_until(lambda: cable.agent.queued() == 0, "udpserver has taken all")
            worked, after = busy() - worked, used(server.pid)
            program = program_time(server.pid)
        finally:
            server.terminate()
            said = server.communicate()[0]
        heartbeats = int(re.findall(r"heartbeats (\d+)", said)[0])
    return Round((after - before) / PACKETS, program / PACKETS, worked / PACKETS * 1e9, seconds,
                 PACKETS - heartbeats)


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
    rows: dict[str, list[Round]] = {"udpserver": [], "udpserver --xdp": []}
    empty = []
    with timed_programs():
        for _ in range(ROUNDS):
            rows["udpserver"].append(measure())
            rows["udpserver --xdp"].append(measure("--xdp", "veth1"))
            empty.append(timing())
    nothing = statistics.median(empty)
    print(f"Over a veth, {ROUNDS} rounds of {PACKETS:,} heartbeats. ns of CPU/packet:")
    print(f"{'medians':<18}{'process':>9}{'in the kernel':>15}{'whole machine':>15}"
          f"{'packets/s':>12}{'lost':>6}")
    for name, rounds in rows.items():
        program = statistics.median(max(0.0, one.program - nothing) for one in rounds)
        print(f"{name:<18}{statistics.median(one.process for one in rounds):>9.0f}{program:>15.0f}"
              f"{statistics.median(one.machine for one in rounds):>15.0f}"
              f"{statistics.median(PACKETS / one.seconds for one in rounds):>12.0f}"
              f"{sum(one.lost for one in rounds):>6}")
    pairs = zip(rows["udpserver"], rows["udpserver --xdp"], strict=True)
    shares = [plain.process / (one.process + max(0.0, one.program - nothing))
              for plain, one in pairs]
    print(f"udpserver takes {statistics.median(shares):.0f} times as much CPU as with --xdp, from "
          f"{min(shares):.0f} to {max(shares):.0f} times. Timing an\nempty program takes "
          f"{nothing:.0f} ns, which are subtracted.")


if __name__ == "__main__":
    as_program(main)
