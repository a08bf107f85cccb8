"""The JSON interface: what it says, and who may ask."""

import base64
import contextlib
import gzip
import http.client
import itertools
import json
import re
import select
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import bcrypt
import pytest
from hypothesis import strategies as st
from hypothesis import HealthCheck, given, settings

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import Mute, Part, State
from dumpulse_fleet.record.store import Trouble
from dumpulse_fleet.record.uptime import DAY, Share
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import PATIENCE, until
from dumpulse_fleet.web import server
from dumpulse_fleet.web.access import CHECKS, WAITING, Access, is_loopback, read_file

TOKEN = "a long token"
REQUEST = b"GET /api/v1/summary HTTP/1.1\r\nHost: localhost\r\n\r\n"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}
PASSWORD = "correct horse"
HASHED = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(port: int, path: str, method: str = "GET", body: Any = None,
        headers: Mapping[str, str] = {}, **more: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        sent = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, sent, {**given, **headers, **more})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


class Running(NamedTuple):
    port: int
    service: fakes.FakeBackend


@contextlib.contextmanager
def served(agents: int = 1, access: Access | None = None, parts: Sequence[Part] = ()
           ) -> Iterator[Running]:
    service = fakes.FakeBackend(fakes.fleet(agents))
    service.access, service.parts = access, parts
    with fakes.serving(lambda: server.make_app(service, access)) as port:
        yield Running(port, service)


def web_file(folder: Path, text: str) -> str:
    (folder / "web.yml").write_text(text, "utf-8")
    return str(folder / "web.yml")


@pytest.fixture(name="running", scope="module")
def make_running() -> Iterator[Running]:
    parts = [Part("Pumps <b>north", {"site": "site-1*"}), Part("The rest", {"rack": "r1"})]
    with served(100, Access(token=TOKEN), parts) as running:
        yield running


@pytest.fixture(name="guarded", scope="module")
def make_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With users."""
    path = web_file(tmp_path_factory.mktemp("web"), f"basic_auth_users:\n  alice: {HASHED}\n")
    with served(3, Access(path=path, token=TOKEN)) as running:
        yield running


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization":
            f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


# ---------------------------------------------------------------- all routes
def test_every_route_is_in_the_page() -> None:
    page = (Path(server.__file__).parents[1] / "README.md").read_text()
    rows = re.findall(r"^\| `(\w+) (/api\S+)` \|(.*)", page, re.M)
    assert {(method, path) for method, path, _ in rows} == {
        (route.method, route.path) for route in server.ROUTES if route.path.startswith("/api")}
    for method, path, words in rows:
        (route,) = (each for each in server.ROUTES if each[:2] == (method, path))
        for name in set(route.parameters) - set(re.findall(r"{(\w+)}", path)):
            assert f"`{name}`" in words, (path, name)


EXAMPLES = {
    "/api/v1/agents": "?q=agent&state=alive&state=out-of-range&site=site-3"
                      "&sort=name&offset=0&limit=5",
    "/api/v1/agents/{name}": "/api/v1/agents/agent-00007",
    "/api/v1/agents/{name}/uptime": "/api/v1/agents/agent-00007/uptime",
    "/api/v1/changes": "?seen=1",
    "/api/v1/events": "?limit=3"}


@pytest.mark.parametrize("route", [route for route in server.ROUTES if route.method == "GET"])
def test_every_route_answers_and_checks_parameters(running: Running, route: server.Route) -> None:
    example = EXAMPLES.get(route.path, "")
    path = example if example.startswith("/") else route.path + example
    running.service.change(7, State.DEAD, 3)
    running.service.change(7, State.ALIVE, 3)
    answer = ask(running.port, path)
    assert answer.status == 200
    strict = ask(running.port, f"{path}{'&' if '?' in path else '?'}unknown=1")
    assert strict.status == 400 and "unknown" in strict.json["error"]


# ---------------------------------------------------------------- what it says
def test_an_agent(running: Running) -> None:
    table = running.service.table
    with table.lock:
        table.entry[8, 5] = 0
        table.state[8, 5] = State.NEVER
        table.entry[8, 2] = (1 << 16) | (9 << 8) | 77
        table.stamped[8, 2] = table.clock[8] - 90_000
        table.at_least[8, 2] = True
        table.lost[8] = 5
    agent = ask(running.port, "/api/v1/agents/agent-00008").json
    assert agent["address"] == "127.0.0.1:9" and agent["site"] == "site-8"
    assert agent["lost"] == 5 and agent["profile"] == fakes.NAMES
    never, old = agent["variables"][5], agent["variables"][2]
    assert never["state"] == "never" and never["value"] is None and never["heard_at"] is None
    assert old["value"] == 77 and old["sender"] == 9 and old["name"] == "brakes"
    assert old["at_least"] and old["heard_at"] == pytest.approx(table.heard_at[8] - 90_000, abs=.01)
    assert ask(running.port, "/api/v1/agents/nobody").status == 404
    assert ask(running.port, "/api/v1/agents/%2e%2e%2f").status == 404


def test_the_wall_has_the_order_of_states() -> None:
    script = (Path(server.WALL) / "common.js").read_text()
    found = re.search(r"SEVERITY = (\[[^]]*\])", script)
    assert found and json.loads(found[1]) == [state.words for state in State]


def test_filters(running: Running) -> None:
    def names(query: str) -> list[str]:
        found = ask(running.port, f"/api/v1/agents?sort=name&limit=1000&{query}").json
        assert found["total"] == len(found["agents"])
        return [agent["name"] for agent in found["agents"]]

    assert len(names("")) == 100
    assert names("q=AGENT+00042") == ["agent-00042"]
    assert names("q=site-3+00") == [f"agent-{number:05}" for number in (3, 23, 43, 63, 83)]
    assert names("site=site-4&q=rack%3Dr4") == ["agent-00004"]
    assert names("site=site-1&site=site-2&q=00001") == ["agent-00001"]
    running.service.change(50, State.LATE)
    running.service.change(51, State.DEAD)
    assert names("state=late&state=dead") == ["agent-00050", "agent-00051"]
    worst = ask(running.port, "/api/v1/agents?limit=2").json
    assert [agent["state"] for agent in worst["agents"]] == ["dead", "late"]
    assert worst["total"] == 100
    paged = ask(running.port, "/api/v1/agents?limit=2&offset=1").json["agents"]
    assert paged[0] == worst["agents"][1]
    running.service.change(50, State.ALIVE)
    running.service.change(51, State.ALIVE)


def test_summary(running: Running) -> None:
    table = running.service.table
    summary = ask(running.port, "/api/v1/summary").json
    assert sum(summary["agents"].values()) == 100
    assert sum(summary["variables"].values()) == 6400
    assert summary["muted"] == 1  # agent-00009
    assert summary["heard_at"] == pytest.approx(table.heard_at.max(), abs=.01)
    assert summary["you"] == {"name": "", "may_change": False}
    assert ask(running.port, "/api/v1/summary", headers=AUTHORISED).json["you"]["may_change"]


def test_events(running: Running) -> None:
    for number in range(5):
        running.service.change(30 + number, State.LATE, 1)
        running.service.change(30 + number, State.ALIVE, 1)
    found = ask(running.port, "/api/v1/events?limit=4").json["events"]
    assert [event["now"] for event in found] == ["alive", "late"] * 2
    older = ask(running.port, f"/api/v1/events?limit=1&before={found[-1]['number']}").json["events"]
    assert older[0]["number"] == found[-1]["number"] - 1
    own = ask(running.port, "/api/v1/events?agent=agent-00031").json["events"]
    assert {event["agent"] for event in own} == {"agent-00031"}
    one = ask(running.port, "/api/v1/events?agent=agent-0003?&site=site-1*&variable=1&what=state"
                            "&since=1&until=99999999999").json["events"]
    assert {event["agent"] for event in one} == {f"agent-{number:05}" for number in range(30, 35)}


@pytest.mark.parametrize("error, status", [
    (sqlite3.OperationalError("disk I/O error"), 503), (Trouble("this takes too long"), 503),
    (ValueError("too many mutes"), 400)])
def test_a_store_that_cannot(running: Running, error: Exception, status: int) -> None:
    running.service.store.error = error
    try:
        for method, path in (("GET", "/api/v1/events"), ("POST", "/api/v1/mutes"),
                             ("DELETE", "/api/v1/mutes/1")):
            body = {"match": {"a": "b"}, "seconds": 9} if method == "POST" else None
            answer = ask(running.port, path, method, body, AUTHORISED)
            assert answer.status == status and answer.json["error"] == str(error)
    finally:
        running.service.store.error = None
        running.service.store.made.clear()


def test_mutes(running: Running) -> None:
    path = "/api/v1/mutes"
    new = {"match": {"site": "site-3", "rack": "r*"}, "seconds": 60, "why": "<b>work</b>"}
    answer = ask(running.port, path, "POST", new, AUTHORISED)
    assert answer.json["by"] == "token" and answer.json["match"] == new["match"]
    listed = ask(running.port, path).json["mutes"]
    assert answer.json in listed and len(listed) == 2
    muted = ask(running.port, "/api/v1/agents?site=site-3").json["agents"]
    assert len(muted) == 5 and all(agent["muted"] for agent in muted)
    gone = ask(running.port, f"{path}/{answer.json['number']}", "DELETE", headers=AUTHORISED)
    assert gone.status == 200
    again = ask(running.port, f"{path}/{answer.json['number']}", "DELETE", headers=AUTHORISED)
    assert again.status == 404
    assert not any(agent["muted"]
                   for agent in ask(running.port, "/api/v1/agents?site=site-3").json["agents"])


def test_trouble_is_acknowledged(guarded: Running) -> None:
    """By a name of one's own, because many use one token; and only where there is trouble."""
    path = "/api/v1/mutes"
    new = {"match": {"name": "agent-00001"}, "seconds": 60, "why": "I go", "by": "ada",
           "acknowledges": True}
    healthy = ask(guarded.port, path, "POST", new, AUTHORISED)
    assert healthy.status == 400 and "no agent that fits is in trouble" in healthy.json["error"]
    guarded.service.change(1, State.UNREACHABLE)
    try:
        made = ask(guarded.port, path, "POST", new, AUTHORISED)
        assert made.json["by"] == "ada" and made.json["acknowledges"]
        for url in ("/api/v1/agents?q=agent-00001", "/api/v1/agents/agent-00001"):
            agent = ask(guarded.port, url, headers=AUTHORISED).json
            agent = agent.get("agents", [agent])[0]
            assert not agent["muted"] and agent["acknowledged"] == {
                "by": "ada", "until": made.json["ends"], "why": "I go"}
        for name, count in (("agent-00001", 1), ("agent-00002", 0), ("nobody", 0), ("", 2)):
            found = ask(guarded.port, f"{path}?agent={name}", headers=AUTHORISED).json["mutes"]
            assert len(found) == count
        ask(guarded.port, f"{path}/{made.json['number']}", "DELETE", headers=AUTHORISED)
        assert ask(guarded.port, "/api/v1/agents/agent-00001", headers=AUTHORISED
                   ).json["acknowledged"] is None
    finally:
        guarded.service.change(1, State.ALIVE)


@pytest.mark.parametrize("body, about", [
    (b"{", "not JSON"), (b"[" * 10_000, "not JSON"), (b"\xff", "not JSON"),
    ([], "it must have keys"),
    ({"match": {"a": "b"}}, "seconds"), ({"match": {"a": "b"}, "seconds": True}, "seconds"),
    ({"match": {"a": "b"}, "seconds": 0}, "seconds"),
    ({"match": {"a": "b"}, "seconds": 1e12}, "seconds"),
    (b'{"match": {"a": "b"}, "seconds": NaN}', "seconds"),
    (b'{"match": {"a": "b"}, "seconds": Infinity}', "seconds"),
    ({"match": {}, "seconds": 1}, "match"), ({"match": {"a": 1}, "seconds": 1}, "match"),
    ({"match": {"a": "b\n"}, "seconds": 1}, "match"), ({"match": {"": "b"}, "seconds": 1}, "match"),
    ({"match": {"a": "b"}, "seconds": 1, "why": 1}, "why"),
    ({"match": {"a": "b"}, "seconds": 1, "begins": -1}, "begins"),
    ({"match": {"a": "b"}, "seconds": 1, "begins": 1}, "later than now"),
    ({"match": {f"a{number}": "b" for number in range(21)}, "seconds": 1}, "at most 20"),
    ({"match": {"a": "b"}, "seconds": 1, "by": 1}, "by: must be"),
    ({"match": {"a": "b"}, "seconds": 1, "acknowledges": 1}, "acknowledges: must be"),
    ({"match": {"a": "b"}, "seconds": 1, "number": 4}, "number")])
def test_wrong_mutes(running: Running, body: Any, about: str) -> None:
    answer = ask(running.port, "/api/v1/mutes", "POST", body, AUTHORISED)
    assert answer.status == 400 and about in answer.json["error"]
    assert not running.service.store.made


def test_the_public_page(guarded: Running) -> None:
    """Everybody may read how the chosen parts are, and no more; and it is never too good."""
    service = guarded.service
    assert ask(guarded.port, "/status").status == 401
    service.parts = [Part("A <pump>", {"name": "agent-00000"}),
                     Part("The others", {"name": "agent-0000[12]"})]
    service.table = fakes.fleet(3)

    def said() -> list[str]:
        answer = ask(guarded.port, "/status")
        assert answer.status == 200
        page = answer.body.decode()
        assert "agent-0" not in page and "127.0.0.1" not in page and "site-" not in page
        found = re.findall(r"<h1>(.*?)</h1>|</b> (.*?) <small>.*?</li>", page)
        return [heading or words for heading, words in found]

    try:
        assert said() == ["Everything works", "works", "works"]
        assert "A &lt;pump&gt;" in ask(guarded.port, "/status").body.decode()
        assert "works <small>not seen" in ask(guarded.port, "/status").body.decode()
        for now, seconds in ((1e9, 0), (1e9 + 3, 3), (1e9 + 100, 3)):
            service.table.count_time(now, sees=True)
            assert service.table.seen_s.tolist() == [seconds] * 3
        today = int(time.time() // DAY)
        service.days.parts = {"A <pump>": {today - 89: Share(100, 50), today: Share(3, 3 - 1e-4)}}
        page = ask(guarded.port, "/status").body.decode()
        assert "works <small>51.45 % well of 90 days" in page
        bars = re.findall('<i class="([a-z]+)" title="([0-9-]+): (.*?)"', page)
        assert len(bars) == 180 and [each[::2] for each in bars[::89]][:2] == [
            ("unreachable", "50.00 % well"), ("alive", "99.99 % well")]
        service.change(0, State.UNREACHABLE)
        service.change(1, State.DEAD, 2)
        assert said() == ["0 of 2 work", "does not work", "works in part"]
        service.change(2, State.UNKNOWN)
        service.store.fixed = [Mute({"name": "*"}, 0, 4e9)]
        assert said() == ["0 of 2 work", "is being worked on", "is not known"]
        service.sees = False
        assert said() == ["0 of 2 work", "is not known", "is not known"]
        service.sees = True
        service.table.heard_at[:] = time.time() - 200
        assert said() == ["0 of 2 work", "is not known", "is not known"]
        for path in ("/", "/wall.js", "/api/v1/summary", "/metrics", "/status/", "/log"):
            assert ask(guarded.port, path).status == 401, path
        assert ask(guarded.port, "/wall.css").status == 200
        assert ask(guarded.port, "/status", "POST", {}).status in (401, 405)
    finally:
        service.parts, service.sees, service.store.fixed = (), True, []
        service.table = fakes.fleet(3)


def test_limits(running: Running) -> None:
    large = ask(running.port, "/api/v1/mutes", "POST", b" " * 20_000, AUTHORISED)
    assert large.status == 413
    kind = ask(running.port, "/api/v1/mutes", "POST", b"{}",
               {**AUTHORISED, "Content-Type": "text/plain"})
    assert kind.status == 415
    long = ask(running.port, "/api/v1/agents?q=" + "a" * 501)
    assert long.status == 400 and "500" in long.json["error"]
    assert ask(running.port, "/api/v1/agents?q=" + "a" * 9000).status == 400
    assert ask(running.port, "/api/v1/agents?limit=1&limit=2").status == 400
    for query in ("limit=0", "limit=1001", "limit=1e3", "offset=-1", "state=fine", "sort=best",
                  "limit=%D9%A1"):
        assert ask(running.port, f"/api/v1/agents?{query}").status == 400, query
    for path in ("/nothing", "/wall.css/../../web.py", "/%2e%2e/web.py", "//"):
        assert ask(running.port, path).status == 404
    assert ask(running.port, "/api/v1/summary", "PUT", headers=AUTHORISED).status == 405


@settings(max_examples=150,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_request_has_an_answer(running: Running, data: st.DataObject) -> None:
    """Hypothesis prints the request that fails. `@reproduce_failure` replays it."""
    route = data.draw(st.sampled_from(server.ROUTES))
    texts = st.one_of(st.text(max_size=20), st.integers().map(str),
                      st.sampled_from(["1", "dead", "a=b", "name", "agent-00001", "1e999", "nan"]))
    path, has_body = route.path, route.handler == "add_mute"
    for name in re.findall("{(.*?)}", path):
        segment = urllib.parse.quote(data.draw(texts) or "x", safe="", errors="replace")
        path = path.replace(f"{{{name}}}", segment if segment.strip(".") else "x")
    names = st.one_of(st.sampled_from([*server.PARAMETERS]), st.text(max_size=5))
    query = urllib.parse.urlencode(data.draw(st.lists(st.tuples(names, texts), max_size=3)),
                                   errors="replace")
    scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
    body = data.draw(st.recursive(scalars, lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["match", "seconds", "why", "begins", "x"]), inner)),
        max_leaves=8)) if has_body else None
    answer = ask(running.port, f"{path}?{query}" if query else path, route.method,
                 json.dumps(body).encode() if has_body else None, AUTHORISED)
    assert answer.status in (200, 400, 404)
    if answer.status >= 400:
        assert answer.json.keys() == {"error"}
    running.service.store.made.clear()


# ---------------------------------------------------------------- Prometheus
def test_metrics_and_shards(running: Running) -> None:
    whole = ask(running.port, "/metrics/agents").body
    zipped = ask(running.port, "/metrics/agents", headers={"Accept-Encoding": "gzip"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.body).count(b"\n") == whole.count(b"\n")
    assert ask(running.port, "/metrics/agents?shard=2&of=2").status == 400
    assert b"dumpulse_collector_rounds_total 1" in ask(running.port, "/metrics").body
    targets = ask(running.port, "/sd").json
    assert [target["targets"] for target in targets] == [[f"127.0.0.1:{running.port}"]] * 2
    assert targets[1]["labels"]["__param_of"] == "1"


# ---------------------------------------------------------------- who may
def test_nobody_unknown_changes_anything(running: Running) -> None:
    for method, path in (("POST", "/api/v1/mutes"), ("DELETE", "/api/v1/mutes/1")):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "},
                        {"Authorization": "Nonsense"}, {"Authorization": "Bearer \udc80".encode(
                            "utf-8", "surrogateescape").decode("latin-1")}):
            answer = ask(running.port, path, method, {"match": {"a": "b"}, "seconds": 9}, headers)
            assert answer.status == 401, (method, path, headers)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert not running.service.store.made


def test_without_a_token_nobody_changes_anything() -> None:
    with served() as (port, _):
        for headers in ({}, {"Authorization": "Bearer "}, basic("", "")):
            assert ask(port, "/api/v1/mutes/1", "DELETE", headers=headers).status in (401, 403)


def test_nobody_unknown_reads_what_is_guarded(guarded: Running) -> None:
    paths = [*server.FILES, "/nothing", *(route.path for route in server.ROUTES)]
    for path in paths:
        answer = ask(guarded.port, path.replace("{name}", "agent-00001"))
        assert answer.status == 401, path
        assert answer.headers["WWW-Authenticate"].startswith("Basic")
    for who in (basic("alice", "wrong"), basic("bob", PASSWORD), basic("alice", ""),
                basic("alice", PASSWORD + "\0"), basic("", ""), basic("alice", "x" * 5000),
                {"Authorization": "Basic !"}, {"Authorization": "Basic YWxpY2U="}):
        assert ask(guarded.port, "/api/v1/summary", headers=who).status == 401
    alice = basic("alice", PASSWORD)
    assert ask(guarded.port, "/api/v1/summary", headers=alice).json["you"]["name"] == "alice"
    assert ask(guarded.port, "/api/v1/summary", headers=AUTHORISED).status == 200


def test_a_change_by_password_cannot_come_from_another_site(guarded: Running) -> None:
    alice = basic("alice", PASSWORD)
    ours = {**alice, "X-Dumpulse-Change": "yes"}
    here = f"http://127.0.0.1:{guarded.port}"
    new = {"match": {"name": "*"}, "seconds": 60}

    def status(headers: Mapping[str, str]) -> int:
        return ask(guarded.port, "/api/v1/mutes", "POST", new, headers).status

    assert status(alice) == 403  # a form of another site can send a password, but no header
    for foreign in ({"Origin": "http://evil.example"}, {"Origin": "null"},
                    {"Origin": f"{here}0"}, {"Sec-Fetch-Site": "cross-site"},
                    {"Sec-Fetch-Site": "same-site"}):
        assert status({**ours, **foreign}) == 403, foreign
        assert status({**AUTHORISED, **foreign}) == 403, foreign
    assert not guarded.service.store.made
    assert status({**ours, "Origin": here}) == 200
    proxied = {**ours, "Origin": "https://fleet.example", "Sec-Fetch-Site": "same-origin"}
    assert status(proxied) == 200  # behind a proxy
    assert guarded.service.store.made[0].by == "alice"
    preflight = ask(guarded.port, "/api/v1/mutes", "OPTIONS", headers={
        **alice, "Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})
    assert not any(name.lower().startswith("access-control") for name in preflight.headers)


def test_another_name_of_this_machine_is_refused(running: Running) -> None:
    for host in ("evil.example", f"evil.example:{running.port}", "", "127.0.0.1.evil.example",
                 "localhost.evil", "[::ffff:8.8.8.8]:80", "8.8.8.8", "a:b:c"):
        answer = ask(running.port, "/api/v1/summary", headers={"Host": host})
        assert answer.status == 421, host
    for host in ("localhost", f"LOCALHOST:{running.port}", "127.0.0.1", "127.9.9.9:1", "[::1]:80"):
        assert ask(running.port, "/api/v1/summary", headers={"Host": host}).status == 200, host


def test_every_answer_has_its_headers(running: Running) -> None:
    for path in ("/", "/wall.js", "/api/v1/summary", "/nothing", "/metrics"):
        headers = ask(running.port, path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Server" not in headers and headers["Cache-Control"] in ("no-store", "no-cache")


def test_passwords_are_not_checked_without_end(guarded: Running, monkeypatch: pytest.MonkeyPatch
                                               ) -> None:
    """Of many wrong ones at once, some wait, and all others are told to come again; one that was
    right before does not wait, and one from another address has a place."""
    counted = int(guarded.service.access.failed) if guarded.service.access else 0
    alice = basic("alice", PASSWORD)
    assert ask(guarded.port, "/-/healthy", headers=alice).status == 200
    go_on = threading.Event()
    monkeypatch.setattr("dumpulse_fleet.web.access.compare", lambda *_: not go_on.wait(60))
    many = []
    for number in range(WAITING + 40):
        connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=30)
        connection.request("GET", "/-/healthy", headers=basic("bob", f"wrong{number}"))
        many.append(connection)
    statuses: Counter[int] = Counter()

    def take(answered: Collection[socket.socket]) -> None:
        for connection in [each for each in many if each.sock in answered]:
            statuses[connection.getresponse().status] += 1
            connection.close()
            many.remove(connection)

    while statuses[503] < WAITING * 3 // 4 + 40:
        answered, _, _ = select.select([each.sock for each in many], [], [], 30)
        assert answered, statuses
        take(answered)
    assert ask(guarded.port, "/-/healthy", headers=alice).status == 200
    elsewhere = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=30,
                                           source_address=("127.0.0.2", 0))
    elsewhere.request("GET", "/-/healthy", headers=basic("bob", "wrong"))
    many.append(elsewhere)
    go_on.set()
    take([each.sock for each in many])
    assert statuses == {401: WAITING // 4 + 1, 503: WAITING * 3 // 4 + 40}
    assert guarded.service.access and guarded.service.access.failed == counted + WAITING // 4 + 1


@pytest.mark.parametrize("sent", [b"", REQUEST.replace(b"/api/v1/summary", b"/metrics/agents")])
def test_one_address_does_not_take_all_connections(monkeypatch: pytest.MonkeyPatch, sent: bytes
                                                   ) -> None:
    """Those that ask nothing go first. Who takes an answer slowly uses one all the time."""
    monkeypatch.setattr(server, "CONNECTIONS", 40)
    monkeypatch.setattr(server, "SCRAPE_TIME", 2 * PATIENCE)
    with served(2000) as (port, _), contextlib.ExitStack() as stack:
        connect = partial(socket.create_connection, ("127.0.0.1", port))
        used = stack.enter_context(connect())
        used.sendall(REQUEST)
        assert used.recv(1 << 16).startswith(b"HTTP/1.1 200")
        many = [stack.enter_context(connect()) for _ in range(39)]
        for each in many:
            with contextlib.suppress(ConnectionError):
                each.sendall(sent)

        def answers() -> bool:
            with contextlib.suppress(ConnectionError), connect(
                    source_address=("127.0.0.2", 0)) as other:
                other.sendall(REQUEST)
                return other.recv(1 << 16).startswith(b"HTTP/1.1 200")
            return False

        until(answers)
        if not sent:
            closed, _, _ = select.select(many, [], [], 0)
            assert 25 < len(closed) < 39
            used.sendall(REQUEST)
            assert used.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_disk_that_hangs_keeps_nobody_else_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for it go on waiting, whoever asked."""
    monkeypatch.setattr(server, "READS", 2)
    monkeypatch.setattr(server, "STORE_TIME", 0.02)
    thaw = threading.Event()
    with served() as (port, service):
        for name in ("select", "ask"):
            monkeypatch.setattr(service.store, name, lambda **_: thaw.wait() and [], raising=False)
        try:
            for _ in range(40):
                assert ask(port, "/api/v1/events").status == 503
            assert ask(port, "/api/v1/agents").json["total"] == 1
        finally:
            thaw.set()
        monkeypatch.setattr(server, "STORE_TIME", PATIENCE)
        until(lambda: ask(port, "/api/v1/events").status == 200)


def test_passwords_that_nobody_waits_for_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                               ) -> None:
    """Whoever sends some and hangs up has no more of them checked than whoever waits."""
    checking, go_on = threading.Semaphore(0), threading.Event()

    def compare(*_: str) -> bool:
        checking.release()
        return not go_on.wait(60)

    monkeypatch.setattr("dumpulse_fleet.web.access.compare", compare)
    monkeypatch.setattr("dumpulse_fleet.web.access.WAITING", CHECKS)
    path = web_file(tmp_path, f"basic_auth_users: {{alice: '{HASHED}'}}")
    with served(3, Access(path=path)) as (port, _):
        for number in range(CHECKS):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/-/healthy", headers=basic("bob", f"wrong{number}"))
            assert checking.acquire(timeout=20)
            connection.close()
        time.sleep(0.5)  # The server has received it by then.
        more = ask(port, "/-/healthy", headers=basic("bob", "wrong"))
        go_on.set()
        assert more.status == 503
        while (more := ask(port, "/-/healthy", headers=basic("bob", "wrong"))).status == 503:
            time.sleep(0.1)
        assert more.status == 401


def test_ready(running: Running) -> None:
    running.service.ready = False
    assert ask(running.port, "/-/ready").status == 503
    running.service.ready = True
    assert ask(running.port, "/-/ready").body == b"ready\n"
    assert ask(running.port, "/-/healthy").body == b"healthy\n"


def read_to_the_end(connection: socket.socket) -> bytes:
    """TimeoutError: the other side does not close it."""
    connection.settimeout(10)
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1 << 20):
            content += more
    return content


@pytest.mark.parametrize("path", ["/wall.js", "/", "/api/v1/agents", "/metrics", "/metrics/agents"])
def test_an_answer_without_a_body_has_none(running: Running, path: str) -> None:
    """Browsers ask again whether a file is new, and then ask for more on the same connection."""
    packed = {"Accept-Encoding": "gzip, deflate"}
    first = ask(running.port, path, headers=packed)
    assert first.status == 200 and first.headers["Content-Encoding"]
    known = first.headers["ETag"]
    for method, more in (("HEAD", ""), *([("GET", f"if-none-match: {known}\r\n")] * bool(known))):
        with socket.create_connection(("127.0.0.1", running.port), PATIENCE) as connection:
            connection.sendall((f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}"
                                "Accept-Encoding: gzip, deflate\r\n\r\n").encode()
                               + b"GET /-/healthy HTTP/1.0\r\nHost: localhost\r\n\r\n")
            head, rest, _ = read_to_the_end(connection).split(b"\r\n\r\n", 2)
        assert head.startswith(b"HTTP/1.1 304 " if more else b"HTTP/1.1 200 ")
        assert rest.startswith(b"HTTP/1.0 200 OK\r\n")


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nX: "])
def test_a_connection_that_asks_nothing_is_closed(
        start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FIRST_REQUEST", 1.0)
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    with served() as (port, _):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for one in silent:
            one.sendall(start)
        for one in silent:
            assert read_to_the_end(one) == b""
            one.close()
        assert ask(port, "/-/healthy").status == 200


@pytest.mark.parametrize("next_request", [b"", REQUEST[:-2]])
def test_a_connection_that_asks_slowly_later_is_closed(
        next_request: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks well, then sends a byte now and then, so that it never looks idle."""
    monkeypatch.setattr(server, "NEXT_REQUEST", 3.0)
    app = server.make_app(fakes.FakeBackend(fakes.fleet(1)))
    with fakes.serving(lambda: app) as port, \
            socket.create_connection(("127.0.0.1", port)) as slow:
        for _ in range(7):  # for longer than the limit: each request begins it anew
            time.sleep(0.5)
            slow.sendall(REQUEST)
            assert slow.recv(65536).startswith(b"HTTP/1.1 200")
        slow.sendall(next_request)
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while next_request and time.monotonic() < begun + 20:
                slow.sendall(b"X")
                time.sleep(0.1)
        assert read_to_the_end(slow) == b""
        assert time.monotonic() < begun + 19
        assert ask(port, "/-/healthy").status == 200
        until(lambda: not app[server.WAITING])  # nothing is kept of connections that are gone


def test_a_connection_that_reads_slowly_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics are many, and nobody takes them."""
    monkeypatch.setattr(server, "SCRAPE_TIME", 0.5)
    with served(3000) as (port, _), \
            socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET /metrics/agents HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1.5)
        content = read_to_the_end(slow)
        assert content.startswith(b"HTTP/1.1 200") and not content.endswith(b"\r\n0\r\n\r\n")


# ---------------------------------------------------------------- the file
@pytest.mark.parametrize("text, about", [
    ("- a", "keys and values"), ("tls: {}", "'tls' is unknown"), ("a: [", "not YAML"),
    ("basic_auth_users: [a]", "keys and values"), ("basic_auth_users: {a: secret}", "bcrypt"),
    ("basic_auth_users: {a: 1}", "text"), ("basic_auth_users: {1: a}", "text"),
    (f"basic_auth_users: {{'a:b': '{HASHED}'}}", "name of a user"),
    ("basic_auth_users: {a: '$2b$31$" + "a" * 53 + "'}", "cost 31"),
    ("tls_server_config: {cert_file: a}", "key_file"),
    ("tls_server_config: {cert_file: a, key_file: b, cipher: c}", "cipher"),
    ("[" * 5000, "not YAML"), ("\0", "not YAML"),
    ("!!python/object/apply:os.system [id]", "not YAML"), ("#" * 70_000, "longer than")],
    ids=lambda text: text[:20] if HASHED not in text else "name")  # Hashes differ each time.
def test_mistakes_in_the_file(tmp_path: Path, text: str, about: str) -> None:
    with pytest.raises(client.BadUsage, match=re.escape(about)) as error:
        read_file(web_file(tmp_path, text))
    assert "\n" not in str(error.value)


def test_a_network_without_passwords_is_refused(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "", "192.0.2.1", "example.org"):
        with pytest.raises(client.BadUsage, match="password"):
            Access(host)
    access = Access("0.0.0.0", web_file(tmp_path, f"basic_auth_users: {{a: '{HASHED}'}}"))
    web_file(tmp_path, "")
    with pytest.raises(client.BadUsage, match="password"):
        access.look()
    assert access.users == {"a": HASHED}
    assert is_loopback("127.0.0.9") and is_loopback("[::1]") and not is_loopback("10.0.0.1")


def certificate(folder: Path, name: str) -> None:
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "key.pem", "-out",
                    folder / "cert.pem", "-subj", f"/CN={name}", "-addext",
                    f"subjectAltName=DNS:{name}"], check=True, capture_output=True)


SECURED = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}"


def over_tls(port: int, folder: Path, trusted: str = "cert.pem", name: str | None = None
             ) -> tuple[bytes, str]:
    """The answer, and whose certificate the server has."""
    context = ssl.create_default_context(cafile=str(folder / trusted))
    context.check_hostname = False
    with socket.create_connection(("127.0.0.1", port), 10) as raw, \
            context.wrap_socket(raw, server_hostname=name) as secure:
        secure.sendall(b"GET /-/healthy HTTP/1.0\r\nHost: localhost\r\n\r\n")
        found: Any = secure.getpeercert()
        return b"".join(iter(lambda: secure.recv(1000), b"")), str(found["subject"][0][0][1])


def test_tls(tmp_path: Path) -> None:
    certificate(tmp_path, "first.example")
    access = Access(path=web_file(tmp_path, SECURED), token=TOKEN)

    def subject(port: int, trusted: str = "cert.pem", name: str | None = None) -> str:
        answer, found = over_tls(port, tmp_path, trusted, name=name)
        assert b"Strict-Transport-Security" in answer and answer.endswith(b"healthy\n")
        return found

    assert access.ssl and access.ssl.minimum_version == ssl.TLSVersion.TLSv1_2
    with served(access=access) as (port, _):
        assert subject(port) == "first.example"
        (tmp_path / "cert.pem").rename(tmp_path / "first.pem")
        certificate(tmp_path, "second.example")
        access.take(access.look(), TOKEN)
        assert subject(port) == subject(port, name="localhost") == "second.example"
        (tmp_path / "cert.pem").rename(tmp_path / "second.pem")
        certificate(tmp_path, "third.example")
        (tmp_path / "key.pem").write_text("damaged", "utf-8")
        with pytest.raises(client.BadUsage, match="key.pem"):
            access.look()
        assert subject(port, "second.pem") == "second.example"


def test_half_handshakes_of_one_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have 4 of them here. The oldest are closed, so there is room for others."""
    monkeypatch.setattr(server, "CONNECTIONS", 8)
    monkeypatch.setattr(server, "FIRST_REQUEST", 1e6)
    certificate(tmp_path, "first.example")
    access = Access(path=web_file(tmp_path, SECURED), token=TOKEN)
    app = server.make_app(fakes.FakeBackend(fakes.fleet(1)), access)
    with fakes.serving(lambda: app) as port, contextlib.ExitStack() as stack:
        half = []
        for _ in range(7):
            half.append(stack.enter_context(socket.create_connection(
                ("127.0.0.1", port), 10, source_address=("127.0.0.2", 0))))
            half[-1].sendall(b"\x16\x03\x01")
        assert [read_to_the_end(one) for one in half[:3]] == [b""] * 3
        assert b"healthy" in over_tls(port, tmp_path)[0]
        assert not select.select(half[3:], [], [], 0)[0]
        half[6].sendall(b"no TLS at all")
        assert read_to_the_end(half[6])[:1] in (b"", b"\x15")  # an alert
        half[5].close()
        until(lambda: len(app[server.WAITING]) == 2)  # nothing is kept of those that are gone


def test_tls_comes_and_goes_only_with_a_restart(tmp_path: Path) -> None:
    """Nothing is half done."""
    certificate(tmp_path, "first.example")
    for before, after in itertools.permutations(("", SECURED)):
        access = Access(path=web_file(tmp_path, before))
        context = access.ssl
        web_file(tmp_path, after + f"\nbasic_auth_users: {{a: '{HASHED}'}}")
        with pytest.raises(client.BadUsage, match="only with a restart"):
            access.look()
        assert access.ssl is context and not access.users


# ---------------------------------------------------------------- live
def changes(port: int, seen: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(port, f"/api/v1/changes?seen={urllib.parse.quote(seen)}").json
    return found


def version(port: int) -> str:
    return str(ask(port, "/api/v1/agents?limit=1").json["version"])


def test_changes_since_a_version(running: Running) -> None:
    """Of states, and of mutes, each until it has been seen."""
    port, service = running
    seen = version(port)
    assert (quiet := changes(port, seen))["agents"] == [] and quiet["version"] == seen
    service.change(60, State.DEAD, 1)
    first = changes(port, seen)
    (agent,) = first["agents"]
    assert agent["state"] == "dead" and agent["counts"]["dead"] == 1
    service.change(61, State.LATE)
    service.change(62, State.LATE)
    number = ask(port, "/api/v1/mutes", "POST", {
        "match": {"name": "agent-00070"}, "seconds": 60}, AUTHORISED).json["number"]
    second = changes(port, first["version"])
    assert {agent["name"]: agent["muted"] for agent in second["agents"]} == {
        "agent-00061": False, "agent-00062": False, "agent-00070": True}
    ask(port, f"/api/v1/mutes/{number}", "DELETE", headers=AUTHORISED)
    (agent,) = changes(port, second["version"])["agents"]
    assert agent["name"] == "agent-00070" and not agent["muted"]
    assert len(changes(port, seen)["agents"]) == 4, "nothing is kept for a reader"
    for row in (60, 61, 62):
        service.change(row, State.ALIVE, 1)
    service.trouble = "blind"
    assert changes(port, version(port))["trouble"] == "blind"
    service.trouble = ""


@pytest.mark.parametrize("seen", ["", "x", "x.1", "0.0", ".", "9" * 100, "1.-1", "1.²", "now.9999",
                                  "now", "now.-1"])
def test_an_unknown_version_is_told_to_begin_anew(running: Running, seen: str) -> None:
    """Or one of the future."""
    found = changes(running.port, seen.replace("now", version(running.port).partition(".")[0]))
    assert found["reset"] and not found["agents"]


def test_a_reload_is_told() -> None:
    with served(5) as (port, service):
        seen = version(port)
        service.table = fakes.fleet(6)
        assert changes(port, seen)["reset"] and not changes(port, version(port))["reset"]
        assert len(ask(port, "/api/v1/agents").json["agents"]) == 6
