"""Does `make full` run all that this system has tools for, and say what it leaves out? Do its parts
wait for each other?"""

import argparse
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.programs import ROOT, portion, run, wraps

PROOFS = ["proof", "proof-eva", "proof-mutants", "proof-smoke"]


def parts(tier: str, *settings: str) -> tuple[list[str], list[str], list[str]]:
    """The parts that begin, those of the table, and those that are left out."""
    said = run(["make", "-n", "--no-print-directory", "-C", ROOT, tier, *settings])
    (table,) = re.findall(r"for part in (.*); do", said)
    return (sorted(re.findall(r'echo "== (\S+) begins"', said)), sorted(table.split()),
            sorted(re.findall(r'echo "== (\S+): left out, because [a-z ]* no frama-c"', said)))


def test_what_frama_c_is_needed_for_is_left_out_without_it() -> None:
    every, table, left = parts("full", "FRAMA_C=yes", "COMMITS=0")
    assert every == table and set(PROOFS) < set(every) and left == []
    rest = sorted(set(every) - set(PROOFS))
    assert parts("full", "FRAMA_C=", "COMMITS=0") == (rest, rest, PROOFS)


TURNS = """
include Makefile
EACH := $(EACH)
turns:
	@echo $(foreach number,$(shell seq $(words $(EACH))),$(eval COMMITS := $(number))$(TODAYS))
"""


def test_a_commit_runs_one_portion_and_a_release_all(tmp_path: Path) -> None:
    """In as many commits as there are portions, each has its turn."""
    every, _, _ = parts("portions", "FRAMA_C=yes")
    portions = [part for part in every if "." in part]
    assert sorted({*every} - {*portions}) == ["packages-debian", "packages-tools"]
    (tmp_path / "turns.mk").write_text(TURNS)
    turns = run(["make", "-s", "-C", ROOT, "-f", tmp_path / "turns.mk", "turns"]).split()
    assert sorted(turns) == portions and len(portions) > 100
    full, _, _ = parts("full", "FRAMA_C=yes", f"COMMITS={len(portions) + 3}")
    assert [part for part in full if "." in part] == turns[2:3]
    release = run(["make", "-n", "--no-print-directory", "-C", ROOT, "release"])
    assert '"== mutants-keyed.1of' in release and '"== packages-tools begins"' in release
    assert "part" not in run(["make", "-n", "-C", ROOT, "release", "ARGS=--check", "NEEDS="])


def test_portions_have_each_case_once() -> None:
    assert [list(range(7))[portion(f"{number}/3")] for number in (1, 2, 3)] == [
        [0, 3, 6], [1, 4], [2, 5]]
    for wrong in ("", "0/3", "4/3", "1/0", "1", "1/3/3", "-1/3", "1/3\n"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no portion"):
            portion(wrong)


BROKEN = """
include Makefile
PART_one = false || failed=1; echo two runs; exit $$failed
PART_three = echo three runs
PART_five = exit 124
PART_six = echo six runs
PART_seven = echo seven runs
PART_eight = echo eight runs
PART_nine = echo nine runs $(AT) $(call chosen,a b c d e)
NEEDS_six = no-such-program
READS_one = dumpulse.c
READS_three = dumpulse.c
READS_seven = dumpulse.c
READS_eight = dumpulse.c
READS_nine = dumpulse.c
PARTS_test = one three four five six seven eight nine.2of3
FIRST_test =
"""


def test_a_failure_ends_no_other_part_and_no_other_program(tmp_path: Path) -> None:
    """The part four has no command, and six lacks a program. Seven is recorded, and the inputs of
    eight cannot be read. Of nine, a portion runs. The table has them all, with their seconds."""
    python = tmp_path / "python"
    python.write_text(f"""#!/bin/sh
echo "$3 $4 $5 $6" >>{tmp_path}/asked
case "$3 $4" in 'due seven') ;; 'due eight') exit 1 ;; *) echo hash ;; esac
""")
    python.chmod(0o755)
    (tmp_path / "broken.mk").write_text(BROKEN)
    done = subprocess.run(["make", "-s", "--no-print-directory", "-C", ROOT, "-f",
                           tmp_path / "broken.mk", "test", f"MAKE=make -f {tmp_path}/broken.mk",
                           f"LOG={tmp_path}/log", f"PYTHON={python}"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "two runs\n" in done.stdout and "three runs\n" in done.stdout
    assert "nine runs --portion 2/3 b e\n" in done.stdout
    rows = re.findall(r"^== (\w+) +\d+\.\d +\d+\.\d  (\S+)$", done.stdout, re.M)
    assert rows == [("FAILED", "one"), ("passed", "three"), ("FAILED", "four"), ("TIMEOUT", "five"),
                    ("missing", "six"), ("recorded", "seven"), ("passed", "eight"),
                    ("passed", "nine.2of3"), ("FAILED", "all")]
    asked = [line for line in (tmp_path / "asked").read_text().splitlines() if "due" not in line]
    assert sorted(asked) == ["FAILED one hash dumpulse.c", "passed three hash dumpulse.c"]


def test_each_function_that_replaces_another_is_known_to_the_linker() -> None:
    """Otherwise a test calls the system itself, and nobody notices."""
    for program in ("storm", "storm-can", "udpserver-calls", "fuzz/server", "unit-can", "unit-hook",
                    "unit-keys", "unit-log", "unit-table", "unit-udpserver"):
        command = run(["make", "-nB", "-C", ROOT, f"build/{program}"])
        sources = set(re.findall(r"[\w/-]+\.c\b", command))
        replaced = {name for source in sources for name in
                    re.findall(r"^(?:[a-z].*__wrap_|SUCCEEDS\()(\w+)[(,]",
                               (ROOT / source).read_text(), re.M)}
        assert {f"-Wl,--wrap={name}" for name in replaced} == set(wraps(f"build/{program}"))


def test_two_processes_do_not_build_at_the_same_time() -> None:
    with (ROOT / "Makefile").open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        other = subprocess.Popen([sys.executable, "-c", "from tools.programs import built\n"
                                  "print(built('build/unit-log'))"], cwd=ROOT, text=True,
                                 stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            other.communicate(timeout=2)
    assert other.communicate(timeout=60)[0] == f"{ROOT}/build/unit-log\n"
