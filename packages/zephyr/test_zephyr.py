"""Is the module of Zephyr right, and does its sample work?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from firmware.simulators.boards import frame
from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import damage, run, try_run
from spec.model import REPORT, REQUEST, Agent, heartbeat
from spec.watch import ALIVE, DEAD, LATE, MISSING, WAITING

PROGRAMS = project.ROOT / "build" / "venv-packages" / "bin"
STANDIN = consumers.WORLDS / "zephyr" / "standin"
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


def settings(kconfig: Path, config: Path, folder: Path) -> Path:
    run([PROGRAMS / "python", "-c", SETTINGS, kconfig, config], folder)
    return folder / ".config"


def built(copy: Path, tmp_path: Path, config: str = "") -> Path:
    """Checks module.yml, asks Kconfig, and builds the sample. Returns the program."""
    metadata = copy / "zephyr" / "module.yml"
    run([PROGRAMS / "pykwalify", "-d", metadata, "-s", consumers.WORLDS / "zephyr" / "schema.yml"],
        tmp_path)
    said = json.loads(run([PROGRAMS / "python", "-c", AS_JSON, metadata], tmp_path))
    assert (said["name"], said["samples"]) == (project.NAME, [str(Path(SAMPLE).parent)])
    sample = copy / SAMPLE
    (tmp_path / "prj.conf").write_text((sample / "prj.conf").read_text() + config)
    dotconfig = settings(copy / said["build"]["kconfig"], tmp_path / "prj.conf", tmp_path)
    run(["cmake", "-G", "Ninja", "-S", sample, "-B", tmp_path / "built",
         f"-DMODULE={copy / said['build']['cmake']}", f"-DDOTCONFIG={dotconfig}"], tmp_path,
        more={"ZEPHYR_BASE": str(STANDIN)})
    run(["cmake", "--build", tmp_path / "built"], tmp_path)
    return tmp_path / "built" / "app"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    return built(project.ROOT, folder)


# ---------------------------------------------------------------- the sample


def frames(report: bytes) -> list[str]:
    return [frame(0x680 + 64 + at // 8, report[at:at + 8]) for at in range(0, 260, 8)]


def on_the_bus(agent: Path, lines: Sequence[str], tmp_path: Path) -> list[str]:
    script = "".join(f"{line}\n" for line in lines).encode()
    return run([agent], tmp_path, script).decode().splitlines()


ASK, BEAT = frame(0x6FF, REQUEST), frame(0x683, heartbeat(3, 76, 9))


@pytest.mark.long
def test_the_sample_answers_as_the_model(agent: Path, tmp_path: Path) -> None:
    model = Agent()
    expected, lines, now = [], [], 0
    packets = [(0x683, heartbeat(3, 76, 9)), (0x6BF, heartbeat(63, 1, 255)), (0x6FF, REQUEST),
               (0x680, heartbeat(3, 76, 10)), (0x685, heartbeat(64, 1, 1)),
               (0x685, b"\0" * 8), (0x685, heartbeat(5, 1, 1)[:7]), (0x6FF, REQUEST[:7]),
               (0x681, REQUEST), (0x6FF, heartbeat(8, 9, 10)), (0x6FF, REQUEST)]
    for identifier, packet in packets:
        lines += ["wait 20000000", frame(identifier, packet)]
        now += 20_000
        model.record(now % 65536, 0, 1, 0)
        if model.process(now % 65536, packet) == REPORT:
            expected += frames(model.table())
    assert on_the_bus(agent, lines, tmp_path) == expected and len(expected) == 3 * 33


@pytest.mark.parametrize("line", [
    frame(0x67F, REQUEST), frame(0x6C0, REQUEST), frame(0x6FE, REQUEST), frame(0x700, REQUEST),
    frame(0x6FF, REQUEST, 8), "6FF#R8", frame(0x2FF, REQUEST)])
@pytest.mark.long
def test_frames_that_are_not_for_it(agent: Path, tmp_path: Path, line: str) -> None:
    assert on_the_bus(agent, [line], tmp_path) == []
    assert len(on_the_bus(agent, [line, ASK, line], tmp_path)) == 33


@pytest.mark.long
def test_a_bus_that_is_silent(agent: Path, tmp_path: Path) -> None:
    """A report is given up after a second. The next one begins with its first frame."""
    answer = on_the_bus(agent, ["deaf", ASK, ASK, "hears", ASK], tmp_path)
    model = Agent()
    model.record(2, 0, 1, 2)
    model.process(2, REQUEST)
    assert answer == frames(model.table())


@pytest.mark.long
@pytest.mark.parametrize(("reports", "shown"), [(1, 1), (255, 255), (300, 255)])
def test_a_bus_with_errors(agent: Path, tmp_path: Path, reports: int, shown: int) -> None:
    """The first error ends a report. The agent counts these reports, as far as a byte can."""
    answer = on_the_bus(agent, ["fails", *[ASK] * reports, "works", ASK], tmp_path)
    model = Agent()
    model.record(0, 0, 1, shown)
    model.process(0, REQUEST)
    assert answer == frames(model.table())


# ---------------------------------------------------------------- the module


@pytest.mark.long
@pytest.mark.parametrize(("name", "old", "new", "message"), [
    ("zephyr/module.yml", "name: dumpulse", "name: dumpluse", "'dumpulse'"),
    ("zephyr/module.yml", "name:", "nmae:", "Cannot find required key 'name'"),
    ("zephyr/module.yml", "cmake:", "cmak:", "Key 'cmak' was not defined"),
    ("zephyr/module.yml", "kconfig: packages/zephyr/Kconfig", "kconfig: [a]",
     "is not of type 'str'"),
    ("zephyr/module.yml", "zephyr/Kconfig", "zephyr/Kconfg", "not found"),
    ("zephyr/module.yml", "cmake: packages/zephyr", "cmake: packages",
     "does not contain a CMakeLists.txt"),
    ("zephyr/module.yml", "zephyr/samples", "zephyr/sample", "packages/zephyr/sample'"),
    ("packages/zephyr/Kconfig", "menuconfig DUMPULSE\n", "menuconfig DUMPLUSE\n",
     "undefined symbol DUMPULSE"),
    ("packages/zephyr/Kconfig", "\tbool \"Agent\"\n", "\tbol \"Agent\"\n", "couldn't parse"),
    ("packages/zephyr/Kconfig", "default y", "default n", "undefined reference"),
    (f"{SAMPLE}/prj.conf", "CONFIG_DUMPULSE=y", "CONFIG_DUMPLUSE=y", "undefined symbol DUMPLUSE"),
    ("packages/zephyr/CMakeLists.txt", "zephyr_include_directories", "set",
     "dumpulse.h: No such file"),
    ("packages/zephyr/CMakeLists.txt", "CONFIG_DUMPULSE_AGENT", "CONFIG_DUMPULSE_AGNT",
     "undefined reference"),
    ("packages/library.txt", "dumpulse.c", "dumpluse.c", "dumpluse.c"),
    (f"{SAMPLE}/src/main.c", "zephyr_canbus", "zephyr_can", "chosen_zephyr_can"),
])
def test_mistakes(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    copy = module(tmp_path)
    damage(copy / name, old, new)
    with pytest.raises(AssertionError) as caught:
        built(copy, tmp_path)
    assert message in str(caught.value), str(caught.value)


@pytest.mark.long
def test_a_node_compiles_no_agent(tmp_path: Path) -> None:
    copy = module(tmp_path)
    (copy / SAMPLE / "src" / "main.c").write_text(
        '#include "dumpulse.h"\nint main(void) { uint8_t packet[8];\n'
        "dumpulse_make_heartbeat(packet, 1, 2, 3); return packet[7]; }\n")
    program = built(copy, tmp_path, "CONFIG_DUMPULSE_AGENT=n\n")
    assert try_run([program], tmp_path).returncode == 3
    assert not list((tmp_path / "built").rglob("dumpulse.c.o"))


@pytest.mark.long
def test_the_sample_can_watch(tmp_path: Path) -> None:
    """With one more setting. The sample writes each new state of variable 3 to variable 60."""
    copy = module(tmp_path)
    main = copy / SAMPLE / "src" / "main.c"
    damage(main, '#include "dumpulse.h"\n', """#include "dumpulse_watch.h"

DUMPULSE_WATCH(watch, DUMPULSE_WATCHED(3, 20, 3, 67, 0, 255));
static uint8_t state;

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    ARG_UNUSED(context);
    state = variable == 3 && was != is ? is : 0;
}
""")
    damage(main, "        (void)dumpulse_process_packet(", """\
        dumpulse_watch(&watch, &agent, dumpulse_get_timestamp());
        (void)dumpulse_record(&agent, 60, SELF_SENDER, state);
        (void)dumpulse_process_packet(""")
    program = built(copy, tmp_path, "CONFIG_DUMPULSE_WATCH=y\n")
    states = []
    for lines in (["wait 67000"], ["wait 68000"], [BEAT], [BEAT, "wait 21000"],
                  [BEAT, "wait 61000"]):
        report = "".join(line[4:] for line in on_the_bus(program, [*lines, ASK], tmp_path))
        states.append(bytes.fromhex(report)[4 + 4 * 60 + 3])
    assert states == [WAITING, MISSING, ALIVE, LATE, DEAD]


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(("old", "new", "message"), [
    ("", "", ""), ("revision: main", "revision: mian", "mian"), ("path:", "paht:", "paht"),
    ("name: dumpulse", "nmae: dumpulse", "nmae")])
def test_the_entry_for_west(tmp_path: Path, old: str, new: str, message: str) -> None:
    address = consumers.repository(tmp_path / "repository")
    page = (consumers.WORLDS / "zephyr" / "README.md").read_text()
    entry = page.partition("```yaml\n")[2].partition("```")[0]
    assert f"{project.URL}/dumpulse.git" in entry and old in entry
    entry = entry.replace(f"{project.URL}/dumpulse.git", address).replace(old, new)
    manifest = f"manifest:\n  projects:\n{entry}  self:\n    path: own\n"
    if message:
        with pytest.raises(AssertionError, match=message):
            west(tmp_path, manifest)
        return
    fetched = west(tmp_path, manifest)
    program = built(fetched, tmp_path)
    assert len(on_the_bus(program, [ASK], tmp_path)) == 33
