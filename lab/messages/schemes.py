"""The schemes of the lab, one entry each: whose code it is, its steps, and what it protects from.

The steps themselves are in lab/messages/c; README.md says how to add a scheme."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.sources import fetched
from tools.programs import ROOT

HEARTBEAT, KILOBYTE = 4, 1024  # bytes; a heartbeat is without its checksum
FEW = 3  # runs of a step whose work depends on random numbers a little
# What a scheme protects a message from. A MAC's key is shared: everybody who can verify can forge.
ACCIDENT = "accidents"
FORGERY = "forged"
REPLAY = "+ old"  # a forgery, and an old message that somebody sends again
SIGNED = "forged by all"

BARE_CHIPS = ("Cortex-M4", "Cortex-M0+", "ATmega328P")
EVERYWHERE = ("amd64", *BARE_CHIPS)
NOT_AVR = ("amd64", "Cortex-M4", "Cortex-M0+")


@dataclass(frozen=True)
class Step:
    name: str
    runs: int = 2  # Two runs of a deterministic step must cost the same.
    lengths: tuple[int, ...] = (HEARTBEAT,)  # Bytes of a message; 0 means that there is none.
    needs: str = ""  # another step, without which a node cannot take this one: its code counts, too
    kept: bool = True  # counts.tsv has it. A step that rejects is only run.

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
        """A name with a * stands for all files like it."""
        return [path for name in self.files for path in (
            sorted(self.folder.glob(name)) if "*" in name else [self.folder / name])]

    def options(self) -> list[str]:
        return [*(f"-I{self.folder / name}" for name in self.include), *self.flags]


@dataclass(frozen=True)
class Scheme:
    name: str
    by: str  # whose code
    family: str
    file: str  # The name in lab/messages/c, or a whole path.
    steps: tuple[Step, ...]
    adds: int  # bytes to a message
    against: str = ""  # The threat that it protects from.
    code: tuple[Code, ...] = ()
    flags: tuple[str, ...] = ()
    by_target: dict[str, tuple[str, ...]] = field(default_factory=dict)  # More flags of a target.
    link: dict[str, tuple[str, ...]] = field(default_factory=dict)  # Flags of a target's linker.
    targets: tuple[str, ...] = EVERYWHERE
    run_limits: dict[str, int] = field(default_factory=dict)  # Runs of a step on a slow target.

    @property
    def key(self) -> str:
        return f"{self.name}, {self.by}"

    @property
    def title(self) -> str:
        """For tables: what is ours needs no name, and there is little room."""
        return self.name if self.by == "ours" else f"{self.name}, {self.author}"

    @property
    def author(self) -> str:
        """Whose code it is, in short."""
        return self.by.replace(", assembly", " asm").replace(", RAM", " RAM")

    def runs(self, step: Step, target: str) -> int:
        return min(step.runs, self.run_limits.get(target, step.runs))

    def options(self, target: str) -> list[str]:
        return [f"-I{ROOT}", *self.flags, *self.by_target.get(target, ()),
                *(word for code in self.code for word in code.options())]


NOTHING = Scheme("nothing", "ours", "null", "nothing.c", (Step("nothing"),), 0)
BEARSSL_SHA256 = Code("bearssl", ("src/hash/sha2small.c", "src/codec/dec32be.c",
                                  "src/codec/enc32be.c", "src/mac/hmac.c"), ("inc", "src"))


REFUSE = Step("refuse", kept=False)


def check(name: str, file: str, adds: int, *flags: str) -> Scheme:
    return Scheme(name, "ours", "check", file, (Step("make"), Step("accept"), REFUSE), adds,
                  ACCIDENT, flags=flags)


KEYED = (Step("key", lengths=(0,)),
         *(Step(name, needs="key", kept=name != "refuse") for name in ("make", "accept", "refuse")))


def mac(name: str, by: str, file: str, *code: Code, steps: tuple[Step, ...] = KEYED,
        **more: Any) -> Scheme:
    """Each with a tag of 8 bytes, so that they can be compared."""
    return Scheme(name, by, "MAC", file, steps, 8, FORGERY, code, **more)


# The best code for a target, where another is portable.
HERE = "lab/messages/c/"
WITH_ASSEMBLY: dict[str, Any] = {"targets": ("Cortex-M0+", "ATmega328P")}
NOT_THERE: dict[str, Any] = {"targets": ("amd64", "Cortex-M4")}
AVR_ALONE: dict[str, Any] = {"targets": ("ATmega328P",)}
AES = (*KEYED, Step("block", lengths=(16,), needs="key"))
AES_ASSEMBLY = Code("", (HERE + "aes_avr.S", HERE + "aes_m0.S"))
TABLES = ("-DLAB_TABLES",)
VERSION_2 = Code("", ("extras/dumpulse_tag.c",))
VERSION_2_ASSEMBLY = Code("", (*VERSION_2.files, "extras/dumpulse_tag_avr.S"))
SHA256_ASSEMBLY = Code("", (HERE + "sha256.S",))
ASSEMBLY = ("-DLAB_ASSEMBLY",)
BEARSSL_AES = Code("bearssl", ("src/symcipher/aes_ct.c", "src/symcipher/aes_ct_enc.c",
                               "src/codec/dec32le.c", "src/codec/enc32le.c"), ("inc", "src"))


By = tuple[str, tuple[Code, ...], dict[str, Any]]  # whose code, the code, and what goes with it


def protocol(name: str, macro: str, adds: int, refuses: str, needs: str,
             *by: By) -> tuple[Scheme, ...]:
    """How another protocol sends a heartbeat: its counter, its header and its tag."""
    steps = tuple(Step(step, needs=needs, kept=step != "reject")
                  for step in ("send", "take", "reject"))
    return tuple(Scheme(name, code_of, "protocol", "protocol.c", steps, adds, refuses, code,
                        **{**options, "flags": (f"-DLAB_{macro}", *options.get("flags", ()))})
                 for code_of, code, options in by)


AES_BY: tuple[By, ...] = (
    ("ours, assembly", (AES_ASSEMBLY,), {"flags": TABLES, **WITH_ASSEMBLY}),
    ("ours, tables", (), {"flags": TABLES, **NOT_THERE}),
    ("BearSSL", (BEARSSL_AES,), {}))
SHA256_BY: tuple[By, ...] = (
    ("ours, assembly", (SHA256_ASSEMBLY,), {"flags": ASSEMBLY, **AVR_ALONE}),
    ("BearSSL", (BEARSSL_SHA256,), {}))
PROTOCOLS = (
    *protocol("SecOC", "SECOC", 4, REPLAY, "key", *AES_BY),
    *protocol("LoRaWAN 1.0", "LORAWAN", 13, REPLAY, "key", *AES_BY),
    *protocol("MAVLink 2, signed", "MAVLINK", 25, REPLAY, "", *SHA256_BY),
    *protocol("CANopen Safety", "CANOPEN_SAFETY", 4, ACCIDENT, "", ("ours", (), {})),
)
HASH = (Step("hash", lengths=(8, KILOBYTE)),)


# Signatures and key agreements. How long they take depends on random numbers, mostly a little; a
# run takes a tenth of a second in valgrind, and seconds in simavr.
MOST = {"ATmega328P": 1}
A_KEY = "a key for a MAC"


def public(family: str, steps: tuple[Step, ...], against: str) -> Callable[..., Scheme]:
    """What makes the schemes of a family with these steps."""
    def scheme(name: str, by: str, file: str, adds: int, *code: Code, **options: Any) -> Scheme:
        return Scheme(name, by, family, file, steps, adds, against, code,
                      **{"run_limits": MOST, **options})
    return scheme


BOTH = HEARTBEAT, KILOBYTE
signature = public("signature", (Step("key", FEW, (0,)), Step("sign", FEW, BOTH),
                                 Step("verify", FEW, BOTH), REFUSE), SIGNED)
AGREE = tuple(Step(name, FEW, (0,)) for name in ("key", "encapsulate", "decapsulate"))
ecdh = public("key agreement", AGREE, A_KEY)

# micro-ecc in portable C, with words as long as the machine's; and in assembly at the fastest level
# that is right: on AVR, secp160r1 fails its vectors at level 3. There a curve of 256 bits compiles
# only with another one beside it; the linker leaves that out.
UECC = Code("micro-ecc-sys", ("micro-ecc/uECC.c",), ("micro-ecc",),
            ("-DuECC_SUPPORT_COMPRESSED_POINT=0",))
UECC_CURVES = ("secp160r1", "secp192r1", "secp224r1", "secp256r1", "secp256k1")
UECC_WORD = {"amd64": 8, "Cortex-M4": 4, "Cortex-M0+": 4, "ATmega328P": 1}
IN_C = {name: ("-DuECC_PLATFORM=uECC_arch_other", f"-DuECC_WORD_SIZE={size}")
        for name, size in UECC_WORD.items()}
UNROLLED = ("-DuECC_SQUARE_FUNC=1", "-DuECC_OPTIMIZATION_LEVEL=3")
IN_ASSEMBLY = {"Cortex-M4": ("-DuECC_PLATFORM=uECC_arm_thumb2", *UNROLLED),
               "Cortex-M0+": ("-DuECC_PLATFORM=uECC_arm_thumb", *UNROLLED),
               "ATmega328P": ("-DuECC_PLATFORM=uECC_avr", *UNROLLED, "-DuECC_SUPPORTS_secp160r1=1")}
IN_ASSEMBLY_160 = IN_ASSEMBLY | {"ATmega328P": ("-DuECC_PLATFORM=uECC_avr", "-DuECC_SQUARE_FUNC=1")}
P256_M4 = Code("p256-cortex-m4-sys",
               ("P256-Cortex-M4/p256-cortex-m4.c", "P256-Cortex-M4/p256-cortex-m4-asm-gcc.S"),
               ("P256-Cortex-M4",), ("-DLAB_SECP256R1", "-DLAB_P256_M4"))
M4_ALONE: dict[str, Any] = {"targets": ("Cortex-M4",)}
MONOCYPHER = Code("monocypher-sys", ("Monocypher/src/monocypher.c",), ("Monocypher/src",))
ED25519 = Code("monocypher-sys", ("Monocypher/src/optional/monocypher-ed25519.c",),
               ("Monocypher/src/optional",))


def micro_ecc(make: Callable[..., Scheme], name: str, file: str, adds: int, curve: str,
              *code: Code) -> tuple[Scheme, Scheme]:
    """In C and in assembly, both with this curve alone."""
    flags = (f"-DLAB_{curve.upper()}",
             *(f"-DuECC_SUPPORTS_{name_of_curve}={int(name_of_curve == curve)}"
               for name_of_curve in UECC_CURVES))
    short = curve == "secp160r1"
    return (make(name, "micro-ecc", file, adds, UECC, *code, flags=flags, by_target=IN_C),
            make(name, "micro-ecc, assembly", file, adds, UECC, *code, flags=flags,
                 by_target=IN_ASSEMBLY_160 if short else IN_ASSEMBLY, targets=BARE_CHIPS))


SIGNATURES = (
    *micro_ecc(signature, "ECDSA secp160r1", "ecdsa.c", 40, "secp160r1", BEARSSL_SHA256),
    *micro_ecc(signature, "ECDSA secp256k1", "ecdsa.c", 64, "secp256k1", BEARSSL_SHA256),
    *micro_ecc(signature, "ECDSA P-256", "ecdsa.c", 64, "secp256r1", BEARSSL_SHA256),
    signature("ECDSA P-256", "P256-Cortex-M4", "ecdsa.c", 64, P256_M4, BEARSSL_SHA256, **M4_ALONE),
    signature("Ed25519", "Monocypher", "ed25519.c", 64, MONOCYPHER, ED25519),
)
AGREEMENTS = (
    *micro_ecc(ecdh, "ECDH secp256k1", "ecdh.c", 64, "secp256k1"),
    *micro_ecc(ecdh, "ECDH P-256", "ecdh.c", 64, "secp256r1"),
    ecdh("ECDH P-256", "P256-Cortex-M4", "ecdh.c", 64, P256_M4, **M4_ALONE),
    ecdh("X25519", "Monocypher", "x25519.c", 32, MONOCYPHER),
)

SCHEMES: tuple[Scheme, ...] = (
    check("Adler-32", "adler.c", 4),
    check("CRC-16", "crc.c", 2, "-DCRC16"),
    check("CRC-32, bitwise", "crc.c", 4, "-DCRC32_BITWISE"),
    check("CRC-32, 1 kB table", "crc.c", 4, "-DCRC32_TABLE"),
    mac("Chaskey-12", "version 2's, assembly", "chaskey.c", VERSION_2_ASSEMBLY, **AVR_ALONE),
    mac("Chaskey-12", "version 2's", "chaskey.c", VERSION_2,
        by_target={"ATmega328P": ("-U__AVR__",)}),
    mac("HMAC-SHA-256", "ours, assembly", "hmac.c", SHA256_ASSEMBLY, flags=ASSEMBLY,
        **AVR_ALONE),
    mac("HMAC-SHA-256", "BearSSL", "hmac.c", BEARSSL_SHA256),
    mac("AES-128-CMAC", "ours, tables", "cmac.c", flags=TABLES, steps=AES, **NOT_THERE),
    mac("AES-128-CMAC", "ours, assembly", "cmac.c", AES_ASSEMBLY, flags=TABLES, steps=AES,
        **WITH_ASSEMBLY),
    mac("AES-128-CMAC", "ours, assembly, RAM", "cmac.c", AES_ASSEMBLY, steps=AES,
        flags=(*TABLES, "-DAES_TABLE_IN_RAM"), **AVR_ALONE),
    mac("AES-128-CMAC", "BearSSL", "cmac.c", BEARSSL_AES, steps=AES),
    Scheme("Dumpulse", "ours", "check", "own.c", tuple(
        Step(f"{step}_heartbeat", lengths=(8,), kept=step != "refuse")
        for step in ("make", "read", "refuse")), 0, ACCIDENT, (Code("", ("dumpulse.c",)),)),
    Scheme("SHA-256", "ours, assembly", "hash", "sha256.c", HASH, 0, code=(SHA256_ASSEMBLY,),
           flags=ASSEMBLY, **AVR_ALONE),
    Scheme("SHA-256", "BearSSL", "hash", "sha256.c", HASH, 0, code=(BEARSSL_SHA256,)),
    *SIGNATURES,
    *AGREEMENTS,
    *PROTOCOLS,
)
