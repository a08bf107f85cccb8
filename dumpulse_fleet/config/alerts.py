"""[alerts]: when somebody is told; [[notify]]: who is told.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from dumpulse_fleet.config.reading import SECRET, Reader, checked, in_file
from dumpulse_fleet.config.values import (
    DAY, HTTP, Secret, duration, match_of, number, text, url_of, yes)
from dumpulse_fleet.model.naming import Wrong


@dataclasses.dataclass(frozen=True)
class Notify:
    """Who is told: a webhook gets JSON, the others are services that Apprise knows."""

    kind: str  # "webhook" or "apprise"
    url: Secret
    match: Mapping[str, str]  # only about agents with these labels; empty: about all
    token: Secret = Secret()  # for a webhook: sent as "Authorization: Bearer"
    resolved: bool = True  # tell also that it is over


def apprise_url(value: Any) -> Secret:
    if not re.match(r"[a-z][a-z0-9+]*://.", text(value, 2000)):
        raise Wrong("must be an address for Apprise, like 'mailto://…' or 'tgram://…'")
    return Secret(value)


@dataclasses.dataclass(frozen=True)
class Keys:
    webhook: Annotated[Secret, checked(url_of, HTTP)] = Secret()
    apprise: Annotated[Secret, checked(apprise_url)] = Secret()
    webhook_file: Annotated[Secret, in_file(url_of, HTTP)] = Secret()
    apprise_file: Annotated[Secret, in_file(apprise_url)] = Secret()
    match: Annotated[Mapping[str, str], checked(match_of, empty=True)] = dataclasses.field(
        default_factory=dict)
    token: Annotated[Secret, SECRET, Field(alias="token_file")] = Secret()
    resolved: Annotated[bool, checked(yes)] = True


def read_notify(reader: Reader) -> tuple[Notify, ...]:
    found = []
    for where, keys, own in reader.sections("notify", Keys):
        given = reader.one_of(where, own, ("webhook", "apprise", "webhook_file", "apprise_file"))
        if given.startswith("apprise") and "token_file" in own:
            reader.wrong((*where, "token_file"), "notify: 'token_file' goes only with webhook")
        if given:
            found.append(Notify(given.removesuffix("_file"), getattr(keys, given), keys.match,
                                keys.token, keys.resolved))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Rules:
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
class Alerts(Rules):
    notify: tuple[Notify, ...] = ()


def read_alerts(reader: Reader) -> Alerts:
    found = reader.section("alerts", Rules)
    if found.ping and found.ping_file:
        reader.wrong(("alerts", "ping_file"), "alerts: use one of ping and ping_file")
    return Alerts(**{**vars(found), "ping": found.ping or found.ping_file, "ping_file": Secret()},
                  notify=read_notify(reader))
