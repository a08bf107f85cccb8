"""Does `make full` run all that this system has tools for, and say what it leaves out? Do its parts
wait for each other? Is a recorded part run again when what it reads has changed, and in one of five
commits?"""

import argparse
import fcntl
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import pages
from tests import mutants, test_layers
from tools import recorded
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
                    re.findall(r"^(?:[a-z].*__wrap_|SUCCEEDS\()(\w+)[(,)]",
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


def test_no_row_of_the_survivors_is_stale() -> None:
    """Whoever changes a line must learn that from `make test`, not after an hour of mutants."""
    keys = {mutant.key for subject in (mutants.Library, mutants.Keyed)
            for mutant in subject().mutants()}
    assert not mutants.explained().keys() - keys


# ---- Recorded parts.

INPUTS = ["dumpulse.c", "proof"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recorded, "ROOT", tmp_path)
    monkeypatch.setattr(recorded, "FILE", tmp_path / "recorded.tsv")
    monkeypatch.setattr(recorded, "versions", (tmp_path / "versions").read_text)
    monkeypatch.setenv("COMMAND", "prove")
    for name in ("proof/contract", "dumpulse.c", "server.c", "versions", "build/flags"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("*.o\n/build/\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_an_input_has_changed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the inputs is changed, added, made a program or removed, or the flags, a version or
    the command is another one. Other files do not count."""
    hashes = [recorded.inputs_hash(INPUTS)]
    for file in ("dumpulse.c", "proof/contract", "proof/added", "versions", "build/flags"):
        (project / file).write_text("changed")
        hashes.append(recorded.inputs_hash(INPUTS))
    (project / "proof/contract").chmod(0o755)
    hashes.append(recorded.inputs_hash(INPUTS))
    (project / "proof/added").unlink()
    hashes.append(recorded.inputs_hash(INPUTS))
    monkeypatch.setenv("COMMAND", "prove --all")
    hashes.append(recorded.inputs_hash(INPUTS))
    assert len({*hashes}) == len(hashes)
    for file in ("server.c", "proof/ignored.o"):
        (project / file).write_text("changed")
    assert recorded.inputs_hash(INPUTS) == hashes[-1]
    with pytest.raises(subprocess.CalledProcessError):  # a path without files
        recorded.inputs_hash([*INPUTS, "proof/contracts"])


def test_versions_are_of_the_programs_themselves() -> None:
    """The package gcc only has the name of a compiler; gcc-12, for example, is the compiler."""
    assert {"clang", "cvc4", "frama-c-base", "gcc", "spin", "why3", "z3"} <= {
        *(ROOT / "tools" / "packages.txt").read_text().split()}
    assert re.search(r"^gcc\t.+\ngcc-\d+\t\d", recorded.versions(), re.M)


def test_what_must_run(project: Path, monkeypatch: pytest.MonkeyPatch,
                       capsys: pytest.CaptureFixture[str]) -> None:
    """All that is not recorded with these inputs, and what has its turn."""
    (project / "recorded.tsv").write_text("# part\tinputs\nother\t12\n")
    monkeypatch.setattr("sys.argv", ["recorded", "due", "proof", *INPUTS])
    monkeypatch.setattr(recorded, "is_its_turn", lambda part, commits: commits == 5)
    counted = recorded.output_of
    monkeypatch.setattr(recorded, "output_of", lambda *command, **kept: "4" if "rev-list" in command
                        else counted(*command, **kept))
    recorded.main()
    now = capsys.readouterr().out.strip()
    assert now == recorded.inputs_hash(INPUTS)
    for result, began, row in (("passed", now, {"proof": now}), ("FAILED", now, {}),
                               ("passed", 64 * "0", {}), ("passed", now, {"proof": now})):
        monkeypatch.setattr("sys.argv", ["recorded", result, "proof", began, *INPUTS])
        recorded.main()
        assert recorded.records() == {"other": "12"} | row
    monkeypatch.setattr("sys.argv", ["recorded", "due", "proof", *INPUTS])
    recorded.main()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(recorded, "output_of", lambda *command, **kept: "5" if "rev-list" in command
                        else counted(*command, **kept))
    recorded.main()
    assert capsys.readouterr().out.strip() == now


@pytest.mark.slow
def test_what_a_part_imports_is_among_its_inputs() -> None:
    """Of files that it opens otherwise, only its author knows."""
    parts = set(re.findall(r"^READS_([a-z-]+) ", "".join(
        path.read_text() for path in ROOT.glob("*/room.mk")), re.M))
    assert len(parts) > 4
    for part in parts:
        recipe = run(["make", "-n", "-C", ROOT, f"part-{part}", f"NEEDS_{part}="])
        commands = [run(["make", "-n", "-C", ROOT, "part", f"ONLY={part}", f"NEEDS_{part}="])]
        if part == "check-pages":
            commands += [run(["make", "-n", "-C", ROOT, "figures", f"ONLY={table}"])
                         for tables in pages.PAGES.values() for table in tables]
        (paths,) = re.findall(r'reads="(.+?)"', recipe)
        read = set(run(["git", "ls-files", "--", *paths.split()], cwd=ROOT).splitlines())
        modules = re.findall(r"python -m (\S+)", "".join(commands))
        files = [name for name in read if name.startswith("lab/") and name.endswith(".py")] \
            if modules == ["pytest"] else [test_layers.file_of(module) for module in modules]
        files = [f"{name}/__main__.py" if (ROOT / name).is_dir() else name for name in files]
        for name in files:  # which grows
            files += {used for used in test_layers.imported(ROOT / name) if used.endswith(".py")
                      } - {*files}
        assert len(files) > 1 and {*files} - read == set(), part
        # The versions of what pip fetches: the proof needs none of it.
        assert part.startswith("proof") or "tools/toolchains.txt" in read, part
