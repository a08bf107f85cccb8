"""The targets: how to compile for each, and what can run its code.

Every script that compiles for a target uses this table. The flags of a compiler are only here.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"

# The flags of all targets. With sections, the linker can leave out what a firmware does not use.
COMMON = ("-std=c99", "-Os", "-ffreestanding", "-ffunction-sections", "-fdata-sections")
# These turn off what a compiler for Linux adds and no firmware has.
BARE = ("-fno-asynchronous-unwind-tables", "-fno-pic", "-fno-pie", "-fno-stack-protector")


@dataclass(frozen=True)
class Target:
    name: str
    compiler: str
    flags: tuple[str, ...]
    machine: str  # the machine.py class that runs it
    model: str | None = None  # and the chip or core it models

    @property
    def folder(self) -> str:
        """The name without spaces: the folder for files that are built for this target."""
        return self.name.replace(" ", "-")

    @property
    def return_address(self) -> int:
        """How many bytes of stack a call pushes."""
        wide = self.name == "ATmega2560"  # its code needs addresses of more than 16 bits
        return {"Avr": 3 if wide else 2, "Amd64": 8, "I386": 4}.get(self.machine, 0)

    def compile(self, source: Path, output: Path, *more: str, include: Path = ROOT) -> None:
        """Compiles one C file of the project to an object file."""
        output.parent.mkdir(parents=True, exist_ok=True)
        run([self.compiler, *self.flags, *COMMON, *more, f"-I{include}", "-c", source,
             "-o", output])

    def link(self, objects: list[Path], output: Path, *more: str) -> None:
        """Links objects without any start-up code, but with libgcc."""
        run([self.compiler, *self.flags, "-nostdlib", "-static", "-Wl,--build-id=none",
             "-Wl,--gc-sections", *more, *objects, "-lgcc", "-o", output])


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A new folder, as two processes may measure the same thing at the same time."""
    BUILD.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(dir=BUILD)


def run(command: list[object], cwd: Path | None = None) -> str:
    """Runs a command, and returns its output. A failure shows the command and its messages."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def avr(name: str, mcu: str, model: str | None = None) -> Target:
    return Target(name, "avr-gcc", (f"-mmcu={mcu}",), "Avr", model or mcu)


def thumb(name: str, cpu: str, model: str) -> Target:
    return Target(name, "arm-none-eabi-gcc", ("-mthumb", f"-mcpu={cpu}"), "Thumb", model)


TARGETS = {target.name: target for target in (
    avr("ATmega328P", "atmega328p"),
    avr("ATtiny88", "attiny88", "attiny85"),  # simavr has no ATtiny88; it is the same core
    avr("ATtiny85", "attiny85"),
    avr("ATmega2560", "atmega2560"),
    thumb("Cortex-M0+", "cortex-m0plus", "CORTEX_M0"),
    thumb("Cortex-M3", "cortex-m3", "CORTEX_M3"),
    thumb("Cortex-M4", "cortex-m4", "CORTEX_M4"),
    thumb("Cortex-M33", "cortex-m33", "CORTEX_M33"),
    Target("rv32imc", "riscv64-unknown-elf-gcc", ("-march=rv32imc", "-mabi=ilp32"), "Riscv"),
    Target("rv32ec", "riscv64-unknown-elf-gcc", ("-march=rv32ec", "-mabi=ilp32e"), "Riscv"),
    Target("amd64", "x86_64-linux-gnu-gcc", BARE, "Amd64"),
    Target("i386", "i686-linux-gnu-gcc", BARE, "I386"),
    Target("Xtensa lx106", "xtensa-lx106-elf-gcc", (), "Xtensa"),
    Target("PowerPC", "powerpc-linux-gnu-gcc", BARE, "PowerPC"),
)}
