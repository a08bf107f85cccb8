"""The examples for Prometheus, Alertmanager and Grafana, with Debian's real Prometheus and
Alertmanager; two fleets on one dashboard."""

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
from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import until
from dumpulse_fleet.tests.serving import Serving, Taking, answering, started
from dumpulse_fleet.web import metrics, server
from tools.programs import free_port

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
CONFIG = EXAMPLES / "prometheus.yml"
DASHBOARD = EXAMPLES / "grafana-dashboard.json"
STORM = 1_000


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


class Page:
    """The metrics of a fleet, and the receiver of notifications."""

    def __init__(self) -> None:
        self.states = {**{f"a{number}": ("berlin", State.ALIVE) for number in range(STORM)},
                       **{f"b{number}": ("bern", State.ALIVE) for number in range(STORM + 100)}}
        self.got: list[dict[str, Any]] = []

    def text(self) -> bytes:
        return "".join(f'dumpulse_agent_state{{agent="{agent}",site="{site}"}} {int(state)}\n'
                       for agent, (site, state) in self.states.items()).encode()

    def put(self, agents: range, state: State) -> None:
        for number in agents:
            self.states[f"a{number}"] = ("berlin", state)


@contextlib.contextmanager
def serving(page: Page) -> Iterator[int]:
    class Handler(Taking):
        came = page.got

        def do_GET(self) -> None:
            self.answer(200, page.text(), **{"Content-Type": metrics.CONTENT_TYPE})

    with answering(Handler) as port:
        yield port


def active(port: int) -> int:
    """Alerts that Alertmanager knows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/alerts?active=true") as answer:
        return len(json.load(answer))


@pytest.mark.long
def test_a_storm_of_1000_agents_makes_one_notification(tmp_path: Path) -> None:
    """The example files, with shorter times only."""
    page = Page()
    prometheus, alertmanager = free_port(), free_port()
    with serving(page) as port:
        (tmp_path / "rules.yml").write_text(
            (EXAMPLES / "prometheus-rules.yml").read_text().replace("for: 30s", "for: 3s"))
        (tmp_path / "alertmanager.yml").write_text(
            (EXAMPLES / "alertmanager.yml").read_text().replace("group_wait: 30s",
                                                                "group_wait: 15s")
            .replace("group_interval: 5m", "group_interval: 20s")
            .replace("localhost:9099", f"127.0.0.1:{port}"))
        (tmp_path / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "alerting": {"alertmanagers": [
                {"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]},
            "scrape_configs": [{"job_name": "dumpulse", "static_configs": [
                {"targets": [f"127.0.0.1:{port}"]}]}]}))
        run("amtool", "check-config", str(tmp_path / "alertmanager.yml"))
        run("promtool", "check", "config", str(tmp_path / "prometheus.yml"))
        with started("prometheus-alertmanager", f"--config.file={tmp_path}/alertmanager.yml",
                     f"--storage.path={tmp_path}/alertmanager", "--cluster.listen-address=",
                     f"--web.listen-address=127.0.0.1:{alertmanager}", port=alertmanager), \
                started("prometheus", f"--config.file={tmp_path}/prometheus.yml",
                        f"--storage.tsdb.path={tmp_path}/prometheus",
                        f"--web.listen-address=127.0.0.1:{prometheus}", port=prometheus):
            for first in range(0, STORM, 200):  # noticed one after the other, as they are asked
                page.put(range(first, first + 200), State.UNREACHABLE)
                until(lambda: active(alertmanager) >= first // 2, 60)
            until(lambda: active(alertmanager) == STORM, 60)
            until(lambda: page.got, 60)
            page.put(range(STORM), State.ALIVE)
            until(lambda: page.got[-1]["status"] == "resolved", 120)
    assert [each["status"] for each in page.got] == ["firing", "resolved"]
    assert [len(each["alerts"]) for each in page.got] == [STORM, STORM]
    assert page.got[0]["groupLabels"] == {"site": "berlin"}
    assert {each["labels"]["alertname"] for each in page.got[0]["alerts"]} == {
        "DumpulseAgentUnreachable"}
