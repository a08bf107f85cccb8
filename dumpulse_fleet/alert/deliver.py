"""Delivers alerts to webhooks and by Apprise, and loses none over a restart. decide.py decides;
this asks it once a second, and keeps in the store what was told and the messages that wait, in one
transaction. A message may come twice; then it has the same `id`. No address of a receiver is ever
written to a log, because addresses often have secrets in them."""

import asyncio
import collections
import dataclasses
import datetime
import hashlib
import json
import logging
import random
import sqlite3
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Optional

import aiohttp
import numpy as np

from dumpulse_fleet import client
from dumpulse_fleet.alert.decide import SEVERITY, Core, Item, Message, Rules
from dumpulse_fleet.config.outputs import AlertSettings, Notify
from dumpulse_fleet.model.agents import Event, Group, Mute, State
from dumpulse_fleet.model.naming import matches
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.model.version import VERSION
from dumpulse_fleet.record.store import Store, Trouble

BEAT_S = 1.0
TIMEOUT_S = 10.0  # for one delivery
SETTLE_S = 10.0  # what is good must be so for this long, whatever `wait` is
BACKOFF_S = (5.0, 300.0)  # between two attempts: from, to
OLDEST_S = 86_400.0  # a message that could not be delivered for so long is given up
MOST_WAITING = 1_000  # messages for one receiver; then the oldest is given up
LISTED = 200  # problems that a message lists; it always has the counts
NAMED = 5  # problems that a line of its text names
COMMIT_S = 2.0  # a message waits so long for the disk, and is then sent all the same
STATES = tuple(State)  # by their numbers
STATE = "alerts"  # its row in the store's table `kept`


@dataclasses.dataclass
class Waiting:
    """A message for one receiver."""

    body: dict[str, Any]
    made: float  # Unix time
    row: int = 0  # in the store; 0: not yet


class Receiver:
    """Somebody who is told, and what waits for them."""

    def __init__(self, settings: Notify, number: int) -> None:
        self.settings = settings
        self.title = f"notify {number} ({settings.kind})"  # for logs
        # The same over restarts, wherever it stands in the configuration.
        self.key = hashlib.sha256(json.dumps(
            [settings.kind, settings.url, dict(settings.match)]).encode()).hexdigest()[:16]
        self.waiting: collections.deque[Waiting] = collections.deque()
        self.some = asyncio.Event()
        self.trouble = ""
        self.apprise = load_apprise(self) if settings.kind == "apprise" else None

    def wants(self, item: Item) -> bool:
        """Everyone hears of the collector, and of what is not configured any more."""
        return not item.agents or any(
            matches(self.settings.match, agent) for agent in item.agents)

    def body(self, message: Message) -> Optional[dict[str, Any]]:
        """Returns the part of a message for this receiver, as JSON; None: it has none."""
        new, over, opened = ([item for item in items if self.wants(item)]
                             for items in (message.new, message.over, message.open))
        if not (new or over and self.settings.resolved
                or opened and message.kind == "reminder"):
            return None
        kind = "problem" if new else message.kind if message.kind == "reminder" else "resolved"
        return {
            "version": 1, "id": message.id, "incident": message.incident, "kind": kind,
            "about": message.key.kind, "name": message.key.name, "at": message.at,
            "counts": {"new": len(new), "resolved": len(over), "open": len(opened),
                       "muted": message.muted},
            "new": [line(item) for item in new[:LISTED]],
            "resolved": [line(item) for item in over[:LISTED]],
            "open": [line(item) for item in opened[:LISTED]],
            "title": title(message, kind, new, over, opened),
            "text": text(over if kind == "resolved" else new or opened, opened)}


def load_apprise(receiver: Receiver) -> Any:
    """Trouble: it is missing, or does not know the address."""
    try:
        import apprise  # only who configures it needs it
    except ImportError as error:
        raise Trouble(f"{receiver.title}: Apprise is not installed: pip install apprise"
                      ) from error
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it writes addresses to logs
    service = apprise.Apprise()
    if not service.add(str(receiver.settings.url)):
        raise Trouble(f"{receiver.title}: Apprise does not know such an address")
    return service


def variable_name(item: Item) -> str:
    if item.subject.variable < 0 or not item.agents:
        return ""
    return item.agents[0].profile.settings.variables[item.subject.variable].name


def line(item: Item) -> dict[str, Any]:
    agent = item.agents[0] if item.subject.kind == "agent" and item.agents else None
    return {"kind": item.subject.kind, "name": item.subject.name,
            "variable": item.subject.variable, "variable_name": variable_name(item),
            "state": item.state.words, "severity": (
                "none", "warning", "critical")[SEVERITY.get(item.state, 0)],
            "since": item.began, "flapping": item.flapping,
            "acknowledged": item.known and {"by": item.known.by, "until": item.known.ends,
                                            "why": item.known.why},
            "site": agent.site if agent else "", "labels": dict(agent.labels) if agent else {}}


def title(message: Message, kind: str, new: Sequence[Item], over: Sequence[Item],
          opened: Sequence[Item]) -> str:
    where = {"site": message.key.name or "no site", "group": f"group {message.key.name}",
             "collector": "the collector"}[message.key.kind]
    if message.key.kind == "collector":
        return {"problem": "The collector is blind: most agents fell silent at once",
                "resolved": "The collector sees again",
                "reminder": "The collector is still blind"}[kind]
    if kind == "problem":
        rest = len(opened) - len(new)
        states = ", ".join(f"{len(items):,} {state.words}" for state, items in by_state(new))
        return f"{where}: {states}" + (f"; {rest:,} more open" if rest else "")
    if kind == "resolved":
        return f"{where}: {len(over):,} resolved, {len(opened):,} open"
    return f"{where}: {len(opened):,} still open"


def by_state(items: Iterable[Item]) -> list[tuple[State, list[Item]]]:
    """The worst state first."""
    found: dict[State, list[Item]] = {}
    for item in items:
        found.setdefault(item.state, []).append(item)
    return sorted(found.items(), key=lambda pair: -pair[0])


def text(items: Sequence[Item], opened: Sequence[Item]) -> str:
    """At most four lines: what is worst, who, since when, and who takes care of what is open."""
    lines = []
    for state, some in by_state(items):
        names = [(item.subject.name or "the collector")
                 + (f" {variable_name(item) or f'variable {item.subject.variable}'}"
                    if item.subject.variable >= 0 else "")
                 + " (it comes and goes)" * item.flapping for item in some[:NAMED]]
        more = f" and {len(some) - NAMED:,} more" if len(some) > NAMED else ""
        lines.append(f"{len(some):,} {state.words}: {', '.join(names)}{more}")
    if len(lines) > 3:
        lines[2:] = ["; ".join(each.partition(":")[0] for each in lines[2:])]
    began = min((item.began for item in items if item.began > 0), default=0)
    known = [item.known for item in opened if item.known]
    parts = [f"since {clock(began)}"] if began else []
    if known:
        last = max(known, key=lambda mute: mute.ends)
        others = len({mute.by for mute in known}) - 1
        parts.append(f"{len(known):,} of {len(opened):,} open acknowledged by {last.by}"
                     + f" and {others:,} more" * bool(others) + f" until {clock(last.ends)}"
                     + f": {last.why}" * bool(last.why))
    if parts:
        lines.append("; ".join(parts))
    return "\n".join(lines)


def clock(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime(
        "%Y-%m-%d %H:%M:%S UTC")


class Alerts:
    """The core, and who is told. Only the loop's thread uses it."""

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
        self._version = -1  # of the table, seen last
        self._receivers: list[Receiver] = []
        self._tasks: dict[Receiver, asyncio.Task[None]] = {}
        self._session: Optional[aiohttp.ClientSession] = None

    def check(self, settings: AlertSettings) -> list[Receiver]:
        """Trouble: a receiver cannot be used."""
        return [Receiver(each, number) for number, each in enumerate(settings.notify, 1)]

    def configure(self, settings: AlertSettings, grace: float, table: Table, groups: Sequence[Group]
                  ) -> None:
        """Uses these from now on. Trouble: a receiver cannot be used, and nothing has changed."""
        known = {each.key: each for each in self._receivers}
        receivers = self.check(settings)
        for at, receiver in enumerate(receivers):
            old = known.get(receiver.key, receiver)
            if old.settings == receiver.settings:
                receivers[at] = old  # its delivery goes on
            else:
                receiver.waiting = old.waiting
        rules = Rules(wait=settings.wait, again=settings.again, remind=settings.remind, grace=grace,
                      settle=max(SETTLE_S, settings.wait), blind=settings.blind)
        if self._core is None:
            self._core = Core(rules, table.agents, groups, client.uptime())
        else:
            self._core.replace(rules, table.agents, groups)
        self._settings, self._table, self._version = settings, table, -1
        self._receivers = receivers
        if self._session:
            self._start()

    def numbers(self) -> Mapping[str, float]:
        """What Prometheus shows."""
        counts = self._core.counts if self._core else {}
        return {"notified": self.sent, "unnotified": self.failed, "given_up": self.given_up,
                "notifications_waiting": sum(len(each.waiting) for each in self._receivers),
                "alerts_open": counts.get("open", 0), "alerts_muted": counts.get("muted", 0),
                "alerts_held": counts.get("held", 0),
                "blind": float(self._core.blind) if self._core else 0.0,
                "pings": self.pings, "pings_failed": self.pings_failed}

    @property
    def trouble(self) -> str:
        """Says which receiver cannot be told, and why."""
        return "; ".join(f"{each.title}: {each.trouble}" for each in self._receivers
                         if each.trouble)

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
                self._tasks[receiver] = asyncio.create_task(self._deliver(receiver))

    async def _beat(self, mutes: Sequence[Mute]) -> None:
        if not (self._core and self._table):
            return
        now, wall = client.uptime(), time.time()
        self._version, found = changes(self._table, self._version, self._core.troubled())
        for change in found:
            self._core.see(*change, now, wall)
        messages = self._core.step(now, wall, mutes)
        if messages:
            await self._keep(messages, self._core.dump(now, wall), wall)

    async def _keep(self, messages: Sequence[Message], told: Mapping[str, Any], wall: float
                    ) -> None:
        """Writes who is to hear what, then lets them hear it."""
        made = [(receiver, Waiting(body, wall)) for message in messages
                for receiver in self._receivers if (body := receiver.body(message))]

        def write(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)",
                             (STATE, json.dumps(told)))
            for receiver, waiting in made:
                waiting.row = database.execute(
                    "INSERT INTO outbox (receiver, made, body) VALUES (?, ?, ?)",
                    (receiver.key, wall, json.dumps(waiting.body))).lastrowid or 0

        future = asyncio.wrap_future(self._store.write(write))
        await asyncio.wait([future], timeout=COMMIT_S)
        if future.done() and future.exception():
            self._say(f"alerts are not kept over a restart: {future.exception()}")
        future.add_done_callback(lambda each: each.cancelled() or each.exception())
        for receiver, waiting in made:
            receiver.waiting.append(waiting)
            if len(receiver.waiting) > MOST_WAITING:
                self._forget(receiver, receiver.waiting[0], given_up=True)
            receiver.some.set()
        self._store.publish([
            Event(wall, "", -1, "alert", "", f"{message.kind}: {len(message.new)} new, "
                  f"{len(message.over)} resolved, {len(message.open)} open", -1,
                  message.key.name if message.key.kind == "site" else "") for message in messages])

    def _forget(self, receiver: Receiver, waiting: Waiting, given_up: bool = False) -> None:
        """Deletes what was delivered, or was given up. The store does things in their order, so it
        writes a row before it deletes it."""
        receiver.waiting.remove(waiting)
        self._store.write(lambda database: database.execute(
            "DELETE FROM outbox WHERE id = ?", (waiting.row,)).rowcount)
        if given_up:
            self.given_up += 1
            self._say(f"{receiver.title}: gave up the message {waiting.body['id']}: "
                      f"{receiver.trouble or 'too many wait'}")

    async def _load(self) -> None:
        """Reads what was told before the restart, and what waits. Deletes messages to receivers
        that are not configured any more."""
        def read(database: sqlite3.Connection) -> tuple[list[Any], list[Any]]:
            keys = json.dumps([each.key for each in self._receivers])
            database.execute("DELETE FROM outbox WHERE receiver NOT IN "
                             "(SELECT value FROM json_each(?))", (keys,))
            return (database.execute("SELECT value FROM kept WHERE name = ?", (STATE,)).fetchall(),
                    database.execute("SELECT * FROM outbox ORDER BY id").fetchall())
        try:
            kept, rows = await asyncio.wrap_future(self._store.write(read))
            if kept and self._core:
                self._core.load(json.loads(kept[0][0]), client.uptime(), time.time())
            for row, key, made, body in rows:
                for receiver in self._receivers:
                    if receiver.key == key:
                        receiver.waiting.append(Waiting(json.loads(body), made, row))
        except (sqlite3.Error, Trouble, ValueError, TypeError, KeyError) as error:
            self._say(f"what was told before the restart is unknown: {error}")

    # ---------------------------------------------------------------- deliveries
    async def _deliver(self, receiver: Receiver) -> None:
        pause = 0.0
        while True:
            receiver.some.clear()
            if not receiver.waiting:
                await receiver.some.wait()
                continue
            waiting = receiver.waiting[0]
            trouble = await self._send(receiver, waiting.body)
            if waiting not in receiver.waiting:
                continue  # too many waited, and it was given up
            if not trouble:
                self.sent += 1
                pause, receiver.trouble = 0.0, ""
                self._forget(receiver, waiting)
                continue
            self.failed += 1
            if trouble != receiver.trouble:
                self._say(f"{receiver.title}: {trouble}: trying again")
            receiver.trouble = trouble
            if time.time() - waiting.made > OLDEST_S:
                self._forget(receiver, waiting, given_up=True)
                continue
            pause = min(max(2 * pause, BACKOFF_S[0]), BACKOFF_S[1])
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    async def _send(self, receiver: Receiver, body: Mapping[str, Any]) -> str:
        """Says what went wrong, without an address; empty: nothing."""
        try:
            if receiver.apprise:
                async with asyncio.timeout(3 * TIMEOUT_S):
                    told = await receiver.apprise.async_notify(
                        title=body["title"], body=body["text"] or body["title"])
                return "" if told else "the service did not take it"
            token = str(receiver.settings.token)
            return await self._ask("POST", str(receiver.settings.url), json=body, headers={
                "Idempotency-Key": str(body["id"]).encode("ascii", "replace").decode(),
                **({"Authorization": f"Bearer {token}"} if token else {})})
        except asyncio.TimeoutError:
            return "it took too long"
        except Exception as error:  # Apprise's services raise anything; texts may have addresses
            return type(error).__name__

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
        """A dead man's switch: somebody else tells when this falls silent."""
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
    found: list[tuple[str, int, State, float]] = []
    for at, row in enumerate(rows.tolist()):
        name = table.agents[row].name
        found.append((name, -1, STATES[agents[at]], since[at]))
        if bad[at] or name in troubled:
            found += [(name, variable, STATES[states[at, variable]], float(times[at, variable]))
                      for variable in np.flatnonzero(states[at]).tolist()]
    return version_now, found
