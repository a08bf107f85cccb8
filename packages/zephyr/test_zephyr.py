"""Is the module of Zephyr right, and does its sample compile?

There is no Zephyr here. Its programs for modules read ours. A compiler checks the hooks of the
sample, and how it calls the library."""

import re
from pathlib import Path

import pytest
import yaml

from packages import project
from packages.c import consumers
from packages.c.consumers import run, try_run

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
# A reader of .config, and Zephyr's functions that the module calls. They print their arguments.
BEFORE = """\
file(STRINGS .config lines REGEX "^CONFIG_[A-Z_]+=[a-z0-9]+$")
foreach(line IN LISTS lines)
    string(REPLACE "=" ";" line ${line})
    list(GET line 0 name)
    list(GET line 1 ${name})
endforeach()
""" + "".join(f'function(zephyr_{name})\n    message("{name} ${{ARGN}}")\nendfunction()\n'
              for name in ("include_directories", "compile_definitions", "library_named",
                           "library_sources"))

# The types and constants of Zephyr that the sample uses.
GIVEN = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef CONFIG_CAN_FD_MODE
#define CAN_MAX_DLEN 64U
#else
#define CAN_MAX_DLEN 8U
#endif
enum { CAN_STD_ID_MASK = 0x7FF, CAN_MODE_FD = 4 };
enum { CAN_FRAME_FDF = 4, CAN_FRAME_BRS = 8, CAN_FRAME_ESI = 16 };
enum { K_FOREVER };
#define DEVICE_DT_GET(node) NULL
#define CAN_MSGQ_DEFINE(name, most) int name = most
#define K_SEM_DEFINE(name, initial, most) int name = most
#define K_SECONDS(seconds) (seconds)
#define ARG_UNUSED(argument) (void)(argument)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
struct device { int unused; };
struct can_frame { uint32_t id; uint8_t dlc, flags, data[CAN_MAX_DLEN]; };
struct can_filter { uint32_t id, mask; };
typedef int k_timepoint_t;
"""

AGENT = "get_timestamp send_packet"


@pytest.mark.parametrize(("settings", "hooks"), [
    ("", AGENT), ("NODE", ""), ("WATCH", f"{AGENT} changed"),
    ("KEYED_AGENT", f"{AGENT} get_key load store"),
    ("KEYED_AGENT MIXED WATCH", f"{AGENT} get_key load store changed"),
    ("KEYED_NODE", "get_key"), ("KEYED_READER", "get_key")])
def test_each_role(tmp_path: Path, settings: str, hooks: str) -> None:
    """Checks module.yml, asks Kconfig, and lets CMake read the module and a compiler the sample.
    All of what the module compiles is linked: these hooks must be missing, and no others."""
    config = "".join(f"CONFIG_DUMPULSE_{each}=y\n" for each in settings.split())
    said = yaml.safe_load((project.ROOT / "zephyr/module.yml").read_text())
    assert said == {"name": project.NAME, "samples": [str(Path(SAMPLE).parent)],
                    "build": {"cmake": "packages/zephyr", "kconfig": "packages/zephyr/Kconfig"}}
    sample = project.ROOT / SAMPLE
    (tmp_path / "prj.conf").write_text((sample / "prj.conf").read_text() + config)
    run([PROGRAMS / "python", "-c", SETTINGS, project.ROOT / said["build"]["kconfig"],
         tmp_path / "prj.conf"], tmp_path)
    (tmp_path / "module.cmake").write_text(
        f"{BEFORE}include({project.ROOT / said['build']['cmake']}/CMakeLists.txt)\n")
    told = try_run(["cmake", "-P", "module.cmake"], tmp_path).stderr.decode().splitlines()
    assert told[0] == f"include_directories {project.ROOT};{project.ROOT / 'extras'}"
    missing = set()
    if hooks:
        assert told[1] == "library_named dumpulse" and len(told) == 3
        sources = told[2].removeprefix("library_sources ").split(";")
        run(["gcc", "-r", "-nostdlib", f"-I{project.ROOT}", *sources, "-o", "linked.o"], tmp_path)
        missing = {*run(["nm", "--undefined-only", "--just-symbols", "linked.o"],
                        tmp_path).decode().split()}
    assert {name for name in missing if name.startswith("dumpulse_")} == {
        f"dumpulse_{hook}" for hook in hooks.split()}
    for option in ("-UCONFIG_CAN_FD_MODE", "-DCONFIG_CAN_FD_MODE"):
        consumers.compiles(GIVEN, sample / "src" / "main.c", f"-I{project.ROOT}", option)
