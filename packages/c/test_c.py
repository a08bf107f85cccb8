"""The C library, as users of build systems get it."""

import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from packages import archive, project
from packages.c import make
from packages.c import consumers
from packages.c.consumers import NOTHING, fails, run

pytestmark = pytest.mark.slow

TOOLS = project.ROOT / "build" / "venv-packages" / "bin"
# It has the oldest versions of CMake and Meson that the library supports.
OLD = {"PATH": f"{TOOLS}:{consumers.environment(TOOLS)['PATH']}"}


@pytest.fixture(name="unpacked")
def fixture_unpacked(tmp_path: Path) -> Path:
    """The folder that is in the archive."""
    with zipfile.ZipFile(make.write_archive(tmp_path)) as packed:
        packed.extractall(tmp_path)
    return tmp_path / "dumpulse"


def test_the_archive_has_the_library_and_its_links_resolve(unpacked: Path) -> None:
    assert sorted(path.name for path in (unpacked / "src").iterdir()) == consumers.library("[chS]")
    assert archive.dead_links(unpacked) == []


# ---------------------------------------------------------------- CMake


def build(source: Path, to: Path, *options: str | Path, more: Mapping[str, str] = NOTHING) -> Path:
    if not (source / "CMakeLists.txt").exists():
        consumers.consumer(source)
    run(["cmake", "-GNinja", "-S", source, "-B", to, *options], to.parent, more=more)
    run(["cmake", "--build", to], to.parent, more=more)
    return to


def install(source: Path, folder: Path, more: Mapping[str, str] = NOTHING) -> Path:
    """Installs the library, with a prefix that is chosen only then."""
    built = build(source, folder / "library", more=more)
    run(["cmake", "--install", built, "--prefix", folder / "prefix"], folder, more=more)
    return folder / "prefix"


@pytest.fixture(name="tools", params=[
    NOTHING, pytest.param(OLD, marks=pytest.mark.long)], ids=["newest", "oldest"])
def fixture_tools(request: pytest.FixtureRequest, tmp_path: Path) -> Mapping[str, str]:
    """The environment for CMake, and for its oldest version."""
    is_old = b"cmake version 3.16." in run(["cmake", "--version"], tmp_path, more=request.param)
    assert is_old == (request.param is OLD)
    return request.param  # type: ignore[no-any-return]


def test_find_package(tmp_path: Path, tools: Mapping[str, str]) -> None:
    prefix = install(project.ROOT, tmp_path, tools)
    assert sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()) \
        == [*(f"include/{header}" for header in consumers.library("h")),
            "lib/cmake/dumpulse/dumpulseConfig-noconfig.cmake",
            "lib/cmake/dumpulse/dumpulseConfig.cmake",
            "lib/cmake/dumpulse/dumpulseConfigVersion.cmake", "lib/libdumpulse.a",
            "lib/pkgconfig/dumpulse.pc"]
    prefix.rename(tmp_path / "moved")  # nothing in it may have its place
    consumers.check(build(tmp_path / "consumer", tmp_path / "built",
                          f"-DCMAKE_PREFIX_PATH={tmp_path / 'moved'}", more=tools))


def test_fetch_content(tmp_path: Path, tools: Mapping[str, str]) -> None:
    made = make.write_archive(tmp_path)
    fetch = f"-DFETCH=URL;{made.as_uri()};URL_HASH;SHA256={make.where(made)['sum']}"
    built = build(tmp_path / "consumer", tmp_path / "built", fetch, more=tools)
    consumers.check(built)
    run(["cmake", "--install", built, "--prefix", tmp_path / "prefix"], tmp_path, more=tools)
    assert not (tmp_path / "prefix").exists()  # the consumer installs nothing of Dumpulse's


def project_of(folder: Path, *lines: str) -> Path:
    """A project of CMake with these lines."""
    source = consumers.consumer(folder)
    (source / "CMakeLists.txt").write_text("\n".join([
        "cmake_minimum_required(VERSION 3.16)", "project(user LANGUAGES C)", *lines, ""]))
    return source


def test_the_version_is_the_headers(tmp_path: Path) -> None:
    prefix = install(consumers.copy(tmp_path / "copy", "4.5.6-rc1"), tmp_path)
    for wanted, found in (("4", True), ("4.5.6", True), ("4.5.7", False), ("5", False),
                          ("3.9", False)):
        source = project_of(tmp_path / wanted, f"find_package(dumpulse {wanted} CONFIG REQUIRED)",
                            'message(STATUS "it is ${dumpulse_VERSION}")')
        ask: list[str | Path] = ["cmake", "-GNinja", "-S", source,
                                 "-B", source / "built", f"-DCMAKE_PREFIX_PATH={prefix}"]
        if found:
            assert b"it is 4.5.6\n" in run(ask, tmp_path)
        else:
            fails(ask, tmp_path, f'compatible with requested version "{wanted}"')


def test_for_avr(tmp_path: Path) -> None:
    """The library for a chip has its part in assembly."""
    source = project_of(tmp_path / "source", f'add_subdirectory("{project.ROOT}" dumpulse)',
                        "set_target_properties(dumpulse PROPERTIES EXCLUDE_FROM_ALL OFF)")
    built = build(source, tmp_path / "built", "-DCMAKE_SYSTEM_NAME=Generic",
                  "-DCMAKE_C_COMPILER=avr-gcc", "-DCMAKE_C_FLAGS=-mmcu=atmega328p -Os",
                  "-DCMAKE_ASM_FLAGS=-mmcu=atmega328p")
    assert b"dumpulse_tag_avr.S" in run(["ar", "t", built / "dumpulse/libdumpulse.a"], tmp_path)


# ---------------------------------------------------------------- Meson

PAGE = (make.HERE / "README.md").read_text()


def try_meson(source: Path, more: Mapping[str, str] = NOTHING) -> None:
    """Builds the programs by the lines of the page."""
    (shown,) = re.findall("^```meson\n(.*?)^```", PAGE, re.M | re.S)
    (source / "meson.build").write_text(f"project('consumer', 'c')\n{shown}")
    run(["meson", "setup", "built"], source, more=more)
    run(["ninja", "-C", "built"], source, more=more)
    consumers.check(source / "built")


@pytest.mark.parametrize("tools", [NOTHING, pytest.param(OLD, marks=pytest.mark.long)])
def test_a_wrap(tmp_path: Path, tools: Mapping[str, str]) -> None:
    """Its address is that of an archive made here. The file has another name, so that what it says
    counts."""
    is_old = run(["meson", "--version"], tmp_path, more=tools).startswith(b"0.57.")
    assert is_old == (tools is OLD)
    made, source = make.write_archive(tmp_path), consumers.consumer(tmp_path / "consumer")
    (source / "subprojects").mkdir()
    wrap = make.write_wrap(made, source / "subprojects")
    text = wrap.read_text().replace(make.where(made)["address"], made.as_uri())
    wrap.unlink()
    wrap.with_name("heartbeats.wrap").write_text(text)
    try_meson(source, more=tools)


# ---------------------------------------------------------------- what is installed


def by_make(source: Path, to: Path) -> None:
    """`make install` builds all programs, quickly here."""
    run(["make", "-s", "-C", source, "install", f"PREFIX={to}", "CFLAGS=-O0"], to.parent)


def by_cmake(source: Path, to: Path) -> None:
    built = build(source, to.parent / "built", "-DCMAKE_INSTALL_LIBDIR=lib")
    run(["cmake", "--install", built, "--prefix", to], to.parent)


def by_meson(source: Path, to: Path) -> None:
    run(["meson", "setup", "built", "--libdir", "lib", "--prefix", to], source)
    run(["ninja", "-C", "built", "install"], source)


@pytest.mark.parametrize("install", [by_make, by_cmake, by_meson])
def test_an_installed_library(tmp_path: Path, install: Callable[[Path, Path], None]) -> None:
    """pkg-config finds it, for the compiler as on the page, and for a project of Meson."""
    source, prefix = consumers.copy(tmp_path / "copy", "4.5.6-dev"), tmp_path / "prefix"
    install(source, prefix)
    found = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    run(["pkg-config", "--validate", "dumpulse"], tmp_path, more=found)
    run(["pkg-config", "--exists", "dumpulse >= 4.5.6"], tmp_path, more=found)
    assert run(["pkg-config", "--modversion", "dumpulse"], tmp_path, more=found) == b"4.5.6-dev\n"
    told = run(["pkg-config", "--variable=prefix", "dumpulse"], tmp_path, more=found).decode()
    assert Path(told.strip()).resolve() == prefix
    assert sorted(path.name for path in (prefix / "include").iterdir()) == consumers.library("h")
    assert b" T dumpulse_hear\n" in run(["nm", prefix / "lib/libdumpulse.a"], tmp_path)
    user = consumers.consumer(tmp_path / "consumer")
    (shown,) = re.findall("^    (cc .*)$", PAGE, re.M)
    run(["sh", "-euc", f"for program in agent node; do\n{shown} -o $program\ndone"
         .replace("agent.c ", "$program.c ")], user, more=found)
    consumers.check(user)
    try_meson(user, more=found)  # without a wrap
    if install is by_make:
        run(["make", "-s", "-C", source, "uninstall", f"PREFIX={prefix}"], tmp_path)
        assert not [path for path in prefix.rglob("*") if path.is_file()]


# ---------------------------------------------------------------- PlatformIO and ESP-IDF

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
# The types and constants of ESP-IDF that the example uses.
GIVEN = """
#include <stdint.h>
#define ESP_ERROR_CHECK(call) (void)(call)
enum { ESP_OK, UART_NUM_1, UART_DATA_8_BITS, UART_PARITY_DISABLE, UART_STOP_BITS_1,
       UART_HW_FLOWCTRL_DISABLE, UART_SCLK_DEFAULT, UART_PIN_NO_CHANGE, portMAX_DELAY };
typedef struct {
    int baud_rate, data_bits, parity, stop_bits, flow_ctrl, source_clk;
} uart_config_t;
"""


def names_in(archive_file: Path) -> set[str]:
    with tarfile.open(archive_file) as packed:
        return {name.removeprefix("./") for name in packed.getnames()} - {"."}


@pytest.mark.long
def test_platformio_packs_the_same(unpacked: Path, tmp_path: Path) -> None:
    run([TOOLS / "python", "-c", PIO, "pkg", "pack", unpacked, "-o", tmp_path / "packed.tar.gz"],
        tmp_path, more={"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no"})
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert {*names_in(tmp_path / "packed.tar.gz")} >= files
    manifest = json.loads((unpacked / "library.json").read_text())
    assert manifest["headers"] == consumers.library("h")  # PlatformIO does not check this one


def test_the_project_itself_is_a_component(tmp_path: Path) -> None:
    """ESP-IDF reads its file for CMake as a script first."""
    (tmp_path / "scan.cmake").write_text(
        "function(idf_component_register)\n    message(\"${ARGN}\")\nendfunction()\n"
        f"set(ESP_PLATFORM 1)\ninclude({project.ROOT}/CMakeLists.txt)\n")
    told = consumers.try_run(["cmake", "-P", "scan.cmake"], tmp_path).stderr.decode().split(";")
    assert [told[0], *told[-3:]] == ["SRCS", "INCLUDE_DIRS", ".", "extras\n"]
    assert sorted(Path(name).name for name in told[1:-3]) == consumers.library("c")


@pytest.mark.long
def test_the_tools_of_esp_idf_accept_the_component(unpacked: Path, tmp_path: Path) -> None:
    """The component manager reads it. A compiler checks the hooks of the example, and how it calls
    the library."""
    (example,) = re.findall("^    idf.py -C components/dumpulse/(.*?) ", PAGE, re.M)
    assert (unpacked / example / "CMakeLists.txt").is_file()
    run([TOOLS / "compote", "manifest", "lint", unpacked], tmp_path)
    run([TOOLS / "compote", "component", "pack", "--project-dir", unpacked, "--name", project.NAME,
         "--dest-dir", tmp_path / "packed"], tmp_path)
    (packed,) = (tmp_path / "packed").glob("dumpulse_*[0-9v].tgz")
    assert names_in(packed) == {str(path.relative_to(unpacked)) for path in unpacked.rglob("*")}
    # The tools ignore words that they do not know.
    known = json.loads(run([TOOLS / "compote", "manifest", "schema"], tmp_path))["properties"]
    lines = (unpacked / "idf_component.yml").read_text().splitlines()
    assert {line.partition(":")[0] for line in lines if line[0] not in " -"} <= {*known}
    consumers.compiles(GIVEN, unpacked / example / "uart_agent.c", f"-I{unpacked}/src")
