"""[nats]: the JetStream that gets each event.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from typing import Any

from dumpulse_fleet.config.reading import Key, Reader
from dumpulse_fleet.config.values import Secret, text, url
from dumpulse_fleet.model.naming import Wrong, shown


@dataclasses.dataclass(frozen=True)
class Nats:
    url: Secret
    subject: str = "dumpulse.events"


def _subject(value: Any) -> str:
    if not re.fullmatch(r"[^\s.*>]+(\.[^\s.*>]+)*", text(value)):
        raise Wrong(f"{shown(value)} is not a subject: use words with dots between them")
    return str(value)


def read_nats(reader: Reader) -> Nats | None:
    if "nats" not in reader.data:
        return None
    values = reader.table(("nats",), reader.data["nats"], {
        "url": Key(partial(url, schemes=("nats", "tls"))),
        "url_file": Key(lambda value: url(reader.secret(value), ("nats", "tls"))),
        "subject": Key(_subject, "dumpulse.events")})
    if values is None:
        return None
    given = reader.one_of(("nats",), reader.data["nats"], ("url", "url_file"))
    return Nats(values[given], values["subject"]) if given else None
