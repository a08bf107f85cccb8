"""The examples for Prometheus, Alertmanager and Grafana, with Debian's real Prometheus."""

import contextlib
import dataclasses
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

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings, strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dumpulse_fleet.config.file import Collecting
from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import until
from dumpulse_fleet.tests.fakes import fleet
from dumpulse_fleet.tests.serving import ROOT, started
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


def test_the_dashboard_keeps_two_fleets_apart() -> None:
    """Each aggregation keeps the label of the fleet, and each curve or table shows it."""
    for panel in dashboard()["panels"]:
        hidden = {label for change in panel.get("transformations", ())
                  for label in change["options"]["excludeByName"]}
        legends = [target["legendFormat"] for target in panel["targets"]]
        assert len({*legends}) == len(legends), panel["title"]
        for target, legend in zip(panel["targets"], legends):
            assert not re.search(r"\b(sum|min|max|avg|count|topk|bottomk|quantile)\b"
                                 r"(?! by \(instance\b)", target["expr"]), target["expr"]
            assert legend.startswith("{{instance}}") or not legend and "instance" not in hidden


def test_the_dashboard_asks_for_what_there_is() -> None:
    asked = {name for text in expressions() for name in re.findall("dumpulse_[a-z_]+", text)}
    assert asked <= exported()
    assert len(asked) >= 10


# ---------------------------------------------------------------- compose.yaml
def services() -> dict[str, dict[str, Any]]:
    parts: dict[str, dict[str, Any]] = yaml.safe_load(
        (EXAMPLES / "compose.yaml").read_text())["services"]
    return parts


def test_compose_pins_its_images_and_mounts_what_is_beside_it() -> None:
    for name, service in services().items():
        assert name == "fleet" or re.fullmatch(
            rf"docker\.io/prom/{name}:v[0-9.]+@sha256:[0-9a-f]{{64}}", service["image"])
        mounts = dict(mount.split(":")[:2] for mount in service["volumes"] if mount[0] == ".")
        assert all((EXAMPLES / source).is_file() for source in mounts), mounts
        assert name == "fleet" or f"--config.file={mounts[f'./{name}.yml']}" in service["command"]
    assert services()["fleet"]["volumes"][1].split(":")[1] == Collecting().state
    for name, files in (("alertmanager", ("fleet.toml", "prometheus.yml", "compose.yaml")),
                        ("prometheus", ())):
        address = listened(name)
        assert all(address in (EXAMPLES / file).read_text() for file in files), address


def test_the_image_finds_the_hash_of_each_library() -> None:
    """packages/fleet/Containerfile takes the lines of one file that have the pins of the other."""
    pins = {line.partition(" --hash=")[0] for line in (
        ROOT / "tools" / "requirements.txt").read_text().splitlines() if " --hash=" in line}
    assert {*(ROOT / "dumpulse_fleet" / "requirements.txt").read_text().split()} <= pins


def listened(name: str) -> str:
    (address,) = [str(word).partition("=")[2] for word in services()[name]["command"]
                  if word.startswith("--web.listen-address=127.0.0.1:")]
    return address


# ---------------------------------------------------------------- rules
@pytest.mark.slow
def test_promtool_passes_the_rules() -> None:
    assert "5 rules found" in run("promtool", "check", "rules",
                                  str(EXAMPLES / "prometheus-rules.yml"))
    run("promtool", "test", "rules", str(HERE / "prometheus_rules.yml"))


def exported() -> set[str]:
    """The names of all families."""
    return {family.name for family in (*vars(metrics).values(), *metrics.OWN.values(),
                                       *metrics.COUNTERS.values())
            if isinstance(family, metrics.Family)}


def test_the_rules_name_what_the_fleet_exports() -> None:
    rules = (EXAMPLES / "prometheus-rules.yml").read_text()
    used = {*re.findall("dumpulse_[a-z_]+", rules)}
    assert used and used <= exported(), used - exported()


@pytest.mark.slow
def test_a_site_is_one_notification() -> None:
    """Alertmanager groups alerts by the label that the fleet gives each of them."""
    example = EXAMPLES / "alertmanager.yml"
    assert "SUCCESS" in run("amtool", "check-config", str(example))
    route = yaml.safe_load(example.read_text())["route"]
    assert route["group_by"] == ["site"] and "routes" not in route


# ---------------------------------------------------------------- every series, without numpy
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
PROFILE = fakes.profile()


def parsed(data: bytes) -> Series:
    """As Prometheus' own library reads it. promtool is stricter: see below."""
    families = list(text_string_to_metric_families(data.decode()))
    samples = [each for family in families for each in family.samples]
    found = {key(each.name, **each.labels): each.value for each in samples}
    assert len(found) == len(samples), "a series occurs once"
    assert len({family.name for family in families}) == len(families), "a family is in one piece"
    return found


def test_own_families_have_a_name_each() -> None:
    parsed(b"".join(metrics.of_collector(dict.fromkeys(metrics.OWN, 1.0))))


def whole(table: Table) -> bytes:
    writer = metrics.Metrics(table)
    return b"".join(writer.write(writer.rows()))


def series(table: Table) -> Series:
    return parsed(whole(table))


def key(metric: str, /, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return metric, frozenset(labels.items())


def test_every_cell_is_as_a_plain_loop_says() -> None:
    quick = fakes.profile(tick_ms=250)
    table = fakes.filled([  # two blocks, and two kinds of agents
        dataclasses.replace(agent, profile=quick if row % 3 else PROFILE)
        for row, agent in enumerate(fleet(280).agents)])
    chance = np.random.default_rng(5)
    table.state[:] = chance.integers(0, len(State), table.state.shape)
    table.agent_state[:] = chance.integers(0, len(State), 280)
    table.heard_at[chance.integers(0, 280, 30)] = 0
    table.entry[chance.random(table.entry.shape) < 0.1] = 0
    got = series(table)
    expected: Series = {}
    for row, agent in enumerate(table.agents):
        own = {"agent": agent.name, "site": agent.site, **agent.labels}
        heard_at = float(table.heard_at[row])
        expected[key("dumpulse_agent_info", **own, address=agent.address)] = 1
        expected[key("dumpulse_agent_state", **own)] = int(table.agent_state[row])
        expected[key("dumpulse_agent_last_report_timestamp_seconds", **own)] = round(heard_at, 3)
        for name, array in (("reports", table.reports), ("requests_lost", table.lost),
                            ("late_reports", table.late), ("bad_reports", table.bad),
                            ("seen_seconds", table.seen_s), ("alive_seconds", table.well_s),
                            ("reboots", table.reboots)):
            expected[key(f"dumpulse_agent_{name}_total", **own)] = int(array[row])
        if heard_at:
            expected[key("dumpulse_agent_round_trip_seconds", **own)] = \
                round(float(table.round_trip[row]), 6)
        for variable in PROFILE.settings.variables:
            number = variable.number
            labels = {**own, "variable": str(number)}
            if variable.name:
                labels["name"] = variable.name
            entry = int(table.entry[row, number])
            heard = heard_at > 0 and entry != 0
            if heard or variable.listed:
                expected[key("dumpulse_variable_state", **labels)] = int(table.state[row, number])
            if heard and table.agent_state[row] < State.DAMAGED:
                expected[key("dumpulse_variable_value", **labels)] = entry % 256
            if heard:
                age = int(table.clock[row] - table.stamped[row, number])
                expected[key("dumpulse_variable_last_heartbeat_timestamp_seconds", **labels)] = \
                    round(heard_at - age * agent.profile.tick, 3)
            elif heard_at and variable.listed:
                expected[key("dumpulse_variable_last_heartbeat_timestamp_seconds", **labels)] = 0
    assert got.keys() == expected.keys()
    for one, value in got.items():
        assert value == pytest.approx(expected[one], abs=2e-3), one


def test_shards_are_the_fleet_and_do_not_overlap() -> None:
    table = fleet(300)
    writer = metrics.Metrics(table)
    assert writer.shards == 4
    rows = [row for shard in range(4) for row in writer.rows(shard, 4).tolist()]
    assert sorted(rows) == list(range(300))
    together: Series = {}
    for shard in range(4):
        part = parsed(b"".join(writer.write(writer.rows(shard, 4))))
        assert not together.keys() & part.keys()
        together.update(part)
    assert together == series(table)


def test_an_agent_keeps_its_shard() -> None:
    before, after = fleet(300), fleet(299)
    old, new = metrics.Metrics(before), metrics.Metrics(after)
    for shard in range(4):
        kept = {row for row in old.rows(shard, 4).tolist() if row < 299}
        assert kept == set(new.rows(shard, 4).tolist())


@settings(max_examples=40)
@given(name=st.text(min_size=1), site=st.text(), address=st.text(),
       labels=st.dictionaries(st.from_regex(r"l\w{0,9}", fullmatch=True).filter(str.isascii),
                              st.text(), max_size=6))
@example(name='a"} 1\nevil 2', site="\\n\\", address='"\n\\',
         labels={"le": "1", "a": '\n"\\'})
def test_hostile_names_stay_inside_their_quotes(
        name: str, site: str, address: str, labels: dict[str, str]) -> None:
    """Hypothesis prints the failing names; put them into another @example to replay it."""
    table = fakes.filled([Agent(name, address, PROFILE, site, labels),
                             Agent(f"{name}2", address, PROFILE)])
    found = series(table)
    values = [dict(pairs) for metric, pairs in found if metric == "dumpulse_agent_state"]
    assert sorted(each["agent"] for each in values) == sorted([name, f"{name}2"])
    first = next(each for each in values if each["agent"] == name)
    assert len(first) == 1 + bool(site) + sum(bool(text) for text in labels.values())


def test_a_lone_surrogate_is_written_as_something() -> None:
    table = fakes.filled([Agent("a\ud800b", "h", PROFILE, "\udfff", {"x": "\ud800"})])
    assert key("dumpulse_agent_state", agent="a?b", site="?", x="?") in series(table)


def promtool(data: bytes) -> str:
    tool = shutil.which("promtool")
    assert tool, "promtool is in Debian's package prometheus: see tools/packages.txt"
    done = subprocess.run([tool, "check", "metrics"], input=data, capture_output=True, timeout=60,
                          check=False)
    return f"{done.returncode} {(done.stdout + done.stderr).decode()}"


@pytest.mark.slow
def test_promtool_has_nothing_to_say() -> None:
    table = fleet(10)
    table.entry[:5, 3] = 0
    table.heard_at[7] = 0
    assert promtool(whole(table)) == "0 "
    own = metrics.of_collector(dict.fromkeys(metrics.OWN, 1.5))
    assert promtool(b"".join([*metrics.of_fleet(table), *own, *metrics.of_process()])) == "0 "


def test_sums() -> None:
    table = fleet(10)
    table.agent_state[:3] = State.DEAD
    got = parsed(b"".join(metrics.of_fleet(table)))
    assert got[key("dumpulse_fleet_agents", state="dead")] == 3
    assert got[key("dumpulse_fleet_agents", state="alive")] == 7
    assert sum(count for (name, _), count in got.items()
               if name == "dumpulse_fleet_variables") == 640


def test_numbers_that_are_not_finite() -> None:
    family = metrics.Family("a", "b.")
    assert metrics.text(family, [({}, float("inf")), ({"x": "y"}, float("nan")), ({}, -2.5)]) \
        .splitlines()[2:] == [b"a +Inf", b'a{x="y"} NaN', b"a -2.5"]
