"""The schemes of the lab, one entry each: whose code it is, which steps it has, what it protects from.

The steps themselves are in lab/c; lab/README.md says how to add a scheme. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lab.sources import fetched
from sim.targets import ROOT

HEARTBEAT, REPORT, KILOBYTE = 4, 256, 1024  # bytes: a heartbeat and a report without their checksums
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
    """Third-party code: where it comes from, and how it is compiled."""

    source: str  # a name of sources.tsv
    files: tuple[str, ...]
    include: tuple[str, ...] = (".",)
    flags: tuple[str, ...] = ()

    def paths(self) -> list[Path]:
        return [fetched(self.source) / name for name in self.files]

    def options(self) -> list[str]:
        return [*(f"-I{fetched(self.source) / folder}" for folder in self.include), *self.flags]


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
    Scheme("SHA-256", "BearSSL", "hash", "sha256.c", (Step("hash", lengths=(8, KILOBYTE)),), 0, "", (BEARSSL_SHA256,)),
)
