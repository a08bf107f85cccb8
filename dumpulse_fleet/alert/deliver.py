"""Delivers alerts to webhooks, by Apprise and to Alertmanager, and loses none over a restart.
decide.py decides; this asks it once a second, and keeps in the store what was told and the messages
that wait, in one transaction. Messages about one subject are delivered in their order; each message
has a back-off of its own. A message may come twice; then it has the same `id`. No address of a
receiver is ever written to a log, because addresses often have secrets in them."""

import asyncio
import contextlib
import functools
import json
import random
import sqlite3
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Optional

import aiohttp
import numpy as np

from dumpulse_fleet import client
from dumpulse_fleet.alert.alertmanager import VALID_S, Alertmanager
from dumpulse_fleet.alert.decide import Core, Message, Rules
from dumpulse_fleet.alert.message import Receiver, Subject, Waiting
from dumpulse_fleet.config.outputs import AlertSettings
from dumpulse_fleet.model.agents import Event, Mute, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.model.version import VERSION
from dumpulse_fleet.record.store import Store, Trouble

BEAT_S = 1.0
TIMEOUT_S = 10.0  # for one delivery
SETTLE_S = 10.0  # The shortest time for which a problem must be over, whatever `wait` is.
BACKOFF_S = (5.0, 300.0)  # between two attempts: from, to
OLDEST_S = 86_400.0  # a message that could not be delivered for so long is given up
MOST_WAITING = 1_000  # messages for one receiver; then the oldest is given up
FALLBACK_S = 30.0  # a fallback gets what no other receiver has accepted for so long
UNTOLD_S = 60.0  # a message that no receiver has accepted for so long is a trouble
AT_ONCE = 8  # messages that are sent to one receiver at the same time
# The receiver rejects this message, and would reject it again: it is not sent to it again.
REJECTIONS = {f"the answer was {status}" for status in (400, 413, 415, 422)}
COMMIT_S = 2.0  # a message waits so long for the disk, and is then sent all the same
STATES = tuple(State)  # The place of a state is its number.
STATE, UNTOLD = "alerts", "untold"  # rows in the store's table `kept`


class Alerts:
    """The core, and its receivers. Only the loop's thread uses it."""

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        self.sent = 0
        self.failed = 0  # attempts
        self.given_up = 0  # messages
        self.pings = 0
        self.pings_failed = 0
        self._store, self._say = store, say
        self._core: Optional[Core] = None
        self._settings = AlertSettings()
        self._table: Optional[Table] = None
        self._version = -1  # The version of the table that was read last.
        self._receivers: list[Receiver] = []
        # Messages that no receiver has accepted, since when on client.uptime().
        self._untold: dict[tuple[Subject, str], float] = {}
        self._tasks: dict[Receiver, asyncio.Task[None]] = {}
        self._session: Optional[aiohttp.ClientSession] = None

    def check(self, settings: AlertSettings) -> list[Receiver]:
        """Trouble: a receiver cannot be used."""
        return [(Alertmanager if notify.kind == "alertmanager" else Receiver)(notify, number)
                for number, notify in enumerate(settings.notify, 1)]

    def configure(self, settings: AlertSettings, grace: float, table: Table) -> None:
        """Uses these from now on. Trouble: a receiver cannot be used, and nothing has changed."""
        old_receivers = {receiver.key: receiver for receiver in self._receivers}
        receivers = self.check(settings)
        for index, receiver in enumerate(receivers):
            old = old_receivers.get(receiver.key, receiver)
            if old.settings == receiver.settings:
                receivers[index] = old  # its delivery goes on
            else:
                receiver.waiting = old.waiting
            if isinstance(receiver, Alertmanager):
                receiver.validity = VALID_S + 2 * grace  # it lasts over a restart
        rules = Rules(wait=settings.wait, again=settings.again, remind=settings.remind, grace=grace,
                      settle=max(SETTLE_S, settings.wait), blind=settings.blind)
        if self._core is None:
            self._core = Core(rules, table.agents, client.uptime())
        else:
            self._core.replace(rules, table.agents)
        self._settings, self._table, self._version = settings, table, -1
        self._receivers = receivers
        if self._session:
            self._start()

    def numbers(self) -> Mapping[str, float]:
        """What Prometheus shows."""
        counts = self._core.counts if self._core else {}
        return {"notified": self.sent, "unnotified": self.failed, "given_up": self.given_up,
                "notifications_waiting": sum(len(receiver.waiting) for receiver in self._receivers),
                "alerts_open": counts.get("open", 0), "alerts_muted": counts.get("muted", 0),
                "alerts_held": counts.get("held", 0),
                "blind": float(self._core.blind) if self._core else 0.0,
                "pings": self.pings, "pings_failed": self.pings_failed}

    @property
    def trouble(self) -> str:
        """Returns which receivers fail, and why."""
        return "; ".join(f"{receiver.title}: {receiver.trouble}" for receiver in self._receivers
                         if receiver.trouble)

    @property
    def untold(self) -> str:
        """Returns for how long no receiver has accepted an alert; empty: not for UNTOLD_S."""
        since = list(self._untold.values())
        if self._receivers and all(receiver.trouble for receiver in self._receivers):
            since += [receiver.failing_since for receiver in self._receivers
                      if isinstance(receiver, Alertmanager) and receiver.failing_since]
        longest = client.uptime() - min(since) if since else 0.0
        return f"no receiver has accepted an alert for {longest:.0f} s" * (longest > UNTOLD_S)

    # ---------------------------------------------------------------- the loop
    async def run(self, mutes: Callable[[], Sequence[Mute]], healthy: Callable[[], bool]) -> None:
        """Until it is cancelled."""
        await self._load()
        async with aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                headers={"User-Agent": f"dumpulse-fleet/{VERSION}"}) as self._session:
            try:
                self._start()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._ping(healthy))
                    while True:
                        await self._beat(mutes())
                        await asyncio.sleep(BEAT_S)
            finally:
                for task in self._tasks.values():
                    task.cancel()
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                self._tasks.clear()
                self._session = None

    def _start(self) -> None:
        """Starts a task for each receiver, and ends those of receivers that are gone."""
        for gone in self._tasks.keys() - set(self._receivers):
            self._tasks.pop(gone).cancel()
        for receiver in self._receivers:
            if receiver not in self._tasks:
                self._tasks[receiver] = asyncio.create_task(
                    receiver.run(functools.partial(self._post, receiver), self._done)
                    if isinstance(receiver, Alertmanager) else self._deliver(receiver))

    async def _beat(self, mutes: Sequence[Mute]) -> None:
        if not (self._core and self._table):
            return
        now, wall = client.uptime(), time.time()
        self._version, updates = changes(self._table, self._version, self._core.troubled())
        for change in updates:
            self._core.see(*change, now, wall)
        self._core.nameless = {self._table.agents[row].name
                               for row in np.flatnonzero(self._table.nameless).tolist()}
        failing = (self._table.misses > 0) & (self._table.agent_state < State.DAMAGED)
        self._core.failing = {self._table.agents[row].site
                              for row in np.flatnonzero(failing).tolist()}
        self._core.sought = {self._table.agents[row].site
                             for row in np.flatnonzero(self._table.is_sought).tolist()}
        messages = self._core.step(now, wall, mutes)
        managers = [receiver for receiver in self._receivers if isinstance(receiver, Alertmanager)]
        if managers and (firing := self._core.firing(now)) is not None:
            for manager in managers:
                manager.put(firing, wall)
        self._untold = {message: since for message, since in self._untold.items()
                        if now - since < OLDEST_S} if self._receivers else {}
        if messages:
            await self._keep(messages, self._core.dump(now, wall), wall)

    async def _keep(self, messages: Sequence[Message], told: Mapping[str, Any], wall: float
                    ) -> None:
        """Stores the messages of each receiver, then queues them."""
        deliveries = [(receiver, Waiting(body, wall, due=self._due(receiver, body)))
                for message in messages for receiver in self._receivers
                if not isinstance(receiver, Alertmanager) and (body := receiver.body(message))]

        def write(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)",
                             (STATE, json.dumps(told)))
            for receiver, waiting in deliveries:
                waiting.row = database.execute(
                    "INSERT INTO outbox (receiver, made, body) VALUES (?, ?, ?)",
                    (receiver.key, wall, json.dumps(waiting.body))).lastrowid or 0

        future = asyncio.wrap_future(self._store.write(write))
        await asyncio.wait([future], timeout=COMMIT_S)
        if future.done() and future.exception():
            self._say(f"alerts are not kept over a restart: {future.exception()}")
        future.add_done_callback(lambda each: each.cancelled() or each.exception())
        for receiver, waiting in deliveries:
            self._untold.setdefault((waiting.subject, waiting.body["id"]), client.uptime())
            receiver.waiting.append(waiting)
            if len(receiver.waiting) > MOST_WAITING:
                self._give_up(receiver, receiver.waiting[0], "too many wait")
            receiver.some.set()
        for message in messages:
            gone = sum(item.removed for item in message.over)
            self._event(message.key, f"{message.kind}: {len(message.new)} new, "
                        f"{len(message.over) - gone} resolved, {len(message.open)} open"
                        + f", {gone} removed" * bool(gone))

    def _event(self, subject: Subject, text: str) -> None:
        self._store.publish([Event(time.time(), "", -1, "alert", "", text, -1,
                                   subject[1] if subject[0] == "site" else "")])

    @staticmethod
    def _due(receiver: Receiver, body: Mapping[str, Any]) -> float:
        waits = receiver.settings.fallback and body["incident"] not in receiver.incidents
        return client.uptime() + FALLBACK_S if waits else 0.0

    def _forget(self, receiver: Receiver, waiting: Waiting) -> None:
        """Deletes what was delivered, or was given up, and keeps which messages no receiver has
        accepted. The store does things in their order, so it writes a row before it deletes it."""
        receiver.waiting.remove(waiting)
        untold = json.dumps([[subject, number, time.time() - client.uptime() + since]
                             for (subject, number), since in self._untold.items()])

        def write(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM outbox WHERE id = ?", (waiting.row,))
            database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (UNTOLD, untold))
        self._store.write(write)

    def _give_up(self, receiver: Receiver, waiting: Waiting, why: str) -> None:
        """Lets a message step aside, with an event. A fallback gets it at once."""
        self._forget(receiver, waiting)
        self.given_up += 1
        text = f"gave up the message {waiting.body['id']}: {why}"
        self._say(f"{receiver.title}: {text}")
        self._event(waiting.subject, f"{receiver.title}: {text}")
        for fallback, duplicate in self._fallbacks(waiting):
            duplicate.due = min(duplicate.due, client.uptime())
            fallback.some.set()

    def _accepted(self, receiver: Receiver, waiting: Waiting) -> None:
        """The message is told. A fallback gets it only if it has told of this incident before."""
        self._untold = {(subject, number): since for (subject, number), since in
                        self._untold.items() if subject != waiting.subject
                        or since > self._untold.get((subject, waiting.body["id"]), -1.0)}
        self._forget(receiver, waiting)
        incident = waiting.body["incident"]
        if receiver.settings.fallback:
            receiver.incidents.add(incident)
            return
        for fallback, duplicate in self._fallbacks(waiting):
            if incident not in fallback.incidents:
                self._forget(fallback, duplicate)

    def _fallbacks(self, waiting: Waiting) -> list[tuple[Receiver, Waiting]]:
        """Returns the same message as it waits for fallbacks."""
        return [(receiver, duplicate) for receiver in self._receivers if receiver.settings.fallback
                for duplicate in receiver.waiting if duplicate.body["id"] == waiting.body["id"]]

    async def _load(self) -> None:
        """Reads what was told before the restart, and what waits. Deletes messages to receivers
        that are not configured any more."""
        def read(database: sqlite3.Connection) -> tuple[dict[str, str], list[Any]]:
            keys = json.dumps([receiver.key for receiver in self._receivers])
            database.execute("DELETE FROM outbox WHERE receiver NOT IN "
                             "(SELECT value FROM json_each(?))", (keys,))
            return (dict(database.execute("SELECT name, value FROM kept").fetchall()),
                    database.execute("SELECT * FROM outbox ORDER BY id").fetchall())
        try:
            values, rows = await asyncio.wrap_future(self._store.write(read))
            if STATE in values and self._core:
                self._core.load(json.loads(values[STATE]), client.uptime(), time.time())
            for (kind, name), number, since in json.loads(values.get(UNTOLD, "[]")):
                self._untold[(kind, name), number] = client.uptime() - max(0, time.time() - since)
            for row, key, made_at, body in rows:
                for receiver in self._receivers:
                    if receiver.key == key:
                        waiting = Waiting(json.loads(body), made_at, row)
                        waiting.due = self._due(receiver, waiting.body)
                        receiver.waiting.append(waiting)
                        self._untold.setdefault(
                            (waiting.subject, waiting.body["id"]),
                            client.uptime() - max(0.0, time.time() - made_at))
        except (sqlite3.Error, Trouble, ValueError, TypeError, KeyError) as error:
            self._say(f"which alerts were sent before the restart is unknown: {error}")

    # ---------------------------------------------------------------- deliveries
    async def _deliver(self, receiver: Receiver) -> None:
        while True:
            receiver.some.clear()
            heads, now = receiver.heads(), client.uptime()
            due = [waiting for waiting in heads if waiting.due <= now][:AT_ONCE]
            if due:
                await asyncio.gather(*(self._attempt(receiver, waiting) for waiting in due))
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(receiver.some.wait(), heads[0].due - now if heads else None)

    async def _attempt(self, receiver: Receiver, waiting: Waiting) -> None:
        trouble = await self._send(receiver, waiting.body)
        if waiting not in receiver.waiting:
            return  # too many waited, and it was given up; or another receiver has accepted it
        self._done(receiver, trouble)
        if not trouble:
            self._accepted(receiver, waiting)
        elif trouble in REJECTIONS or time.time() - waiting.made_at > OLDEST_S:
            self._give_up(receiver, waiting, trouble)
        else:
            waiting.pause = min(max(2 * waiting.pause, BACKOFF_S[0]), BACKOFF_S[1])
            waiting.due = client.uptime() + waiting.pause * random.uniform(0.5, 1.0)

    def _done(self, receiver: Receiver, trouble: str, count: int = 1) -> None:
        """Counts messages that were sent, or an attempt that failed."""
        if trouble and trouble != receiver.trouble:
            self._say(f"{receiver.title}: {trouble}: trying again")
        receiver.trouble = trouble
        self.sent += 0 if trouble else count
        self.failed += bool(trouble)

    async def _send(self, receiver: Receiver, body: Mapping[str, Any]) -> str:
        """Returns what went wrong, without an address; empty: nothing."""
        try:
            if receiver.apprise:
                async with asyncio.timeout(3 * TIMEOUT_S):
                    is_delivered = await receiver.apprise.async_notify(
                        title=body["title"], body=body["text"] or body["title"])
                return "" if is_delivered else "the service did not accept it"
            return await self._post(receiver, body, **{
                "Idempotency-Key": str(body["id"]).encode("ascii", "replace").decode()})
        except asyncio.TimeoutError:
            return "it took too long"
        except Exception as error:  # Apprise's services raise anything; texts may have addresses
            return type(error).__name__

    async def _post(self, receiver: Receiver, body: Any, path: str = "", **headers: str) -> str:
        if token := str(receiver.settings.token):
            headers["Authorization"] = f"Bearer {token}"
        url = str(receiver.settings.url)
        return await self._ask("POST", url.rstrip("/") + path if path else url, json=body,
                               headers=headers)

    async def _ask(self, method: str, url: str, **more: Any) -> str:
        assert self._session
        try:
            async with self._session.request(method, url, allow_redirects=False, **more) as answer:
                return "" if 200 <= answer.status < 300 else f"the answer was {answer.status}"
        except asyncio.TimeoutError:
            return f"no answer in {TIMEOUT_S:g} s"
        except aiohttp.ClientConnectorError as error:
            return f"cannot connect: {error.os_error.strerror or type(error).__name__}"
        except (aiohttp.ClientError, ValueError, OSError) as error:
            return type(error).__name__

    async def _ping(self, healthy: Callable[[], bool]) -> None:
        """A dead man's switch: another service alerts when the requests stop."""
        trouble = ""
        while True:
            settings = self._settings
            if settings.ping and healthy():
                was, trouble = trouble, await self._ask("GET", str(settings.ping))
                self.pings += 1
                self.pings_failed += bool(trouble)
                if trouble and trouble != was:
                    self._say(f"ping: {trouble}")
            await asyncio.sleep(settings.ping_every)


def changes(table: Table, version: int, troubled: Container[str]
            ) -> tuple[int, list[tuple[str, int, State, float]]]:
    """The table's version now, and the states of agents that changed after another version: agent,
    variable, state, since. Of variables only those that are bad, or whose agent is `troubled`: good
    ones of which nobody ever said anything else are far too many after a start."""
    with table.lock:
        version_now = table.version
        rows = np.flatnonzero(table.changed > version)
        agents, since = table.agent_state[rows].tolist(), table.agent_since[rows].tolist()
        states, times = table.state[rows], table.since[rows]
    bad: list[bool] = np.any(states >= State.LATE, axis=1).tolist()
    updates: list[tuple[str, int, State, float]] = []
    for index, row in enumerate(rows.tolist()):
        name = table.agents[row].name
        updates.append((name, -1, STATES[agents[index]], since[index]))
        if bad[index] or name in troubled:
            updates += [(name, variable, STATES[states[index, variable]],
                         float(times[index, variable]))
                        for variable in np.flatnonzero(states[index]).tolist()]
    return version_now, updates
