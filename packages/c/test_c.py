"""The C library, as users of build systems get it."""

import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from firmware.simulators.boards import Board, Line
from packages import archive, project
from packages.c import make
from packages.cmake import consumers
from packages.cmake.consumers import NOTHING, damage, fails, run
from spec.model import REQUEST, heartbeat

pytestmark = pytest.mark.slow

TOOLS = project.ROOT / "build" / "venv-packages" / "bin"
# It has the oldest versions of CMake and Meson that the library supports.
OLD = {"PATH": f"{TOOLS}:{consumers.environment(TOOLS)['PATH']}"}


def test_the_archive_has_the_library_and_its_links_resolve(tmp_path: Path) -> None:
    with zipfile.ZipFile(make.write_archive(tmp_path)) as packed:
        packed.extractall(tmp_path)
    folder = tmp_path / "dumpulse"
    assert sorted(path.name for path in (folder / "src").iterdir()) == consumers.library("[chS]")
    assert archive.dead_links(folder) == []


# ---------------------------------------------------------------- CMake

TOOLCHAINS = consumers.WORLDS / "cmake" / "toolchains"


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


@pytest.mark.parametrize("what", ["repository", "archive"])
def test_fetch_content(tmp_path: Path, tools: Mapping[str, str], what: str) -> None:
    if what == "repository":
        found = f"GIT_REPOSITORY;{consumers.repository(tmp_path / what)};GIT_TAG"
        right = f"v{project.version()}"
    else:
        made = make.write_archive(tmp_path)
        found = f"URL;{made.as_uri()};URL_HASH"
        right = f"SHA256={make.where(made)['sum']}"
    source = tmp_path / "consumer"
    built = build(source, tmp_path / "built", f"-DFETCH={found};{right}", more=tools)
    consumers.check(built)
    run(["cmake", "--install", built, "--prefix", tmp_path / "prefix"], tmp_path, more=tools)
    assert not (tmp_path / "prefix").exists()  # the consumer installs nothing of Dumpulse's


def project_of(folder: Path, *lines: str, language: str = "C") -> Path:
    """A project of CMake with these lines, and a program in this language."""
    source = consumers.consumer(folder)
    (source / "agent.c").rename(source / "agent.cpp")
    (source / "CMakeLists.txt").write_text("\n".join([
        "cmake_minimum_required(VERSION 3.16)", f"project(user LANGUAGES {language})", *lines, ""]))
    return source


def test_a_project_that_only_sends_compiles_no_library(tmp_path: Path) -> None:
    built = build(project_of(
        tmp_path / "source", f"add_subdirectory(\"{project.ROOT}\" dumpulse)",
        "add_executable(node node.c)", "target_link_libraries(node PRIVATE dumpulse::header)"),
        tmp_path / "built")
    assert run([built / "node", "3", "76", "9"], built) == heartbeat(3, 76, 9)
    assert not list(built.rglob("libdumpulse.a"))


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


@pytest.mark.long
@pytest.mark.parametrize("found", ["find_package(dumpulse CONFIG REQUIRED)",
                                   f'add_subdirectory("{project.ROOT}" dumpulse)'])
def test_a_project_in_cpp(tmp_path: Path, found: str) -> None:
    built = build(project_of(
        tmp_path / "source", found, "add_executable(agent agent.cpp)",
        "target_link_libraries(agent PRIVATE dumpulse::dumpulse)", language="CXX"),
        tmp_path / "built", f"-DCMAKE_PREFIX_PATH={install(project.ROOT, tmp_path)}")
    consumers.check_agent([built / "agent"], built)


def cross(name: str, tmp_path: Path, *options: str) -> Path:
    return build(tmp_path / "consumer", tmp_path / "built", f"-DADD={project.ROOT}",
                 f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAINS / name}.cmake",
                 "-DCMAKE_BUILD_TYPE=MinSizeRel", *options) / "agent"


def test_for_arm(tmp_path: Path) -> None:
    """QEMU's board gives a program the standard input and output of the machine."""
    image = cross("arm-none-eabi", tmp_path, "-DDUMPULSE_CPU=cortex-m3")
    consumers.check_agent(["qemu-system-arm", "-M", "mps2-an385", "-nographic", "-monitor", "none",
                           "-serial", "none", "-semihosting-config", "enable=on,target=native",
                           "-kernel", image], tmp_path)


def test_for_avr(tmp_path: Path) -> None:
    board = Board("consumer", "simavr", 115_200, mcu="atmega328p", hertz=16_000_000)
    image = cross("avr", tmp_path)
    packets, reports = b"".join(consumers.PACKETS), consumers.expected()
    first = packets.index(REQUEST) + len(REQUEST)
    with Line(board, image) as line:  # while it sends a report, its UART has room for two bytes
        for part, report in ((packets[:first], reports[:260]), (packets[first:], reports[260:])):
            line.send(part)
            assert line.receive(len(report)) == report
        line.end()


# ---------------------------------------------------------------- Meson

PAGE = (make.HERE / "README.md").read_text()


def try_meson(source: Path, more: Mapping[str, str] = NOTHING) -> None:
    """Builds the programs by the lines of the page, and two more."""
    (shown,) = re.findall("^```meson\n(.*?)^```", PAGE, re.M | re.S)
    (source / "meson.build").write_text("project('consumer', 'c')\n" + shown + "".join(
        f"executable('{name}', '{name}.c', dependencies: dumpulse)\n"
        for name in ("watcher", "keyed")))
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
    damage(wrap, make.where(made)["address"], made.as_uri())
    wrap.rename(wrap.with_name("heartbeats.wrap"))
    try_meson(source, more=tools)


# ---------------------------------------------------------------- what is installed


def by_make(source: Path, to: Path) -> None:
    """`make install` builds all programs, quickly here."""
    run(["make", "-s", "-C", source, "install", f"PREFIX={to}", "CFLAGS=-O0"], to.parent)


def by_cmake(source: Path, to: Path) -> None:
    built = build(source, to.parent / "built", "-DCMAKE_INSTALL_LIBDIR=lib")
    run(["cmake", "--install", built, "--prefix", to], to.parent)


def by_meson(source: Path, to: Path) -> None:
    """No other program is needed: there is no python3 in the PATH."""
    (to.parent / "tools").mkdir()
    for name in ("ar", "as", "cc", "ld", "meson", "ninja"):
        (to.parent / "tools" / name).symlink_to(f"/usr/bin/{name}")
    run(["meson", "setup", "built", "--libdir", "lib", "--prefix", to], source,
        more={"PATH": str(to.parent / "tools")})
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
    user = consumers.consumer(tmp_path / "consumer")
    (shown,) = re.findall("^    (cc .*)$", PAGE, re.M)
    run(["sh", "-euc", f"for program in agent watcher keyed node; do\n{shown} -o $program\ndone"
         .replace("agent.c ", "$program.c ")], user, more=found)
    consumers.check(user)
    try_meson(user, more=found)  # without a wrap
    if install is by_make:
        run(["make", "-s", "-C", source, "uninstall", f"PREFIX={prefix}"], tmp_path)
        assert not [path for path in prefix.rglob("*") if path.is_file()]
