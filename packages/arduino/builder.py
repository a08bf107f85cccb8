"""Compiles sketches with Arduino's own builder, as Debian has it.   SPDX-License-Identifier: MIT"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HARDWARE = "/usr/share/arduino/hardware"
# The boards for which all examples are compiled, with the processor where the builder must be told.
BOARDS = {"uno": "", "nano": ":cpu=atmega328", "mega": ":cpu=atmega2560", "leonardo": ""}


@dataclass(frozen=True)
class Compiled:
    image: Path
    warnings: list[str]  # of all but Arduino's own core


def build(sketch: Path, board: str, libraries: Sequence[Path], to: Path) -> Compiled:
    """Compiles a sketch, with libraries in these folders. The folder `to` gets what is made. The
    folder `cache` beside it gets the compiled core."""
    if shutil.which("arduino-builder") is None:
        raise SystemExit("arduino-builder is missing; `make setup` installs it")
    out, cache = to / f"{sketch.stem}-{board}", to.parent / "cache"
    for folder in (out, cache):
        folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["arduino-builder", "-compile", "-hardware", HARDWARE,
         "-hardware", "/usr/share/arduino-builder", "-tools", "/usr/bin",
         *(word for folder in libraries for word in ("-libraries", str(folder))),
         "-fqbn", f"arduino:avr:{board}{BOARDS[board]}", "-warnings", "all",
         # Without this, avr-gcc 5.4 cannot compile the core's WString.cpp.
         "-prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=__DECIMAL_DIG__",
         "-build-cache", str(cache), "-build-path", str(out), str(sketch)],
        capture_output=True, text=True,
        env={"PATH": os.defpath, "HOME": str(to), "TMPDIR": str(to), "LC_ALL": "C"})
    if done.returncode != 0:
        raise RuntimeError(f"{sketch.name} does not compile for {board}:\n{done.stderr}")
    warnings = [line for line in done.stderr.splitlines()
                if "warning:" in line and not line.startswith(HARDWARE)]
    return Compiled(out / f"{sketch.name}.elf", warnings)
