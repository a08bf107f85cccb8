"""The library for PlatformIO: checked by `pio pkg pack`, and used by projects elsewhere.

PlatformIO compiles for this machine and for an Arduino Uno. Its own platforms and its package of
SCons are on its registry alone. In their place are a small platform and PyPI's SCons of the same
version.   SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from packages import project
from packages.arduino.test_arduino import CHECKS
from packages.cmake import consumers
from packages.platformio import make
from spec.model import Agent, heartbeat

PYTHON = project.ROOT / "build" / "venv-packages" / "bin" / "python"
SCONS = "4.41101.0"  # PlatformIO's name for SCons 4.11.1
# PlatformIO's own platforms are on its registry alone. This one uses Debian's compilers and its
# copy of Arduino's core, and fetches nothing.
PLATFORM = {"platform.json": json.dumps({
    "name": "standin", "version": "1.0.0", "title": "Stand-in", "description": "For tests",
    "packages": {}, "frameworks": {"arduino": {"script": "builder/frameworks/arduino.py"}}}),
    "boards/uno.json": json.dumps({
        "name": "Arduino Uno", "vendor": "Arduino", "url": project.URL, "frameworks": ["arduino"],
        "build": {"mcu": "atmega328p", "f_cpu": "16000000L"},
        "upload": {"maximum_size": 32256, "maximum_ram_size": 2048}}),
    "platform.py": """
from platformio.public import PlatformBase

class StandinPlatform(PlatformBase):
    def configure_default_packages(self, variables, targets):
        pass
""", "builder/main.py": """
from SCons.Script import Default, DefaultEnvironment
env = DefaultEnvironment()
Default(env.BuildProgram())
""", "builder/frameworks/arduino.py": """
from SCons.Script import DefaultEnvironment
CORE = "/usr/share/arduino/hardware/arduino/avr"
env = DefaultEnvironment()
chip = ["-mmcu=atmega328p", "-Os"]
env.Replace(AR="avr-gcc-ar", CC="avr-gcc", CXX="avr-g++", LINK="avr-g++",
            RANLIB="avr-gcc-ranlib", PROGSUFFIX=".elf")
env.Append(
    # Without the last one, avr-gcc 5.4 cannot compile the core's WString.cpp.
    CPPDEFINES=[("F_CPU", "16000000L"), ("ARDUINO", "10819"), "ARDUINO_ARCH_AVR",
                "ARDUINO_AVR_UNO", ("DECIMAL_DIG", "__DECIMAL_DIG__")],
    CCFLAGS=[*chip, "-ffunction-sections", "-fdata-sections", "-flto"],
    CXXFLAGS=["-std=gnu++11", "-fpermissive", "-fno-exceptions", "-fno-threadsafe-statics"],
    LINKFLAGS=[*chip, "-flto", "-Wl,--gc-sections"],
    CPPPATH=[f"{CORE}/cores/arduino", f"{CORE}/variants/standard"])
env.Prepend(LIBS=[env.BuildLibrary("$BUILD_DIR/FrameworkArduino", f"{CORE}/cores/arduino")])
"""}
# PlatformIO, with the list of licences from PyPI's `packaging`. It would fetch it from the network.
PIO = """
import sys
from packaging.licenses._spdx import LICENSES
from platformio.__main__ import main
from platformio.package.manifest.schema import ManifestSchema
known = {"licenses": [{"licenseId": licence["id"]} for licence in LICENSES.values()]}
ManifestSchema.load_spdx_licenses = staticmethod(lambda: known)
sys.exit(main())
"""
AGENT = """
#include <dumpulse.h>
#include <stdio.h>
uint16_t dumpulse_get_timestamp(void) { return 0x1234; }
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    fwrite(packet, 1, length, stdout);
}
int main(void)
{
    static dumpulse agent;
    uint8_t packet[DUMPULSE_PACKET_SIZE];
    while (fread(packet, sizeof packet, 1, stdin) == 1)
        dumpulse_process_packet(&agent, packet, sizeof packet, NULL);
    return 0;
}
"""


def files_of(packed: Path) -> dict[str, bytes]:
    """Returns the files in a .tar.gz."""
    with tarfile.open(packed) as archive:
        members = [member for member in archive.getmembers() if not member.isdir()]
        return {member.name: stream.read() for member in members
                if (stream := archive.extractfile(member))}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The library's folder, unpacked outside of the tree."""
    (packed,) = make.build(tmp_path)
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "library")
    return tmp_path / "library"


class PlatformIO:
    """PlatformIO in a home of its own, where it fetches nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        scons = folder / "core" / "packages" / "tool-scons"
        scons.mkdir(parents=True)
        (scons / "package.json").write_text(json.dumps({"name": "tool-scons", "version": SCONS}))
        (scons / ".piopm").write_text(json.dumps({
            "type": "tool", "name": "tool-scons", "version": SCONS,
            "spec": {"owner": "platformio", "name": "tool-scons", "id": None,
                     "requirements": None, "uri": None}}))
        (scons / "scons.py").write_text("from SCons.Script import main\nmain()\n")
        (folder / "pio.py").write_text(PIO)
        for name, text in PLATFORM.items():
            path = folder / "standin" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(self, *words: str, where: Path | None = None) -> subprocess.CompletedProcess[str]:
        assert PYTHON.exists(), "packages/setup installs PlatformIO; `make packages` runs it"
        return subprocess.run(
            [str(PYTHON), str(self.folder / "pio.py"), *words], cwd=where or self.folder,
            capture_output=True, text=True, timeout=300,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LC_ALL": "C.UTF-8",
                 "PLATFORMIO_CORE_DIR": str(self.folder / "core"),
                 "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
                 "PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL": "9999"})

    def compile(self, source: Path, library: Path | str, *more: str) -> Path:
        """Makes a project of one source and the library, which is a file, a folder or an address.
        Returns the folder of what is compiled."""
        place = self.folder / "project"
        (place / "src").mkdir(parents=True)
        shutil.copy(source, place / "src")
        (place / "platformio.ini").write_text("\n".join([
            "[env:tried]", f"platform = file://{self.folder / 'standin'}",
            f"lib_deps = {library if isinstance(library, str) else f'file://{library}'}",
            *more, ""]))
        done = self.run("run", where=place)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        return place / ".pio" / "build" / "tried"


@pytest.fixture
def pio(tmp_path: Path) -> PlatformIO:
    return PlatformIO(tmp_path / "home")


def check_agent(program: Path) -> None:
    beat, request = heartbeat(3, 76, 9), b"AreyouOK"
    model = Agent()
    model.process(0x1234, beat)
    model.process(0x1234, request)
    shown = subprocess.run([program], input=beat + heartbeat(4, 1, 1)[:7] + b"x" + request,
                           stdout=subprocess.PIPE, check=True).stdout
    assert shown == model.table()


# ---------------------------------------------------------------- without PlatformIO

def test_the_package_has_what_it_needs_and_nothing_else(tmp_path: Path) -> None:
    (packed,) = make.build(tmp_path)
    found = files_of(packed)
    examples = {name: text for name, text in found.items() if name.startswith("examples/")}
    assert sorted(found) == sorted(["LICENSE", "README.md", "library.json", *examples,
                                    *project.LIBRARY_FILES])
    assert len(examples) == 5 and all(name.endswith(".ino") for name in examples)
    manifest = json.loads(found["library.json"])
    assert manifest["version"] == project.version()
    assert manifest["headers"] == consumers.library("h")  # PlatformIO does not check this one
    for name, path in {"LICENSE": project.ROOT / "LICENSE", **project.LIBRARY_FILES}.items():
        assert found[name] == path.read_bytes()


def test_the_root_has_only_what_compiling_needs() -> None:
    """What the root's file does not say is generated: the version above all."""
    assert set(json.loads((project.ROOT / "library.json").read_text())) == {"name", "build"}


# ---------------------------------------------------------------- with PlatformIO

@pytest.mark.long
def test_pio_packs_the_same(pio: PlatformIO, library: Path, tmp_path: Path) -> None:
    done = pio.run("pkg", "pack", str(library), "-o", str(tmp_path / "by-pio.tar.gz"))
    assert done.returncode == 0, done.stderr
    (ours,) = make.build(tmp_path)
    assert files_of(tmp_path / "by-pio.tar.gz") == files_of(ours)


WRONG: dict[str, Any] = {
    "name": "dump/ulse", "version": "1", "license": "MITT", "homepage": "nowhere",
    "keywords": ["Großbuchstaben"], "frameworks": "Ar duino", "platforms": "Atmel AVR",
    "repository": {"type": "fossil", "url": "https://dumpulse.example"}, "description": "",
}


@pytest.mark.long
@pytest.mark.parametrize("field", WRONG)
def test_pio_refuses_a_wrong_field(pio: PlatformIO, library: Path, field: str) -> None:
    manifest = library / "library.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), field: WRONG[field]}))
    done = pio.run("pkg", "pack", str(library), "-o", str(library.parent / "packed.tar.gz"))
    assert done.returncode != 0 and f"'{field}':" in done.stderr
    assert not (library.parent / "packed.tar.gz").exists()


@pytest.mark.long
@pytest.mark.parametrize("field", ["name", "version"])
def test_pio_needs_a_field(pio: PlatformIO, library: Path, field: str) -> None:
    manifest = library / "library.json"
    fields = json.loads(manifest.read_text())
    del fields[field]
    manifest.write_text(json.dumps(fields))
    done = pio.run("pkg", "pack", str(library))
    assert done.returncode != 0 and f"'{field}':" in done.stderr


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    (tmp_path / "main.c").write_text(AGENT)
    return tmp_path / "main.c"


@pytest.mark.long
def test_a_project_with_the_package(pio: PlatformIO, agent: Path, tmp_path: Path) -> None:
    (packed,) = make.build(tmp_path)
    check_agent(pio.compile(agent, packed) / "program")


@pytest.mark.long
def test_a_project_that_watches(pio: PlatformIO, tmp_path: Path) -> None:
    (packed,) = make.build(tmp_path)
    consumers.check_watcher(pio.compile(consumers.SOURCES / "watcher.c", packed) / "program")


@pytest.mark.long
def test_a_project_with_the_repository(pio: PlatformIO, tmp_path: Path) -> None:
    """From git it gets the whole tree. PlatformIO must compile the library alone, and find the
    headers in both folders."""
    tree = tmp_path / "tree"
    shutil.copytree(project.ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(
        "build", ".git", "__pycache__", ".*cache"))
    for words in (["init", "--quiet"], ["add", "--all"],
                  ["-c", "user.name=Test", "-c", "user.email=test@tests.example",
                   "commit", "--quiet", "--message=All"]):
        subprocess.run(["git", *words], cwd=tree, check=True)
    made = pio.compile(consumers.SOURCES / "watcher.c", f"git+file://{tree}")
    consumers.check_watcher(made / "program")
    (installed,) = (made.parent.parent / "libdeps" / "tried").rglob(".piopm")
    assert json.loads(installed.read_text())["version"].startswith("0.0.0+sha.")
    sources = {path.name for path in made.rglob("*.o")}
    assert sources == {"watcher.o", *(name.replace(".c", ".o") for name in project.LIBRARY_FILES
                                   if name.endswith(".c"))}


@pytest.mark.long
def test_an_arduino_project_with_the_package(pio: PlatformIO, library: Path,
                                             tmp_path: Path) -> None:
    (packed,) = make.build(tmp_path)
    made = pio.compile(library / "examples" / "SerialAgent" / "SerialAgent.ino", packed,
                       "framework = arduino", "board = uno")
    for check in CHECKS["SerialAgent"]:
        check(made / "program.elf")


@pytest.mark.long
@pytest.mark.parametrize(("file", "old", "new"), [
    ("dumpulse.c", "", ""), ("dumpulse.h", "", ""),
    ("library.json", "+<dumpulse*.c>", "+<src/*.c>"), ("library.json", 'Dir": "."', 'Dir": "src"')])
def test_a_wrong_package_does_not_compile(pio: PlatformIO, library: Path, agent: Path, file: str,
                                          old: str, new: str) -> None:
    """A file is missing, or the manifest says something else."""
    if old:
        consumers.damage(library / file, old, new)
    else:
        (library / file).unlink()
    with pytest.raises(RuntimeError, match="dumpulse"):
        pio.compile(agent, library)
