"""[mqtt]: the broker that gets all states; [nats]: the JetStream that gets each event.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any

from pydantic import Field

from dumpulse_fleet.config.reading import READABLE, SECRET, Reader, checked, in_file
from dumpulse_fleet.config.values import Secret, duration, number, text, url_of, yes
from dumpulse_fleet.model.naming import Wrong, shown

SCHEMES = ("nats", "tls")


def _host(value: Any) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", text(value)):
        raise Wrong(f"{shown(value)} is not a host")
    return str(value)


def _topic(value: Any) -> str:
    if not re.fullmatch(r"[^/+#$][^+#]*(?<!/)", text(value)):
        raise Wrong(f"{shown(value)} cannot begin a topic: use no + and #, and no / at its ends")
    return str(value)


@dataclasses.dataclass(frozen=True)
class Mqtt:
    host: Annotated[str, checked(_host)]
    port: Annotated[int, checked(number, 1, 65535)] = 0
    tls: Annotated[bool, checked(yes)] = False
    ca_file: Annotated[str, READABLE] = ""  # empty: the authorities of this machine
    user: Annotated[str, checked(text)] = ""
    password: Annotated[Secret, SECRET, Field(alias="password_file")] = Secret()
    client_id: Annotated[str, checked(text)] = ""  # empty: made from the name of this machine
    prefix: Annotated[str, checked(_topic)] = "dumpulse"  # the topics begin with it
    discovery: Annotated[bool, checked(yes)] = True  # for Home Assistant
    discovery_prefix: Annotated[str, checked(_topic)] = "homeassistant"
    events: Annotated[bool, checked(yes)] = False  # publish each event, too


def read_mqtt(reader: Reader) -> Mqtt | None:
    if "mqtt" not in reader.data:
        return None
    found = reader.table(("mqtt",), reader.data["mqtt"], Mqtt)
    if found is None:
        return None
    if found.ca_file and not found.tls:
        reader.wrong(("mqtt", "ca_file"), "mqtt: 'ca_file' goes only with tls = true")
    if found.password and not found.user:
        reader.wrong(("mqtt", "password_file"), "mqtt: a password needs a 'user'")
    return dataclasses.replace(found, port=found.port or (8883 if found.tls else 1883))


def _subject(value: Any) -> str:
    if not re.fullmatch(r"[^\s.*>]+(\.[^\s.*>]+)*", text(value)):
        raise Wrong(f"{shown(value)} is not a subject: use words with dots between them")
    return str(value)


def _bucket(value: Any) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", text(value)):
        raise Wrong(f"{shown(value)} is no bucket: use letters, digits, - and _")
    return str(value)


@dataclasses.dataclass(frozen=True)
class Nats:
    url: Annotated[Secret, checked(url_of, SCHEMES)] = Secret()
    url_file: Annotated[Secret, in_file(url_of, SCHEMES)] = Secret()
    subject: Annotated[str, checked(_subject)] = "dumpulse.events"
    # The bucket by which shards agree who lives; empty: nobody takes over from a dead one.
    bucket: Annotated[str, checked(_bucket)] = ""
    # s for which a shard may be silent until it counts as dead
    patience: Annotated[float, checked(duration, 0.5, 3600)] = 5.0


def read_nats(reader: Reader) -> Nats | None:
    if "nats" not in reader.data:
        return None
    found = reader.table(("nats",), reader.data["nats"], Nats)
    if found is None or not reader.one_of(("nats",), reader.data["nats"], ("url", "url_file")):
        return None
    return dataclasses.replace(found, url=found.url or found.url_file, url_file=Secret())
