"""The examples for Prometheus and Grafana, with Debian's real Prometheus.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.tests import standins
from dumpulse_fleet.tests.brokers import started
from dumpulse_fleet.tests.core import until
from dumpulse_fleet.tests.test_rules import exported
from dumpulse_fleet.web import server
from tests.support.programs import free_port

pytestmark = pytest.mark.slow

CONFIG = Path("dumpulse_fleet/examples/prometheus.yml")
DASHBOARD = Path("dumpulse_fleet/examples/grafana-dashboard.json")


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is in a package of Debian: see tests/tools/packages.txt"
    return found


@contextlib.contextmanager
def prometheus(folder: Path, fleet_port: int) -> Iterator[str]:
    """A server with the example; only the port and the times are others. Its address."""
    text = CONFIG.read_text("utf-8").replace("interval: 30s", "interval: 1s").replace(
        "127.0.0.1:9061/sd", f"127.0.0.1:{fleet_port}/sd\n        refresh_interval: 5s")
    path = folder / "prometheus.yml"
    path.write_text(text, "utf-8")
    address = f"127.0.0.1:{free_port()}"
    with started(program("prometheus"), f"--config.file={path}",
                 f"--web.listen-address={address}", f"--storage.tsdb.path={folder / 'data'}",
                 port=int(address.rpartition(":")[2])):
        yield f"http://{address}"


def query(address: str, text: str) -> list[dict[str, Any]]:
    parts = urllib.parse.urlencode({"query": text})
    with urllib.request.urlopen(f"{address}/api/v1/query?{parts}", timeout=10) as answer:
        found: list[dict[str, Any]] = json.loads(answer.read())["data"]["result"]
        return found


def first(address: str, text: str) -> float:
    with contextlib.suppress(OSError):
        for series in query(address, text):
            return float(series["value"][1])
    return -1


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text("utf-8"))


def expressions() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def test_promtool_takes_the_example() -> None:
    subprocess.run([program("promtool"), "check", "config", CONFIG], check=True,
                   capture_output=True, timeout=60)


def test_victoriametrics_takes_the_example() -> None:
    subprocess.run([program("victoria-metrics"), f"-promscrape.config={CONFIG}",
                    "-promscrape.config.dryRun"], check=True, capture_output=True, timeout=60)


def test_prometheus_reads_the_whole_fleet_and_every_panel_has_data(tmp_path: Path) -> None:
    service = standins.Service(standins.fleet(300))
    service.change(5, State.DEAD, 2)
    service.change(6, State.LATE, 1)
    table = service.table
    with standins.serving(lambda: server.make_app(service)) as port, \
            prometheus(tmp_path, port) as address:
        # 300 agents are 4 shards; the fifth target is the fleet itself.
        until(lambda: first(address, "count(up == 1)") == 5, "5 targets", 40)
        until(lambda: first(address, "count(dumpulse_agent_state)") == 300, "300 agents", 40)
        assert first(address, "count(count by (shard) (up))") == 5
        assert query(address, 'dumpulse_agent_state{shard!=""}') == []
        found = {series["metric"]["agent"]: float(series["value"][1])
                 for series in query(address, 'dumpulse_variable_value{variable="3"}')}
        assert found == {agent.name: int(table.entry[row, 3]) & 255
                         for row, agent in enumerate(table.agents)}
        age = first(address, 'time() - dumpulse_variable_last_heartbeat_timestamp_seconds'
                             '{agent="agent-00007",variable="2"}')
        assert age == pytest.approx(time.time() - table.heard_at[7] + table.clock[7]
                                    - table.stamped[7, 2], abs=5)
        until(lambda: query(address, "rate(process_cpu_seconds_total[5m])"), "two scrapes")
        for text in expressions():
            given = text.replace("$job", "dumpulse").replace("$site", ".*").replace(
                "$agent", "agent-00005")
            assert query(address, given), given


def test_the_dashboard_asks_for_what_there_is() -> None:
    asked = {name for text in expressions() for name in re.findall("dumpulse_[a-z_]+", text)}
    assert asked <= exported()
    assert len(asked) >= 10


def test_the_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 10
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24
        taken |= cells
