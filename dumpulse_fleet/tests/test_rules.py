"""The rules for Prometheus and Alertmanager, with the real ones.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.tests.brokers import Taking, answering, started
from dumpulse_fleet.tests.core import until
from dumpulse_fleet.web import metrics
from tests.support.programs import free_port

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
STORM = 1_000


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.slow
def test_promtool_passes_the_rules() -> None:
    assert "10 rules found" in run("promtool", "check", "rules",
                                  str(EXAMPLES / "prometheus-rules.yml"))
    run("promtool", "test", "rules", str(HERE / "prometheus_rules.yml"))


def exported() -> set[str]:
    """The names of all families."""
    return {family.name for family in (*vars(metrics).values(), *metrics.OWN.values(),
                                       *(family for family, _ in metrics.COUNTERS))
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


# ---------------------------------------------------------------- the real ones
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
