"""MicroPython itself, for Linux, runs the module."""

import json
import subprocess
from pathlib import Path

import pytest

from packages import making, project
from spec import model
from tools.programs import PATIENCE, vectors

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
FINDS = """
import dumpulse, sys
report = bytes.fromhex(sys.stdin.readline().strip())
line, noise = dumpulse.Line(), bytes(range(256))
for part in (noise + report[:100], report[100:] + noise[:9], noise):
    print(line.take(part) == report)
print(dumpulse.__version__)
"""


def run(tmp_path: Path, program: str, given: str) -> list[str]:
    making.builder("micropython")(tmp_path)
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([MICROPYTHON, "program.py"], cwd=tmp_path, text=True,
                          input=given, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    return done.stdout.splitlines()


def entries(report: str) -> object:
    """By the model alone."""
    every = model.Agent.of_table(bytes.fromhex(report)).entries
    return [[variable, entry[0] * 256 + entry[1], entry[2], entry[3]]
            for variable, entry in enumerate(every) if any(entry)]


def test_it_makes_and_reads_what_the_model_does(tmp_path: Path) -> None:
    """What the vectors make and check."""
    asked: list[tuple[list[object], object]] = []
    for line in vectors("vectors.tsv").read_text().splitlines():
        kind, *rest = line.split("\t")
        if kind == "make":
            asked.append(([*map(int, rest[:3])], rest[3] if int(rest[0]) < 64 else None))
        elif kind == "report":
            asked.append(([rest[2]], entries(rest[2])))
        elif kind == "check":
            asked.append(([rest[0].strip("-")], entries(rest[0]) if rest[1] == "yes" else None))
    answers = run(tmp_path, ANSWERS, "".join(f"{json.dumps(each)}\n" for each, _ in asked))
    assert len(answers) == len(asked) > 40
    assert [*map(json.loads, answers)] == [answer for _, answer in asked]


def test_it_finds_a_report_on_a_line(tmp_path: Path) -> None:
    report = model.checksummed(bytes(256)).hex()
    assert run(tmp_path, FINDS, report) == ["False", "True", "False", project.version()]
