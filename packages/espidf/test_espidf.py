"""Is the component of ESP-IDF right, and does its example compile?   SPDX-License-Identifier: MIT

There is no ESP-IDF here. Its component manager reads the component, and a compiler reads the
example with the declarations of standin.h.
"""

import json
import tarfile
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import run
from packages.espidf import make

COMPOTE = project.ROOT / "build" / "venv-packages" / "bin" / "compote"
EXAMPLE = "examples/uart_agent"


def unpacked(tmp_path: Path) -> Path:
    (made,) = make.build(tmp_path)
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "dumpulse"


def compiled(component: Path, tmp_path: Path) -> None:
    """Lets a compiler read the example, with the headers of the component."""
    for name in ("driver/uart.h", "freertos/FreeRTOS.h", "freertos/task.h"):
        header = tmp_path / "standin" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#include "{make.HERE}/standin.h"\n')
    run(["gcc", "-fsyntax-only", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
         f"-I{tmp_path / 'standin'}", f"-I{component}",
         component / EXAMPLE / "main" / "uart_agent.c"], tmp_path)


def test_it_has_what_it_needs_and_no_more(tmp_path: Path) -> None:
    component = unpacked(tmp_path)
    assert sorted(str(path.relative_to(component)) for path in component.rglob("*")
                  if path.is_file()) == [
        "CMakeLists.txt", "LICENSE", "README.md", *consumers.library("[ch]"),
        f"{EXAMPLE}/CMakeLists.txt", f"{EXAMPLE}/main/CMakeLists.txt",
        f"{EXAMPLE}/main/idf_component.yml", f"{EXAMPLE}/main/uart_agent.c", "idf_component.yml"]


@pytest.mark.slow
def test_a_node_with_keys_is_heard(tmp_path: Path) -> None:
    """Of all that the component compiles, it links its role, and no hook of another one."""
    component = unpacked(tmp_path)
    run(["gcc", "-O2", "-ffunction-sections", "-Wl,--gc-sections", f"-I{component}",
         *component.glob("*.c"), consumers.SOURCES / "keyed.c", "-o", "keyed"], tmp_path)
    consumers.check_keyed(tmp_path / "keyed")


@pytest.mark.long
def test_the_tools_take_it(tmp_path: Path) -> None:
    component = unpacked(tmp_path)
    run([COMPOTE, "manifest", "lint", component], tmp_path)
    run([COMPOTE, "component", "pack", "--project-dir", component, "--name", project.NAME,
         "--dest-dir", tmp_path / "packed"], tmp_path)
    with tarfile.open(next((tmp_path / "packed").glob("dumpulse_*[0-9v].tgz"))) as archive:
        packed = {name.removeprefix("./") for name in archive.getnames()}
    assert packed - {"."} == {str(path.relative_to(component)) for path in component.rglob("*")}
    # The tools ignore words that they do not know.
    known = json.loads(run([COMPOTE, "manifest", "schema"], tmp_path))["properties"]
    lines = (component / "idf_component.yml").read_text().splitlines()
    assert {line.partition(":")[0] for line in lines if line[0] not in " -"} <= {*known}
    compiled(component, tmp_path)


@pytest.mark.slow
def test_the_scan_for_requirements(tmp_path: Path) -> None:
    """Before a build, ESP-IDF reads the file of each component as a script, in another folder: of
    a clone, too."""
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
