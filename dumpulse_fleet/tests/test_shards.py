"""Three collectors share a fleet. Debian's Prometheus and VictoriaMetrics find them by their own
lists of targets, and are whole again after one of them was killed.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpulse_fleet.tests.core import until
from dumpulse_fleet.tests.serving import Serving
from dumpulse_fleet.tests.test_prometheus import CONFIG, first, program
from dumpulse_fleet.trials.fake import Fake
from tests.support.programs import free_port

AGENTS, SHARDS = 600, 3
QUERIES = ("count(dumpulse_agent_state == 1)",
           'count(dumpulse_variable_last_heartbeat_timestamp_seconds{variable="3"} > 0)')


def configure(folder: Path, fake: Fake) -> None:
    (folder / "names.ini").write_text("[dumpulse]\nnow-from = 0\nwarn = 1min\ncrit = 5min\n"
                                      "[0]\n[3]\n")
    (folder / "fleet.toml").write_text(f"""
[collector]
state = 'state'
[defaults]
names = 'names.ini'
period = '1s'
[[agents]]
addresses = ['{fake.address(0).partition(":")[0]}-{fake.address(AGENTS - 1)}']
""")


@contextlib.contextmanager
def databases(folder: Path, ports: list[int]) -> Iterator[list[str]]:
    """Both, which scrape all collectors. Their addresses."""
    here = "      - url: http://127.0.0.1:9061/sd\n"
    text = CONFIG.read_text("utf-8").replace("interval: 30s", "interval: 1s")
    assert here in text
    for name, more in (("prometheus", "        refresh_interval: 2s\n"), ("victoria", "")):
        (folder / f"{name}.yml").write_text(text.replace(here, "".join(
            here.replace("9061", str(port)) + more for port in ports)), "utf-8")
    prometheus, victoria = free_port(), free_port()
    commands = [
        [program("prometheus"), f"--config.file={folder / 'prometheus.yml'}",
         f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{prometheus}"],
        # It asks for targets each 2 s, too, and shows at once what is new.
        [program("victoria-metrics"), f"-promscrape.config={folder / 'victoria.yml'}",
         f"-storageDataPath={folder / 'victoria'}", "-promscrape.httpSDCheckInterval=2s",
         f"-httpListenAddr=127.0.0.1:{victoria}", "-search.latencyOffset=0s"]]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(folder / "log", "wb"))
        for command in commands:
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
        yield [f"http://127.0.0.1:{port}" for port in (prometheus, victoria)]


def collector(folder: Path, number: int, port: int) -> Serving:
    mine = folder / f"shard{number}"
    mine.mkdir(exist_ok=True)
    for name in ("fleet.toml", "names.ini"):
        (mine / name).write_text((folder / name).read_text())
    return Serving(mine, "--shard", f"{number}/{SHARDS}",
                   "--web.listen-address", f"127.0.0.1:{port}")


@pytest.mark.long
def test_three_collectors_and_one_is_killed(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(SHARDS)]
    with Fake(AGENTS) as fake, contextlib.ExitStack() as stack:
        configure(tmp_path, fake)
        running = [stack.enter_context(collector(tmp_path, number + 1, port))
                   for number, port in enumerate(ports)]
        shares = [int(each.wait_for("asks ").split("asks ")[1].split(" ")[0]) for each in running]
        assert sum(shares) == AGENTS and min(shares) > AGENTS / SHARDS * 0.8
        addresses = stack.enter_context(databases(tmp_path, ports))

        def answers() -> list[float]:
            return [first(address, text) for address in addresses for text in QUERIES]

        until(lambda: answers() == [AGENTS] * 4, answers)
        running[1].end(signal.SIGKILL)
        begun = time.monotonic()
        until(lambda: answers() == [AGENTS - shares[1]] * 4, answers, 400)
        print(f"killed: both miss {shares[1]} agents after {time.monotonic() - begun:.0f} s")
        begun = time.monotonic()
        stack.enter_context(collector(tmp_path, 2, ports[1]))
        until(lambda: answers() == [AGENTS] * 4, answers)
        print(f"started again: whole after {time.monotonic() - begun:.0f} s")
        for address in addresses:  # no agent twice, though all three were asked for it
            assert first(address, "max(count by (agent) (dumpulse_agent_state))") == 1
