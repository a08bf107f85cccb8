"""Is the module of Zephyr right, and does its sample compile?   SPDX-License-Identifier: MIT

There is no Zephyr here. Its programs for modules read ours, and a compiler reads the sample with
the declarations of standin.h. PLAYER runs it: it says which frames come, and prints those that go.
"""

import re
import struct
from pathlib import Path

import pytest
import yaml

from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import run, try_run
from spec.model import REQUEST, checksummed, heartbeat

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
# What reads .config before the module, and Zephyr's functions that the module calls: these tell
# what they are given.
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


AGENT = "get_timestamp send_packet"


def check(module: Path, tmp_path: Path, config: str = "", hooks: str = AGENT) -> None:
    """Checks module.yml, asks Kconfig, and lets CMake read the module and a compiler the sample.
    All of what the module compiles is linked: these hooks must be missing, and no others."""
    said = yaml.safe_load((module / "zephyr/module.yml").read_text())
    assert said == {"name": project.NAME, "samples": [str(Path(SAMPLE).parent)],
                    "build": {"cmake": "packages/zephyr", "kconfig": "packages/zephyr/Kconfig"}}
    sample = module / SAMPLE
    (tmp_path / "prj.conf").write_text((sample / "prj.conf").read_text() + config)
    run([PROGRAMS / "python", "-c", SETTINGS, module / said["build"]["kconfig"],
         tmp_path / "prj.conf"], tmp_path)
    (tmp_path / "module.cmake").write_text(
        f"{BEFORE}include({module / said['build']['cmake']}/CMakeLists.txt)\n")
    told = try_run(["cmake", "-P", "module.cmake"], tmp_path).stderr.decode().splitlines()
    assert told[0] == f"include_directories {module};{module / 'extras'}"
    missing = set()
    if hooks:
        assert told[1] == "library_named dumpulse" and len(told) == 3
        sources = told[2].removeprefix("library_sources ").split(";")
        run(["gcc", "-r", "-nostdlib", f"-I{module}", *sources, "-o", "linked.o"], tmp_path)
        missing = {*run(["nm", "--undefined-only", "--just-symbols", "linked.o"],
                        tmp_path).decode().split()}
    assert {name for name in missing if name.startswith("dumpulse_")} == {
        f"dumpulse_{hook}" for hook in hooks.split()}
    compiled(module, tmp_path)


def compiled(module: Path, tmp_path: Path, *options: str) -> Path:
    """The sample as an object file, whose main() has another name."""
    for name in ("device.h", "kernel.h", "drivers/can.h"):
        header = tmp_path / "standin" / "zephyr" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#include "{HERE}/standin.h"\n')
    run(["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{module}", "-Dmain=sample",
         *options, f"-I{tmp_path / 'standin'}", "-c", module / SAMPLE / "src" / "main.c",
         "-o", tmp_path / "sample.o"], tmp_path)
    return tmp_path / "sample.o"


# Frames are an identifier, the flags, how many bytes, and the bytes.
PLAYER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <zephyr/drivers/can.h>
static const uint8_t lengths[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64};
const struct device chosen_zephyr_canbus = {"can"};
static const struct can_filter *filters[2];
uint8_t can_dlc_to_bytes(uint8_t dlc) { return lengths[dlc]; }
uint8_t can_bytes_to_dlc(uint8_t size)
{
    uint8_t it = 0;
    for (; lengths[it] < size; it++);
    return it;
}
k_timepoint_t sys_timepoint_calc(k_timeout_t timeout) { return (k_timepoint_t)timeout; }
k_timeout_t sys_timepoint_timeout(k_timepoint_t point) { return (k_timeout_t)point; }
int64_t k_uptime_get(void) { return 0; }
int k_sem_take(struct k_sem *sem, k_timeout_t timeout) { (void)timeout; return !sem->count--; }
void k_sem_give(struct k_sem *sem) { sem->count = 1; }
void k_sem_reset(struct k_sem *sem) { sem->count = 0; }
bool device_is_ready(const struct device *dev) { return dev; }
int can_set_mode(const struct device *dev, uint32_t mode) { (void)dev; return mode != CAN_MODE_FD; }
int can_start(const struct device *dev) { return !dev; }
int can_stop(const struct device *dev) { return !dev; }
void printk(const char *format, ...) { puts(format); }
int can_add_rx_filter_msgq(const struct device *dev, struct k_msgq *queue,
                           const struct can_filter *filter)
{
    (void)dev, (void)queue;
    filters[filters[0] != 0] = filter;
    return 0;
}
int can_send(const struct device *dev, const struct can_frame *frame, k_timeout_t timeout,
             can_tx_callback_t callback, void *data)
{
    (void)timeout;
    const uint8_t head[] = {frame->id >> 8, frame->id, frame->flags, lengths[frame->dlc]};
    fwrite(head, 1, 4, stdout);
    fwrite(frame->data, 1, head[3], stdout);
    callback(dev, 0, data);
    return 0;
}
int k_msgq_get(struct k_msgq *queue, void *to, k_timeout_t timeout)
{
    uint8_t head[4];
    struct can_frame *frame = to;
    (void)queue, (void)timeout;
    if (fread(head, 1, 4, stdin) != 4)
        exit(0);
    frame->id = head[0] << 8 | head[1], frame->flags = head[2];
    frame->dlc = can_bytes_to_dlc(head[3]);
    if (fread(frame->data, 1, head[3], stdin) != head[3])
        exit(1);
    return ((frame->id ^ filters[0]->id) & filters[0]->mask) != 0 &&
           ((frame->id ^ filters[1]->id) & filters[1]->mask) != 0;
}
int sample(void);
int main(void) { return sample(); }
"""
FDF, BRS = 4, 8


def frame(number: int, data: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HBB", number, flags, len(data)) + data


@pytest.mark.parametrize("options", [[], ["-DCONFIG_CAN_FD_MODE=1"]], ids=["classic", "fd"])
def test_the_sample_answers(options: list[str], tmp_path: Path) -> None:
    """In the format of the request. What is not of a node or a reader changes nothing."""
    sample = compiled(project.ROOT, tmp_path, *options)
    (tmp_path / "player.c").write_text(PLAYER)
    run(["gcc", "-std=gnu11", *options, f"-I{tmp_path / 'standin'}", "player.c", sample,
         project.ROOT / "dumpulse.c", "-o", "player"], tmp_path)
    other = heartbeat(4, 1, 1)
    frames = [frame(0x683, heartbeat(3, 76, 9)), frame(0x6C0, other), frame(0x6FD, other),
              frame(0x684, other, 2), frame(0x6FE, REQUEST), frame(0x6FF, REQUEST)]
    if options:
        frames += [frame(0x684, other, FDF), frame(0x6FF, REQUEST, FDF),
                   frame(0x6FE, REQUEST, FDF), frame(0x6FE, REQUEST, FDF | BRS)]
    sent, found = run([tmp_path / "player"], tmp_path, b"".join(frames)), []
    while sent:
        number, flags, length = struct.unpack(">HBB", sent[:4])
        found.append((number, flags, sent[4:4 + length]))
        sent = sent[4 + length:]
    report = b"".join(data for *_, data in found[:33])
    assert len(report) == 260 and report == checksummed(report[4:])
    assert {at // 4 - 1: report[at + 2:at + 4] for at in range(4, 260, 4) if any(
        report[at:at + 4])} == {0: b"\1\0", 3: b"\x4c\x09"}
    assert found == [(0x6C0 + at // size, flags, report[at:at + size])
                     for size, flags in [(8, 0), *[(64, FDF | BRS)] * (len(options) * 2)]
                     for at in range(0, 260, size)]


@pytest.mark.parametrize(("settings", "hooks"), [
    ("", AGENT), ("NODE", ""), ("WATCH", f"{AGENT} changed"),
    ("KEYED_AGENT", f"{AGENT} get_key load store"),
    ("KEYED_AGENT ALONE WATCH", f"{AGENT} get_key load store changed"),
    ("KEYED_NODE", "get_key"), ("KEYED_SENDER", "get_key load store"), ("KEYED_READER", "get_key")])
def test_each_role(tmp_path: Path, settings: str, hooks: str) -> None:
    config = "".join(f"CONFIG_DUMPULSE_{each}=y\n" for each in settings.split())
    check(project.ROOT, tmp_path, config, hooks)


def test_the_entry_for_west(tmp_path: Path) -> None:
    page = (HERE / "README.md").read_text()
    entry = page.partition("```yaml\n")[2].partition("```")[0]
    assert project.REPOSITORY in entry
    entry = entry.replace(project.REPOSITORY, consumers.repository(tmp_path / "repository"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "west.yml").write_text(
        f"manifest:\n  projects:\n{entry}  self:\n    path: own\n")
    for words in (["init", "-l", "own"], ["update", "--narrow"], ["manifest", "--validate"]):
        run([PROGRAMS / "west", *words], tmp_path)
    check(tmp_path / "modules" / "lib" / "dumpulse", tmp_path)


def test_the_overlay(tmp_path: Path) -> None:
    """Zephyr puts an overlay behind the board's device tree, and lets dtc compile both."""
    board = '/dts-v1/;\n/ { can1: can { compatible = "a"; status = "disabled"; }; };\n'
    (overlay,) = re.findall("^```dts\n(.*?)^```", (HERE / "README.md").read_text(), re.M | re.S)
    tree = run(["dtc", "-I", "dts", "-O", "dts", "-@", "-"], tmp_path,
               (board + overlay).encode()).decode()
    assert 'zephyr,canbus = "/can";' in tree and 'status = "okay";' in tree
