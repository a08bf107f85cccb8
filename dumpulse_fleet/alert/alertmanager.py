"""Sends alerts to Prometheus' Alertmanager by its API v2: each again for as long as it lasts.
Alertmanager groups, silences and repeats notifications. Two fleets send the same labels for the
same problem, so that it sends one notification."""

import asyncio
import contextlib
import datetime
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from dumpulse_fleet import client
from dumpulse_fleet.alert.decide import SEVERITY, Item
from dumpulse_fleet.alert.message import SEVERITIES, Receiver, named, variable_name
from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.naming import agent_labels

RESEND_S = 60.0  # an alert that lasts is sent again
VALID_S = 240.0  # without being sent again, it ends after this time: the fleet has ended
RETRY_S = 5.0  # after a failure
AT_ONCE = 500  # alerts in a request
NAMES = {State.UNREACHABLE: "AgentUnreachable", State.DAMAGED: "AgentDamaged",
         State.OUT_OF_RANGE: "VariableOutOfRange"}
Alert = dict[str, Any]
# Sends alerts to this path. Returns what went wrong; empty: nothing.
Post = Callable[[list[Alert], str], Awaitable[str]]


def moment(unix: float) -> str:
    return datetime.datetime.fromtimestamp(unix, datetime.timezone.utc).isoformat(
        "T", "milliseconds")


def labels(item: Item) -> dict[str, str]:
    """Returns what identifies an alert, which does not depend on the fleet or on the time."""
    severity = {"severity": SEVERITIES[SEVERITY[item.state]]}
    if item.subject.kind == "collector":
        return {"alertname": "DumpulseCollectorBlind", **severity}
    identity = {"alertname": f"Dumpulse{NAMES.get(item.state, 'VariableDead')}", **severity}
    if item.subject.variable >= 0:
        identity["variable"] = str(item.subject.variable)
        if name := variable_name(item):
            identity["name"] = name
    return {**(agent_labels(item.agent) if item.agent else {}), **identity}


def alert_of(item: Item, now: float) -> Alert:
    summary = f"{named(item)}: {item.state.words}"
    return {"labels": labels(item), "annotations": {"summary": summary}, "startsAt": moment(
        min(item.began, now) if item.began > 0 else now)}


class Alertmanager(Receiver):
    """What one Alertmanager is sent."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.failing_since = 0.0  # on client.uptime(), while something must be sent; 0: it is not
        self.validity = VALID_S  # s
        # Alerts that fire, and those whose end is not accepted yet. The labels are the key.
        self._firing: dict[str, Alert] = {}
        self._ended: dict[str, Alert] = {}
        self._due = 0.0

    def put(self, items: Iterable[Item], now: float) -> None:
        """These alerts fire at this Unix time. Those that fired before have ended."""
        alerts = [alert_of(item, now) for item in items if self.wants(item)]
        firing = {json.dumps(alert["labels"], sort_keys=True): alert for alert in alerts}
        for key in self._firing.keys() - firing.keys():
            self._ended[key] = {**self._firing[key], "endsAt": moment(now)}
        for key in self._ended.keys() & firing.keys():
            del self._ended[key]
        if firing.keys() != self._firing.keys():
            self._due = min(self._due, client.uptime() + (RETRY_S if self.trouble else 0.0))
            self.some.set()
        self._firing = {key: {**alert, "startsAt": self._firing.get(key, alert)["startsAt"]}
                        for key, alert in firing.items()}

    async def run(self, post: Post, done: Callable[[Receiver, str, int], object]) -> None:
        """Sends until it is cancelled. `done` gets what went wrong, and how many were sent."""
        while True:
            self.some.clear()
            ended, alerts = list(self._ended), [
                *({**alert, "endsAt": moment(time.time() + self.validity)}
                  for alert in self._firing.values()), *self._ended.values()]
            if alerts and client.uptime() >= self._due:
                trouble, self._due = "", client.uptime() + RESEND_S  # sooner if something changes
                for first in range(0, len(alerts), AT_ONCE):
                    trouble = trouble or await post(alerts[first:first + AT_ONCE], "/api/v2/alerts")
                if not trouble:
                    self.failing_since = 0.0
                    for key in ended:
                        self._ended.pop(key, None)
                else:
                    self._due = client.uptime() + RETRY_S
                    self.failing_since = self.failing_since or client.uptime()
                done(self, trouble, len(alerts))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.some.wait(), max(
                    0.01, self._due - client.uptime()) if alerts else None)
