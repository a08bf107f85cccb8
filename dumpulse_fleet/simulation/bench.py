"""Measures the collector and whole services against a fake fleet on this machine, paired with the
loop of client.py.

    python -m dumpulse_fleet.simulation.bench [SECONDS]        30 seconds a line unless given
    python -m dumpulse_fleet.simulation.bench keyed [SECONDS]  only the first two lines

The first lines are the collector alone: the CPU of its thread, with the system calls in it. In the
second one, all agents have keys, and a new epoch every 10 s. The next ones are `dumpulse-fleet
serve` with web, store, alerts and a webhook: the CPU of the whole process. MiB is the memory of the
process, Python and numpy included. The fake fleet runs in a process of its own. All its agents are
well, so each other state is a false one. The last column is how many programs want to run."""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from dumpulse_fleet import client
from dumpulse_fleet.collect.collector import Collector
from dumpulse_fleet.model.agents import Agent, Profile, ReaderKeys
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.web.metrics import of_process
from tools.programs import as_program

SIZES = [(10_000, 1.0), (100_000, 10.0)]  # agents, s
MOST_CPU, MOST_MIB = 25.0, 200.0  # of the first line: µs a report, MiB
MOST_KEYED_CPU = 60.0  # of the second one
EPOCH = 10  # s of an epoch of agents with keys
NAMES = "[dumpulse]\nnow-from = 0\n" + "".join(f"[{number}]\n" for number in range(1, 16))


@dataclasses.dataclass
class Measured:
    """One line of the table."""

    what: str
    agents: int
    period: float
    seconds: float
    reports: int
    cpu: float  # s
    mib: float
    lost: int
    late: int
    void: int  # rounds of which nobody knows
    false: int = 0  # states

    @property
    def cost(self) -> float:
        """µs of CPU a report."""
        return self.cpu / max(1, self.reports) * 1e6

    @property
    def right(self) -> bool:
        most = MOST_KEYED_CPU if self.what == "keyed" else MOST_CPU
        return not (self.lost or self.false) and self.cost <= most and (
            self.agents > 10_000 or self.mib <= MOST_MIB)

    def __str__(self) -> str:
        return (f"{self.what:9} {self.agents:7,} {self.period:4g} s "
                f"{self.reports / self.seconds:7,.0f}/s {self.cost:5.1f} µs "
                f"{self.cpu / self.seconds * 100:4.0f} % {self.mib:5.0f} MiB {self.lost:5,} "
                f"{self.late:5,} {self.void:5,} {self.false:5,} {os.getloadavg()[0]:5.1f}")


HEAD = "           agents   each  reports  a report  CPU    memory  lost  late  void false  load"


def settings() -> client.Settings:
    return client.make_settings(argparse.Namespace(now_from="0", expect="1-15"))


def keys_of_fakes(count: int) -> list[ReaderKeys]:
    """Those of the fake agents, by way of a file, as always."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "key"
        path.touch(0o600)
        for row in range(count):
            path.write_text(f"{row:032x}\n")
            found.append(ReaderKeys(str(path)))
    return found


def collect(what: str, count: int, period: float, seconds: float) -> Measured:
    """The collector alone."""
    profile = Profile(settings())
    keyed = what == "keyed"
    keys = keys_of_fakes(count) if keyed else [None] * count
    with FakeFleet(count, keyed=EPOCH * keyed) as fake:
        collector = Collector(Table([Agent(f"agent{row}", fake.address(row), profile,
                                           period=period, keys=keys[row])
                                     for row in range(count)]), lambda _: None)
        collector.start()
        time.sleep(period + 2)  # the first reports of all
        figures = collector.figures
        before, cpu = figures.reports, figures.cpu
        time.sleep(seconds)
        found = Measured(what, count, period, seconds, figures.reports - before,
                         figures.cpu - cpu, used(b"".join(of_process()))[1], figures.lost,
                         figures.late, figures.void)
        collector.stop()
    if collector.failure:
        sys.exit(collector.failure)
    return found


@contextlib.contextmanager
def service(folder: pathlib.Path, fake: FakeFleet, period: float) -> Iterator[str]:
    """The address of dumpulse-fleet with all its parts."""
    first, last = fake.address(0).partition(":")[0], fake.address(fake.count - 1)
    (folder / "names.ini").write_text(NAMES)
    (folder / "fleet.toml").write_text(
        "[collector]\nstate = 'state'\ngrace = '0'\n[defaults]\nnames = 'names.ini'\n"
        f"period = '{period:g}s'\n[[agents]]\naddresses = ['{first}-{last}']\nsite = 'here'\n"
        f"[[notify]]\nwebhook = 'http://127.0.0.1:9/'\n")
    with subprocess.Popen(
            [sys.executable, "-m", "dumpulse_fleet", "serve",
             "--config.file", str(folder / "fleet.toml"),
             "--web.listen-address", "127.0.0.1:0"],
            stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            for line in process.stderr:
                if found := re.search(r"the page is (http://\S+)/$", line):
                    threading.Thread(target=process.stderr.read, daemon=True).start()
                    yield found[1]
                    break
            else:
                sys.exit("the service did not start")
        finally:
            process.terminate()


def page(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=120) as answer:
        content: bytes = answer.read()
    return content


def number(text: bytes, series: str) -> float:
    found = re.search(rf"^{series} (\S+)$", text.decode(), re.M)
    assert found, series
    return float(found[1])


def used(text: bytes) -> tuple[float, float]:
    """Seconds of CPU that the process of these metrics has taken, and MiB that it has now."""
    return (number(text, "process_cpu_seconds_total"),
            number(text, "process_resident_memory_bytes") / (1 << 20))


def false_states(address: str) -> int:
    """Agents that are not alive, and events that told of one."""
    now = sum(float(count) for state, count in re.findall(
        r'^dumpulse_fleet_agents\{state="([a-z ]+)"\} (\S+)$',
        page(f"{address}/metrics").decode(), re.M) if state != "alive")
    told = json.loads(page(f"{address}/api/v1/events?what=state&limit=1000"))["events"]
    return int(now) + sum(each["now"] not in ("alive", "pending") for each in told)


def serve(count: int, period: float, seconds: float) -> Measured:
    """A whole service."""
    with tempfile.TemporaryDirectory() as folder, FakeFleet(count) as fake, \
            service(pathlib.Path(folder), fake, period) as address:
        time.sleep(2 * period + 2)
        before = page(f"{address}/metrics")
        time.sleep(seconds)
        after = page(f"{address}/metrics")

        def grown(word: str) -> int:
            series = f"dumpulse_collector_{word}_total"
            return int(number(after, series) - number(before, series))

        return Measured(
            "service", count, period, seconds, grown("reports"), used(after)[0] - used(before)[0],
            used(after)[1], grown("lost_rounds"), grown("late_reports"), grown("void_rounds"),
            false_states(address))


def ask_one_by_one(seconds: float) -> float:
    """µs of CPU a report, with the module client.py, an agent after the other."""
    wanted = settings()
    with FakeFleet(1000) as fake:
        clocks = [(client.Agent(fake.address(row)), client.Clock(wanted), client.History())
                  for row in range(1000)]
        reports, begun, cpu = 0, time.monotonic(), time.thread_time()
        while time.monotonic() < begun + seconds:
            agent, clock, history = clocks[reports % 1000]
            asked = client.uptime()
            clock.take(agent.ask(client.TIMEOUT), asked, client.uptime())
            client.interpret(clock, history)
            reports += 1
        return (time.thread_time() - cpu) / reports * 1e6


def main() -> None:
    keyed = sys.argv[1:2] == ["keyed"]
    seconds = float([*sys.argv[1 + keyed:], "30"][0])
    print(HEAD, flush=True)
    right = True
    plain = [] if keyed else [ask_one_by_one(min(seconds, 5.0))]
    lines = [("collector", *SIZES[0]), ("keyed", *SIZES[0]), ("collector", *SIZES[1])]
    # Each line in a process of its own, so that each has its own memory.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as apart:
        for what in lines[:2] if keyed else lines:
            line = apart.submit(collect, *what, seconds).result()
            right &= line.right
            print(line, flush=True)
    if keyed:
        sys.exit(not right)
    served = [serve(*size, seconds) for size in SIZES]
    for line in served:
        right &= line.right
        print(line, flush=True)
    plain.append(ask_one_by_one(min(seconds, 5.0)))
    print(f"client.py one by one: {plain[0]:.0f} µs before, {plain[1]:.0f} µs after: "
          f"{sum(plain) / 2 / served[0].cost:.1f} times the service")
    sys.exit(not right)


if __name__ == "__main__":
    as_program(main, r"(keyed)? ?(\d+(\.\d+)?)?")
