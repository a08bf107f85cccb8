"""One list of numbers and strings in the formats of study 3, each by a well-known library.

All libraries have their default settings. Each encoder is given the same Python list, and each
decoder makes an equal list again, because that is what programs work with: what a library needs
beyond its own objects counts, too."""

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import cbor2
import msgpack
import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tools.programs import ROOT

Record = dict[str, Any]
# The list of Item.java, too.
LIST: list[Record] = [{"id": number, "name": name, "amount": amount} for number, name, amount in (
    (1, "boiler", 215), (2, "freezer", -40), (17, 'pump "2"', 998), (300, "pressure", 1013250),
    (301, "fan & light", 4512), (4095, "door", 0), (70000, "probe", -273150),
    (70001, "meter, north", 65536), (16777216, "counter", 2147483647),
    (4294967295, "last", -2147483647))]


def records_of(count: int) -> list[Record]:
    """The first ten, and then those again with other names."""
    return LIST[:count] + [
        {**LIST[i % 10], "name": f"{LIST[i % 10]['name']} {i // 10}"} for i in range(10, count)]


@dataclass(frozen=True)
class Codec:
    title: str
    encode: Callable[[list[Record]], bytes]
    decode: Callable[[bytes], list[Record]]


def list_message() -> type[Any]:
    """The List of message.proto, which the JVM has, too: made here, without a compiler."""
    types = {"uint32": 13, "string": 9, "sint32": 17}  # their numbers in descriptor.proto
    nested, once, often = 11, 1, 3
    file = descriptor_pb2.FileDescriptorProto(name="message.proto", syntax="proto3")
    text = (ROOT / "lab/messages/c/protobuf/message.proto").read_text()
    for name, body in re.findall(r"^message (\w+) {\n(.*?)^}", text, re.S | re.M):
        described = file.message_type.add(name=name)
        for repeated, kind, field, number in re.findall(
                r"^ +(repeated )?(\w+) (\w+) = (\d+);", body, re.M):
            added = described.field.add(name=field, number=int(number),
                                        type=types.get(kind, nested),
                                        label=often if repeated else once)
            if kind not in types:
                added.type_name = f".{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    list_class: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("List"))
    return list_class


LIST_MESSAGE = list_message()


def to_protobuf(records: list[Record]) -> bytes:
    return bytes(LIST_MESSAGE(records=records).SerializeToString())


def from_protobuf(wire: bytes) -> list[Record]:
    return [{"id": record.id, "name": record.name, "amount": record.amount}
            for record in LIST_MESSAGE.FromString(wire).records]


def to_xml(records: list[Record]) -> bytes:
    root = ElementTree.Element("list")
    for record in records:
        ElementTree.SubElement(root, "r", {key: str(value) for key, value in record.items()})
    return ElementTree.tostring(root)


def from_xml(wire: bytes) -> list[Record]:
    return [{"id": int(record.attrib["id"]), "name": record.attrib["name"],
             "amount": int(record.attrib["amount"])} for record in ElementTree.fromstring(wire)]


CODECS = {
    "json": Codec("JSON, json", lambda records: json.dumps(records).encode(), json.loads),
    "orjson": Codec("JSON, orjson", orjson.dumps, orjson.loads),
    "xml": Codec("XML, ElementTree", to_xml, from_xml),
    "protobuf": Codec("Protobuf, protobuf", to_protobuf, from_protobuf),
    "cbor": Codec("CBOR, cbor2", cbor2.dumps, cbor2.loads),
    "msgpack": Codec("MessagePack, msgpack", msgpack.packb, msgpack.unpackb),
    # Use it only between your own processes: a sender of pickles can run any program here.
    "pickle": Codec("Python's pickle", pickle.dumps, pickle.loads),
}
