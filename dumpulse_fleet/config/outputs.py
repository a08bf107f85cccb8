"""Where the fleet reports to: [alerts] and [[notify]], [web] and [[status]]."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from dumpulse_fleet.config.toml_reader import READABLE, SECRET, Reader, checked, in_file
from dumpulse_fleet.config.values import (
    DAY, HTTP, WEB_PORT, Secret, check_name_of, duration, listening, match_of, number,
    similar, text, url_of, yes)
from dumpulse_fleet.model.agents import Agent, Part
from dumpulse_fleet.model.naming import Wrong, shown

# ---------------------------------------------------------------- who is told, and when
@dataclasses.dataclass(frozen=True)
class Notify:
    """A receiver of alerts: a webhook gets JSON, Apprise serves many others."""

    kind: str  # "webhook", "apprise" or "alertmanager"
    url: Secret
    match: Mapping[str, str]  # Only about agents with these labels; empty: about all.
    token: Secret = Secret()  # For a webhook: sent as "Authorization: Bearer".
    fallback: bool = False  # Only what no other receiver has accepted.


def apprise_url(value: Any) -> Secret:
    if not re.match(r"[a-z][a-z0-9+]*://.", text(value, 2000)):
        raise Wrong("must be an address for Apprise, like 'mailto://…' or 'tgram://…'")
    return Secret(value)


@dataclasses.dataclass(frozen=True)
class NotifySection:
    """[[notify]]"""

    webhook: Annotated[Secret, checked(url_of, HTTP)] = Secret()
    apprise: Annotated[Secret, checked(apprise_url)] = Secret()
    alertmanager: Annotated[Secret, checked(url_of, HTTP)] = Secret()
    webhook_file: Annotated[Secret, in_file(url_of, HTTP)] = Secret()
    apprise_file: Annotated[Secret, in_file(apprise_url)] = Secret()
    alertmanager_file: Annotated[Secret, in_file(url_of, HTTP)] = Secret()
    match: Annotated[Mapping[str, str], checked(match_of, empty=True)] = dataclasses.field(
        default_factory=dict)
    token: Annotated[Secret, SECRET, Field(alias="token_file")] = Secret()
    fallback: Annotated[bool, checked(yes)] = False


KINDS = ("webhook", "apprise", "alertmanager")


def read_notify(reader: Reader) -> tuple[Notify, ...]:
    receivers = []
    for where, section, keys in reader.sections("notify", NotifySection):
        target = reader.one_of(where, keys, (*KINDS, *(f"{kind}_file" for kind in KINDS)))
        if target.startswith("apprise") and "token_file" in keys:
            reader.wrong((*where, "token_file"), "notify: 'token_file' goes not with apprise")
        if target.startswith("alertmanager") and "fallback" in keys:
            reader.wrong((*where, "fallback"), "notify: 'fallback' goes not with alertmanager")
        if target:
            receivers.append(Notify(
                target.removesuffix("_file"), getattr(section, target), section.match,
                section.token, section.fallback))
    return tuple(receivers)


@dataclasses.dataclass(frozen=True)
class AlertsSection:
    """Times in seconds."""

    # What fails together in this time is gathered for one notification.
    wait: Annotated[float, checked(duration, 0, 3600, zero=True)] = 30.0
    # Between two of one site, unless the news is worse.
    again: Annotated[float, checked(duration, 0, DAY, zero=True)] = 300.0
    # Between two of what is not over; 0: none.
    remind: Annotated[float, checked(duration, 60, 30 * DAY, zero=True)] = 4 * 3600.0
    # Percent of the agents silent in one round: it is the collector that is blind.
    blind: Annotated[int, checked(number, 1, 100)] = 50
    # Asked for while all is well here: a dead man's switch.
    ping: Annotated[Secret, checked(url_of, HTTP)] = Secret()
    ping_file: Annotated[Secret, in_file(url_of, HTTP)] = Secret()
    ping_every: Annotated[float, checked(duration, 1, DAY)] = 60.0


@dataclasses.dataclass(frozen=True)
class AlertSettings(AlertsSection):
    notify: tuple[Notify, ...] = ()


def read_alerts(reader: Reader) -> AlertSettings:
    alerts = reader.section("alerts", AlertsSection)
    if alerts.ping and alerts.ping_file:
        reader.wrong(("alerts", "ping_file"), "alerts: use one of ping and ping_file")
    ping = {"ping": alerts.ping or alerts.ping_file, "ping_file": Secret()}
    return AlertSettings(**{**vars(alerts), **ping}, notify=read_notify(reader))


# ---------------------------------------------------------------- who may ask
@dataclasses.dataclass(frozen=True)
class Web:
    listen: Annotated[tuple[str, int], checked(listening)] = ("127.0.0.1", WEB_PORT)
    # File with TLS and passwords, in the format of Prometheus' exporters.
    config_file: Annotated[str, READABLE] = ""
    # Token of programs that may change something.
    token: Annotated[Secret, SECRET, Field(alias="token_file")] = Secret()


@dataclasses.dataclass(frozen=True)
class StatusSection(Part):
    """[[status]]"""

    name: Annotated[str, checked(check_name_of, "name")]
    match: Annotated[Mapping[str, str], checked(match_of)]


def read_status(reader: Reader, agents: Sequence[Agent], more: bool) -> tuple[Part, ...]:
    """A label that no agent has is a typing error, unless files name more agents."""
    parts = []
    keys = {"name", "site", *(key for agent in agents for key in agent.labels)}
    for where, part, _ in reader.sections("status", StatusSection):
        for key in part.match:
            if key not in keys and not more:
                reader.wrong((*where, "match", key), f"{where[0]}: no agent has a label "
                             f"{shown(key)}{similar(key, keys)}")
        parts.append(Part(part.name, part.match))
    return tuple(parts)
