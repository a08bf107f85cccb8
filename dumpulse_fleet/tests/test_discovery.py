"""Agents from files and pages."""

import asyncio
import gzip
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
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
        found = Discovery(config(tmp_path, "[[agents]]\nfile = 't.json'\nevery = '10s'"))
        file = tmp_path / "t.json"
        assert await found.look(0) == ()
        assert found.failures == 1 and found.problems == [
            f"{file}: cannot read '{file}': No such file or directory"]
        file.write_text('[{"targets": ["c", "a:1", "x y"]}]')
        assert await found.look(9) is None  # it is not time yet
        assert names(await found.look(10)) == ["c", "a"]
        assert "'x y' is not an address" in found.problems[0]
        assert await found.look(20) is None and len(found.problems) == 1  # still told
        file.write_text("[")  # half written: the last good list holds
        assert await found.look(30) is None
        assert found.failures == 2 and found.problems == [f"{file}: it is not JSON"]
        file.write_text('[{"targets": ["c", "d"]}]')
        assert names(await found.look(40)) == ["c", "d"]
        file.unlink()  # more likely a mistake than an empty fleet
        assert await found.look(50) is None and found.failures == 3
    asyncio.run(run())


def test_a_pipe_and_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LARGEST", 1000)
    monkeypatch.setattr(client, "TIMEOUT", 0.5)
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "b.json").write_text(" " * 1001)
    found = Discovery(config(tmp_path, "[[agents]]\nfile = 'a.json'\n[[agents]]\nfile = 'b.json'"))
    assert not asyncio.run(found.look(0))
    assert ["nothing comes" in found.problems[0], "longer" in found.problems[1]] == [True, True]


# ---------------------------------------------------------------- pages
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def with_page(answer: Answer, test: Callable[[int], Awaitable[None]]) -> None:
    """Runs a test with a real server on loopback."""
    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            await test(runner.addresses[0][1])
        finally:
            await runner.cleanup()
    asyncio.run(run())


def page(port: int, more: str = "") -> str:
    return f"[[agents]]\nurl = 'http://user:hunter2@127.0.0.1:{port}/t'\nevery = '10s'\n{more}"


def test_a_page(tmp_path: Path) -> None:
    seen: list[Any] = []
    body: list[Any] = [[{"targets": ["a"]}]]

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(dict(request.headers))
        if isinstance(body[0], int):  # an error, but with a list that looks good
            return web.json_response([{"targets": ["b"]}], status=body[0])
        return web.json_response(body[0])

    async def test(port: int) -> None:
        kept = tmp_path / "state"
        kept.mkdir()
        own = config(tmp_path, page(port))
        found = Discovery(own, str(kept))
        assert names(await found.look(0)) == ["a"] and not found.problems
        assert seen[0]["X-Prometheus-Refresh-Interval-Seconds"] == "10"
        assert seen[0]["Authorization"].startswith("Basic ")
        for body[0] in (500, 404, {}, [[]], 201):
            result = await found.look(found.watched[0]._due)
            assert result is None
            assert found.problems and "hunter2" not in str(found.problems)
            assert bool(found.shrunk) == (body[0] in ([[]], 201))  # one bad entry: it is empty
        assert found.failures == 4
        again = Discovery(own, str(kept))  # after a restart, while the page is still broken
        assert names(await again.look(0)) == ["a"] and again.failures == 1
        assert [each.stat().st_mode & 0o777 for each in kept.iterdir()] == [0o600]
        body[0] = [{"targets": ["a", "b"]}]
        assert names(await again.look(10)) == ["a", "b"] and not again.problems
    with_page(answer, test)


def test_a_list_that_empties_or_shrinks_is_no_order(tmp_path: Path) -> None:
    """Not for an hour, also over a restart, or until a reload confirms it."""
    body: list[Any] = [[{"targets": [f"a{number}" for number in range(10)]}]]

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body[0])

    async def test(port: int) -> None:
        kept = tmp_path / "state"
        kept.mkdir()
        own = config(tmp_path, page(port))
        found = Discovery(own, str(kept))
        assert len(names(await found.look(0))) == 10 and not found.shrunk
        for number, left in enumerate((0, 1, 4), 1):
            body[0] = [{"targets": [f"a{number}" for number in range(left)]}]
            assert await found.look(number * 10) is None
            assert f"has lost {10 - left} of 10 agents" in found.shrunk == found.problems[0]
        again = Discovery(own, str(kept))  # a restart does not confirm it
        assert await again.look(0) is not None
        assert len(names(await Discovery(own, str(kept), confirmed=True).look(0))) == 4
        assert await found.look(10 + discovery.HELD_S - 1) is None
        assert len(names(await found.look(21 + discovery.HELD_S))) == 4
        assert not found.shrunk and not found.problems
        body[0] = [{"targets": ["a0", "a1"]}]  # half of them: not more
        assert len(names(await found.look(60 + discovery.HELD_S))) == 2
    with_page(answer, test)


def test_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame\n")

    async def answer(request: web.Request) -> web.StreamResponse:
        fine = request.headers.get("Authorization") == "Bearer sesame"
        return web.json_response([{"targets": ["a"]}], status=200 if fine else 401)

    async def test(port: int) -> None:
        text = page(port, "token_file = 'token'").replace("user:hunter2@", "")
        assert names(await Discovery(config(tmp_path, text)).look(0)) == ["a"]
    with_page(answer, test)


def test_hostile_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless ones, slow ones, bombs and circles end soon, and use little memory."""
    monkeypatch.setattr(discovery, "TIMEOUT", 3.0)
    monkeypatch.setattr(discovery, "LARGEST", 1 << 20)
    bomb = gzip.compress(b" " * (50 << 20))
    kinds: dict[str, str] = {"endless": "longer than", "slow": "no answer in 3 s",
                             "bomb": "longer than", "circle": "no good answer",
                             "cut": "no good answer"}

    async def answer(request: web.Request) -> web.StreamResponse:
        kind = request.path.strip("/")
        if kind == "circle":
            raise web.HTTPFound("/circle")
        headers = {"Content-Encoding": "gzip"} if kind == "bomb" else {}
        if kind == "cut":
            headers = {"Content-Length": "1000"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        if kind == "bomb":
            await response.write(bomb)
        elif kind == "cut":
            await response.write(b"[")
            assert request.transport
            request.transport.abort()
        else:
            for _ in range(10_000 if kind == "endless" else 100):
                await response.write(b" " * (65536 if kind == "endless" else 1))
                await asyncio.sleep(0.05 if kind == "slow" else 0)
        return response

    async def test(port: int) -> None:
        text = "".join(f"[[agents]]\nurl = 'http://127.0.0.1:{port}/{kind}'\n" for kind in kinds)
        found = Discovery(config(tmp_path, text + "[[agents]]\naddress = 'a'"))
        assert names(await asyncio.wait_for(found.look(0), 20)) == ["a"]
        assert found.failures == len(kinds)
        for problem, part in zip(found.problems, kinds.values()):
            assert part in problem, problem
    with_page(answer, test)


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
