"""Is the component of ESP-IDF right, and does its example compile?

There is no ESP-IDF here. Its component manager reads the component. A compiler checks the hooks of
the example, and how it calls the library."""

import json
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import run
from packages.c import make

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
COMPOTE = project.ROOT / "build" / "venv-packages" / "bin" / "compote"


@pytest.mark.slow  # CMake comes with the tools of make full
def test_the_project_itself_is_a_component(tmp_path: Path) -> None:
    """ESP-IDF reads its file for CMake as a script first."""
    (tmp_path / "scan.cmake").write_text(
        "function(idf_component_register)\n    message(\"${ARGN}\")\nendfunction()\n"
        f"set(ESP_PLATFORM 1)\ninclude({project.ROOT}/CMakeLists.txt)\n")
    told = consumers.try_run(["cmake", "-P", "scan.cmake"], tmp_path).stderr.decode().split(";")
    assert [told[0], *told[-3:]] == ["SRCS", "INCLUDE_DIRS", ".", "extras\n"]
    assert sorted(Path(name).name for name in told[1:-3]) == consumers.library("c")


@pytest.mark.long
def test_the_tools_take_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(make.write_archive(tmp_path)) as archive:
        archive.extractall(tmp_path)
    component = tmp_path / "dumpulse"
    page = (component / "README.md").read_text()
    (example,) = re.findall("^    idf.py -C components/(.*?) ", page, re.M)
    assert (tmp_path / example / "CMakeLists.txt").is_file()
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
    consumers.compiles(GIVEN, tmp_path / example / "uart_agent.c",
                       f"-I{component}/src")
