"""Lets programs that were linked with glibc 2.38 run on Debian 12, which has glibc 2.36.

    python3 tools/older_glibc.py FOLDER

avr-gcc 14.2 needs only strtol, strtoul, strtoull and sscanf of glibc 2.38. There they have new
names, __isoc23_…, and also read binary numbers. This changes each x86-64 program in FOLDER that
needs these, so that it needs the old names and their old version."""

import struct
import sys
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

NEW, OLD = "GLIBC_2.38", "GLIBC_2.2.5"
PREFIX = "__isoc23_"
SYMBOL_SIZE = 24


def with_old_names(file: Path) -> bytes | None:
    """Returns the program with the old names. None: it does not need the new ones."""
    image = bytearray(file.read_bytes())
    with file.open("rb") as stream:
        elf: Any = ELFFile(stream)  # pyelftools' types do not say enough
        symbols = elf.get_section_by_name(".dynsym")
        needs = elf.get_section_by_name(".gnu.version_r")
        if elf["e_machine"] != "EM_X86_64" or symbols is None or needs is None:
            return None
        entries = {entry.name: entry for _, some in needs.iter_versions() for entry in some}
        if NEW not in entries:
            return None
        for number, symbol in enumerate(symbols.iter_symbols()):
            if symbol.name.startswith(PREFIX):  # the new name ends with the old one
                offset = symbols["sh_offset"] + number * SYMBOL_SIZE
                struct.pack_into("<I", image, offset, symbol["st_name"] + len(PREFIX))
        new, old = (struct.pack("<IHHI", entries[version]["vna_hash"], entries[NEW]["vna_flags"],
                                entries[NEW]["vna_other"], entries[version]["vna_name"])
                    for version in (NEW, OLD))
    assert image.count(new) == 1, file
    return bytes(image.replace(new, old))


def main() -> None:
    for file in Path(sys.argv[1]).rglob("*"):
        if file.is_file() and not file.is_symlink() and file.open("rb").read(4) == b"\x7fELF":
            if (image := with_old_names(file)) is not None:
                file.write_bytes(image)


if __name__ == "__main__":
    main()
