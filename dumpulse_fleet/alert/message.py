"""What a message about alerts contains, and the receivers to which messages are sent."""

import asyncio
import dataclasses
import datetime
import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from dumpulse_fleet.alert.decide import SEVERITY, Item, Message
from dumpulse_fleet.config.outputs import Notify
from dumpulse_fleet.model.agents import UNRESOLVED, State
from dumpulse_fleet.model.naming import matches
from dumpulse_fleet.record.store import Trouble

LISTED = 200  # problems that a message lists; it always has the counts
NAMED = 5  # problems that a line of its text names
SEVERITIES = ("none", "warning", "critical")
Subject = tuple[str, str]  # The kind and the name of a site or the collector.


@dataclasses.dataclass(eq=False)
class Waiting:
    """A message for one receiver."""

    body: dict[str, Any]
    made_at: float  # Unix time
    row: int = 0  # Its id in the store's table `outbox`; 0: it is not stored yet.
    due: float = 0.0  # on client.uptime(): the next attempt is not earlier
    pause: float = 0.0  # s before the attempt after that

    @property
    def subject(self) -> Subject:
        return self.body["about"], self.body["name"]


class Receiver:
    """A receiver, and the messages that wait for it."""

    def __init__(self, settings: Notify, number: int) -> None:
        self.settings = settings
        self.title = f"notify {number} ({settings.kind})"  # for logs
        # The same over restarts, wherever it stands in the configuration.
        self.key = hashlib.sha256(json.dumps(
            [settings.kind, settings.url, dict(settings.match)]).encode()).hexdigest()[:16]
        self.waiting: list[Waiting] = []
        self.incidents: set[str] = set()  # that a fallback has accepted a message of
        self.some = asyncio.Event()
        self.trouble = ""
        self.apprise = load_apprise(self) if settings.kind == "apprise" else None

    def heads(self) -> list[Waiting]:
        """Returns the first message of each subject. Later ones of the subject wait for it."""
        first: dict[Subject, Waiting] = {}
        for waiting in self.waiting:
            first.setdefault(waiting.subject, waiting)
        return sorted(first.values(), key=lambda waiting: waiting.due)

    def wants(self, item: Item) -> bool:
        """Items of the collector, and of removed agents, go to all receivers."""
        return item.agent is None or matches(self.settings.match, item.agent)

    def body(self, message: Message) -> Optional[dict[str, Any]]:
        """Returns the part of a message for this receiver, as JSON; None: it has none."""
        new, ended, opened = ([item for item in items if self.wants(item)]
                              for items in (message.new, message.over, message.open))
        if not (new or ended or opened and message.kind == "reminder"):
            return None
        over, removed = ([item for item in ended if item.removed == gone] for gone in (False, True))
        kind = ("problem" if new else "reminder" if message.kind == "reminder" else
                "resolved" if over else "removed")
        return {
            "version": 1, "id": message.id, "incident": message.incident, "kind": kind,
            "about": message.key.kind, "name": message.key.name, "at": message.unix,
            "counts": {"new": len(new), "resolved": len(over), "removed": len(removed),
                       "open": len(opened), "muted": message.muted},
            "new": [line(item) for item in new[:LISTED]],
            "resolved": [line(item) for item in over[:LISTED]],
            "removed": [line(item) for item in removed[:LISTED]],
            "open": [line(item) for item in opened[:LISTED]],
            "title": title(message, kind, new, over or removed, opened),
            "text": text(over or removed if kind in ("resolved", "removed") else new or opened,
                         opened)}


def load_apprise(receiver: Receiver) -> Any:
    """Trouble: it is missing, or does not know the address."""
    try:
        import apprise  # an optional package
    except ImportError as error:
        raise Trouble(f"{receiver.title}: Apprise is not installed: pip install apprise"
                      ) from error
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it writes addresses to logs
    service = apprise.Apprise()
    if not service.add(str(receiver.settings.url)):
        raise Trouble(f"{receiver.title}: Apprise has no service with such an address")
    return service


def variable_name(item: Item) -> str:
    if item.subject.variable < 0 or not item.agent:
        return ""
    return item.agent.profile.settings.variables[item.subject.variable].name


def named(item: Item) -> str:
    """Returns what the item is about, for people."""
    name, variable = item.subject.name or "the collector's agents", item.subject.variable
    if variable >= 0:
        return f"{name} {variable_name(item) or f'variable {variable}'}"
    return name + f" ({UNRESOLVED})" * item.nameless


def line(item: Item) -> dict[str, Any]:
    agent = item.agent
    return {"kind": item.subject.kind, "name": item.subject.name,
            "variable": item.subject.variable, "variable_name": variable_name(item),
            "state": item.state.words, "severity": SEVERITIES[SEVERITY.get(item.state, 0)],
            "since": item.began, "flapping": item.flapping,
            "acknowledged": item.acknowledged and {
                "by": item.acknowledged.by, "until": item.acknowledged.ends,
                "why": item.acknowledged.why},
            "site": agent.site if agent else "", "labels": dict(agent.labels) if agent else {}}


def title(message: Message, kind: str, new: Sequence[Item], over: Sequence[Item],
          opened: Sequence[Item]) -> str:
    where = message.key.name or "no site"
    if message.key.kind == "collector":
        return {"problem": "The collector is blind: most agents fell silent at once",
                "resolved": "The collector sees again",
                "removed": "The collector sees again",
                "reminder": "The collector is still blind"}[kind]
    if kind == "problem":
        rest = len(opened) - len(new)
        states = ", ".join(f"{len(items):,} {state.words}" for state, items in by_state(new))
        return f"{where}: {states}" + (f"; {rest:,} more open" if rest else "")
    if kind in ("resolved", "removed"):
        words = "resolved" if kind == "resolved" else "removed from the inventory"
        return f"{where}: {len(over):,} {words}, {len(opened):,} open"
    return f"{where}: {len(opened):,} still open"


def by_state(items: Iterable[Item]) -> list[tuple[State, list[Item]]]:
    """The worst state first."""
    groups: dict[State, list[Item]] = {}
    for item in items:
        groups.setdefault(item.state, []).append(item)
    return sorted(groups.items(), key=lambda pair: -pair[0])


def text(items: Sequence[Item], opened: Sequence[Item]) -> str:
    """Returns at most four lines: states and names, since when, and who acknowledged."""
    lines = []
    for state, some in by_state(items):
        names = [named(item) + " (it comes and goes)" * item.flapping for item in some[:NAMED]]
        rest = f" and {len(some) - NAMED:,} more" if len(some) > NAMED else ""
        lines.append(f"{len(some):,} {state.words}: {', '.join(names)}{rest}")
    if len(lines) > 3:
        lines[2:] = ["; ".join(summary.partition(":")[0] for summary in lines[2:])]
    began = min((item.began for item in items if item.began > 0), default=0)
    acknowledgements = [item.acknowledged for item in opened if item.acknowledged]
    parts = [f"since {clock(began)}"] if began else []
    if acknowledgements:
        last = max(acknowledgements, key=lambda mute: mute.ends)
        others = len({mute.by for mute in acknowledgements}) - 1
        parts.append(f"{len(acknowledgements):,} of {len(opened):,} open acknowledged by {last.by}"
                     + f" and {others:,} more" * bool(others) + f" until {clock(last.ends)}"
                     + f": {last.why}" * bool(last.why))
    if parts:
        lines.append("; ".join(parts))
    return "\n".join(lines)


def clock(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime(
        "%Y-%m-%d %H:%M:%S UTC")
