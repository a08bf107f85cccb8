"""Anybody's scheme: a folder with the interface that SUPERCOP, PQClean and pqm4 share.

Its known answers, if it is in PQClean's tree: META.yml has the SHA-256 of what PQClean's own test
prints. The lab builds that test, and compares. Then it remembers what the scheme makes of the lab's
own random numbers, so that every other machine has to make the same.
SPDX-License-Identifier: MIT"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from lab import sources
from lab.messages import counts, machines, schemes
from lab.messages.schemes import COMMON, Code, Scheme
from tests.support.programs import run, scratch


@dataclass(frozen=True)
class Foreign:
    """What api.h says, and where the rest is."""

    folder: Path
    name: str
    prefix: str
    kem: bool
    adds: int  # bytes of a signature, or that are sent for a key

    @property
    def tree(self) -> Path | None:
        """PQClean's: its code is in crypto_kem/NAME/clean, or crypto_sign/NAME/clean."""
        above = self.folder.parents[2] if len(self.folder.parents) > 2 else self.folder
        return above if (above / "common").is_dir() else None


def looked_at(place: str) -> Foreign:
    """A folder, or one in the code of sources.tsv: pqcrypto-falcon/pqclean/crypto_sign/…"""
    name, _, inside = place.partition("/")
    folder = Path(place) if Path(place).is_dir() or name not in sources.table() else \
        sources.fetched(name) / inside
    api = folder / "api.h"
    if not api.is_file():
        raise SystemExit(f"lab: {place} has no api.h")
    text = api.read_text(errors="replace")

    def value(what: str) -> str | None:
        found = re.search(rf'^#define\s+\w*CRYPTO_{what}\s+"?([\w .+-]+)"?', text, re.M)
        return found[1].strip() if found else None

    prefix = re.search(r"(\w*)crypto_(kem|sign)_keypair", text)
    if prefix is None:
        raise SystemExit(f"lab: {api} declares neither crypto_kem_keypair nor crypto_sign_keypair")
    kem, size = prefix[2] == "kem", "CIPHERTEXTBYTES" if prefix[2] == "kem" else "BYTES"
    adds = value(size) or "0"
    return Foreign(folder.resolve(), value("ALGNAME") or folder.name, prefix[1], kem,
                   int(adds) if adds.isdecimal() else 0)


def code_of(it: Foreign) -> Code:
    files = sorted(str(file) for kind in ("*.c", "*.s", "*.S") for file in it.folder.glob(kind))
    include = [str(it.folder)]
    if it.tree is not None:
        files += [str(it.tree / "common" / name) for name in COMMON
                  if (it.tree / "common" / name).exists()]
        include.append(str(it.tree / "common"))
    return Code("", tuple(files), tuple(include))


def known_answers(it: Foreign) -> str:
    """What is said of them. Those that are not met end the program."""
    meta = it.folder.parent / "META.yml"
    if it.tree is None or not meta.exists():
        return "it has no known answers here: the machines must agree with each other"
    text = meta.read_text()
    expected = re.search(r"^nistkat-sha256: (\w+)", text, re.M)
    hqc = re.search(r"^nistkat-rng: hqc", text, re.M)
    tests = it.tree / "test"
    program = tests / ("crypto_kem" if it.kem else "crypto_sign") / (
        "hqckat.c" if hqc else "nistkat.c")
    if expected is None or not program.exists():
        return "it has no known answers here: the machines must agree with each other"
    code = code_of(it)
    with scratch() as folder:
        image = Path(folder) / "answers"
        run(["gcc", "-O2", "-w", f"-DPQCLEAN_NAMESPACE={it.prefix.rstrip('_')}", *code.options(),
             f"-I{tests / 'common'}", program, *code.paths(),
             tests / "common" / ("hqckatrng.c" if hqc else "nistkatrng.c"), "-o", image])
        found = hashlib.sha256(run([image]).encode()).hexdigest()
    if found != expected[1]:
        raise SystemExit(f"lab: {it.name} does not meet its known answers: their SHA-256 is "
                         f"{found}, and must be {expected[1]}")
    return f"it meets its known answers: {found[:16]}…"


def scheme_of(it: Foreign) -> Scheme:
    """For the counts. Its results on this computer are those that it must have everywhere."""
    code = code_of(it)
    with scratch() as folder:
        image = Path(folder) / "results"
        run(["gcc", "-O2", "-w", "-std=gnu11", f"-DLAB_PREFIX={it.prefix}",
             *["-DLAB_KEM"] * it.kem, *code.options(), f"-I{machines.C}", machines.C / "foreign.c",
             *code.paths(), "-o", image])
        result = int(run([image]))
    if result == 0:
        raise SystemExit(f"lab: {it.name} does not accept on this computer what it has made")
    scheme = schemes.foreign(it.name, it.folder.name, it.prefix, it.kem, it.adds, result, code)
    counts.KNOWN[scheme.key] = scheme
    return scheme
