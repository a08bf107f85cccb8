"""Makes a file that an RP2040 takes when it is a USB drive.

    python -m firmware.uf2 IMAGE.elf    writes IMAGE.uf2

Microsoft's specification of UF2: blocks of 512 bytes, each with 256 bytes for the flash."""

import struct
import sys
from pathlib import Path

from tools.programs import as_program

PART, PT_LOAD = 256, 1
FIRST, SECOND, LAST = 0x0A324655, 0x9E5D5157, 0x0AB16F30  # the words that mark a block
HAS_FAMILY, RP2040 = 0x2000, 0xE48BFF56


def uf2(elf: Path) -> bytes:
    image = elf.read_bytes()
    # E_phoff and e_phnum of the ELF header.
    first, segments = struct.unpack_from("<28xI12xH", image)
    ((start, address, size),) = (
        (start, address, size) for kind, start, _, address, size, *_ in
        struct.iter_unpack("<8I", image[first:first + 32 * segments]) if kind == PT_LOAD and size)
    data = image[start:start + size]
    count = -(-len(data) // PART)
    return b"".join(
        struct.pack("<8I476sI", FIRST, SECOND, HAS_FAMILY, address + PART * number, PART, number,
                    count, RP2040, data[PART * number:PART * (number + 1)], LAST)
        for number in range(count))


def main() -> None:
    (image,) = sys.argv[1:]
    Path(image).with_suffix(".uf2").write_bytes(uf2(Path(image)))


if __name__ == "__main__":
    as_program(main, "[^-].*")
