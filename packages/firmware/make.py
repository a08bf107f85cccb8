"""Makes the firmware images that users can flash: a zip file of them, with a page."""

import re
import subprocess
import tempfile
from pathlib import Path

from firmware.simulators.boards import BOARDS, Board
from firmware.uf2 import uf2
from packages import archive, project

HERE = Path(__file__).resolve().parent
AVR_LIBC = Path("/usr/share/doc/avr-libc/copyright")
# The page has a row for each.
IMAGES = re.findall(r"^\| `(\S+)` \|", (HERE / "README.md").read_text(), re.M)


def flash_of(elf: Path, to: Path) -> Path:
    """Writes what belongs into the flash, as the board takes it: .uf2 for a chip that is a USB
    drive, .hex for all others. Nothing in it names a folder."""
    board, image = BOARDS[elf.stem], to / elf.with_suffix(".hex").name
    if elf.stem == "uart_rp2040":
        image = image.with_suffix(".uf2")
        image.write_bytes(uf2(elf))
        return image
    subprocess.run([*objcopy(board), "-O", "ihex", elf, image], check=True)
    return image


def objcopy(board: Board) -> list[str]:
    """An .elf file for AVR has sections for the fuses and the EEPROM, too."""
    return ["avr-objcopy", "-j", ".text", "-j", ".data"] if board.mcu else [
        "arm-none-eabi-objcopy"]


def images(to: Path) -> dict[str, Path]:
    """Builds them."""
    built = [f"build/firmware/{name}.elf" for name in IMAGES]
    subprocess.run(["make", "-s", "--no-print-directory", "QUICK=", *built], cwd=project.ROOT,
                   check=True)
    for name in built:
        flash_of(project.ROOT / name, to)
    return archive.files_of(to)


def build(to: Path) -> list[Path]:
    top = f"{project.NAME}-firmware-{project.version()}"
    with tempfile.TemporaryDirectory() as folder:
        contents = Path(folder)
        page = (HERE / "README.md").read_text().replace("VERSION", project.version())
        linked = {project.ROOT / name
                  for name in re.findall(r"\]\(\.\./\.\./(firmware/[^)#]*)", page)}
        (contents / "README.md").write_text(page.replace("../../firmware/", ""))
        files: dict[str, Path | str] = {
            **images(contents), "LICENSE": project.ROOT / "LICENSE", "LICENSE.avr-libc": AVR_LIBC,
            **{path.name: archive.page(path, linked) for path in linked}}
        return [archive.write_zip(to / f"{top}.zip", {f"{top}/{name}": path
                                                      for name, path in files.items()})]
