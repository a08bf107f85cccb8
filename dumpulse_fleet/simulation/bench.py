"""Measures whole services against a fake fleet on this machine.

    python -m dumpulse_fleet.simulation.bench [SECONDS]     30 seconds a line unless given

`dumpulse-fleet serve` has web, store, alerts and a webhook; CPU and memory are those of its
process, Python and numpy included. The fake fleet runs in a process of its own. All agents are
well, so each other state is a false one. The last column is how many programs want to run."""

import contextlib
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

from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from tools.programs import as_program

LINES = ((10_000, 1.0), (100_000, 10.0))  # agents, s
MOST_CPU = 25.0  # µs a report
NAMES = "[dumpulse]\nnow-from = 0\n" + "".join(f"[{number}]\n" for number in range(1, 16))
HEAD = " agents  each  reports  a report  CPU    memory  lost  late  void false  load"


@contextlib.contextmanager
def service(folder: pathlib.Path, fake: FakeFleet, period: float) -> Iterator[str]:
    """The address of dumpulse-fleet with all its parts."""
    (folder / "names.ini").write_text(NAMES)
    (folder / "targets.json").write_text(json.dumps(
        [{"targets": [fake.address(row) for row in range(fake.count)]}]))
    (folder / "fleet.toml").write_text(
        "[collector]\nstate = 'state'\ngrace = '0'\n[web]\nlisten = '127.0.0.1:0'\n"
        "[defaults]\nnames = 'names.ini'\n"
        f"period = '{period:g}s'\n[[agents]]\nfile = 'targets.json'\nsite = 'here'\n"
        "[[notify]]\nwebhook = 'http://127.0.0.1:9/'\n")
    with subprocess.Popen(
            [sys.executable, "-m", "dumpulse_fleet", "serve",
             "--config.file", str(folder / "fleet.toml")],
            stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            for line in process.stderr:
                if match := re.search(r"the page is (http://\S+)/$", line):
                    threading.Thread(target=process.stderr.read, daemon=True).start()
                    yield match[1]
                    break
            else:
                sys.exit("the service did not start")
        finally:
            process.terminate()


def page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=120) as answer:
        content: bytes = answer.read()
    return content.decode()


def number(text: str, series: str) -> float:
    match = re.search(rf"^{series} (\S+)$", text, re.M)
    assert match, series
    return float(match[1])


def false_states(address: str) -> int:
    """Agents that are not alive, and events that told of one."""
    now = sum(float(count) for state, count in re.findall(
        r'^dumpulse_fleet_agents\{state="([a-z ]+)"\} (\S+)$', page(f"{address}/metrics"), re.M)
        if state != "alive")
    events = json.loads(page(f"{address}/api/v1/events?what=state&limit=1000"))["events"]
    return int(now) + sum(event["now"] not in ("alive", "pending") for event in events)


def measure(count: int, period: float, seconds: float) -> bool:
    """Prints a line, and says whether it is as good as it must be."""
    with tempfile.TemporaryDirectory() as folder, FakeFleet(count) as fake, \
            service(pathlib.Path(folder), fake, period) as address:
        time.sleep(2 * period + 2)
        before = page(f"{address}/metrics")
        time.sleep(seconds)
        after = page(f"{address}/metrics")
        false = false_states(address)

    def grown(series: str) -> float:
        return number(after, series) - number(before, series)

    reports, lost, late, void = (int(grown(f"dumpulse_collector_{word}_total")) for word in (
        "reports", "lost_rounds", "late_reports", "void_rounds"))
    cpu = grown("process_cpu_seconds_total")
    cost = cpu / max(1, reports) * 1e6
    print(f"{count:7,} {period:4g} s {reports / seconds:7,.0f}/s "
          f"{cost:5.1f} µs {cpu / seconds * 100:4.0f} % "
          f"{number(after, 'process_resident_memory_bytes') / (1 << 20):5.0f} MiB {lost:5,} "
          f"{late:5,} {void:5,} {false:5,} {os.getloadavg()[0]:5.1f}", flush=True)
    return not (lost or false) and cost <= MOST_CPU


def main() -> None:
    print(HEAD, flush=True)
    sys.exit(not all([measure(*line, float([*sys.argv[1:], "30"][0])) for line in LINES]))


if __name__ == "__main__":
    as_program(main, r"(\d+(\.\d+)?)?")
