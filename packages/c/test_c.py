"""The C library, as users of build systems get it.   SPDX-License-Identifier: MIT"""

import json
import re
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from firmware.simulators.boards import Board, Line
from packages import project
from packages.c import make
from packages.cmake import consumers
from packages.cmake.consumers import NOTHING, damage, fails, run
from packages.archive import top
from spec.model import REQUEST, heartbeat

pytestmark = pytest.mark.slow

TOOLS = project.ROOT / "build" / "venv-packages" / "bin"  # with the oldest CMake and Meson
OLD = {"PATH": consumers.path_with(TOOLS)}


def test_the_archive_is_small_and_has_the_whole_library(tmp_path: Path) -> None:
    with tarfile.open(make.write_archive(tmp_path)) as archive:
        names = {name.removeprefix(f"{top()}/") for name in archive.getnames()}
    assert len(names) <= 30 and {*make.FILES, "README.md"} < names
    assert {Path(name).name for name in names} > {*project.LIBRARY_FILES}
    assert [*project.LIBRARY_FILES] == consumers.library("[chS]")


# ---------------------------------------------------------------- CMake

TOOLCHAINS = consumers.WORLDS / "cmake" / "toolchains"


def build(source: Path, to: Path, *options: str | Path, more: Mapping[str, str] = NOTHING) -> Path:
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
    consumers.check(build(consumers.consumer(tmp_path / "consumer"), tmp_path / "built",
                          f"-DCMAKE_PREFIX_PATH={tmp_path / 'moved'}", more=tools))


def test_fetch_content(tmp_path: Path, tools: Mapping[str, str]) -> None:
    address = consumers.repository(tmp_path / "repository")
    built = build(consumers.consumer(tmp_path / "consumer"), tmp_path / "built",
                  f"-DFETCH={address}", f"-DTAG=v{project.version()}", more=tools)
    consumers.check(built)
    run(["cmake", "--install", built, "--prefix", tmp_path / "prefix"], tmp_path, more=tools)
    assert not (tmp_path / "prefix").exists()  # the consumer installs nothing of Dumpulse's


def test_a_project_that_only_sends_compiles_no_library(tmp_path: Path) -> None:
    source = consumers.consumer(tmp_path / "consumer")
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(node LANGUAGES C)\n"
        f"add_subdirectory(\"{project.ROOT}\" dumpulse)\nadd_executable(node node.c)\n"
        "target_link_libraries(node PRIVATE dumpulse::header)\n")
    built = build(source, tmp_path / "built")
    assert run([built / "node", "3", "76", "9"], built) == heartbeat(3, 76, 9)
    assert not list(built.rglob("libdumpulse.a"))


def test_the_version_is_the_headers(tmp_path: Path) -> None:
    prefix = install(consumers.copy(tmp_path / "copy", "4.5.6-dev"), tmp_path)
    asks = tmp_path / "asks"
    asks.mkdir()
    for wanted, found in (("4", True), ("4.5.6", True), ("4.5.7", False), ("5", False),
                          ("3.9", False)):
        (asks / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.16)\nproject(asks LANGUAGES C)\n"
            f"find_package(dumpulse {wanted} CONFIG REQUIRED)\n"
            "message(STATUS \"it is ${dumpulse_VERSION}\")\n")
        ask: list[str | Path] = ["cmake", "-GNinja", "-S", asks,
                                 "-B", tmp_path / f"built{wanted}",
                                 f"-DCMAKE_PREFIX_PATH={prefix}"]
        if found:
            assert b"it is 4.5.6\n" in run(ask, tmp_path)
        else:
            fails(ask, tmp_path, f'compatible with requested version "{wanted}"')


@pytest.mark.long
def test_a_project_in_cpp(tmp_path: Path) -> None:
    prefix = install(project.ROOT, tmp_path)
    source = tmp_path / "source"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(cpp LANGUAGES CXX)\n"
        "find_package(dumpulse CONFIG REQUIRED)\nadd_executable(agent agent.cpp)\n"
        "target_link_libraries(agent PRIVATE dumpulse::dumpulse)\n")
    (source / "agent.cpp").write_text(
        (consumers.SOURCES / "agent.c").read_text())
    built = build(source, tmp_path / "built", f"-DCMAKE_PREFIX_PATH={prefix}")
    consumers.check_agent([built / "agent"], built)


def cross(name: str, tmp_path: Path, *options: str) -> Path:
    return build(consumers.consumer(tmp_path / "consumer"), tmp_path / "built",
                 f"-DADD={project.ROOT}", f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAINS / name}.cmake",
                 "-DCMAKE_BUILD_TYPE=MinSizeRel", *options) / "agent"


def test_for_arm(tmp_path: Path) -> None:
    """QEMU's board gives a program the standard input and output of the machine."""
    image = cross("arm-none-eabi", tmp_path, "-DDUMPULSE_CPU=cortex-m3")
    consumers.check_agent(["qemu-system-arm", "-M", "mps2-an385", "-nographic", "-monitor", "none",
                           "-serial", "none", "-semihosting-config", "enable=on,target=native",
                           "-kernel", image], tmp_path)


def test_for_avr(tmp_path: Path) -> None:
    board = Board("consumer", 115_200, mcu="atmega328p", hertz=16_000_000)
    image = cross("avr", tmp_path)
    packets, reports = b"".join(consumers.PACKETS), consumers.expected()
    first = packets.index(REQUEST) + len(REQUEST)
    with Line(board, image) as line:  # while it sends a report, its UART has room for two bytes
        for part, report in ((packets[:first], reports[:260]), (packets[first:], reports[260:])):
            line.send(part)
            assert line.receive(len(report)) == report
        line.end()


def test_cmake_fetches_it_by_its_sum(tmp_path: Path) -> None:
    made = make.write_archive(tmp_path)
    source = consumers.consumer(tmp_path / "consumer")
    words: list[str | Path] = ["cmake", "-GNinja", "-S", source, f"-DURL={made.as_uri()}"]
    right = make.where(made)["sum"]
    run([*words, "-B", "built", f"-DSUM={right}"], tmp_path)
    run(["cmake", "--build", "built"], tmp_path)
    consumers.check(tmp_path / "built")
    fails([*words, "-B", "other", f"-DSUM={right[::-1]}"], tmp_path,
          "does not match expected value")


@pytest.mark.long
def test_conan_builds_it(tmp_path: Path) -> None:
    made, recipe, _ = make.build(tmp_path)
    damage(recipe, make.where(made)["address"], made.as_uri())
    home = {"CONAN_HOME": str(tmp_path / "conan")}
    run([TOOLS / "conan", "profile", "detect"], tmp_path, more=home)
    run([TOOLS / "conan", "create", recipe], tmp_path, more=home)
    source = consumers.consumer(tmp_path / "consumer")
    run([TOOLS / "conan", "install", f"--requires=dumpulse/{project.version()}", "-g",
         "CMakeToolchain", "-of", source], source, more=home)
    run(["cmake", "-GNinja", "-B", "built", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_TOOLCHAIN_FILE=conan_toolchain.cmake"], source)
    run(["cmake", "--build", "built"], source)
    consumers.check(source / "built")
    damage(recipe, make.where(made)["sum"], "0" * 64)
    fails([TOOLS / "conan", "create", recipe], tmp_path, "sha256 hash failed", more=home)


# ---------------------------------------------------------------- Meson

BUILD_FILE = consumers.WORLDS / "meson" / "consumer" / "meson.build"


def with_wrap(tmp_path: Path) -> Path:
    """A project with the wrap file, whose address is that of an archive made here. The file has
    another name, so that what it says counts."""
    made = make.write_archive(tmp_path)
    source = consumers.consumer(tmp_path / "consumer", BUILD_FILE)
    (source / "subprojects").mkdir()
    wrap = make.write_wrap(made, source / "subprojects")
    damage(wrap, make.where(made)["address"], made.as_uri())
    wrap.rename(wrap.with_name("heartbeats.wrap"))
    return source


def try_it(source: Path, more: Mapping[str, str] = NOTHING) -> None:
    built = source / "built"
    run(["meson", "setup", built], source, more=more)
    run(["ninja", "-C", built], source, more=more)
    consumers.check(built)


def test_a_wrap(tmp_path: Path) -> None:
    try_it(with_wrap(tmp_path))


@pytest.mark.long
def test_the_oldest_meson(tmp_path: Path) -> None:
    assert run(["meson", "--version"], tmp_path, more=OLD).startswith(b"0.57.")
    try_it(with_wrap(tmp_path), more=OLD)


@pytest.mark.long
def test_what_it_installs(tmp_path: Path) -> None:
    """Meson installs the library as CMake and make do, and tells the version of the header. No
    other program is needed: there is no python3 in the PATH."""
    source, tools = consumers.copy(tmp_path / "copy", "4.5.6-dev"), tmp_path / "tools"
    tools.mkdir()
    for name in ("ar", "as", "cc", "ld", "meson", "ninja"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    run(["meson", "setup", "built", "--libdir", "lib", "--prefix", tmp_path / "prefix"], source,
        more={"PATH": str(tools)})
    run(["ninja", "-C", "built", "install"], source)
    told = json.loads(run(["meson", "introspect", "built", "--projectinfo"], source))
    assert told["version"] == "4.5.6-dev"
    found = {"PKG_CONFIG_PATH": str(tmp_path / "prefix" / "lib" / "pkgconfig")}
    assert run(["pkg-config", "--modversion", "dumpulse"], source, more=found) == b"4.5.6-dev\n"
    try_it(consumers.consumer(tmp_path / "consumer", BUILD_FILE), more=found)  # without a wrap


# ---------------------------------------------------------------- pkg-config, make install

MAKEFILE = consumers.WORLDS / "pkgconfig" / "consumer" / "Makefile"


def by_make(source: Path, to: Path) -> None:
    """`make install` builds all programs, quickly here."""
    run(["make", "-s", "-C", source, "install", f"PREFIX={to}", "CFLAGS=-O0"], to.parent)


def by_cmake(source: Path, to: Path) -> None:
    built = to.parent / "built"
    run(["cmake", "-S", source, "-B", built, "-DCMAKE_INSTALL_LIBDIR=lib"], to.parent)
    run(["cmake", "--build", built], to.parent)
    run(["cmake", "--install", built, "--prefix", to], to.parent)


@pytest.mark.parametrize("install", [by_make, by_cmake])
def test_a_makefile_with_pkg_config(tmp_path: Path, install: Callable[[Path, Path], None]) -> None:
    source, prefix = consumers.copy(tmp_path / "copy", "4.5.6-dev"), tmp_path / "prefix"
    install(source, prefix)
    found = {"PKG_CONFIG_LIBDIR": str(prefix / "lib" / "pkgconfig")}
    run(["pkg-config", "--validate", "dumpulse"], tmp_path, more=found)
    run(["pkg-config", "--exists", "dumpulse >= 4.5.6"], tmp_path, more=found)
    assert run(["pkg-config", "--modversion", "dumpulse"], tmp_path, more=found) == b"4.5.6-dev\n"
    told = run(["pkg-config", "--variable=prefix", "dumpulse"], tmp_path, more=found).decode()
    assert Path(told.strip()).resolve() == prefix
    built = consumers.consumer(tmp_path / "consumer", MAKEFILE)
    run(["make", "-s"], built, more=found)
    consumers.check(built)
    if install is by_make:
        run(["make", "-s", "-C", source, "uninstall", f"PREFIX={prefix}"], tmp_path)
        assert not [path for path in prefix.rglob("*") if path.is_file()]


def test_it_says_what_the_other_packages_say() -> None:
    template = (consumers.WORLDS / "pkgconfig" / "dumpulse.pc.in").read_text()
    assert re.findall("^(Name|Description|URL): (.*)$", template, re.M) == [
        ("Name", project.NAME), ("Description", project.SUMMARY), ("URL", project.URL)]
    meson = (consumers.WORLDS / "meson" / "meson.build").read_text()
    assert f"description: '{project.SUMMARY}',\n    url: '{project.URL}'" in meson
