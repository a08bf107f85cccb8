"""The library for PlatformIO: checked by `pio pkg pack`, and used by projects elsewhere.

PlatformIO compiles for this machine. Its own platforms and its package of SCons are on its registry
alone: in their place are a platform without packages and PyPI's SCons of the same version."""

import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.c import make

PYTHON = project.ROOT / "build" / "venv-packages" / "bin" / "python"
SCONS = "4.41101.0"  # PlatformIO's name for SCons 4.11.1
PLATFORM = {"platform.json": json.dumps({
    "name": "standin", "version": "1.0.0", "title": "Stand-in", "description": "For tests",
    "packages": {}}), "builder/main.py": """
from SCons.Script import Default, DefaultEnvironment
Default(DefaultEnvironment().BuildProgram())
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

    def compile(self, name: str, library: Path | str) -> Path:
        """Makes a project of one of the programs and the library, which is a file, a folder or an
        address. Returns the folder of what is compiled."""
        place = self.folder / name
        (place / "src").mkdir(parents=True)
        (place / "src" / f"{name}.c").symlink_to(consumers.SOURCES / f"{name}.c")
        (place / "platformio.ini").write_text(
            f"[env:tried]\nplatform = file://{self.folder / 'standin'}\n"
            f"lib_deps = {library if isinstance(library, str) else f'file://{library}'}\n")
        done = self.run("run", where=place)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        return place / ".pio" / "build" / "tried"


@pytest.fixture
def pio(tmp_path: Path) -> PlatformIO:
    return PlatformIO(tmp_path / "home")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
def test_pio_packs_the_same(pio: PlatformIO, tmp_path: Path) -> None:
    with zipfile.ZipFile(make.write_archive(tmp_path)) as archive:
        archive.extractall(tmp_path)
    ours, by_pio = contents(tmp_path / "dumpulse"), tmp_path / "by-pio.tar.gz"
    done = pio.run("pkg", "pack", str(tmp_path / "dumpulse"), "-o", str(by_pio))
    assert done.returncode == 0, done.stderr
    with tarfile.open(by_pio) as packed:
        packed.extractall(tmp_path / "again")
    assert contents(tmp_path / "again") == ours
    manifest = json.loads(ours["library.json"])
    assert manifest["headers"] == consumers.library("h")  # PlatformIO does not check this one


@pytest.mark.long
def test_projects_with_the_package(pio: PlatformIO, tmp_path: Path) -> None:
    packed = make.write_archive(tmp_path)
    consumers.check_agent([pio.compile("agent", packed) / "program"], tmp_path)
    consumers.check_watcher(pio.compile("watcher", packed) / "program")
    consumers.check_keyed(pio.compile("keyed", packed) / "program")


@pytest.mark.long
def test_a_project_with_the_repository(pio: PlatformIO, tmp_path: Path) -> None:
    """From git it gets the whole tree. PlatformIO must compile the library alone, and find the
    headers in both folders."""
    made = pio.compile("watcher", f"git+{consumers.repository(tmp_path / 'tree')}")
    consumers.check_watcher(made / "program")
    (installed,) = (made.parent.parent / "libdeps" / "tried").rglob(".piopm")
    assert json.loads(installed.read_text())["version"].startswith("0.0.0+sha.")
    sources = {path.name for path in made.rglob("*.o")}
    assert sources == {"watcher.o", *(f"{name[:-2]}.o" for name in project.LIBRARY_FILES
                                      if not name.endswith(".h"))}
