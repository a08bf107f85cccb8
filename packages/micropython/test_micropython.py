"""MicroPython itself, for Linux, runs the module.   SPDX-License-Identifier: MIT"""

import json
import subprocess
from pathlib import Path

import pytest

from packages import making, project
from spec import model
from tests.support.programs import PATIENCE, vectors
from tests.support.servers import Server

pytestmark = pytest.mark.long
MICROPYTHON = project.ROOT / "build" / "venv-packages" / "bin" / "micropython"
# Answers each line of the standard input: a heartbeat to make, or a packet to read.
ANSWERS = """
import dumpulse, json, sys
for line in sys.stdin:
    words = json.loads(line)
    try:
        if len(words) == 3:
            print(json.dumps(dumpulse.heartbeat(*words).hex()))
        else:
            found = dumpulse.entries(bytes.fromhex(words[0]))
            print(json.dumps([[at] + list(found[at]) for at in sorted(found)]))
    except ValueError:
        print("null")
"""
TALKS = """
import dumpulse, socket, sys
agent = socket.getaddrinfo("127.0.0.1", int(sys.argv[1]))[0][-1]
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.sendto(dumpulse.heartbeat(7, 12, 230), agent)
one.sendto(dumpulse.REQUEST, agent)
report = one.recv(300)
print(dumpulse.entries(report)[7][1:], dumpulse.__version__)
line, noise = dumpulse.Line(), bytes(range(256))
for part in (noise + report[:100], report[100:] + noise[:9], noise):
    found = line.take(part)
    print(found == report, line.last == b"" and found is not None)
"""


def run(tmp_path: Path, program: str, *words: str, given: str = "") -> list[str]:
    making.builder("micropython")(tmp_path)
    (tmp_path / "program.py").write_text(program)
    if not MICROPYTHON.exists():
        pytest.fail("micropython is not installed: run make packages-setup")
    done = subprocess.run([MICROPYTHON, "program.py", *words], cwd=tmp_path, text=True,
                          input=given, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    return done.stdout.splitlines()


def expected(words: list[object]) -> object:
    """Of the model alone."""
    if len(words) == 3:
        variable, sender, value = map(int, map(str, words))
        return model.heartbeat(variable, sender, value).hex() if variable < 64 else None
    packet = bytes.fromhex(str(words[0]))
    if len(packet) != 260 or packet != model.checksummed(packet[4:]):
        return None
    return [[variable, entry[0] * 256 + entry[1], entry[2], entry[3]]
            for variable, entry in enumerate(model.Agent.of_table(packet).entries) if any(entry)]


def questions() -> list[list[object]]:
    """What the vectors make and check."""
    asked: list[list[object]] = []
    for line in vectors("vectors.tsv", long=True).read_text().splitlines():
        kind, *rest = line.split("\t")
        if kind == "make":
            asked.append([int(each) for each in rest[:3]])
        elif kind in ("check", "report"):
            asked.append([rest[0 if kind == "check" else 2].strip("-")])
    return asked


def test_it_makes_and_reads_what_the_model_does(tmp_path: Path) -> None:
    asked = questions()
    answers = run(tmp_path, ANSWERS, given="".join(f"{json.dumps(each)}\n" for each in asked))
    assert len(answers) == len(asked) > 100
    assert [*map(json.loads, answers)] == [*map(expected, asked)]


def test_it_talks_to_an_agent(tmp_path: Path) -> None:
    with Server("--bind", "127.0.0.1") as server:
        assert run(tmp_path, TALKS, str(server.port)) == [
            f"(12, 230) {project.version()}", "False False", "True True", "False False"]
