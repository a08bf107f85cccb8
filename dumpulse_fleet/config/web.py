"""[web]: where the page is, and who may change something.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import dataclasses
import ipaddress
from typing import Annotated, Any

from pydantic import Field

from dumpulse_fleet.config.reading import READABLE, SECRET, Reader, checked
from dumpulse_fleet.config.values import WEB_PORT, Secret, address, listening, text
from dumpulse_fleet.model.naming import Wrong

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(value: Any) -> tuple[Network, ...]:
    if not isinstance(value, list):
        raise Wrong("must be a list like ['127.0.0.1', '192.0.2.0/24']")
    try:
        return tuple(ipaddress.ip_network(text(each)) for each in value)
    except ValueError as error:
        raise Wrong(str(error)) from error


@dataclasses.dataclass(frozen=True)
class Web:
    listen: Annotated[tuple[str, int], checked(listening)] = ("127.0.0.1", WEB_PORT)
    # TLS and passwords, as Prometheus' exporters have it
    config_file: Annotated[str, READABLE] = ""
    # of programs that may change something
    token: Annotated[Secret, SECRET, Field(alias="token_file")] = Secret()
    # the address behind a proxy, with the folder that the proxy takes away
    public: Annotated[str, checked(address)] = ""
    proxies: Annotated[tuple[Network, ...], checked(networks)] = ()  # whose claims are believed


def read_web(reader: Reader) -> Web:
    found = reader.section("web", Web)
    if bool(found.public) != bool(found.proxies):
        reader.wrong(("web",), "web: 'public' and 'proxies' need each other")
    return found
