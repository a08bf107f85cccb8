"""[web]: where the page is, and who may change something.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from dumpulse_fleet.config.reading import Key, Reader
from dumpulse_fleet.config.values import Secret, text
from dumpulse_fleet.model.naming import Wrong, shown

WEB_PORT = 9061


@dataclasses.dataclass(frozen=True)
class Web:
    host: str = "127.0.0.1"
    port: int = WEB_PORT
    config_file: str = ""  # TLS and passwords, as Prometheus' exporters have it
    token: Secret = Secret()  # of programs that may change something


def listening(value: Any) -> tuple[str, int]:
    """HOST:PORT, :PORT for every address, or [IPV6]:PORT; port 0 is any that is free."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]*)):([0-9]{1,5})", text(value))
    if match is None or int(match[3]) > 65535:
        raise Wrong(f"{shown(value)} is not HOST:PORT: write it like '127.0.0.1:{WEB_PORT}'")
    return match[1] or match[2], int(match[3])


def read_web(reader: Reader) -> Web:
    values = reader.section("web", {
        "listen": Key(listening, ("127.0.0.1", WEB_PORT)),
        "config_file": Key(reader.readable, ""),
        "token_file": Key(reader.secret, Secret())})
    host, port = values["listen"]
    return Web(host, port, values["config_file"], values["token_file"])
