"""The schemes of the lab, one entry each: whose code it is, which steps it has, what it protects from.

The steps themselves are in lab/c; lab/README.md says how to add a scheme. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lab.sources import fetched
from sim.targets import ROOT

HEARTBEAT, REPORT, KILOBYTE = 4, 256, 1024  # bytes: a heartbeat and a report without their checksums
HEAP = 10  # runs of a step whose work depends on what malloc has kept of the runs before
RANDOM = 100  # runs of a step whose work depends on random numbers
# What a scheme protects a message from. A MAC's key is shared: who can verify can forge.
ACCIDENT = "accidents"
FORGERY = "forgery"
SIGNED = "forgery by all"

BARE_CHIPS = ("Cortex-M4", "Cortex-M0+", "ATmega328P")
EVERYWHERE = ("amd64", *BARE_CHIPS)


@dataclass(frozen=True)
class Step:
    name: str
    runs: int = 2  # of a step that is deterministic: both must cost the same
    lengths: tuple[int, ...] = (HEARTBEAT,)  # of the message; 0: there is none
    needs: str = ""  # another step, without which a node cannot take this one: its code counts, too

    @property
    def random(self) -> bool:
        return self.runs > 2


@dataclass(frozen=True)
class Code:
    """Code that a scheme stands on: where it comes from, and how it is compiled."""

    source: str  # a name of sources.tsv; "": the project's own
    files: tuple[str, ...]
    include: tuple[str, ...] = (".",)
    flags: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return fetched(self.source) if self.source else ROOT

    def paths(self) -> list[Path]:
        return [self.folder / name for name in self.files]

    def options(self) -> list[str]:
        return [*(f"-I{self.folder / name}" for name in self.include), *self.flags]


@dataclass(frozen=True)
class Scheme:
    name: str
    by: str  # whose code
    family: str
    file: str  # in lab/c
    steps: tuple[Step, ...]
    adds: int  # bytes to a message
    against: str = ""  # what it protects from
    code: tuple[Code, ...] = ()
    flags: tuple[str, ...] = ()
    by_target: dict[str, tuple[str, ...]] = field(default_factory=dict)  # more flags of a target
    link: dict[str, tuple[str, ...]] = field(default_factory=dict)  # what a target's linker gets
    targets: tuple[str, ...] = EVERYWHERE
    without: str = ""  # why it is not on the others

    @property
    def key(self) -> str:
        return f"{self.name}, {self.by}"

    @property
    def title(self) -> str:
        """For tables: what is ours needs no name."""
        return self.name if self.by == "ours" else self.key

    def options(self, target: str) -> list[str]:
        return [f"-I{ROOT}", *self.flags, *self.by_target.get(target, ()), *(word for code in self.code for word in code.options())]


NOTHING = Scheme("nothing", "ours", "null", "nothing.c", (Step("nothing"),), 0)
BEARSSL_SHA256 = Code("bearssl", ("src/hash/sha2small.c", "src/codec/dec32be.c", "src/codec/enc32be.c", "src/mac/hmac.c"),
                      ("inc", "src"))


def check(name: str, file: str, adds: int, *flags: str) -> Scheme:
    return Scheme(name, "ours", "check", file, (Step("make"), Step("accept"), Step("refuse")), adds, ACCIDENT, flags=flags)


KEYED = (Step("key", lengths=(0,)), *(Step(name, needs="key") for name in ("make", "accept", "refuse")))


def mac(name: str, by: str, file: str, *code: Code, flags: tuple[str, ...] = ()) -> Scheme:
    """Each with a tag of 8 bytes, so that they can be compared."""
    return Scheme(name, by, "MAC", file, KEYED, 8, FORGERY, code, flags)


# Bytes of each message and their CRC-32, as other encoders make them: lab/test_formats.py.
WIRE: dict[str, tuple[tuple[str, int, int], ...]] = {  # what it holds, bytes, CRC-32
    "Dumpulse": (("heartbeat", 8, 0x318B1CAB), ("report", 260, 0x4B0CB107)),
    "CBOR": (
        ("heartbeat", 7, 0x152C373F), ("report", 504, 0xD1E80A14),
        ("list", 311, 0x69DBD476)),
    "Protobuf": (
        ("heartbeat", 6, 0x461E93F9), ("report", 684, 0x66B3F222),
        ("list", 181, 0x289C27B2)),
    "MessagePack": (
        ("heartbeat", 4, 0xFDD65729), ("report", 451, 0x8352F5A5),
        ("list", 311, 0xED9FDBF9)),
    "JSON": (
        ("heartbeat", 31, 0x43C71D11), ("report", 2_386, 0x22A080F5),
        ("list", 451, 0xAD5F782A)),
    "XML": (
        ("heartbeat", 35, 0x90C1C21D), ("report", 2_530, 0xFF5CC348),
        ("list", 475, 0x236791CC)),
}
CONFIG = Path(__file__).with_name("c") / "config"  # headers that CMake would make
TOO_BIG = "the tokens of expat alone take 52 kB of flash, and a parser 9 kB of RAM from malloc"
ALLOCATES = "it allocates what it reads and makes: a library for computers"


def form(name: str, by: str, file: str, *code: Code, targets: tuple[str, ...] = EVERYWHERE,
         without: str = "", runs: int = 2, by_target: dict[str, tuple[str, ...]] | None = None,
         link: dict[str, tuple[str, ...]] | None = None) -> Scheme:
    """A format. The length of a step is that of its message on the wire."""
    steps = tuple(Step(f"{step}_{what}", runs, (length,)) for what, length, _ in WIRE[name]
                  for step in ("make", "read", "refuse"))
    flags = ("-DNDEBUG", *(f"-D{what.upper()}_{word}" for what, length, crc in WIRE[name]
                           for word in (f"BYTES={length}", f"CRC={crc}U")))
    return Scheme(name, by, "format", file, steps, 0, ACCIDENT if name == "Dumpulse" else "", code,
                  flags, by_target or {}, link or {}, targets, without)


SCHEMES: tuple[Scheme, ...] = (
    check("Adler-32", "adler.c", 4),
    check("CRC-16", "crc.c", 2, "-DCRC16"),
    check("CRC-32, bitwise", "crc.c", 4, "-DCRC32_BITWISE"),
    check("CRC-32, table of 64 bytes", "crc.c", 4, "-DCRC32_NIBBLE"),
    check("CRC-32, table of 1 kB", "crc.c", 4, "-DCRC32_TABLE"),
    mac("SipHash-2-4", "ours", "siphash.c"),
    mac("Chaskey-12", "ours", "chaskey.c"),
    mac("Ascon-PrfShort", "ours", "ascon.c", flags=("-DASCON_SHORT",)),
    mac("Ascon-AEAD128", "ours", "ascon.c"),
    mac("HMAC-SHA-256", "BearSSL", "hmac.c", BEARSSL_SHA256),
    mac("AES-128-CMAC", "BearSSL", "cmac.c",
        Code("bearssl", ("src/symcipher/aes_ct.c", "src/symcipher/aes_ct_enc.c", "src/codec/dec32le.c", "src/codec/enc32le.c"),
             ("inc", "src"))),
    form("Dumpulse", "ours", "own.c", Code("", ("dumpulse.c",))),
    form("CBOR", "TinyCBOR", "tinycbor.c",
         Code("tinycbor", ("src/cborencoder.c", "src/cborparser.c"), ("src",))),
    form("CBOR", "libcbor", "libcbor.c",
         Code("libcbor", tuple(f"src/{name}.c" for name in (
             "allocators", "cbor", "cbor/arrays", "cbor/bytestrings", "cbor/callbacks",
             "cbor/common", "cbor/encoding", "cbor/floats_ctrls", "cbor/ints", "cbor/maps",
             "cbor/serialization", "cbor/streaming", "cbor/strings", "cbor/tags",
             "cbor/internal/builder_callbacks", "cbor/internal/encoders", "cbor/internal/loaders",
             "cbor/internal/memory_utils", "cbor/internal/stack", "cbor/internal/unicode")),
             ("src",), (f"-I{CONFIG}", "-DEIGHT_BYTE_SIZE_T")),
         targets=("amd64",), without=ALLOCATES, runs=HEAP),
    form("Protobuf", "nanopb", "nanopb.c",
         Code("nanopb", ("pb_common.c", "pb_encode.c", "pb_decode.c")),
         Code("", ("lab/c/protobuf/message.pb.c",), ("lab/c/protobuf",))),
    form("MessagePack", "libmpack", "libmpack.c",
         Code("libmpack", ("src/core.c", "src/conv.c"), ("src",))),
    form("MessagePack", "msgpack-c", "msgpack.c",
         Code("msgpack-c", ("src/objectc.c", "src/unpack.c", "src/zone.c"), ("include", "cmake"),
              (f"-I{CONFIG}", f"-I{CONFIG}/msgpack", "-DMSGPACK_ENDIAN_BIG_BYTE=0",
               "-DMSGPACK_ENDIAN_LITTLE_BYTE=1")),
         targets=("amd64",), without=ALLOCATES, runs=HEAP),
    form("JSON", "ours and jsmn", "jsmn.c", Code("jsmn", ())),
    form("JSON", "cJSON", "cjson.c", Code("cjson", ("cJSON.c",)), targets=("amd64",),
         without=ALLOCATES, runs=HEAP),
    form("XML", "printf and expat", "expat.c",
         Code("expat", ("expat/lib/xmlparse.c", "expat/lib/xmlrole.c", "expat/lib/xmltok.c"),
              ("expat/lib",), (f"-I{CONFIG}",)),
         targets=("amd64", "Cortex-M4", "Cortex-M0+"), runs=HEAP, without=TOO_BIG,
         by_target={name: ("-DHEAP_BYTES=9216",) for name in BARE_CHIPS},
         link={name: ("--specs=nosys.specs",) for name in BARE_CHIPS}),
    Scheme("SHA-256", "BearSSL", "hash", "sha256.c", (Step("hash", lengths=(8, KILOBYTE)),), 0, "", (BEARSSL_SHA256,)),
)
