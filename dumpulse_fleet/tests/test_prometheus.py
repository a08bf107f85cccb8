"""The examples for Prometheus, Alertmanager and Grafana, with Debian's real Prometheus; two fleets
on one dashboard."""

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
import yaml

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import until
from dumpulse_fleet.tests.serving import Serving, started
from dumpulse_fleet.web import metrics, server
from tools.programs import free_port

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
CONFIG = EXAMPLES / "prometheus.yml"
DASHBOARD = EXAMPLES / "grafana-dashboard.json"


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is in a package of Debian: see tools/packages.txt"
    return found


@contextlib.contextmanager
def scraping(folder: Path, ports: list[int]) -> Iterator[str]:
    """Prometheus, which scrapes these fleets by the example with shorter times: its address."""
    path, port = folder / "prometheus.yml", free_port()
    here = "      - url: http://127.0.0.1:9061/sd\n"
    text = CONFIG.read_text("utf-8").replace("interval: 30s", "interval: 1s")
    more = "        refresh_interval: 2s\n"
    path.write_text(text.replace(here, "".join(
        here.replace("9061", str(each)) + more for each in ports)), "utf-8")
    with started(program("prometheus"), f"--config.file={path}",
                 f"--storage.tsdb.path={folder / 'prometheus'}",
                 f"--web.listen-address=127.0.0.1:{port}", port=port):
        yield f"http://127.0.0.1:{port}"


def query(address: str, text: str, **more: Any) -> list[dict[str, Any]]:
    parts = urllib.parse.urlencode({"query": text, **more})
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


@pytest.mark.slow
def test_both_take_the_example() -> None:
    run("promtool", "check", "config", str(CONFIG))
    run("victoria-metrics", f"-promscrape.config={CONFIG}", "-promscrape.config.dryRun")


@pytest.mark.slow
def test_prometheus_reads_the_whole_fleet_and_every_panel_has_data(tmp_path: Path) -> None:
    service = fakes.FakeBackend(fakes.fleet(300))
    service.change(5, State.DEAD, 2)
    service.change(6, State.LATE, 1)
    table = service.table
    with fakes.serving(lambda: server.make_app(service)) as port, \
            scraping(tmp_path, [port]) as address:
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


def small_fleet(folder: Path, fake: FakeFleet, begin: int, end: int) -> Serving:
    """A process that polls these agents. Their names are numbers, from 0 on."""
    folder.mkdir(exist_ok=True)
    (folder / "names.ini").write_text(
        "[dumpulse]\nnow-from = 0\nwarn = 3s\ncrit = 5s\n[0]\n[1]\n[2]\n")
    (folder / "fleet.toml").write_text(
        "[collector]\nstate = 'state'\ngrace = '0'\n[defaults]\nnames = 'names.ini'\n"
        "period = '1s'\n" + "".join(
            f"[[agents]]\naddress = '{fake.address(number)}'\nname = 'a{number - begin}'\n"
            for number in range(begin, end)))
    return Serving(folder)


@pytest.mark.slow
def test_the_dashboard_keeps_two_fleets_apart(tmp_path: Path) -> None:
    """Each query gives what it gives of each fleet alone, and each series has the fleet's name. The
    fleets have more agents than the longest table has rows, and all names of the first fleet are in
    the second one, too."""
    ends = ((0, 30), (30, 62))
    with FakeFleet(ends[1][1]) as fake, contextlib.ExitStack() as stack:
        for begin, end in ends:
            fake.tell("stop 1", begin, end - 10)
            fake.tell("die", end - 3, end - 1)
        ports = [int(stack.enter_context(small_fleet(
            tmp_path / str(begin), fake, begin, end)).address.rpartition(":")[2])
            for begin, end in ends]
        address = stack.enter_context(scraping(tmp_path, ports))
        for text, count in (("dumpulse_agent_state", 62), ("dumpulse_agent_state == 9", 6),
                            ("dumpulse_variable_state == 6", 44),
                            ("rate(dumpulse_collector_lost_rounds_total[5m])", 2)):
            until(lambda: first(address, f"count({text})") == count, lambda: query(address, text))
        now = time.time()

        def ask(text: str, where: str = "") -> dict[frozenset[tuple[str, str]], str]:
            given = text.replace("$job\"", f"dumpulse\"{where}").replace("$site", ".*").replace(
                "$agent", "a0")
            return {frozenset(series["metric"].items()): series["value"][1]
                    for series in query(address, given, time=now)}

        for panel in dashboard()["panels"]:
            hidden = {label for change in panel.get("transformations", ())
                      for label in change["options"]["excludeByName"]}
            names = []
            for target in panel["targets"]:
                each = [ask(target["expr"], f',instance="127.0.0.1:{port}"') for port in ports]
                assert all(each) and ask(target["expr"]) == each[0] | each[1], panel["title"]
                for series in each[0] | each[1]:
                    legend = target["legendFormat"]
                    for label, value in series:
                        legend = legend.replace(f"{{{{{label}}}}}", value)
                    names.append(legend or str(sorted(
                        pair for pair in series if pair[0] not in hidden)))
            assert len({*names}) == len(names), panel["title"]
            assert all(sum(str(port) in name for port in ports) == 1 for name in names), names


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


# ---------------------------------------------------------------- rules
@pytest.mark.slow
def test_promtool_passes_the_rules() -> None:
    assert "10 rules found" in run("promtool", "check", "rules",
                                  str(EXAMPLES / "prometheus-rules.yml"))
    run("promtool", "test", "rules", str(HERE / "prometheus_rules.yml"))


def exported() -> set[str]:
    """The names of all families."""
    return {family.name for family in (*vars(metrics).values(), *metrics.OWN.values(),
                                       *metrics.COUNTERS.values())
            if isinstance(family, metrics.Family)}


def test_the_rules_name_what_the_fleet_exports() -> None:
    """Names and states, so that neither changes alone."""
    rules = (EXAMPLES / "prometheus-rules.yml").read_text()
    known = exported()
    used = {word.strip("(){}=\"[],") .split("{")[0].split("[")[0] for word in
            rules.replace("(", " ").replace("[", " ").replace(")", " ").split()
            if word.startswith("dumpulse_")}
    assert used and used <= known, used - known
    said = " ".join(rules.split("The states are ")[1].split(". A variable")[0]
                    .replace("\n#", "").split())
    assert said == ", ".join(f"{state.value} {state.words}" for state in State)


@pytest.mark.slow
def test_a_site_is_one_notification() -> None:
    """Alertmanager groups alerts by the label that the rules give each of them."""
    example = EXAMPLES / "alertmanager.yml"
    assert "SUCCESS" in run("amtool", "check-config", str(example))
    route = yaml.safe_load(example.read_text())["route"]
    assert route["group_by"] == ["site"] and "routes" not in route
