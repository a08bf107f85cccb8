"""Builds the images of the power sandwich, one for each scheme.     make figures ONLY=lab-board

    python -m lab.joules.board [--only WORDS]

Each goes to build/lab/board, as an ELF file and as the bytes that are written into the flash. The
linker rejects an image that does not fit into the STM32F411."""

import argparse
import dataclasses
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.messages import counts, machines
from lab.messages.schemes import SCHEMES, Scheme
from tools.programs import BUILD, ROOT, as_program, run

CORE = "Cortex-M4"  # whose instructions counts.tsv has
SOURCES = Path(__file__).parent
FOLDER = BUILD / "lab" / "board"
STEPS = {"signature": ("key", "sign", "verify"),
         "key agreement": ("key", "encapsulate", "decapsulate")}
BOARD = dataclasses.replace(
    machines.MACHINES[CORE], name="NUCLEO-F411RE",
    link=("-nostartfiles", "--specs=nano.specs", f"-T{SOURCES / 'board.ld'}"))


def name_of(scheme: Scheme) -> str:
    """One word, for the console and for names of files."""
    return re.sub(r"[^A-Za-z0-9]+", "-", scheme.key)


def all_schemes() -> list[Scheme]:
    """Those that have the steps that the console offers."""
    return [scheme for scheme in SCHEMES if scheme.family in STEPS and CORE in scheme.targets]


@dataclass(frozen=True)
class Image:
    """What is written into the flash."""

    name: str  # The scheme's name on the console.
    path: Path  # The raw bytes for address 0x08000000.


def build(scheme: Scheme, folder: Path = FOLDER) -> Image:
    """Makes the whole image anew, which takes seconds."""
    builder = counts.Builder(scheme, BOARD, CORE)
    name = name_of(scheme)
    refuses = any(step.name == "refuse" for step in scheme.steps)
    defines = (f'-DBOARD_NAME="{name}"', f"-DBOARD_IS_KEM={int(scheme.family != 'signature')}",
               f"-DBOARD_REFUSES={int(refuses)}")
    objects = [counts.compiled(BOARD, source, *builder.options, *defines)
               for source in (machines.C / scheme.file, SOURCES / "board.c")]
    folder.mkdir(parents=True, exist_ok=True)
    elf, raw = folder / f"{name}.elf", folder / f"{name}.bin"
    BOARD.build([*objects, *builder.library], elf, *scheme.link.get(CORE, ()))
    run(["arm-none-eabi-objcopy", "-O", "binary", elf, raw])
    return Image(name, raw)


def build_all(schemes: list[Scheme], folder: Path = FOLDER) -> list[Image]:
    for scheme in schemes:
        for code in scheme.code:
            code.paths()  # fetched before any two of them want it
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda scheme: build(scheme, folder), schemes))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make figures ONLY=lab-board", description="Builds the images of the power sandwich.")
    parser.add_argument("--only", default="", metavar="WORDS",
                        help="schemes with these words in their name")
    options = parser.parse_args()
    schemes = [scheme for scheme in all_schemes()
               if options.only.casefold() in scheme.key.casefold()]
    if not schemes:
        parser.error(f"no scheme has {options.only!r} in its name")
    for image in build_all(schemes):
        print(image.path.relative_to(ROOT))


if __name__ == "__main__":
    as_program(main, ".*")
