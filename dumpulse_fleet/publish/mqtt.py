"""Publishes the state of each agent over MQTT, for Home Assistant and others: README.md has the
topics. What waits is a set of agents, not a queue of messages: while the broker is away, nothing
grows."""

import contextlib
import hashlib
import json
import re
import socket
import ssl
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Optional

import numpy as np
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from dumpulse_fleet import client
from dumpulse_fleet.config.outputs import Mqtt
from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.table import VARIABLES, Table
from dumpulse_fleet.model.version import VERSION
from dumpulse_fleet.record.store import Trouble

WINDOW = 200  # messages that the broker has not acknowledged yet
TICK_S = 0.2
VALUES_S = 60.0  # between two looks at values
LOOK_S = 5.0  # after a connection, what the broker remembers is looked at for so long
BACKOFF_S = (1, 60)  # between two attempts to connect: from, to
KEEPALIVE_S = 30
STOP_S = 2.0
NEW = "not connected yet"
REFUSED = "the broker refuses"
SPEAKS = [state.words for state in (State.ALIVE, State.LATE, State.OUT_OF_RANGE)]
NOT_KNOWN = [state.words for state in (State.PENDING, State.UNKNOWN)]
PROBLEMS = [state.words for state in (State.LATE, State.OUT_OF_RANGE, State.NEVER, State.DEAD)]


def escaped(name: str) -> str:
    """A name as one level of a topic. urllib.parse.unquote brings it back."""
    return "".join(each if each.isprintable() and each not in "%/+#$" else
                   urllib.parse.quote(each, safe="", errors="replace") for each in name)


def identifier(prefix: str, name: str) -> str:
    """An agent, as Home Assistant allows it: letters, digits, - and _. The end makes it unique."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:40]
    return f"{plain}_{hashlib.sha256(f'{prefix}/{name}'.encode(errors='replace')).hexdigest()[:8]}"


class Publisher:
    """A thread of its own; paho has another one for the network."""

    def __init__(self, settings: Mqtt, table: Table, say: Callable[[str], None]) -> None:
        self.published = 0
        self.connected = False
        self.trouble = NEW
        self._settings, self._table, self._say = settings, table, say
        self._id = settings.client_id or f"dumpulse-fleet-{socket.gethostname()}"
        self._status = f"{settings.prefix}/collector/{escaped(self._id)}/status"
        self._lock = threading.Condition()  # guards what follows
        self._unacknowledged: set[int] = set()
        self._early: set[int] = set()  # acknowledged before publish() has returned
        self._next_table: Optional[Table] = None
        self._fresh = False  # there is a new connection
        self._ghosts: set[str] = set()  # agents that the broker remembers, and we do not have
        self._ending = False
        # Only the thread uses what follows.
        self._dirty: dict[int, bool] = {}  # rows to publish; true: with discovery
        self._version = -1
        self._values = np.zeros((0, VARIABLES), np.uint32)  # published last
        self._values_at = 0.0
        self._look_until = 0.0
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._client = self._make_client()

    def _make_client(self) -> paho.Client:
        settings = self._settings
        made = paho.Client(CallbackAPIVersion.VERSION2, client_id=self._id)
        if settings.user:
            made.username_pw_set(settings.user, str(settings.password))
        if settings.tls:
            try:
                made.tls_set(ca_certs=settings.ca_file or None)
            except (OSError, ssl.SSLError, ValueError) as error:
                raise Trouble(f"mqtt: cannot use ca_file {settings.ca_file!r}: {error}") from error
        made.will_set(self._status, "offline", qos=1, retain=True)
        made.reconnect_delay_set(*BACKOFF_S)
        made.max_inflight_messages_set(WINDOW)
        made.on_connect = self._on_connect
        made.on_disconnect = self._on_disconnect
        made.on_connect_fail = self._on_connect_fail
        made.on_publish = self._on_publish
        made.on_message = self._on_message
        return made

    # ---------------------------------------------------------------- for the service
    def start(self) -> None:
        self._client.connect_async(self._settings.host, self._settings.port, KEEPALIVE_S)
        self._client.loop_start()
        self._thread.start()

    def replace(self, table: Table) -> None:
        with self._lock:
            self._next_table = table
            self._lock.notify()

    def stop(self) -> None:
        """Says that it goes, and goes."""
        with self._lock:
            self._ending = True
            self._lock.notify()
        self._thread.join(2 * STOP_S)
        self._client.disconnect()
        with contextlib.suppress(AttributeError):  # its thread, which it waits for, has just ended
            self._client.loop_stop()

    def numbers(self) -> Mapping[str, float]:
        return {"mqtt_connected": float(self.connected), "mqtt_published": self.published,
                "mqtt_waiting": len(self._dirty), "mqtt_unacknowledged": len(self._unacknowledged)}

    # ---------------------------------------------------------------- called by paho's thread
    def _on_connect(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        if reason.is_failure:
            self._is_wrong(f"{REFUSED}: {reason}")
            return
        with self._lock:
            again, self.trouble = self.trouble not in ("", NEW), ""
            self.connected, self._fresh = True, True
            self._lock.notify()
        if again:
            self._say(f"mqtt: {self._settings.host}:{self._settings.port}: connected again")

    def _on_disconnect(self, _: Any, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        with self._lock:
            self.connected = False
        if not self._ending and not self.trouble.startswith(REFUSED):  # that says more
            self._is_wrong(f"the connection is lost: {reason}")

    def _on_connect_fail(self, _: Any, __: Any) -> None:
        error = sys.exc_info()[1]
        self._is_wrong("cannot connect: "
                       + str(getattr(error, "strerror", "") or error or "unknown"))

    def _is_wrong(self, trouble: str) -> None:
        if trouble != self.trouble:
            self._say(f"mqtt: {self._settings.host}:{self._settings.port}: {trouble}: "
                      "trying again")
        self.trouble = trouble

    def _on_publish(self, _: Any, __: Any, message: int, ___: Any, ____: Any) -> None:
        with self._lock:
            (self._unacknowledged.discard if message in self._unacknowledged
             else self._early.add)(message)
            self.published += 1
            self._lock.notify()

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        """Takes what the broker remembers, which may be anything."""
        parts = message.topic.removeprefix(f"{self._settings.prefix}/").split("/")
        try:
            ours = json.loads(message.payload).get("collector") == self._id
        except (ValueError, AttributeError, RecursionError):
            return
        if message.retain and ours and len(parts) == 2 and len(self._ghosts) < 100_000:
            with self._lock:
                self._ghosts.add(urllib.parse.unquote(parts[0]))

    # ---------------------------------------------------------------- the thread
    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._ending and not self._next_table and not self._fresh:
                    self._lock.wait(TICK_S)
                table, self._next_table = self._next_table, None
                fresh, self._fresh = self._fresh, False
                if self._ending:
                    break
            try:
                self._beat(table, fresh)
            except Exception as error:  # pylint: disable=broad-except
                self._is_wrong(str(error) or type(error).__name__)  # the next beat may work
            else:
                with self._lock:
                    if self.connected:
                        self.trouble = ""
        if self.connected:
            self._client.publish(self._status, "offline", qos=1, retain=True
                                 ).wait_for_publish(STOP_S)

    def _beat(self, table: Optional[Table], fresh: bool) -> None:
        if table:
            with self._lock:
                self._ghosts |= self._table.row.keys() - table.row.keys()
            self._table = table
        if table or fresh:
            count = len(self._table.agents)
            self._dirty = dict.fromkeys(range(count), True)
            self._values = np.zeros((count, VARIABLES), np.uint32)
            self._version = self._table.version
        if not self.connected:
            return
        if fresh:
            self._publish(self._status, "online")
            self._client.subscribe(f"{self._settings.prefix}/+/state", qos=1)
            self._look_until = time.monotonic() + LOOK_S
        if self._look_until and time.monotonic() > self._look_until:
            self._look_until = 0.0
            self._client.unsubscribe(f"{self._settings.prefix}/+/state")
        self._look_for_changes()
        while self._ghosts and self._has_room():
            self._bury(self._ghosts.pop())
        while self._dirty and self._has_room():
            row = next(iter(self._dirty))
            self._publish_agent(row, self._dirty.pop(row))

    def _look_for_changes(self) -> None:
        table = self._table
        with table.lock:
            changed = table.changed > self._version
            self._version = table.version
            if time.monotonic() - self._values_at >= VALUES_S:
                self._values_at = time.monotonic()
                changed |= ((table.entry ^ self._values) & 0xFF).any(axis=1)
        for row in np.flatnonzero(changed).tolist():
            self._dirty.setdefault(row, False)

    def _has_room(self) -> bool:
        """Waits a little for the broker to acknowledge."""
        with self._lock:
            if len(self._unacknowledged) >= WINDOW:
                self._lock.wait(TICK_S)
            return (len(self._unacknowledged) < WINDOW and self.connected and not self._ending
                    and not self._fresh and not self._next_table)

    def _publish(self, topic: str, payload: str | bytes) -> None:
        # Without our lock: paho holds one of its own when it tells of an acknowledgement.
        message = self._client.publish(topic, payload, qos=1, retain=True).mid
        with self._lock:
            (self._early.discard if message in self._early
             else self._unacknowledged.add)(message)

    def _bury(self, name: str) -> None:
        """Makes the broker forget an agent that has left the configuration."""
        if name not in self._table.row:
            self._publish(self._topic(name), b"")
            if self._settings.discovery:
                self._publish(self._discovery_topic(name), b"")

    def _publish_agent(self, row: int, discovery: bool) -> None:
        if discovery and self._settings.discovery:
            self._publish(self._discovery_topic(self._table.agents[row].name),
                          json.dumps(self._discovery(row)))
        self._publish(self._topic(self._table.agents[row].name),
                      json.dumps(self._state(row)))

    # ---------------------------------------------------------------- what is published
    def _topic(self, name: str) -> str:
        return f"{self._settings.prefix}/{escaped(name)}/state"

    def _discovery_topic(self, name: str) -> str:
        return (f"{self._settings.discovery_prefix}/device/"
                f"{identifier(self._settings.prefix, name)}/config")

    def _state(self, row: int) -> dict[str, Any]:
        table, agent = self._table, self._table.agents[row]
        with table.lock:
            entries, states = table.entry[row].copy(), table.state[row].copy()
            since = table.since[row].copy()
            found = {
                "agent": agent.name, "site": agent.site, "labels": dict(agent.labels),
                "state": State(table.agent_state[row]).words,
                "since": float(table.agent_since[row]), "heard": float(table.heard_at[row]),
                "reboots": int(table.reboots[row]), "collector": self._id}
        self._values[row] = entries
        return {**found, "variables": {
            str(number): {
                "name": agent.profile.settings.variables[number].name,
                "state": State(states[number]).words, "since": float(since[number]),
                "value": int(entries[number] & 0xFF) if entries[number] else None,
                "sender": int(entries[number] >> 8 & 0xFF) if entries[number] else None}
            for number in np.flatnonzero(agent.profile.expected | (entries != 0)).tolist()}}

    def _discovery(self, row: int) -> dict[str, Any]:
        """With Home Assistant's abbreviations, because there are many."""
        agent = self._table.agents[row]
        own = identifier(self._settings.prefix, agent.name)
        parts: dict[str, Any] = {"state": {
            "p": "sensor", "name": "State", "uniq_id": f"{own}_state", "dev_cla": "enum",
            "ops": [state.words for state in State], "val_tpl": "{{ value_json.state }}"}}
        for number in np.flatnonzero(agent.profile.expected).tolist():
            name, _, unit = (agent.profile.settings.variables[number].name
                             or f"Variable {number}").partition(" [")
            entry = f"value_json.variables['{number}']"
            parts[f"value_{number}"] = {
                "p": "sensor", "name": name, "uniq_id": f"{own}_value_{number}",
                "stat_cla": "measurement", "val_tpl": f"{{{{ {entry}.value }}}}",
                **({"unit_of_meas": unit[:-1]} if unit.endswith("]") else {}),
                **self._available(agent.name, f"{entry}.state in {SPEAKS}")}
            parts[f"problem_{number}"] = {
                "p": "binary_sensor", "name": f"{name} problem", "dev_cla": "problem",
                "uniq_id": f"{own}_problem_{number}",
                "val_tpl": f"{{{{ 'ON' if {entry}.state in {PROBLEMS} else 'OFF' }}}}",
                **self._available(agent.name, f"{entry}.state not in {NOT_KNOWN}")}
        device = {"ids": [own], "name": agent.name, "mf": "Dumpulse", "mdl": "agent"}
        return {"dev": {**device, "sa": agent.site} if agent.site else device,
                "o": {"name": "dumpulse-fleet", "sw": VERSION},
                "cmps": parts, "stat_t": self._topic(agent.name), "qos": 1,
                "avty": [{"t": self._status}]}

    def _available(self, name: str, condition: str) -> dict[str, Any]:
        """What Home Assistant shows only while the fleet runs and this is true."""
        return {"avty_mode": "all", "avty": [{"t": self._status}, {
            "t": self._topic(name),
            "val_tpl": f"{{{{ 'online' if {condition} else 'offline' }}}}"}]}
