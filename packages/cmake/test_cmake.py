"""Do projects that use CMake get Dumpulse?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from firmware.simulators.boards import Board, Line
from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import NOTHING, fails, run
from spec.model import REQUEST, heartbeat

pytestmark = pytest.mark.slow

TOOLCHAINS = consumers.WORLDS / "cmake" / "toolchains"
OLDEST = project.ROOT / "build" / "venv-packages" / "bin"
GENERATOR = "-GNinja"


def build(source: Path, to: Path, *options: str | Path, more: Mapping[str, str] = NOTHING) -> Path:
    run(["cmake", GENERATOR, "-S", source, "-B", to, *options], to.parent, more=more)
    run(["cmake", "--build", to], to.parent, more=more)
    return to


def install(source: Path, folder: Path, more: Mapping[str, str] = NOTHING) -> Path:
    """Installs the library, with a prefix that is chosen only then."""
    built = build(source, folder / "library", more=more)
    run(["cmake", "--install", built, "--prefix", folder / "prefix"], folder, more=more)
    return folder / "prefix"


def test_the_list_of_the_librarys_files() -> None:
    listed = list(project.LIBRARY_FILES)
    assert listed == consumers.library("[ch]")


def test_find_package(tmp_path: Path) -> None:
    prefix = install(project.ROOT, tmp_path)
    assert sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()) \
        == [*(f"include/{header}" for header in consumers.library("h")),
            "lib/cmake/dumpulse/dumpulseConfig-noconfig.cmake",
            "lib/cmake/dumpulse/dumpulseConfig.cmake",
            "lib/cmake/dumpulse/dumpulseConfigVersion.cmake", "lib/libdumpulse.a",
            "lib/pkgconfig/dumpulse.pc", "share/dumpulse/dumpulse_keyed.c"]
    prefix.rename(tmp_path / "moved")  # nothing in it may have its place
    consumers.check(build(consumers.consumer(tmp_path / "consumer"), tmp_path / "built",
                          f"-DCMAKE_PREFIX_PATH={tmp_path / 'moved'}"))


@pytest.mark.slow
def test_fetch_content(tmp_path: Path) -> None:
    address = consumers.repository(tmp_path / "repository")
    built = build(consumers.consumer(tmp_path / "consumer"), tmp_path / "built",
                  f"-DFETCH={address}", f"-DTAG=v{project.version()}")
    consumers.check(built)
    run(["cmake", "--install", built, "--prefix", tmp_path / "prefix"], tmp_path)
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
        ask: list[str | Path] = ["cmake", GENERATOR, "-S", asks,
                                 "-B", tmp_path / f"built{wanted}",
                                 f"-DCMAKE_PREFIX_PATH={prefix}"]
        if found:
            assert b"it is 4.5.6\n" in run(ask, tmp_path)
        else:
            fails(ask, tmp_path, f'compatible with requested version "{wanted}"')


@pytest.mark.long
def test_the_oldest_cmake(tmp_path: Path) -> None:
    old = {"PATH": consumers.path_with(OLDEST)}
    assert b"cmake version 3.16." in run(["cmake", "--version"], tmp_path, more=old)
    prefix = install(project.ROOT, tmp_path, more=old)
    source = consumers.consumer(tmp_path / "consumer")
    consumers.check(build(source, tmp_path / "finds", f"-DCMAKE_PREFIX_PATH={prefix}", more=old))
    address = consumers.repository(tmp_path / "repository")
    consumers.check(build(source, tmp_path / "fetches", f"-DFETCH={address}",
                          f"-DTAG=v{project.version()}", more=old))


@pytest.mark.long
def test_its_own_tests_are_run_if_asked_for(tmp_path: Path) -> None:
    built = build(project.ROOT, tmp_path / "built", "-DDUMPULSE_TESTS=ON")
    shown = run(["ctest", "--output-on-failure"], built).decode()
    assert "100% tests passed, 0 tests failed out of 2" in shown


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


@pytest.mark.parametrize(("name", "option"), [("arm-none-eabi", "-DDUMPULSE_CPU=cortex-m999"),
                                              ("avr", "-DDUMPULSE_MCU=atmega0")])
def test_the_chip_reaches_the_compiler(tmp_path: Path, name: str, option: str) -> None:
    fails(["cmake", GENERATOR, "-S", consumers.consumer(tmp_path / "consumer"), "-B",
           tmp_path / "built", f"-DADD={project.ROOT}", option,
           f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAINS / name}.cmake"], tmp_path,
          option.partition("=")[2])
