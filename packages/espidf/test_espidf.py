"""Is the component of ESP-IDF right, and does its example compile?   SPDX-License-Identifier: MIT

There is no ESP-IDF here. Its component manager reads the component, and a compiler reads the
example with the declarations of standin.h.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import damage, run, try_run
from packages.espidf import make

COMPOTE = project.ROOT / "build" / "venv-packages" / "bin" / "compote"
EXAMPLE = "examples/uart_agent"
# A build system that knows the one function of ESP-IDF's that components call.
BUILD_SYSTEM = """\
set(ESP_PLATFORM 1)
function(idf_component_register)
    cmake_parse_arguments(its "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
    if(its_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "idf_component_register: ${its_UNPARSED_ARGUMENTS} is unknown")
    endif()
    get_filename_component(name ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    add_library(component_${name} STATIC ${its_SRCS})
    target_include_directories(component_${name} PUBLIC $ENV{IDF_PATH} ${its_INCLUDE_DIRS})
    target_compile_options(component_${name} PRIVATE -std=gnu11 -Wall -Wextra -Werror)
    set_property(GLOBAL APPEND PROPERTY components component_${name})
endfunction()
macro(project name)
    _project(${name} LANGUAGES C)
    add_subdirectory(${COMPONENT} component)
    add_subdirectory(main)
    get_property(other GLOBAL PROPERTY components)
    list(REMOVE_ITEM other component_main)
    target_link_libraries(component_main PRIVATE ${other}) # main uses all others
endmacro()
"""


def unpacked(tmp_path: Path) -> Path:
    (made,) = make.build(tmp_path)
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "dumpulse"


def compiled(component: Path, tmp_path: Path, example: Path | None = None) -> None:
    """Compiles the component and its example. Nothing is linked."""
    standin = tmp_path / "standin"
    for name in ("driver/uart.h", "freertos/FreeRTOS.h", "freertos/task.h"):
        header = standin / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#include "{make.HERE}/standin.h"\n')
    (standin / "tools" / "cmake").mkdir(parents=True)
    (standin / "tools" / "cmake" / "project.cmake").write_text(BUILD_SYSTEM)
    run(["cmake", "-G", "Ninja", "-S", example or component / EXAMPLE, "-B", tmp_path / "built",
         f"-DCOMPONENT={component}"], tmp_path, more={"IDF_PATH": str(standin)})
    run(["cmake", "--build", tmp_path / "built"], tmp_path)
    assert {f"{Path(name).name}.o" for name in consumers.library("c")} | {"uart_agent.c.o"} == \
        {path.name for path in (tmp_path / "built").rglob("*.o")}


def test_it_has_what_it_needs_and_no_more(tmp_path: Path) -> None:
    component = unpacked(tmp_path)
    assert sorted(str(path.relative_to(component)) for path in component.rglob("*")
                  if path.is_file()) == [
        "CMakeLists.txt", "LICENSE", "README.md", *consumers.library("[ch]"),
        f"{EXAMPLE}/CMakeLists.txt", f"{EXAMPLE}/main/CMakeLists.txt",
        f"{EXAMPLE}/main/idf_component.yml", f"{EXAMPLE}/main/uart_agent.c", "idf_component.yml"]


def mistake(component: Path, tmp_path: Path) -> str:
    """Returns what is wrong with a component: the tools say it, or else we."""
    done = try_run([COMPOTE, "manifest", "lint", component], tmp_path)
    if done.returncode:
        return (done.stdout + done.stderr).decode()
    done = try_run([COMPOTE, "component", "pack", "--project-dir", component, "--name",
                    project.NAME, "--dest-dir", tmp_path / "packed"], tmp_path)
    if done.returncode:
        return (done.stdout + done.stderr).decode()
    with tarfile.open(next((tmp_path / "packed").glob("dumpulse_*[0-9v].tgz"))) as archive:
        packed = {name.removeprefix("./") for name in archive.getnames()}
    files = {str(path.relative_to(component)) for path in component.rglob("*")}
    if packed - {"."} != files:
        return f"not packed: {files ^ packed}"
    # The tools ignore words that they do not know, and do not look at these values.
    known = json.loads(run([COMPOTE, "manifest", "schema"], tmp_path))["properties"]
    lines = (component / "idf_component.yml").read_text().splitlines()
    fields = dict(line.partition(":")[::2] for line in lines if line[0] not in " -")
    if not set(fields) <= set(known):
        return f"unknown fields: {set(fields) - set(known)}"
    if fields["license"].strip(' "') not in (component / "LICENSE").read_text():
        return "LICENSE is another license"
    return ""


@pytest.mark.long
def test_the_tools_take_it(tmp_path: Path) -> None:
    component = unpacked(tmp_path)
    assert mistake(component, tmp_path) == ""
    compiled(component, tmp_path)


@pytest.mark.long
def test_a_clone_is_a_component(tmp_path: Path) -> None:
    clone = consumers.copy(tmp_path / "dumpulse", "4.5.6")
    compiled(clone, tmp_path, clone / "packages" / "espidf" / EXAMPLE)


@pytest.mark.long
@pytest.mark.parametrize(("name", "old", "new", "message"), [
    ("idf_component.yml", f'"{project.version()}"', '"1.0"', 'Invalid field "version"'),
    ("idf_component.yml", "version:", "versoin:", 'Invalid field "version"'),
    ("idf_component.yml", "license:", "licence:", "unknown fields: {'licence'}"),
    ("idf_component.yml", '"MIT"', '"BSD-2-Clause"', "LICENSE is another license"),
    ("idf_component.yml", "https://", "htp://", 'Invalid field "url"'),
    ("idf_component.yml", '"can"', '"can bus"', 'Invalid field "tags:[4]"'),
    ("idf_component.yml", "uart_agent", "uart_agnt", "Example directory doesn't exist"),
    (f"{EXAMPLE}/main/idf_component.yml", "override_path", "overide_path", "Unknown fields"),
])
def test_mistakes_in_the_manifest(tmp_path: Path, name: str, old: str, new: str,
                                  message: str) -> None:
    component = unpacked(tmp_path)
    damage(component / name, old, new, 1)
    assert message in mistake(component, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("name", "old", "new", "message"), [
    ("CMakeLists.txt", "dumpulse.c", "dumpluse.c", "dumpluse.c"),
    ("CMakeLists.txt", "INCLUDE_DIRS .", "", "dumpulse.h: No such file"),
    ("CMakeLists.txt", "SRCS", "SOURCES", "is unknown"),
    (f"{EXAMPLE}/main/uart_agent.c", "UART_NUM_1", "UART_NUM_9", "UART_NUM_9"),
])
def test_mistakes_in_the_sources(tmp_path: Path, name: str, old: str, new: str,
                                 message: str) -> None:
    component = unpacked(tmp_path)
    damage(component / name, old, new, 1)
    with pytest.raises(AssertionError, match=message):
        compiled(component, tmp_path)


@pytest.mark.slow
def test_the_scan_for_requirements(tmp_path: Path) -> None:
    """Before a build, ESP-IDF reads the file of each component as a script, in another folder."""
    of_the_tree = [path.relative_to(project.ROOT) for path in project.LIBRARY_FILES.values()]
    for folder, files, folders in ((project.ROOT, of_the_tree, ".;extras"),
                                   (unpacked(tmp_path), project.LIBRARY_FILES, ".")):
        (tmp_path / "scan.cmake").write_text(
            "set(ESP_PLATFORM 1)\nmacro(idf_component_register)\n"
            'message(STATUS "got: ${ARGN}")\nreturn()\nendmacro()\n'
            f'include("{folder}/CMakeLists.txt")\n')
        sources = ";".join(str(name) for name in files if str(name).endswith(".c"))
        assert run(["cmake", "-P", "scan.cmake"], tmp_path).decode() == \
            f"-- got: SRCS;{sources};INCLUDE_DIRS;{folders}\n"


@pytest.mark.parametrize("version", ["4.5.6", "4.5.6-dev"])
def test_the_manifest_has_the_headers_version(version: str,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "version", lambda: version)
    assert f'version: "{version}"\n' in make.manifest()
