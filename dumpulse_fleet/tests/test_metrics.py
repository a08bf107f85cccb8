"""The text for Prometheus: every series, without numpy."""

import dataclasses
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.fakes import fleet
from dumpulse_fleet.web import metrics

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
