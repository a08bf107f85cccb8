"""The messages of lab/messages/c/format.h by Python's own encoders: what every image must make.

An image compares each message with its length and CRC-32 in lab/messages/schemes.py; here these are
compared with the bytes that others make. SPDX-License-Identifier: MIT"""

import json
import operator
import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

import cbor2
import pytest

from lab.messages import counts, families, schemes
from lab.messages.codecs import LIST, messages
from lab.messages.counts import Count
from spec.model import MAGIC

HEARTBEAT = {"var": 42, "sender": 99, "val": 77}
REPORT = [{"time": i * 991, "sender": 100 + i, "val": i * 37 % 256} for i in range(64)]
VALUES: dict[str, Any] = {"heartbeat": HEARTBEAT, "report": REPORT, "list": LIST}


def own(what: str) -> bytes:
    if what == "heartbeat":
        summed = bytes([MAGIC, *HEARTBEAT.values()])
    else:
        summed = b"".join(struct.pack(">HBB", *entry.values()) for entry in REPORT)
    return struct.pack(">I", zlib.adler32(summed)) + summed


def compact(what: str) -> object:
    """Arrays where all is numbers; names only in the list."""
    if what == "heartbeat":
        return list(HEARTBEAT.values())
    return LIST if what == "list" else [list(entry.values()) for entry in REPORT]


def as_json(what: str) -> bytes:
    return json.dumps(VALUES[what], separators=(",", ":")).encode()


def spelled_out(values: dict[str, int]) -> dict[str, int]:
    """With the names of message.proto."""
    return {{"var": "variable", "val": "value"}.get(name, name): value
            for name, value in values.items()}


def protobuf(what: str) -> bytes:
    made = messages()[what.title()]
    fields: dict[str, dict[str, Any]] = {
        "heartbeat": spelled_out(HEARTBEAT), "list": {"records": LIST},
        "report": {"entries": [spelled_out(entry) for entry in REPORT]}}
    return bytes(made(**fields[what]).SerializeToString(deterministic=True))


ENCODERS: dict[str, Callable[[str], bytes]] = {
    "Dumpulse": own, "CBOR": lambda what: cbor2.dumps(compact(what)), "Protobuf": protobuf,
    "JSON": as_json}


@pytest.mark.parametrize("name", ENCODERS)
def test_messages_are_as_others_encode_them(name: str) -> None:
    made = [(what, ENCODERS[name](what)) for what in VALUES if (name, what) != ("Dumpulse", "list")]
    assert schemes.WIRE[name] == tuple((what, len(wire), zlib.crc32(wire)) for what, wire in made)


def test_every_format_has_an_encoder() -> None:
    assert {one.name for one in schemes.SCHEMES if one.family == "format"} == set(ENCODERS)


def counted(by: str, make: int, read: int, target: str) -> list[Count]:
    scheme = next(one for one in schemes.SCHEMES if one.family == "format" and one.by == by)
    return [Count(scheme.name, by, f"{step}_list", 300, target, cost, cost, cost, 0, 0, 0, target)
            for step, cost in (("make", make), ("read", read), ("refuse", 1))]


def test_the_order_and_where_it_turns_round() -> None:
    each = [*counted("TinyCBOR", 10, 10, "amd64"), *counted("nanopb", 5, 16, "amd64"),
            *counted("ours and jsmn", 1, 1, "amd64"),
            *counted("TinyCBOR", 40, 1, "Cortex-M4"), *counted("nanopb", 10, 30, "Cortex-M4")]
    found = {count.key: count for count in each}
    assert [name for name, _, _ in families.formats(found, "list", "amd64")] == [
        "JSON, ours and jsmn", "CBOR, TinyCBOR", "Protobuf, nanopb"]
    said = "\n".join(families.ranking(found))
    assert said.count("not the order of amd64") == 1
    assert re.search("list on Cortex-M4 .* not the order of.*\n  Protobuf, .* 40\n  CBOR, .* 41$",
                     said, re.M)
    assert "not the order" in "\n".join(families.ranking(counts.read()))


def test_each_format_has_been_counted_where_it_runs() -> None:
    found = counts.read()
    for scheme in schemes.SCHEMES:
        if scheme.family == "format":
            for target in scheme.targets:
                for step in filter(operator.attrgetter("kept"), scheme.steps):
                    key = (scheme.name, scheme.by, step.name, str(*step.lengths), target)
                    assert key in found, key
