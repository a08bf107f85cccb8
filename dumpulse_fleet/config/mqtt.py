"""[mqtt]: the broker that gets all states.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import Any

from dumpulse_fleet.config.reading import NEEDED, Key, Reader
from dumpulse_fleet.config.values import Secret, number, text, yes
from dumpulse_fleet.model.naming import Wrong, shown


@dataclasses.dataclass(frozen=True)
class Mqtt:
    host: str
    port: int
    tls: bool = False
    ca_file: str = ""  # empty: the authorities of this machine
    user: str = ""
    password: Secret = Secret()
    client_id: str = ""  # empty: one is made from the name of this machine
    prefix: str = "dumpulse"  # the topics begin with it
    discovery: str = "homeassistant"  # Home Assistant's prefix; empty: no discovery
    events: bool = False  # publish each event, too


def _host(value: Any) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", text(value)):
        raise Wrong(f"{shown(value)} is not a host")
    return str(value)


def _topic(value: Any) -> str:
    if not re.fullmatch(r"[^/+#$][^+#]*(?<!/)", text(value)):
        raise Wrong(f"{shown(value)} cannot begin a topic: use no + and #, and no / at its ends")
    return str(value)


def read_mqtt(reader: Reader) -> Mqtt | None:
    if "mqtt" not in reader.data:
        return None
    values = reader.table(("mqtt",), reader.data["mqtt"], {
        "host": Key(_host, NEEDED), "port": Key(partial(number, low=1, high=65535), 0),
        "tls": Key(yes, False), "ca_file": Key(reader.readable, ""), "user": Key(text, ""),
        "password_file": Key(reader.secret, Secret()), "client_id": Key(text, ""),
        "prefix": Key(_topic, "dumpulse"), "discovery": Key(yes, True),
        "discovery_prefix": Key(_topic, "homeassistant"), "events": Key(yes, False)})
    if values is None:
        return None
    if values["ca_file"] and not values["tls"]:
        reader.wrong(("mqtt", "ca_file"), "mqtt: 'ca_file' goes only with tls = true")
    if values["password_file"] and not values["user"]:
        reader.wrong(("mqtt", "password_file"), "mqtt: a password needs a 'user'")
    return Mqtt(
        values["host"], values["port"] or (8883 if values["tls"] else 1883), values["tls"],
        values["ca_file"], values["user"], values["password_file"], values["client_id"],
        values["prefix"], values["discovery_prefix"] if values["discovery"] else "",
        values["events"])
