"""Agents from files."""

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpulse_fleet import client
from dumpulse_fleet.collect import discovery
from dumpulse_fleet.collect.discovery import Discovery, parse_targets
from dumpulse_fleet.config.agents import Shared, make_profile, wrong_parents
from dumpulse_fleet.config.file import Config, load
from dumpulse_fleet.model.agents import Agent
from dumpulse_fleet.model.naming import Wrong

quick = settings(max_examples=150)
SHARED = Shared(make_profile(), "north", {"role": "node"}, "gw", period=5.0, misses=4)


def names(agents: Sequence[Agent] | None) -> list[str]:
    assert agents is not None
    return [agent.name for agent in agents]


def config(folder: Path, text: str) -> Config:
    path = folder / "fleet.toml"
    path.write_text(text)
    return load(str(path))


# ---------------------------------------------------------------- targets
def test_targets() -> None:
    agents, problems = parse_targets(json.dumps([
        {"targets": ["a:1", "b"]},
        {"targets": ["c"], "labels": {"site": "south", "parent": "gw2", "name": "see", "x": "y",
                                      "__meta_x": "1", "job": "j", "instance": "i"}},
        {"targets": ["d e", 7, "f:0"]}, {"targets": "a"}, 7, {"labels": {}},
        {"targets": [], "labels": {"a": 1}}, {"targets": [], "labels": {"address": "x"}},
        {"targets": ["g"], "labels": {"name": "a/b"}}]).encode(), SHARED)
    assert [(each.name, each.address, each.site, each.parent, dict(each.labels), each.period,
             each.misses) for each in agents] == [
        ("a", "a:1", "north", "gw", {"role": "node"}, 5.0, 4),
        ("b", "b:9060", "north", "gw", {"role": "node"}, 5.0, 4),
        ("see", "c:9060", "south", "gw2", {"role": "node", "x": "y"}, 5.0, 4)]
    assert [problem.split(":")[0] for problem in problems] == [
        f"entry {number}" for number in (3, 3, 3, 4, 5, 6, 7, 8, 9)]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
              st.sampled_from(["a", "b:1", "serial:", "can:can0", "\ud800"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["targets", "labels", "name", "site", "parent", "x"]), inner, max_size=3),
    max_leaves=8)


@quick
@given(st.binary(max_size=50)
       | st.lists(JSON, max_size=3).map(lambda data: json.dumps(data).encode()))
def test_any_targets(content: bytes) -> None:
    try:
        agents, problems = parse_targets(content, SHARED)
    except Wrong as error:
        assert str(error)
    else:
        assert all(problem.isprintable() and len(problem) < 1000 for problem in problems)


@pytest.mark.parametrize("content", [b"[" * 1_000_000, b"9" * 1_000_000, b"{}", b"", b"\xff",
                                     b'[{"targets": ' * 100_000], ids=range(6))
def test_wrong_targets(content: bytes) -> None:
    with pytest.raises(Wrong):
        parse_targets(content, SHARED)


# ---------------------------------------------------------------- files
def test_a_file(tmp_path: Path) -> None:
    async def run() -> None:
        found = Discovery(config(tmp_path, "[[agents]]\nfile = 't.json'"))
        file = tmp_path / "t.json"
        assert await found.look(0) == ()
        assert found.failures == 1 and [found.missing] == found.problems == [
            f"{file}: cannot read '{file}': No such file or directory"]
        file.write_text('[{"targets": ["c", "a:1", "x y"]}]')
        assert await found.look(4) is None  # it is not time yet
        assert names(await found.look(10)) == ["c", "a"] and not found.missing
        assert "'x y' is not an address" in found.problems[0]
        assert await found.look(20) is None and len(found.problems) == 1  # still told
        file.write_text("[")  # half written: the last good list holds
        assert await found.look(30) is None
        assert found.failures == 2 and found.problems == [f"{file}: it is not JSON"]
        file.write_text('[{"targets": ["c", "d"]}]')
        assert names(await found.look(40)) == ["c", "d"]
        file.unlink()  # more likely a mistake than an empty fleet
        assert await found.look(50) is None and found.failures == 3 and not found.missing
    asyncio.run(run())


def test_a_pipe_and_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LARGEST", 1000)
    monkeypatch.setattr(client, "TIMEOUT", 0.5)
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "b.json").write_text(" " * 1001)
    found = Discovery(config(tmp_path, "[[agents]]\nfile = 'a.json'\n[[agents]]\nfile = 'b.json'"))
    assert not asyncio.run(found.look(0))
    threads = threading.active_count()  # One of them waits for the pipe.
    assert asyncio.run(found.look(10)) is None and threading.active_count() == threads
    assert ["nothing comes" in found.problems[0], "longer" in found.problems[1]] == [True, True]


def test_a_list_that_empties_or_shrinks_is_no_order(tmp_path: Path) -> None:
    """Not for an hour, or until a reload confirms it."""
    file = tmp_path / "t.json"

    def write(count: int) -> None:
        file.write_text(json.dumps([{"targets": [f"a{number}" for number in range(count)]}]))

    async def run() -> None:
        own = config(tmp_path, "[[agents]]\nfile = 't.json'")
        found = Discovery(own)
        write(10)
        assert len(names(await found.look(0))) == 10 and not found.missing
        for number, left in enumerate((0, 1, 4), 1):
            write(left)
            assert await found.look(number * 10) is None
            assert f"has lost {10 - left} of 10 agents" in found.missing == found.problems[0]
        assert len(names(await Discovery(own).look(0))) == 4  # as a reload does it
        assert await found.look(10 + discovery.HELD_S - 1) is None
        assert len(names(await found.look(21 + discovery.HELD_S))) == 4
        assert not found.missing and not found.problems
        write(2)  # half of them: not more
        assert len(names(await found.look(60 + discovery.HELD_S))) == 2
    asyncio.run(run())


# ---------------------------------------------------------------- together
def test_merging(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps([
        {"targets": ["a", "b:7"]}, {"targets": ["c", "d"], "labels": {"parent": "b"}},
        {"targets": ["e"], "labels": {"parent": "nobody"}},
        {"targets": ["f"], "labels": {"parent": "g"}},
        {"targets": ["g"], "labels": {"parent": "f"}}]))
    found = Discovery(config(tmp_path, "[[agents]]\naddress = 'x:1'\nname = 'a'\nparent = 'c'\n"
                             "[[agents]]\nfile = 't.json'"))
    agents = asyncio.run(found.look(0))
    assert agents is not None
    assert {agent.name: agent.parent for agent in agents} == {
        "a": "c", "b": "", "c": "b", "d": "b", "e": "", "f": "", "g": "f"}
    assert len(found.problems) == 3 and not list(wrong_parents(agents))


@quick
@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["", *"abcdefghi"]),
                       min_size=1))
def test_parents(parents: dict[str, str]) -> None:
    """The circles and the missing ones, by walking from each agent for itself."""
    circles = set()
    for start in parents:
        way, name = [start], parents[start]
        while name in parents and name not in way:
            way.append(name)
            name = parents[name]
        if name == start:
            circles.add(frozenset(way))
    found = list(wrong_parents([Agent(name, name, SHARED.names, parent=parent)
                                for name, parent in parents.items()]))
    missing = {agent.name for agent, text in found if "there is no agent" in text}
    assert missing == {name for name, parent in parents.items() if parent and parent not in parents}
    told = [agent.name for agent, text in found if "its own parent" in text]
    assert len(told) == len(circles)
    assert all(sum(name in circle for name in told) == 1 for circle in circles)
