"""[[notify]]: who is told.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from dumpulse_fleet.config.reading import SECRET, Reader, checked, in_file
from dumpulse_fleet.config.values import HTTP, Secret, match_of, text, url_of, yes
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
