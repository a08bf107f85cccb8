"""Is the module of Zephyr right, and does its sample compile?   SPDX-License-Identifier: MIT

There is no Zephyr here. Its programs for modules read ours, and a compiler reads the sample with
the declarations of standin.h.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import damage, run, try_run

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
PROGRAMS = project.ROOT / "build" / "venv-packages" / "bin"
SAMPLE = "packages/zephyr/samples/can_agent"

# Zephyr reads the Kconfig file of a module among its own. This is all that ours needs of it.
# kconfiglib writes the settings to .config. A warning is an error here.
SETTINGS = """\
import sys, kconfiglib
open("Kconfig", "w").write(
    'config CAN\\n\\tbool "CAN"\\n\\nsource "' + sys.argv[1] + '"\\n')
tree = kconfiglib.Kconfig("Kconfig")
tree.warn_assign_undef = True
tree.load_config(sys.argv[2])
tree.write_config(".config")
sys.exit("\\n".join(tree.warnings) or 0)
"""
AS_JSON = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))"
# The functions of Zephyr's build system that the module and the sample call.
BUILD_SYSTEM = """\
project(Zephyr-Standin LANGUAGES C)
file(STRINGS ${DOTCONFIG} lines REGEX "^CONFIG_[A-Z_]+=[a-z0-9]+$")
foreach(line IN LISTS lines)
    string(REPLACE "=" ";" line ${line})
    list(GET line 0 name)
    list(GET line 1 ${name})
endforeach()
add_compile_options(-std=gnu11 -Wall -Wextra -Werror)
set_property(GLOBAL PROPERTY folders ${CMAKE_CURRENT_LIST_DIR})
function(zephyr_include_directories)
    set_property(GLOBAL APPEND PROPERTY folders ${ARGN})
endfunction()
function(zephyr_compile_definitions)
    set_property(GLOBAL APPEND PROPERTY definitions ${ARGN})
endfunction()
macro(zephyr_library_named name)
    add_library(${name} OBJECT)
    set_property(GLOBAL APPEND PROPERTY parts ${name})
endmacro()
function(zephyr_library_sources)
    target_sources(dumpulse PRIVATE ${ARGN})
endfunction()
add_subdirectory(${MODULE} module)
add_library(app OBJECT)
get_property(parts GLOBAL PROPERTY parts)
get_property(folders GLOBAL PROPERTY folders)
get_property(definitions GLOBAL PROPERTY definitions)
foreach(part app ${parts})
    target_include_directories(${part} PRIVATE ${folders})
    target_compile_definitions(${part} PRIVATE ${definitions})
endforeach()
"""


def module(tmp_path: Path) -> Path:
    """A copy of what belongs to the module."""
    copy = tmp_path / "module"
    for name in ("zephyr", "packages/zephyr", "packages/cmake"):
        shutil.copytree(project.ROOT / name, copy / name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "extras").mkdir()
    for path in (project.ROOT / "packages" / "library.txt", *project.LIBRARY_FILES.values()):
        shutil.copy(path, copy / path.relative_to(project.ROOT))
    return copy


def check(copy: Path, tmp_path: Path, config: str = "", parts: tuple[str, ...] = ("",)) -> None:
    """Checks module.yml, asks Kconfig, and compiles the sample with these parts of the library."""
    said = json.loads(run([PROGRAMS / "python", "-c", AS_JSON, copy / "zephyr/module.yml"],
                          tmp_path))
    assert said == {"name": project.NAME, "samples": [str(Path(SAMPLE).parent)],
                    "build": {"cmake": "packages/zephyr", "kconfig": "packages/zephyr/Kconfig"}}
    assert (copy / said["samples"][0]).is_dir()
    standin, sample = tmp_path / "standin", copy / SAMPLE
    for name in ("device.h", "kernel.h", "drivers/can.h"):
        header = standin / "zephyr" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#include "{HERE}/standin.h"\n')
    (standin / "ZephyrConfig.cmake").write_text(BUILD_SYSTEM)
    (tmp_path / "prj.conf").write_text((sample / "prj.conf").read_text() + config)
    run([PROGRAMS / "python", "-c", SETTINGS, copy / said["build"]["kconfig"],
         tmp_path / "prj.conf"], tmp_path)
    run(["cmake", "-G", "Ninja", "-S", sample, "-B", tmp_path / "built",
         f"-DMODULE={copy / said['build']['cmake']}", f"-DDOTCONFIG={tmp_path / '.config'}"],
        tmp_path, more={"ZEPHYR_BASE": str(standin)})
    run(["cmake", "--build", tmp_path / "built"], tmp_path)
    compiled = {path.name for path in (tmp_path / "built").rglob("*.o")}
    wanted = {"main.c.o", *(f"dumpulse{part}.c.o" for part in parts)}
    assert compiled == wanted, f"compiled: {sorted(compiled)}"


@pytest.mark.parametrize(("config", "parts"), [
    ("", ("",)), ("CONFIG_DUMPULSE_AGENT=n\n", ()), ("CONFIG_DUMPULSE_WATCH=y\n", ("", "_watch")),
    ("CONFIG_DUMPULSE_KEYED=y\nCONFIG_DUMPULSE_ALONE=8\n", ("", "_keyed"))])
def test_each_setting(tmp_path: Path, config: str, parts: tuple[str, ...]) -> None:
    check(project.ROOT, tmp_path, config, parts)


@pytest.mark.parametrize(("name", "old", "new", "message"), [
    ("zephyr/module.yml", "name: dumpulse", "name: dumpluse", "'dumpluse'"),
    ("zephyr/module.yml", "cmake:", "cmak:", "'cmak'"),
    ("zephyr/module.yml", "zephyr/samples", "zephyr/sample", "packages/zephyr/sample'"),
    ("packages/zephyr/Kconfig", "menuconfig DUMPULSE\n", "menuconfig DUMPLUSE\n",
     "undefined symbol DUMPULSE"),
    ("packages/zephyr/Kconfig", "\tbool \"Agent\"\n", "\tbol \"Agent\"\n", "couldn't parse"),
    ("packages/zephyr/Kconfig", "default y", "default n", "compiled: ['main.c.o']"),
    (f"{SAMPLE}/prj.conf", "CONFIG_DUMPULSE=y", "CONFIG_DUMPLUSE=y", "undefined symbol DUMPLUSE"),
    ("packages/zephyr/CMakeLists.txt", "zephyr_include_directories", "set",
     "dumpulse.h: No such file"),
    ("packages/zephyr/CMakeLists.txt", "CONFIG_DUMPULSE_AGENT", "CONFIG_DUMPULSE_AGNT",
     "compiled: ['main.c.o']"),
    ("packages/library.txt", "dumpulse.c", "dumpluse.c", "dumpluse.c"),
    (f"{SAMPLE}/src/main.c", "zephyr_canbus", "zephyr_can", "chosen_zephyr_can"),
])
def test_mistakes(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    copy = module(tmp_path)
    damage(copy / name, old, new)
    with pytest.raises(AssertionError) as caught:
        check(copy, tmp_path)
    assert message in str(caught.value), str(caught.value)


def test_the_overlay(tmp_path: Path) -> None:
    """Zephyr puts an overlay behind the board's device tree, and lets dtc compile both."""
    board = '/dts-v1/;\n/ { can1: can { compatible = "a"; status = "disabled"; }; };\n'
    overlay = (project.ROOT / SAMPLE / "canbus.overlay").read_text()
    words = ["dtc", "-I", "dts", "-O", "dts", "-@", "-"]
    tree = run(words, tmp_path, (board + overlay).encode()).decode()
    assert 'zephyr,canbus = "/can";' in tree and 'status = "okay";' in tree
    assert "bitrate = <0x7a120>;" in tree
    done = try_run(words, tmp_path, (board + overlay.replace("&can1", "&can2")).encode())
    assert done.returncode != 0 and b"can2" in done.stderr


def west(tmp_path: Path, manifest: str) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "west.yml").write_text(manifest)
    run([PROGRAMS / "west", "init", "-l", "own"], tmp_path)
    run([PROGRAMS / "west", "update", "--narrow"], tmp_path)
    run([PROGRAMS / "west", "manifest", "--validate"], tmp_path)
    return tmp_path / "modules" / "lib" / "dumpulse"


@pytest.mark.parametrize(("old", "new", "message"), [
    ("", "", ""), ("revision: main", "revision: mian", "mian"), ("path:", "paht:", "paht"),
    ("name: dumpulse", "nmae: dumpulse", "nmae")])
def test_the_entry_for_west(tmp_path: Path, old: str, new: str, message: str) -> None:
    address = consumers.repository(tmp_path / "repository")
    page = (HERE / "README.md").read_text()
    entry = page.partition("```yaml\n")[2].partition("```")[0]
    assert project.REPOSITORY in entry and old in entry
    entry = entry.replace(project.REPOSITORY, address).replace(old, new)
    manifest = f"manifest:\n  projects:\n{entry}  self:\n    path: own\n"
    if message:
        with pytest.raises(AssertionError, match=message):
            west(tmp_path, manifest)
        return
    check(west(tmp_path, manifest), tmp_path)
