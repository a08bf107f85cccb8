"""Counts a scheme that the lab does not have, and makes its image for the power sandwich.

    make lab-scheme PQALG=FOLDER [TARGETS=amd64,Cortex-M4,Cortex-M0+]

The folder has api.h with crypto_kem_… or crypto_sign_…, as in SUPERCOP, PQClean, pqm4 and
liboqs, or it is that of mlkem-native or mldsa-native. It may be one in the code of
lab/sources.tsv.

Its known answers, if it is in PQClean's tree: META.yml has the SHA-256 of what PQClean's own test
prints. The lab builds that test, and compares. Then it remembers what the scheme makes of the lab's
own random numbers, so that every other machine has to make the same."""

import argparse
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from lab import sources
from lab.joules import board
from lab.messages import answer, counts, machines
from lab.messages.counts import Count
from lab.messages.machines import MACHINES
from lab.messages.schemes import (A_KEY, AGREE, BARE_CHIPS, FEW, HERE, NOT_AVR, SCHEMES, SIGNED,
                                  Code, Scheme, Step)
from tools.programs import ROOT, as_program, run, scratch

ROW = "{:<34}{:<10}{:>10}{:>12}{:>12}{:>8}{:>7}{:>8}"
# What PQClean's schemes share. The linker leaves out what a scheme does not use.
COMMON = ("fips202.c", "sha2.c", "aes.c", "sp800-185.c", "nistseedexpander.c")
# What gcc 12.2 for Arm makes of PQClean's Falcon at -O1 or -O2 throws each key away, for ever. With
# this, at -Os, or for another processor, it makes the same key everywhere.
FALCON_ON_ARM = "-fno-ivopts"
NATIVE = machines.C / "native"  # The interface of pqm4 for mlkem-native and mldsa-native.


@dataclass(frozen=True)
class Foreign:
    """What api.h says, and where the rest is."""

    folder: Path
    name: str
    prefix: str
    kem: bool
    joined: bool  # crypto_sign and crypto_sign_open, which put a message and its signature together
    adds: int  # bytes of a signature, or that are sent for a key
    bare: bool  # No header has prototypes: SUPERCOP's signatures are such folders.
    compiled: Path  # the folder whose files are compiled: this one, or NATIVE

    @property
    def tree(self) -> Path | None:
        """PQClean's: its code is in crypto_kem/NAME/clean, or crypto_sign/NAME/clean."""
        above = self.folder.parents[2] if len(self.folder.parents) > 2 else self.folder
        return above if (above / "common" / "fips202.h").is_file() else None


def looked_at(place: str) -> Foreign:
    """A folder, or one in the code of sources.tsv: pqcrypto-falcon/pqclean/crypto_sign/…"""
    name, _, inside = place.partition("/")
    folder = Path(place) if Path(place).is_dir() or name not in sources.table() else \
        sources.fetched(name) / inside
    native = next(folder.glob("ml*_native.h"), None)
    compiled = NATIVE if native else folder.resolve()
    api = compiled / "api.h"
    if not api.is_file():
        raise SystemExit(f"lab: {place} has no api.h")
    # Sizes and prototypes may be in another header than api.h, which includes it.
    text = "\n".join(file.read_text(errors="replace") for file in (
        api, *sorted(compiled.glob("*.h")), *sorted(compiled.glob("*.c"))))
    if native:
        text = api.read_text().split("#else")[native.name.startswith("mldsa")]

    def value(what: str) -> str | None:
        match = re.search(rf'^#\s*define\s+\w*CRYPTO_{what}\s+"?([\w .+-]+)"?', text, re.M)
        return match[1].strip() if match else None

    prefix = re.search(r"(\w*)crypto_(kem|sign)_keypair", text)
    if prefix is None:
        raise SystemExit(f"lab: {place} declares neither crypto_kem_keypair nor "
                         "crypto_sign_keypair")
    kem, size = prefix[2] == "kem", "CIPHERTEXTBYTES" if prefix[2] == "kem" else "BYTES"
    adds = value(size) or "0"
    return Foreign(folder.resolve(), value("ALGNAME") or folder.name, prefix[1], kem,
                   not kem and "crypto_sign_signature" not in text,
                   int(adds) if adds.isdecimal() else 0,
                   not any("crypto_sign_keypair" in file.read_text(errors="replace")
                           for file in compiled.glob("*.h")), compiled)


def code_of(it: Foreign) -> Code:
    files = sorted(str(file) for kind in ("*.c", "*.s", "*.S") for file in it.compiled.glob(kind))
    include = list(dict.fromkeys((str(it.compiled), str(it.folder))))
    included = {name for file in it.compiled.glob("*.[ch]") for name in re.findall(
        r'#\s*include\s+"(\w+)\.h"', file.read_text(errors="replace"))
        if not (it.folder / f"{name}.h").exists()}
    common = it.tree / "common" if it.tree is not None else \
        sources.fetched("pqcrypto-falcon") / "pqclean" / "common" \
        if included & {Path(name).stem for name in COMMON} else None
    if it.tree is None:
        include.append(HERE + "pqm4")
    if common is not None:  # pqm4's have the same functions
        files += [str(common / name) for name in COMMON
                  if (common / name).exists() and not (it.folder / name).exists()]
        include.append(str(common))
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
        digest = hashlib.sha256(run([image]).encode()).hexdigest()
    if digest != expected[1]:
        raise SystemExit(f"lab: {it.name} does not meet its known answers: their SHA-256 is "
                         f"{digest}, and must be {expected[1]}")
    return f"it meets its known answers: {digest[:16]}…"


def scheme_of(it: Foreign) -> Scheme:
    """For the counts. Its results on this computer are those that it must have everywhere."""
    code = code_of(it)
    flags = (f"-DLAB_PREFIX={it.prefix}", *["-DLAB_KEM"] * it.kem, *["-DLAB_JOINED"] * it.joined,
             *["-DLAB_WITHOUT_PROTOTYPES"] * (it.bare and it.joined))
    with scratch() as folder:
        image = Path(folder) / "results"
        try:
            run(["gcc", "-O2", "-w", "-std=gnu11", *flags, *code.options(), f"-I{machines.C}",
                 machines.C / "foreign.c", *code.paths(), "-o", image])
        except SystemExit:  # It may be assembly for a Cortex-M4; each machine checks itself, too.
            print(f"{it.name} is not compiled for this computer: no result to compare with")
            result = 0
        else:
            result = int(run([image]))
            if result == 0:
                raise SystemExit(f"lab: {it.name} does not accept on this computer what it has "
                                 "made")
    steps = AGREE if it.kem else (Step("key", FEW, (0,)), Step("sign", FEW), Step("verify", FEW))
    bare = (f"-I{ROOT}/{HERE}newlib", *[FALCON_ON_ARM] * ("FALCON" in it.prefix))
    scheme = Scheme(it.name, it.folder.name, "key agreement" if it.kem else "signature",
                    "foreign.c", steps, it.adds, A_KEY if it.kem else SIGNED, (code,),
                    (*flags, f"-DLAB_CRC={result}UL"),
                    targets=NOT_AVR if result else NOT_AVR[1:],
                    by_target=dict.fromkeys(BARE_CHIPS, bare),
                    link={chip: ("--specs=nosys.specs",) for chip in BARE_CHIPS},
                    run_limits=dict.fromkeys(BARE_CHIPS, 1))
    counts.KNOWN[scheme.key] = scheme
    return scheme


def row(title: str, target: str, steps: tuple[str, ...], of_scheme: list[Count]) -> str:
    """The counts of the shortest message; what the largest step needs."""
    shortest = [min((count for count in of_scheme if count.step == step),
                    key=lambda count: count.length, default=None) for step in steps]
    return ROW.format(f"{title:.33}", target,
                      *(answer.short(count.mean) if count else "-" for count in shortest),
                      *(f"{max(getattr(count, what) for count in of_scheme):,}"
                        for what in ("flash", "ram", "stack")))


def beside(scheme: Scheme, measured: list[Count]) -> list[str]:
    """Its row beside those of the same family on the same machines."""
    steps = board.STEPS[scheme.family]
    lines = [ROW.format("", "", *steps, "flash", "RAM", "stack")]
    all_counts = counts.read().values()
    for target in dict.fromkeys(count.target for count in measured):
        of_target = [count for count in measured if count.target == target]
        lines.append(row(f"{scheme.title:.28}  <--", target, steps, of_target))
        for neighbour in SCHEMES:
            counted = [count for count in all_counts
                       if count.target == target and count.step in steps
                       and (count.scheme, count.by) == (neighbour.name, neighbour.by)]
            if neighbour.family == scheme.family and counted:
                lines.append(row(neighbour.title, target, steps, counted))
    return lines


def has_room(measured: list[Count]) -> list[str]:
    return [f"{count.step} has no room on the chip of the {count.target}: {over}"
            for count in measured if MACHINES[count.target].flash
            and (over := answer.missing(count, MACHINES[count.target]))]


def image_of(scheme: Scheme) -> str:
    try:
        image = board.build(scheme)
    except SystemExit as why:
        last = str(why).strip().splitlines()[-1]
        return f"No image for the power sandwich: {last}"
    return f"Image for the power sandwich: {image.path.relative_to(ROOT)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make lab-scheme PQALG=FOLDER", description=__doc__)
    parser.add_argument("folder", metavar="PQALG", help="with api.h")
    parser.add_argument("--targets", default="amd64,Cortex-M4", metavar="NAME,NAME",
                        help=f"of {', '.join(NOT_AVR)}")
    options = parser.parse_args()
    targets = options.targets.split(",")
    if unknown := set(targets) - set(NOT_AVR):
        parser.error(f"no such machine: {', '.join(sorted(unknown))}")
    it = looked_at(options.folder)
    print(f"{it.name}: {known_answers(it)}")
    scheme, measured = scheme_of(it), list[Count]()
    for target in (name for name in targets if name in scheme.targets):
        try:
            measured += counts.measure_scheme(scheme, target)
        except SystemExit as why:
            print(f"{target}: {why}")
    if not measured:
        raise SystemExit(f"lab: {it.name} runs on none of them")
    print(counts.table(measured), "", *beside(scheme, measured), "", *has_room(measured),
          image_of(scheme), sep="\n")
    print("An AVR is not tried: no scheme with this interface has keys for its 2 KB of RAM.")


if __name__ == "__main__":
    as_program(main, ".*")
