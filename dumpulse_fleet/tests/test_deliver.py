"""Delivery to real servers on this machine: nothing is lost, nothing is told of secrets."""

import asyncio
import collections
import contextlib
import json
import logging
import sqlite3
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dumpulse_fleet import client
from dumpulse_fleet.alert import alertmanager, deliver, message
from dumpulse_fleet.alert.decide import COLLECTOR, Item
from dumpulse_fleet.alert.deliver import Alerts
from dumpulse_fleet.config.outputs import AlertSettings, Notify
from dumpulse_fleet.config.values import Secret
from dumpulse_fleet.model.agents import Agent, Mute, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.store import Store, Trouble
from dumpulse_fleet.tests.collecting import flushed, profile, until_then as until
from dumpulse_fleet.tests.serving import started
from tools.programs import free_port

PROFILE = profile(expect="0-4")
SECRET = "hunter2"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "BEAT_S", 0.02)
    monkeypatch.setattr(deliver, "BACKOFF_S", (0.05, 0.1))
    monkeypatch.setattr(deliver, "SETTLE_S", 0.05)
    monkeypatch.setattr(deliver, "TIMEOUT_S", 1.0)


class Receiver:
    """A web server that keeps what it is sent, and answers as a test wants."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.status = 200
        self.rejects = ""  # the site of messages that it answers with 400
        self.delay = 0.0
        self.gets = 0
        self.port = 0

    async def _post(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers)
        body = await request.json()
        await asyncio.sleep(self.delay)
        self.got.append(body)
        if self.rejects and body["name"] == self.rejects:
            return web.Response(status=400)
        return web.Response(status=self.status, headers={"Location": "/elsewhere"})

    async def _get(self, _: web.Request) -> web.Response:
        self.gets += 1
        return web.Response(status=self.status)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_route("POST", "/{path:.*}", self._post)
        app.router.add_get("/{path:.*}", self._get)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        server = site._server
        assert isinstance(server, asyncio.base_events.Server)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            await runner.cleanup()

    def notify(self, match: dict[str, str] | None = None, **more: Any) -> Notify:
        return Notify("webhook", Secret(f"http://127.0.0.1:{self.port}/{SECRET}"), match or {},
                      **more)


class Fleet:
    """A table that a test changes, and alerts that watch it."""

    def __init__(self, path: Path, sites: Sequence[str] = ("berlin", "berlin", "bern")) -> None:
        self.said: list[str] = []
        self.path = path
        self.table = Table([Agent(f"pump {number}", "127.0.0.1", PROFILE, site, {"rack": "7"}, 0.05)
                            for number, site in enumerate(sites)])
        self.table.agent_state[:] = State.ALIVE
        self.mutes: list[Mute] = []
        self.healthy = True
        self.alerts: Alerts

    @contextlib.asynccontextmanager
    async def running(self, *notify: Notify, **settings: Any) -> AsyncIterator[Alerts]:
        self.settings = AlertSettings(notify=notify, **{"wait": 0.05, **settings})
        store = await asyncio.to_thread(Store, self.path, say=self.said.append)
        alerts = Alerts(store, self.said.append)
        self.alerts = alerts
        alerts.configure(self.settings, 0.0, self.table)
        task = asyncio.create_task(alerts.run(lambda: self.mutes, lambda: self.healthy))
        try:
            yield alerts
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.to_thread(store.close)

    def put(self, row: int, state: State, variable: int = -1) -> None:
        with self.table.lock:
            now = time.time()
            if variable < 0:
                self.table.agent_state[row], self.table.agent_since[row] = state, now
            else:
                self.table.state[row, variable] = state
                self.table.since[row, variable] = now
            self.table.version += 1
            self.table.changed[row] = self.table.version

    @property
    def shows(self) -> str:
        return json.dumps([self.said, self.alerts.trouble, dict(self.alerts.numbers())])


def rows(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT * FROM outbox").fetchall()


def async_test(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path / "fleet.sqlite"))
    run.__name__ = test.__name__
    return run


@async_test
async def test_a_webhook_gets_json(path: Path) -> None:
    fleet, receiver = Fleet(path), Receiver()
    async with receiver.serving(), fleet.running(receiver.notify(token=Secret(SECRET))) as alerts:
        before = time.time()
        fleet.put(0, State.UNREACHABLE)
        fleet.put(1, State.DEAD, 3)
        await until(lambda: receiver.got)
        (body,) = receiver.got
        assert body == {
            "version": 1, "id": f"{body['incident']}-1", "incident": body["incident"],
            "kind": "problem", "about": "site", "name": "berlin", "at": body["at"],
            "counts": {"new": 2, "resolved": 0, "removed": 0, "open": 2, "muted": 0},
            "resolved": [], "removed": [],
            "new": body["open"], "open": [
                {"kind": "agent", "name": "pump 0", "variable": -1, "variable_name": "",
                 "state": "unreachable", "severity": "critical", "flapping": False,
                 "acknowledged": None,
                 "since": body["open"][0]["since"], "site": "berlin", "labels": {"rack": "7"}},
                {"kind": "agent", "name": "pump 1", "variable": 3, "variable_name": "",
                 "state": "dead", "severity": "critical", "flapping": False,
                 "acknowledged": None,
                 "since": body["open"][1]["since"], "site": "berlin", "labels": {"rack": "7"}}],
            "title": "berlin: 1 unreachable, 1 dead", "text": body["text"]}
        assert before <= body["open"][0]["since"] <= body["at"] <= time.time()
        assert body["text"].splitlines()[:2] == ["1 unreachable: pump 0",
                                                 "1 dead: pump 1 variable 3"]
        assert body["text"].splitlines()[2].startswith("since 20")
        assert receiver.headers[0]["Authorization"] == f"Bearer {SECRET}"
        assert receiver.headers[0]["Idempotency-Key"] == body["id"]
        fleet.put(0, State.ALIVE)
        fleet.put(1, State.ALIVE, 3)
        await until(lambda: len(receiver.got) == 2)
        assert receiver.got[1]["title"] == "berlin: 2 resolved, 0 open"
        await until(lambda: not rows(path))
        assert alerts.sent == 2 and not alerts.trouble and not fleet.said
        stored = alerts._store.select(what="alert")
        assert [(each.now, each.site) for each in stored][::-1] == [
            ("problem: 2 new, 0 resolved, 2 open", "berlin"),
            ("resolved: 0 new, 2 resolved, 0 open", "berlin")]
        assert alerts._core and not alerts._core.failing
        fleet.table.misses[:] = 1, 0, 9  # the last one is unreachable already
        fleet.table.is_sought[:2] = True, False
        fleet.put(2, State.UNREACHABLE)
        await until(lambda: alerts._core and
                    alerts._core.failing == alerts._core.sought == {"berlin"})


@async_test
async def test_the_next_text_says_who_takes_care(path: Path) -> None:
    fleet, receiver = Fleet(path), Receiver()
    async with receiver.serving(), fleet.running(receiver.notify(), again=0):
        fleet.put(0, State.UNREACHABLE)
        await until(lambda: receiver.got)
        fleet.mutes = [Mute({"name": "pump 0"}, 0, 4e9, "on my way", "ada", acknowledges=True)]
        fleet.put(1, State.UNREACHABLE)
        await until(lambda: len(receiver.got) == 2)
        body = receiver.got[1]
        assert body["counts"]["new"] == 1
        assert body["text"].splitlines()[-1].endswith(
            "UTC; 1 of 2 open acknowledged by ada until 2096-10-02 07:06:40 UTC: on my way")
        assert [each["acknowledged"] and each["acknowledged"]["by"] for each in body["open"]] == [
            "ada", None]


@async_test
async def test_each_is_told_what_concerns_them(path: Path) -> None:
    fleet = Fleet(path)
    bern, every = Receiver(), Receiver()
    async with bern.serving(), every.serving():
        async with fleet.running(bern.notify({"site": "bern"}), every.notify()):
            for row in range(3):
                fleet.put(row, State.UNREACHABLE)
            await until(lambda: len(every.got) == 2 and bern.got)
            for row in range(3):
                fleet.put(row, State.ALIVE)
            await until(lambda: len(every.got) == 4 and len(bern.got) == 2)
            assert {each["name"] for each in bern.got} == {"bern"}


@async_test
async def test_what_fails_is_tried_again_and_a_slow_one_delays_no_other(path: Path) -> None:
    fleet, broken, good = Fleet(path), Receiver(), Receiver()
    broken.status = 503
    async with broken.serving(), good.serving():
        async with fleet.running(broken.notify(), good.notify()) as alerts:
            fleet.put(0, State.UNREACHABLE)
            await until(lambda: len(broken.got) >= 3 and good.got)
            assert len({each["id"] for each in broken.got}) == 1
            assert "the answer was 503" in alerts.trouble and len(rows(path)) == 1
            for status in (302, 404):
                broken.status = status
                await until(lambda: f"the answer was {status}" in alerts.trouble)
            broken.delay = 3.0  # longer than the timeout
            await until(lambda: "no answer in" in alerts.trouble)
            fleet.put(2, State.UNREACHABLE)
            await until(lambda: len(good.got) == 2)
            broken.status, broken.delay = 200, 0.0
            await until(lambda: not rows(path))
            assert not alerts.trouble and alerts.failed >= 4
            assert {each["name"] for each in broken.got[-2:]} == {"berlin", "bern"}
    assert SECRET not in fleet.shows


@async_test
async def test_a_rejected_message_steps_aside(path: Path) -> None:
    """Each later message is delivered, an event names the rejected one, and a fallback gets it at
    once. Without one, nobody has been told, and that stays a trouble."""
    fleet, receiver, fallback = Fleet(path, ["a", "b", "c"]), Receiver(), Receiver()
    receiver.rejects = "a"
    async with receiver.serving(), fallback.serving():
        async with fleet.running(receiver.notify(), again=0) as alerts:
            for row in range(3):
                fleet.put(row, State.UNREACHABLE)
                await until(lambda: len(receiver.got) > row)
            await until(lambda: alerts.sent == 2 and not rows(path))
            assert [each["name"] for each in receiver.got] == ["a", "b", "c"]
            assert alerts.given_up == 1 and not alerts.untold
            await asyncio.to_thread(flushed, alerts._store)
            assert any(event.now.startswith("notify 1 (webhook): gave up the message")
                       and event.site == "a" for event in alerts._store.select(what="alert"))
            await until(lambda: client.uptime() - min(alerts._untold.values()) > 0.5)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(deliver, "UNTOLD_S", 0.5)
                assert alerts.untold.startswith("no receiver has accepted an alert for ")
        async with fleet.running(receiver.notify(), again=0) as alerts:
            await until(lambda: [subject for subject, _ in alerts._untold] == [("site", "a")])
        for row in range(3):
            fleet.put(row, State.ALIVE)
        async with fleet.running(receiver.notify(), fallback.notify(fallback=True), again=0
                                 ) as alerts:
            await until(lambda: len(fallback.got) == 1 and alerts.sent == 3)
            assert fallback.got[0]["name"] == "a" and not alerts._untold


@async_test
async def test_a_fallback_gets_what_no_other_accepts_and_its_end(path: Path) -> None:
    fleet, first, fallback = Fleet(path), Receiver(), Receiver()
    first.status = 503
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliver, "FALLBACK_S", 0.3)
        async with first.serving(), fallback.serving(), fleet.running(
                first.notify(), fallback.notify(fallback=True), again=0) as alerts:
            fleet.put(0, State.UNREACHABLE)
            await until(lambda: fallback.got)
            assert len(first.got) > 1 and not alerts._untold
            first.status = 200
            await until(lambda: not rows(path))
            fleet.put(2, State.UNREACHABLE)  # another site, which the first receiver accepts
            fallback.status, sent = 503, alerts.sent
            fleet.put(0, State.ALIVE)
            await until(lambda: alerts.sent == sent + 2 and len(fallback.got) > 1)
            fallback.status = 200
            await until(lambda: alerts.sent == sent + 3 and not rows(path))
            assert {(each["name"], each["kind"]) for each in fallback.got} == {
                ("berlin", "problem"), ("berlin", "resolved")}


@async_test
async def test_a_message_that_hangs_delays_no_other_subject_and_its_own_keep_their_order(
        path: Path) -> None:
    fleet, receiver = Fleet(path), Receiver()
    receiver.status = 500
    async with receiver.serving(), fleet.running(receiver.notify(), again=0) as alerts:
        fleet.put(0, State.UNREACHABLE)
        await until(lambda: receiver.got)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(deliver, "BACKOFF_S", (60.0, 60.0))  # The first message waits.
            await until(lambda: alerts._receivers[0].waiting[0].pause == 60)
            receiver.status = 200
            fleet.put(0, State.ALIVE)
            await until(lambda: len(alerts._receivers[0].waiting) == 2)
            fleet.put(2, State.UNREACHABLE)
            await until(lambda: alerts.sent == 1)
            await until(lambda: len(rows(path)) == 2)
            assert receiver.got[-1]["name"] == "bern"
        alerts._receivers[0].waiting[0].due = 0.0
        alerts._receivers[0].some.set()
        await until(lambda: not rows(path))
        assert [each["kind"] for each in receiver.got[-2:]] == ["problem", "resolved"]


@async_test
async def test_what_is_removed_has_not_ended_well(path: Path) -> None:
    fleet, receiver = Fleet(path), Receiver()
    async with receiver.serving(), fleet.running(receiver.notify(), again=0) as alerts:
        fleet.put(0, State.UNREACHABLE)
        await until(lambda: receiver.got)
        fleet.table = Table(fleet.table.agents[1:])
        fleet.table.agent_state[:] = State.ALIVE
        alerts.configure(fleet.settings, 0.0, fleet.table)
        await until(lambda: len(receiver.got) == 2)
    body = receiver.got[1]
    assert body["kind"] == "removed" and body["title"] == (
        "berlin: 1 removed from the inventory, 0 open")
    assert not body["resolved"] and body["counts"]["removed"] == len(body["removed"]) == 1


def firing(port: int) -> dict[str, str]:
    """The agents of which an Alertmanager has an alert that fires, and its name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/alerts", timeout=10) as answer:
        return {each["labels"]["agent"]: each["labels"]["alertname"]
                for each in json.loads(answer.read())}


@async_test
async def test_a_real_alertmanager_has_each_alert_for_as_long_as_it_lasts(path: Path) -> None:
    """Two fleets with the same agents; each alert is there once, and ends with the last word of a
    fleet that lives, or VALID_S after that of one that was killed."""
    port, config = free_port(), path.parent / "alertmanager.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    one, two = Fleet(path), Fleet(path.with_name("two"))
    notify = Notify("alertmanager", Secret(f"http://127.0.0.1:{port}/"), {})
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as later:
        patch.setattr(alertmanager, "RESEND_S", 0.3)
        patch.setattr(alertmanager, "RETRY_S", 0.1)
        patch.setattr(deliver, "VALID_S", 1.5)
        async with one.running(notify) as alerts, two.running(notify):
            for fleet in (one, two):
                fleet.put(0, State.UNREACHABLE)
                fleet.put(2, State.DEAD, 3)
            await until(lambda: alerts.failed)  # nobody listens yet
            patch.setattr(deliver, "UNTOLD_S", 0.01)
            await until(lambda: alerts.untold)
            await asyncio.to_thread(later.enter_context, started(
                "prometheus-alertmanager", f"--config.file={config}",
                f"--storage.path={path.parent / 'manager'}", "--cluster.listen-address=",
                f"--web.listen-address=127.0.0.1:{port}", port=port))
            await until(lambda: firing(port) == {"pump 0": "DumpulseAgentUnreachable",
                                                 "pump 2": "DumpulseVariableDead"})
            await asyncio.sleep(2)  # longer than an alert is valid that is not sent again
            assert len(firing(port)) == 2 and not alerts.untold and not rows(path)
            for fleet in (one, two):
                fleet.put(2, State.ALIVE, 3)
            await until(lambda: firing(port) == {"pump 0": "DumpulseAgentUnreachable"})
        await until(lambda: not firing(port))


@async_test
async def test_an_alertmanager_gets_at_once_what_changes_while_it_answers(path: Path) -> None:
    manager = alertmanager.Alertmanager(Notify("alertmanager", Secret(f"http://{path}"), {}), 1)
    sent = []

    async def post(alerts: list[Any], _: str) -> str:
        sent.append(alerts)
        manager.put([], 7.0)  # while it answers, the alert ends
        return ""

    manager.put([Item(COLLECTOR, State.DEAD, 5.0, False, None, None)], 6.0)
    task = asyncio.create_task(manager.run(post, lambda *_: None))
    await until(lambda: len(sent) > 1)
    task.cancel()
    assert [alerts[0]["endsAt"] for alerts in sent[1:]] == [alertmanager.moment(7.0)]


@async_test
async def test_no_alert_is_lost_over_a_restart(path: Path) -> None:
    """Nobody listens; the monitor ends, and begins again."""
    fleet, receiver = Fleet(path), Receiver()
    async with receiver.serving():
        pass  # now it has a port, and does not listen
    async with fleet.running(receiver.notify()) as alerts:
        fleet.put(0, State.UNREACHABLE)
        await until(lambda: alerts.failed >= 2)
        assert "cannot connect" in alerts.trouble
    (row,) = rows(path)
    fleet.put(0, State.ALIVE)  # it comes back while the monitor is away
    async with fleet.running(receiver.notify()):
        async with receiver.serving():
            await until(lambda: len(receiver.got) == 2)
            assert receiver.got[0] == json.loads(row[3])
            assert [each["kind"] for each in receiver.got] == ["problem", "resolved"]
            assert receiver.got[1]["incident"] == receiver.got[0]["incident"]
            await until(lambda: not rows(path))
    async with fleet.running(receiver.notify()):
        await asyncio.sleep(0.3)
    assert len(receiver.got) == 2 and SECRET not in fleet.shows
    async with fleet.running():  # a receiver that is gone gets nothing, and keeps nothing
        pass
    assert not rows(path)


@async_test
async def test_a_reload_keeps_what_is_told_and_what_waits(path: Path) -> None:
    fleet, receiver, other = Fleet(path), Receiver(), Receiver()
    receiver.status = 500
    async with receiver.serving(), other.serving():
        async with fleet.running(receiver.notify()) as alerts:
            fleet.put(0, State.UNREACHABLE)
            await until(lambda: receiver.got)
            table = Table(fleet.table.agents[:2])
            table.agent_state[:] = fleet.table.agent_state[:2]
            alerts.configure(AlertSettings(
                notify=(receiver.notify(token=Secret("new")), other.notify()), wait=0.05),
                0.0, table)
            with pytest.raises(Trouble, match="Apprise has no service"):
                alerts.configure(AlertSettings(
                    notify=(Notify("apprise", Secret(f"no-{SECRET}"), {}),)), 0.0, table)
            receiver.status = 200
            await until(lambda: not rows(path))
            assert receiver.headers[-1]["Authorization"] == "Bearer new"
            fleet.table = table
            fleet.put(0, State.ALIVE)
            await until(lambda: other.got)
            assert other.got[0]["kind"] == "resolved"
            assert len({each["id"] for each in receiver.got}) <= 2


@async_test
async def test_too_many_and_too_old_messages_are_given_up(path: Path) -> None:
    fleet, receiver = Fleet(path, [f"site {number}" for number in range(8)]), Receiver()
    receiver.status = 500
    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(deliver, "MOST_WAITING", 3)
        async with receiver.serving(), fleet.running(receiver.notify()) as alerts:
            for row in range(8):
                fleet.put(row, State.UNREACHABLE)
            await until(lambda: alerts.given_up == 5)
            await until(lambda: len(rows(path)) == 3)
            patch.setattr(deliver, "OLDEST_S", 0.0)
            await until(lambda: alerts.given_up == 8 and not rows(path))
            assert any("gave up" in each for each in fleet.said)
    finally:
        patch.undo()
    assert SECRET not in fleet.shows


@async_test
async def test_a_ping_only_while_all_is_well(path: Path) -> None:
    fleet, receiver = Fleet(path), Receiver()
    async with receiver.serving():
        ping = Secret(f"http://127.0.0.1:{receiver.port}/{SECRET}")
        async with fleet.running(ping=ping, ping_every=0.05) as alerts:
            await until(lambda: receiver.gets >= 3)
            fleet.healthy = False
            await asyncio.sleep(0.1)
            count = receiver.gets
            await asyncio.sleep(0.3)
            assert receiver.gets == count
            receiver.status = 500
            fleet.healthy = True
            await until(lambda: alerts.pings_failed)
    assert "ping: the answer was 500" in fleet.said and SECRET not in fleet.shows


@async_test
async def test_apprise_tells_a_real_service(path: Path) -> None:
    """Its service `json` is a web server."""
    fleet, receiver = Fleet(path), Receiver()
    root = logging.getLogger()
    records: list[logging.LogRecord] = []
    handler = logging.Handler(0)
    handler.emit = records.append  # type: ignore[assignment,method-assign]
    level = root.level
    root.addHandler(handler)
    root.setLevel(0)
    try:
        async with receiver.serving():
            notify = Notify("apprise", Secret(f"json://127.0.0.1:{receiver.port}/{SECRET}"), {})
            async with fleet.running(notify) as alerts:
                receiver.status = 500
                fleet.put(0, State.UNREACHABLE)
                await until(lambda: alerts.failed)
                receiver.status = 200
                await until(lambda: alerts.sent)
                assert receiver.got[-1]["title"] == "berlin: 1 unreachable"
                assert receiver.got[-1]["message"].startswith("1 unreachable: pump 0\nsince ")
        async with fleet.running(notify) as alerts:
            fleet.put(0, State.ALIVE)  # nobody listens
            await until(lambda: alerts.failed)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert SECRET not in fleet.shows
    # The connection's own library may say something at the level of debugging.
    assert not [each for each in records if SECRET in each.getMessage()
                and each.levelno >= logging.INFO]


def test_a_fallback_has_the_same_message_and_not_another_of_its_incident() -> None:
    waiting = [message.Waiting({"id": f"x-{number}", "incident": "x"}, 0.0) for number in (1, 2)]
    fallback = message.Receiver(Notify("webhook", Secret("http://x"), {}, fallback=True), 1)
    fallback.waiting, alerts = waiting, Alerts.__new__(Alerts)
    alerts._receivers = [fallback]
    assert alerts._fallbacks(waiting[1]) == [(fallback, waiting[1])]


@pytest.mark.parametrize("url", [
    "http://127.0.0.1:1/x", f"http://no-such-host.invalid/{SECRET}", f"http://[bad/{SECRET}",
    f"https://127.0.0.1:1/{SECRET}", f"http://user:{SECRET}@127.0.0.1:1/"])
def test_no_error_tells_the_address(tmp_path: Path, url: str) -> None:
    async def run() -> None:
        fleet = Fleet(tmp_path / "fleet.sqlite")
        async with fleet.running(Notify("webhook", Secret(url), {})) as alerts:
            fleet.put(0, State.UNREACHABLE)
            await until(lambda: alerts.trouble)
        assert SECRET not in fleet.shows and fleet.said

    asyncio.run(run())
    with contextlib.closing(sqlite3.connect(tmp_path / "fleet.sqlite")) as database:
        assert SECRET not in "".join(database.iterdump())
