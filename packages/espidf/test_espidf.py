"""Is the component of ESP-IDF right, and does its example work?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tarfile
import tty
from pathlib import Path

import pytest

from firmware.tests.test_serial_firmware import straddled
from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import damage, run, try_run
from packages.espidf import make
from spec.model import REFUSED, REPORT, REQUEST, Agent, heartbeat
from spec.watch import ALIVE, DEAD, LATE, MISSING, WAITING
from tests.support.programs import PATIENCE

COMPOTE = project.ROOT / "build" / "venv-packages" / "bin" / "compote"
STANDIN = consumers.WORLDS / "espidf" / "standin"
EXAMPLE = "examples/uart_agent"
BUFFER = 1024  # bytes that the example's driver keeps until they leave


def unpacked(tmp_path: Path) -> Path:
    (made,) = make.build(tmp_path)
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "dumpulse"


def built(component: Path, tmp_path: Path, example: Path | None = None) -> Path:
    run(["cmake", "-G", "Ninja", "-S", example or component / EXAMPLE, "-B", tmp_path / "built",
         f"-DCOMPONENT={component}"], tmp_path, more={"IDF_PATH": str(STANDIN)})
    run(["cmake", "--build", tmp_path / "built"], tmp_path)
    return tmp_path / "built" / "uart_agent"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    return built(unpacked(folder), folder)


# ---------------------------------------------------------------- the example


def expected(line: bytes) -> bytes:
    """What an agent on a serial line answers, as SPEC.md says, with the clock of the stand-in."""
    agent, window, replies, left = Agent(), b"", b"", 0
    for count, byte in enumerate(line, 1):
        now = 16 * count // 128
        left = max(0, left - 1)
        agent.record(now, 0, 1, 0)
        window = window[-7:] + bytes([byte])
        result = agent.process(now, window)
        if result != REFUSED:
            window = b""
        if result == REPORT and left + 260 <= BUFFER:
            left += 260
            replies += agent.table()
    return replies


def noise(seed: int) -> bytes:
    """Packets, with bytes that are lost, doubled, damaged or from nowhere."""
    chance = random.Random(seed)
    line = bytearray()
    for _ in range(600):
        line += REQUEST if chance.random() < 0.1 else heartbeat(
            chance.randrange(70), chance.randrange(256), chance.randrange(256))
        if chance.random() < 0.3:
            at = chance.randrange(len(line))
            line[at:at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    return bytes(line)


@pytest.mark.parametrize("line", [heartbeat(3, 76, 9) + REQUEST, REQUEST[:7], REQUEST * 200,
                                  b"".join(map(b"".join, straddled())) + REQUEST,
                                  noise(1), noise(2), noise(3)],
                         ids=["packets", "too few", "flood", "packets within others",
                              "noise1", "noise2", "noise3"])
@pytest.mark.long
def test_the_example_answers_as_the_model(agent: Path, tmp_path: Path, line: bytes) -> None:
    answer = run([agent], tmp_path, line)
    assert len(answer) % 260 == 0 and answer == expected(line)
    assert (len(answer) >= 260) == (REQUEST in line)


@pytest.mark.long
def test_the_client_asks_the_example(agent: Path, tmp_path: Path) -> None:
    ours, its = os.openpty()
    tty.setraw(ours)
    address = f"serial:{os.ttyname(its)}@115200"
    with subprocess.Popen([agent], stdin=ours, stdout=ours) as process:
        try:
            for words in (["set", address, "3", "126", "--confirm"],
                          ["get", address, "--now-from", "0", "--tick", "1280ms"]):
                shown = subprocess.run([sys.executable, project.ROOT / "client.py", *words],
                                       cwd=tmp_path, check=False, timeout=PATIENCE, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        finally:
            process.kill()
    os.close(ours)
    os.close(its)
    assert "126" in shown, shown


# ---------------------------------------------------------------- the component


def test_it_has_what_it_needs_and_no_more(tmp_path: Path) -> None:
    component = unpacked(tmp_path)
    assert sorted(str(path.relative_to(component)) for path in component.rglob("*")
                  if path.is_file()) == [
        "CMakeLists.txt", "LICENSE", "README.md", *consumers.library("[ch]"),
        f"{EXAMPLE}/CMakeLists.txt", f"{EXAMPLE}/main/CMakeLists.txt",
        f"{EXAMPLE}/main/idf_component.yml", f"{EXAMPLE}/main/uart_agent.c", "idf_component.yml"]
    again = tmp_path / "again"
    again.mkdir()
    assert make.build(again)[0].read_bytes() == make.build(tmp_path)[0].read_bytes()


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
    assert mistake(unpacked(tmp_path), tmp_path) == ""


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
        built(component, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("old", "new", "message"), [
    ("BAUD = 115200", "BAUD = 9600", "another format"),
    ("BUFFER = 1024", "BUFFER = 64", "status -6"),
    ("room >= length", "true", "would wait"), ("TRANSMIT_PIN = 17", "TRANSMIT_PIN = 16", "no pins"),
    ("TRANSMIT_PIN, RECEIVE_PIN,", "RECEIVE_PIN, TRANSMIT_PIN,", "no pins"),
])
def test_the_stand_in_sees_mistakes_in_the_example(tmp_path: Path, old: str, new: str,
                                                   message: str) -> None:
    component = unpacked(tmp_path)
    damage(component / EXAMPLE / "main" / "uart_agent.c", old, new)
    with pytest.raises(AssertionError, match=message):
        run([built(component, tmp_path)], tmp_path, REQUEST * 200)


@pytest.mark.long
def test_the_example_can_watch(tmp_path: Path) -> None:
    """The agent writes the state of variable 3 to variable 60. A byte on the line takes an eighth
    of its clock's unit."""
    component = unpacked(tmp_path)
    main = component / EXAMPLE / "main" / "uart_agent.c"
    damage(main, "static dumpulse agent;", """DUMPULSE_WATCH(watch, DUMPULSE_WATCHED(3, 40, 3, 67, 0, 255));
static uint8_t state;

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    (void)context;
    state = variable == 3 && was != is ? is : 0;
}

static dumpulse agent;""")
    damage(main, '"dumpulse.h"', '"dumpulse_watch.h"')
    damage(main, "        take(byte);", """\
        dumpulse_watch(&watch, &agent, dumpulse_get_timestamp());
        (void)dumpulse_record(&agent, 60, SELF_SENDER, state);
        take(byte);""")
    beat, pause = heartbeat(3, 76, 9), bytes(68 * 8)
    answers = run([built(component, tmp_path)], tmp_path,
                  REQUEST + pause + REQUEST + beat + REQUEST + pause + REQUEST + 2 * pause
                  + REQUEST)
    states = [answers[at + 4 + 4 * 60 + 3] for at in range(0, len(answers), 260)]
    assert states == [WAITING, MISSING, ALIVE, LATE, DEAD]


@pytest.mark.long
def test_a_clone_is_a_component(tmp_path: Path) -> None:
    clone = consumers.copy(tmp_path / "dumpulse", "4.5.6")
    example = clone / "packages" / "espidf" / EXAMPLE
    line = heartbeat(3, 76, 9) + REQUEST
    assert run([built(clone, tmp_path, example)], tmp_path, line) == expected(line)


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
