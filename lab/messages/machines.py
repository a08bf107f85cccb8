"""The machines of the lab: how an image is made for each, and how its runs are counted."""

import functools
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from bench import callgrind
from tools.processors.targets import BARE, TARGETS
from tools.programs import BUILD, run

HERE = Path(__file__).resolve().parent
C = HERE / "c"
HOSTS = BUILD / "lab" / "hosts"
PATIENCE = 1800.0  # seconds for all runs of one step; the longest takes about 60 on an idle machine
MARKS = ("lab_begin", "lab_end", "lab_result", "lab_over")
SECTIONS = ("-std=gnu11", "-ffunction-sections", "-fdata-sections", "-fno-common")
LINK = ("-Wl,--gc-sections", "-Wl,--build-id=none")
# libc and OpenSSL must not choose code by the processor. The linker must be done before the first
# run.
ENVIRONMENT = dict([callgrind.TUNABLES.split("=", 1), ["OPENSSL_ia32cap", "0:0"],
                    ["LD_BIND_NOW", "1"]])


class DoesNotFit(Exception):
    """The image is too big for the chip, or its stack meets its variables."""


@dataclass(frozen=True)
class Run:
    cost: int  # instructions, or cycles on AVR
    stack: int  # bytes


@dataclass(frozen=True)
class Size:
    flash: int  # bytes of code and constants
    ram: int  # static bytes
    lab_flash: int  # The measurement's part of it.
    lab_ram: int

    @property
    def own_flash(self) -> int:
        return self.flash - self.lab_flash

    @property
    def own_ram(self) -> int:
        return self.ram - self.lab_ram


@dataclass(frozen=True)
class Machine:
    """What the targets share. `flash` and `ram` are those of the chip that the page speaks of."""

    name: str
    unit: str
    compiler: str
    flags: tuple[str, ...]
    flash: int | None = None
    ram: int | None = None
    link: tuple[str, ...] = ()

    def compile(self, source: Path, output: Path, *more: str) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        run([self.compiler, *self.flags, *SECTIONS, "-w", *more, "-I", C, "-c", source,
             "-o", output])

    def build(self, objects: Sequence[Path], image: Path, *more: str) -> None:
        run([self.compiler, *self.flags, *LINK, *self.link, *objects, *more, "-o", image])

    def runs(self, image: Path) -> list[Run]:
        raise NotImplementedError


# What prints counts that are kept needs no package of Python's: so these import where they count.
def symbols(image: Path) -> dict[str, int]:
    from elftools.elf.elffile import ELFFile
    with image.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        return {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}


def size(image: Path) -> Size:
    """Code and constants need flash, and variables RAM. Initial values of variables need both.

    Variables that start as zeros count by their symbols, because their section is padded."""
    from elftools.elf.elffile import ELFFile
    flash = ram = lab_flash = lab_ram = 0
    with image.open("rb") as file:
        elf = ELFFile(file)
        allocated: dict[int, tuple[bool, bool]] = {}  # A section's places: flash, RAM.
        for index, section in enumerate(elf.iter_sections()):
            flags = section["sh_flags"]
            if flags & 2:  # SHF_ALLOC
                in_flash, in_ram = section["sh_type"] != "SHT_NOBITS", bool(flags & 1)
                allocated[index] = in_flash, in_ram
                flash += section["sh_size"] * in_flash
                ram += section["sh_size"] * in_ram * in_flash
        for symbol in elf.get_section_by_name(".symtab").iter_symbols():
            in_flash, in_ram = allocated.get(symbol["st_shndx"], (False, False))
            if symbol["st_info"]["type"] != "STT_OBJECT":
                continue
            ram += symbol["st_size"] * (in_ram and not in_flash)
            if symbol.name.startswith("lab_"):
                lab_flash += symbol["st_size"] * in_flash
                lab_ram += symbol["st_size"] * in_ram
    return Size(flash, ram, lab_flash, lab_ram)


def parse(output: str, what: Path) -> list[Run]:
    """The lines of a host: each run with its result, and "over" at the end."""
    runs: list[Run] = []
    successes = 0
    lines = output.splitlines()
    for line in lines:
        if match := re.fullmatch(r"run (\d+) (\d+)", line):
            runs.append(Run(int(match[1]), int(match[2])))
        elif line == "right 1":
            successes += 1
        elif line == "right 0":
            raise SystemExit(f"lab: {what.name}: run {len(runs)} did not do its work")
    if not runs or successes != len(runs) or "over" not in lines:
        raise SystemExit(f"lab: {what.name}: {len(runs)} runs, of which {successes} were right, "
                         f"and no end:\n{output}")
    return runs


P = ParamSpec("P")
R = TypeVar("R")


def once(make: Callable[P, R]) -> Callable[P, R]:
    """Calls it once for the same arguments, even if many threads want it at the same time."""
    lock, cached = threading.Lock(), functools.cache(make)

    @functools.wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with lock:
            return cached(*args, **kwargs)  # type: ignore[arg-type]

    return call


@once
def host(name: str) -> Path:
    """The program that simulates a chip."""
    import unicorn
    folder = Path(unicorn.__file__).parent
    options: dict[str, list[object]] = {
        "avr": ["-I/usr/include/simavr", "-lsimavr", "-lelf"],
        "thumb": [f"-I{folder}/include", folder / "lib" / "libunicorn.so.2",
                  f"-Wl,-rpath,{folder}/lib", "-lelf"]}
    HOSTS.mkdir(parents=True, exist_ok=True)
    program = HOSTS / f"{name}-{os.getpid()}"  # Another process may run the old one.
    run(["gcc", "-O2", "-std=gnu11", "-Wall", "-Wextra", HERE / "hosts" / f"{name}.c",
         "-o", program, *options[name]])
    return program.replace(HOSTS / name)


def simulated(command: Sequence[object], image: Path) -> list[Run]:
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"lab: {image.name} did not end in {PATIENCE / 60:.0f} minutes") from None
    if done.returncode == 2 and "overflow" in done.stderr:
        raise DoesNotFit(image.name)
    if done.returncode:
        raise SystemExit(f"lab: {image.name}: its simulator failed:\n{done.stdout}{done.stderr}")
    return parse(done.stdout, image)


@dataclass(frozen=True)
class Thumb(Machine):
    core: str = "m4"

    def runs(self, image: Path) -> list[Run]:
        at = symbols(image)
        marks = [f"{at[name] & ~1:x}" for name in MARKS]
        return simulated([host("thumb"), self.core, image, f"{at['main'] & ~1:x}", *marks], image)


@dataclass(frozen=True)
class Avr(Machine):
    mcu: str = "atmega328p"
    ramend: int = 0x8FF

    def runs(self, image: Path) -> list[Run]:
        at = symbols(image)
        marks = [f"{at[name]:x}" for name in MARKS]
        return simulated([host("avr"), self.mcu, f"{self.ramend:x}", image, *marks,
                          f"{at['_end'] & 0xFFFF:x}"], image)


@dataclass(frozen=True)
class Amd64(Machine):
    """valgrind counts what is between the marks; it writes a file for each run."""

    def runs(self, image: Path) -> list[Run]:
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            output = Path(folder) / "out"
            done = subprocess.run([*callgrind.command(output, image)], env=ENVIRONMENT,
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            if done.returncode:
                raise SystemExit(f"lab: {image.name} failed in valgrind:\n"
                                 f"{done.stdout}{done.stderr}")
            depths = [int(line.split()[1]) for line in done.stdout.splitlines()
                      if line.startswith("stack ")]
            said, lines = [], done.stdout.splitlines()
            for number, depth in enumerate(depths, start=1):
                counted = callgrind.parse(Path(f"{output}.{number}").read_text())
                cost, = (cost for (caller, callee), cost in counted.within.items()
                         if caller == "measure" and callee.endswith("_run"))
                said.append(f"run {cost} {depth}")
            said += [line for line in lines if not line.startswith("stack ")]
            return parse("\n".join(said), image)


def thumb(name: str, core: str, *flags: str, flash: int, ram: int) -> Thumb:
    target = TARGETS[name]
    return Thumb(name, "instructions", target.compiler, (*target.flags, "-O2", *flags), flash, ram,
                 ("-nostartfiles", "--specs=nano.specs", "-Wl,-e,main", "-Wl,-Ttext=0x08000000",
                  "-Wl,-Tdata=0x20000000"), core=core)


# An image that is too big for a chip is linked, too: so the lab can tell its size, and try a larger
# chip.
UNBOUNDED = ("-Wl,--defsym=__DATA_REGION_LENGTH__=0xff00", "-Wl,--defsym=__TEXT_REGION_LENGTH__=1M")


def avr(name: str, mcu: str, flash: int, ram: int, ramend: int = 0) -> Avr:
    ramend = ramend or 0x100 + ram - 1
    return Avr(name, "cycles", "avr-gcc", (f"-mmcu={mcu}", "-Os"), flash, ram,
               (*UNBOUNDED, f"-Wl,--defsym=__stack={ramend:#x}"), mcu=mcu, ramend=ramend)


# The chip that each is compared with: study 2's STM32F411, a SAMD21 of the common size.
MACHINES: dict[str, Machine] = {machine.name: machine for machine in (
    Amd64("amd64", "instructions", TARGETS["amd64"].compiler, ("-O2", *BARE), link=("-no-pie",)),
    thumb("Cortex-M4", "m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", flash=512 << 10,
          ram=128 << 10),
    thumb("Cortex-M0+", "m0", flash=256 << 10, ram=32 << 10),
    avr("ATmega328P", "atmega328p", 32 << 10, 2 << 10),
)}
# These run what does not fit into the chip: an AVR with 16 KB of RAM; one that nobody makes, whose
# RAM is all that an address of 16 bits can reach; and a Cortex-M with 1 MB of flash.
LARGER: dict[str, tuple[Machine, ...]] = {
    name: (replace(MACHINES[name], name=f"a {name} with 512 KB of RAM", flash=1 << 20,
                   ram=512 << 10),) for name in ("Cortex-M4", "Cortex-M0+")} | {"ATmega328P": (
    avr("ATmega1284P", "atmega1284p", 128 << 10, 16 << 10),
    avr("an ATmega1284P with 63 KB of RAM", "atmega1284p", 128 << 10, 0xFF00 - 0x100,
        0xFFFF - 0x100),
)}
