"""[[notify]]: who is told.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dumpulse_fleet.config.reading import Key, Keys, Reader
from dumpulse_fleet.config.values import HTTP, Secret, match_of, text, url, yes
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


def read_notify(reader: Reader) -> tuple[Notify, ...]:
    checks: dict[str, Callable[[Any], Secret]] = {
        "webhook": partial(url, schemes=HTTP), "apprise": apprise_url}
    forms: Keys = {
        **{name: Key(check) for name, check in checks.items()},
        **{f"{name}_file": Key(partial(lambda check, value: check(reader.secret(value)), check))
           for name, check in checks.items()}}
    found = []
    for where, values, own in reader.sections("notify", {
            **forms, "match": Key(partial(match_of, empty=True), {}),
            "token_file": Key(reader.secret, Secret()), "resolved": Key(yes, True)}):
        given = reader.one_of(where, own, tuple(forms))
        if given.startswith("apprise") and "token_file" in own:
            reader.wrong((*where, "token_file"), "notify: 'token_file' goes only with webhook")
        if given:
            found.append(Notify(given.removesuffix("_file"), values[given], values["match"],
                                values["token_file"], values["resolved"]))
    return tuple(found)
