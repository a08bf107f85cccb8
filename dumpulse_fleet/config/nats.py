"""[nats]: the JetStream that gets each event.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any

from dumpulse_fleet.config.reading import Reader, checked, in_file
from dumpulse_fleet.config.values import Secret, text, url_of
from dumpulse_fleet.model.naming import Wrong, shown

SCHEMES = ("nats", "tls")


def _subject(value: Any) -> str:
    if not re.fullmatch(r"[^\s.*>]+(\.[^\s.*>]+)*", text(value)):
        raise Wrong(f"{shown(value)} is not a subject: use words with dots between them")
    return str(value)


@dataclasses.dataclass(frozen=True)
class Nats:
    url: Annotated[Secret, checked(url_of, SCHEMES)] = Secret()
    url_file: Annotated[Secret, in_file(url_of, SCHEMES)] = Secret()
    subject: Annotated[str, checked(_subject)] = "dumpulse.events"


def read_nats(reader: Reader) -> Nats | None:
    if "nats" not in reader.data:
        return None
    found = reader.table(("nats",), reader.data["nats"], Nats)
    if found is None or not reader.one_of(("nats",), reader.data["nats"], ("url", "url_file")):
        return None
    return Nats(found.url or found.url_file, Secret(), found.subject)
