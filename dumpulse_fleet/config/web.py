"""[web]: where the page is, and who may change something; [[status]]: what everybody may know.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import urllib.parse
from collections.abc import Sequence
from typing import Any

from dumpulse_fleet.config.agents import check_match
from dumpulse_fleet.config.reading import NEEDED, Key, Reader
from dumpulse_fleet.config.values import HTTP, Secret, match_of, named, text, url
from dumpulse_fleet.model.agents import Agent, Group
from dumpulse_fleet.model.naming import Wrong, shown

WEB_PORT = 9061
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclasses.dataclass(frozen=True)
class Web:
    host: str = "127.0.0.1"
    port: int = WEB_PORT
    config_file: str = ""  # TLS and passwords, as Prometheus' exporters have it
    token: Secret = Secret()  # of programs that may change something
    public: str = ""  # the address behind a proxy, with the folder that the proxy takes away
    proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For is believed


def listening(value: Any) -> tuple[str, int]:
    """HOST:PORT, :PORT for every address, or [IPV6]:PORT; port 0 is any that is free."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]*)):([0-9]{1,5})", text(value))
    if match is None or int(match[3]) > 65535:
        raise Wrong(f"{shown(value)} is not HOST:PORT: write it like '127.0.0.1:{WEB_PORT}'")
    return match[1] or match[2], int(match[3])


def address(value: Any) -> str:
    """Without a slash at its end."""
    parts = urllib.parse.urlsplit(url(value, HTTP))
    if parts.query or parts.fragment or parts.username:
        raise Wrong("must be an address without ?, # and a password")
    return str(value).rstrip("/")


def networks(value: Any) -> tuple[Network, ...]:
    if not isinstance(value, list):
        raise Wrong("must be a list like ['127.0.0.1', '192.0.2.0/24']")
    try:
        return tuple(ipaddress.ip_network(text(each)) for each in value)
    except ValueError as error:
        raise Wrong(str(error)) from error


def read_web(reader: Reader) -> Web:
    values = reader.section("web", {
        "listen": Key(listening, ("127.0.0.1", WEB_PORT)),
        "config_file": Key(reader.readable, ""),
        "token_file": Key(reader.secret, Secret()),
        "public": Key(address, ""), "proxies": Key(networks, ())})
    if bool(values["public"]) != bool(values["proxies"]):
        reader.wrong(("web",), "web: 'public' and 'proxies' need each other")
    host, port = values["listen"]
    return Web(host, port, values["config_file"], values["token_file"], values["public"],
               values["proxies"])


def read_status(reader: Reader, agents: Sequence[Agent], more: bool) -> tuple[Group, ...]:
    parts = []
    for where, values, _ in reader.sections("status", {
            "name": Key(named("name"), NEEDED), "match": Key(match_of, NEEDED)}):
        check_match(reader, where, values["match"], agents, more)
        parts.append(Group(**values, at_least=0))
    return tuple(parts)
