"""Makes the firmware images that users can flash: a zip file of .hex files, with a page.
SPDX-License-Identifier: MIT"""

import re
import subprocess
import tempfile
from pathlib import Path

from packages import archive, project

HERE = Path(__file__).resolve().parent
# The page has a row for each.
IMAGES = re.findall(r"^\| `(\S+)` \|", (HERE / "README.md").read_text(), re.M)


def images(to: Path) -> dict[str, Path]:
    """Builds them, and writes what belongs into the flash. Nothing in it names a folder."""
    built = [f"build/firmware/{name}.elf" for name in IMAGES]
    subprocess.run(["make", "-s", "--no-print-directory", *built], cwd=project.ROOT, check=True)
    for name in built:
        subprocess.run(["avr-objcopy", "-j", ".text", "-j", ".data", "-O", "ihex",
                        project.ROOT / name, to / Path(name).with_suffix(".hex").name], check=True)
    return archive.files_of(to)


def build(to: Path) -> list[Path]:
    top = f"{project.NAME}-firmware-{project.version()}"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        page = (HERE / "README.md").read_text().replace("VERSION", project.version())
        (made / "README.md").write_text(page)
        files = {**images(made), "LICENSE": project.ROOT / "LICENSE"}
        return [archive.write_zip(to / f"{top}.zip", {f"{top}/{name}": path
                                                      for name, path in files.items()})]
