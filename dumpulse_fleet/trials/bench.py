"""Measures the collector and whole services against a fake fleet on this machine, paired with the
loop of client.py. Then it says what a million agents take.

    python -m dumpulse_fleet.trials.bench [SECONDS]         30 seconds for each line unless given
    python -m dumpulse_fleet.trials.bench keyed [SECONDS]   only the first two lines
    python -m dumpulse_fleet.trials.bench load [SECONDS]    only services, with more and more to do

The first lines are the collector alone: the CPU of its thread, with the system calls in it. In the
second one, all agents have keys, and a new epoch every 10 s. The next ones are `dumpulse-fleet
serve` with web, store, alerts and a webhook: the CPU of the whole process, or of several that
share the agents. MiB is the memory of the processes, Python and numpy included. The fake fleet runs in a
process of its own. All its agents are well, so each other state is a false one; the ages of some
are compared with the truth. The last column is how many programs want to run.

The sums follow from these figures, from the sizes of packets, from the pages that Prometheus would
read, and from the room that a day takes in blocks of Prometheus, which promtool writes.
SPDX-License-Identifier: MIT
"""

import argparse
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from dumpulse_fleet import client
from dumpulse_fleet.collect.collector import Collector
from dumpulse_fleet.collect.judge import Judge
from dumpulse_fleet.model.agents import Agent, Event, Profile, ReaderKeys
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.trials.fake import Fake
from dumpulse_fleet.web.metrics import Metrics, of_process
from tests.support.programs import as_program

SIZES = [(10_000, 1.0, 1), (100_000, 10.0, 1)]  # agents, s, processes
LOADS = [(1_000, 1.0, 1), (10_000, 1.0, 1), (30_000, 1.0, 1), (100_000, 10.0, 4)]
BEAT = 3.0  # s from one heartbeat to the next: so ages are 0 to 3 ticks of 1 s
COMPARED = 50  # agents of each process whose ages are compared
MOST_CPU, MOST_MIB = 25.0, 200.0  # of the first line: µs a report, MiB
MOST_KEYED_CPU = 60.0  # of the second one
EPOCH = 10  # s of an epoch of agents with keys
NAMES = "[dumpulse]\nnow-from = 0\n" + "".join(f"[{number}]\n" for number in range(1, 16))
MILLION, PERIOD, SCRAPE = 1_000_000, 10.0, 30.0  # agents, s, s
HEADERS = 14 + 20 + 8  # bytes of Ethernet, IPv4 and UDP
TRIED = 40  # agents whose series are written for a day
DAY = 86_400
CHANGES = 10  # of an agent in a day: a guess, which is easy to scale


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
    processes: int = 1
    false: int = 0  # states
    ages: int = 0  # that are wrong

    @property
    def cost(self) -> float:
        """µs of CPU a report."""
        return self.cpu / max(1, self.reports) * 1e6

    @property
    def right(self) -> bool:
        most = MOST_KEYED_CPU if self.what == "keyed" else MOST_CPU
        return not (self.lost or self.false or self.ages) and (
            self.agents < 10_000 or self.cost <= most * self.processes) and (
            self.agents > 10_000 or self.mib <= MOST_MIB)

    def __str__(self) -> str:
        return (f"{self.what:9} {self.agents:7,} {self.period:4g} s {self.processes:9} "
                f"{self.reports / self.seconds:7,.0f}/s {self.cost:5.1f} µs "
                f"{self.cpu / self.seconds * 100:4.0f} % {self.mib:5.0f} MiB {self.lost:5,} "
                f"{self.late:5,} {self.void:5,} {self.false:5,} {self.ages:5,} "
                f"{os.getloadavg()[0]:5.1f}")


HEAD = ("           agents  each processes  reports  a report  CPU    memory  lost  late  void "
        "false  ages  load")


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


def collect(what: str, count: int, period: float, processes: int, seconds: float) -> Measured:
    """The collector alone."""
    profile = Profile(settings())
    keyed = what == "keyed"
    keys = keys_of_fakes(count) if keyed else [None] * count
    with Fake(count, keyed=EPOCH * keyed) as fake:
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
                         figures.late, figures.void, processes)
        collector.stop()
    if collector.failure:
        sys.exit(collector.failure)
    return found


@contextlib.contextmanager
def service(folder: pathlib.Path, fake: Fake, begin: int, end: int, period: float
            ) -> Iterator[str]:
    """The address of dumpulse-fleet with all its parts, for these agents."""
    first, last = fake.address(begin).partition(":")[0], fake.address(end - 1)
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


@dataclasses.dataclass
class Scrape:
    """What one reading of all agents takes."""

    cpu: float  # s of the service
    series: int
    size: int  # bytes of the text
    packed: int  # and with gzip


def false_states(address: str) -> int:
    """Agents that are not alive, and events that told of one."""
    now = sum(float(count) for state, count in re.findall(
        r'^dumpulse_fleet_agents\{state="([a-z ]+)"\} (\S+)$',
        page(f"{address}/metrics").decode(), re.M) if state != "alive")
    told = json.loads(page(f"{address}/api/v1/events?what=state&limit=1000"))["events"]
    return int(now) + sum(each["now"] not in ("alive", "pending") for each in told)


def wrong_ages(address: str, fake: Fake) -> int:
    """Of some agents of a process: how many heartbeats it takes for older or younger than they are,
    by more than a tick and a quarter of a second for the answer."""
    offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    places, found = {fake.address(row): row for row in range(fake.count)}, 0
    for each in json.loads(page(f"{address}/api/v1/agents?limit={COMPARED}&sort=name"))["agents"]:
        agent = json.loads(page(f"{address}/api/v1/agents/{each['name']}"))
        for variable in agent["variables"][1:16]:
            phase = BEAT * ((variable["variable"] * 37 + places[agent["address"]] * 11) % 64) / 64
            came = agent["heard_at"] - offset  # the phase is as fake.c has it
            last = math.floor((came - phase) / BEAT) * BEAT + phase + offset
            # It may have beaten while the answer was on its way.
            found += min(abs(variable["heard_at"] - last),
                         abs(variable["heard_at"] - last + BEAT)) > 1.25
    return found


def serve(count: int, period: float, processes: int, seconds: float, scraped: bool = True
          ) -> tuple[Measured, Scrape | None]:
    """Whole services; then the first is scraped once."""
    with contextlib.ExitStack() as parts:
        fake = parts.enter_context(Fake(count, beat=int(BEAT * 1000)))
        addresses = [parts.enter_context(service(
            pathlib.Path(parts.enter_context(tempfile.TemporaryDirectory())), fake,
            count * number // processes, count * (number + 1) // processes, period))
            for number in range(processes)]
        time.sleep(2 * period + 2)
        before = [page(f"{address}/metrics") for address in addresses]
        time.sleep(seconds)
        after = [page(f"{address}/metrics") for address in addresses]

        def grown(word: str) -> int:
            series = f"dumpulse_collector_{word}_total"
            return int(sum(number(new, series) - number(old, series)
                           for old, new in zip(before, after)))

        found = Measured(
            "service", count, period, seconds, grown("reports"),
            sum(used(new)[0] - used(old)[0] for old, new in zip(before, after)),
            sum(used(each)[1] for each in after), grown("lost_rounds"), grown("late_reports"),
            grown("void_rounds"), processes, sum(map(false_states, addresses)),
            sum(wrong_ages(address, fake) for address in addresses))
        return found, scrape(addresses[0], count, found.cpu / seconds) if scraped else None


def scrape(address: str, count: int, cpu: float) -> Scrape:
    """One reading of so many agents. Else, the service takes so much of a core."""
    part = max(1, count // 10_000)  # at most 10,000 agents: a tenth of the larger fleet
    begun, before = time.monotonic(), used(page(f"{address}/metrics"))[0]
    text = page(f"{address}/metrics/agents?shard=0&of={part}")
    taken = used(page(f"{address}/metrics"))[0] - before - cpu * (time.monotonic() - begun)
    share = count / text.count(b"\ndumpulse_agent_state{")
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    return Scrape(max(taken, 0.0) * share, round(series * share), round(len(text) * share),
                  round(len(zlib.compress(text, 1)) * share))


def ask_one_by_one(seconds: float) -> float:
    """µs of CPU a report, with the module client.py, an agent after the other."""
    wanted = settings()
    with Fake(1000) as fake:
        clocks = [(client.Agent(fake.address(row)), client.Clock(wanted), client.History())
                  for row in range(1000)]
        reports, begun, cpu = 0, time.monotonic(), time.thread_time()
        while time.monotonic() < begun + seconds:
            agent, clock, history = clocks[reports % 1000]
            clock.ask(agent, client.TIMEOUT)
            client.interpret(clock, history)
            reports += 1
        return (time.thread_time() - cpu) / reports * 1e6


def event_size() -> float:
    """Bytes of an event on the disk."""
    count = 20_000
    with tempfile.TemporaryDirectory() as folder:
        store = Store(pathlib.Path(folder) / "events.sqlite")
        for first in range(0, count, 1000):
            store.publish([Event(1.7e9 + each, f"agent{each % 1000}", each % 16, "state", "alive",
                                 "late", 1.5) for each in range(first, first + 1000)])
        assert store.flush(60)
        store.close()
        return (pathlib.Path(folder) / "events.sqlite").stat().st_size / count


def sample_size() -> float:
    """Bytes that a sample takes in Prometheus: promtool writes a day of some agents, whose 15 nodes
    beat each second, and whose values change now and then."""
    profile, chance = Profile(settings()), np.random.default_rng(1)
    table = Table([Agent(f"agent{row}", "127.0.0.1:9", profile) for row in range(TRIED)])
    judge, writer, rows = Judge(table), Metrics(table), np.arange(TRIED)
    begin = time.time() // 7200 * 7200 - DAY - 7200
    value, samples = np.zeros((TRIED, 16), np.uint32), 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "day.txt"
        with path.open("wb") as file:
            for step in range(int(DAY / SCRAPE)):
                when = begin + step * SCRAPE - chance.uniform(0, PERIOD, TRIED)
                own = np.floor(when).astype(np.uint32)
                value[chance.random(value.shape) < 0.01] += 1
                entry = np.zeros((TRIED, 64), np.uint32)
                entry[:, 0] = own << 16 | 1 << 8
                beat = own[:, None] - (chance.random((TRIED, 15)) < 0.5)
                entry[:, 1:16] = beat << 16 | 1 << 8 | value[:, 1:] & 255
                judge.take(rows, when, when + 0.001, when, entry)
                end = f" {begin + step * SCRAPE:.0f}\n".encode()
                for block in writer.write(rows):
                    text = [line for line in block.splitlines() if line[:1] != b"#"]
                    file.writelines(line + end for line in text)
                    samples += len(text)
            file.write(b"# EOF\n")
        blocks = pathlib.Path(folder) / "blocks"
        subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", path, blocks],
                       check=True, stdout=subprocess.DEVNULL)
        size = sum(each.stat().st_size for each in blocks.rglob("*") if each.is_file())
    return size / samples


def say_sums(small: Measured, large: Measured, scrape: Scrape) -> None:
    """A million agents, asked each 10 s and scraped each 30 s."""
    each = MILLION / large.agents
    grown = (large.mib - small.mib) / (large.agents - small.agents)  # MiB an agent
    alone = small.mib - grown * small.agents
    rate, series = MILLION / PERIOD, scrape.series * each
    cpu = large.cpu / large.seconds * each
    scraped = scrape.cpu * each / SCRAPE
    request, report = (size + HEADERS for size in (len(client.REQUEST), client.REPORT_SIZE))
    day = series * DAY / SCRAPE
    event, sample = event_size(), sample_size()
    mega = 8 / 1e6
    print(f"""
A million agents, asked each {PERIOD:g} s and scraped each {SCRAPE:g} s, by {each:.0f} \
collectors of {large.agents:,}:
  requests and reports    {rate:,.0f} a second
  CPU of the collectors   {cpu:.1f} cores, and {scraped:.1f} for the scrapes
  memory                  {alone:.0f} MiB a process and {grown * 1024:.1f} KiB an agent: \
{(alone + grown * large.agents) / 1024 * each:.1f} GiB
  to the agents           {rate * request * mega:.0f} Mbit/s, {request} bytes a request
  from the agents         {rate * report * mega:.0f} Mbit/s, {report} bytes a report
  series of Prometheus    {series / 1e6:.0f} million, {series / MILLION:.0f} an agent
  samples                 {series / SCRAPE / 1e6:.2f} million a second
  scrapes                 {scrape.packed * each / SCRAPE * mega:.0f} Mbit/s with gzip, \
{scrape.size * each / SCRAPE * mega:.0f} without
  disk of Prometheus      {day * sample / 1e9:,.0f} GB a day, {sample:.2f} bytes a sample
  disk of the events      {event * CHANGES * MILLION / 1e9:.1f} GB a day, {event:.0f} bytes each, \
if each agent has {CHANGES}""")


def main() -> None:
    word = sys.argv[1] if sys.argv[1:2] in (["keyed"], ["load"]) else ""
    seconds = float([*sys.argv[1 + bool(word):], "30"][0])
    print(HEAD, flush=True)
    right = True
    if word == "load":
        for load in LOADS:
            line, _ = serve(*load, seconds, scraped=False)
            right &= line.right
            print(line, flush=True)
        sys.exit(not right)
    plain = [] if word else [ask_one_by_one(min(seconds, 5.0))]
    lines = [("collector", *SIZES[0]), ("keyed", *SIZES[0]), ("collector", *SIZES[1])]
    # Each line in a process of its own, so that each has its own memory.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as apart:
        for what in lines[:2] if word else lines:
            line = apart.submit(collect, *what, seconds).result()
            right &= line.right
            print(line, flush=True)
    if word:
        sys.exit(not right)
    served = [serve(*size, seconds) for size in SIZES]
    for line, _ in served:
        right &= line.right
        print(line, flush=True)
    plain.append(ask_one_by_one(min(seconds, 5.0)))
    whole, scraped = served[0][0].cost, served[1][1]
    print(f"client.py one by one: {plain[0]:.0f} µs before, {plain[1]:.0f} µs after: "
          f"{sum(plain) / 2 / whole:.1f} times the service")
    assert scraped
    say_sums(served[0][0], served[1][0], scraped)
    sys.exit(not right)


if __name__ == "__main__":
    as_program(main, r"(keyed|load)? ?(\d+(\.\d+)?)?")
