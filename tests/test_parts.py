"""Does `make full` run all that this system has tools for, and say what it leaves out? Do its parts
wait for each other?"""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.processors.targets import OF_FIGURES, OS_RELEASE
from tools.programs import ROOT, run

PROOFS = ["proof", "proof-eva", "proof-mutants", "proof-smoke"]


def would_say(*settings: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The parts that begin, and the lines at the end."""
    said = run(["make", "-n", "--no-print-directory", "-C", ROOT, "full", *settings])
    return (re.findall(r'echo "== (\S+) begins"', said),
            re.findall(r'^echo "== (all of|left out): (.*)"$', said, re.M))


def test_what_frama_c_is_needed_for_is_left_out_without_it() -> None:
    every, ((what, names),) = would_say("FRAMA_C=yes")
    assert what == "all of" and sorted(every) == sorted(names.split()) and set(PROOFS) < set(every)
    parts, ends = would_say("FRAMA_C=")
    assert sorted(parts) == sorted(set(every) - set(PROOFS))
    (_, kept), (what, left) = ends
    assert kept.split() == [name for name in names.split() if name not in PROOFS]
    left, why = left.split(": ")
    assert (what, sorted(left.split()), why) == ("left out", PROOFS, "this system has no frama-c")


def test_debian_12_lacks_nothing(tmp_path: Path) -> None:
    """What its mirror does not have is an error there, and elsewhere a line."""
    for command, does in {"id": "echo 0", "dpkg-query": "", "apt-cache": "", "apt-get": ""}.items():
        (tmp_path / command).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / command).chmod(0o755)
    done = subprocess.run([ROOT / "tools" / "setup", "nowhere"], capture_output=True,
                          text=True, check=False,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stderr.splitlines()[-1] == "setup: this release of Debian does not have: nowhere"
    assert done.returncode == (OF_FIGURES <= set(OS_RELEASE.read_text().splitlines()))


def test_two_processes_do_not_build_at_the_same_time() -> None:
    with (ROOT / "Makefile").open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        other = subprocess.Popen([sys.executable, "-c", "from tools.programs import built\n"
                                  "print(built('build/exhaustive'))"], cwd=ROOT, text=True,
                                 stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            other.communicate(timeout=2)
    assert other.communicate(timeout=60)[0] == f"{ROOT}/build/exhaustive\n"
