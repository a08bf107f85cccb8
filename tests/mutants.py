"""Breaks the programs in small ways, and checks that the tests notice.

    python -m tests.mutants library|keyed|server|client [--seed N] [--count N] [--file NAME]
                            [--portion K/N] [--jobs N]
    python -m tests.mutants server|client --sample

- library: it changes each comparison, operator, constant and statement of dumpulse.c, dumpulse.h,
  dumpulse_watch.c and dumpulse_watch.h. The unit tests and the vectors must notice. They run on
  this machine, also with a copy of the header that claims to have an int of 16 bits: its arithmetic
  is right for a wider int, too. If a mutant makes a difference only there, they run on a simulated
  AVR. A line that no vector runs has mutants that survive.
- keyed: the same with dumpulse_keyed.h and the file of each role. Its tests are those of `make
  test`: on this machine, and on a simulated AVR and two ARM, one with the highest byte first.
- server: it changes udpserver.c and server/. First the unit tests and the deterministic
  part of the fuzzer run, if they include the changed source, then the Python tests, then the
  virtual machine with CAN, and then 60 stories of the storm.
- client: it changes client.py, and the Python tests run.

The Python tests run in a copy of the project for each job. The fastest come first, and before them
those that have noticed the last mutants.

Each mutant that survives must be in survivors.tsv with the reason. It is a failure if a mutant in
that file is noticed, or does not exist. The same --seed and --count choose the same mutants.

--portion K/N: each N-th of them, from the K-th on. Of server and client, the tests that take
minutes do not run without any change before. It is a failure only if less than three of four
mutants are noticed: what else is wrong is printed.

--sample: takes only the mutants of mutants_sample.tsv. Each has the step or the test that notices
it, and only that one runs. It is a failure if a mutant does not exist, or if its test does not
notice it. To choose others: --record FILE writes what has noticed each mutant.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from tests import mutation
from tests.mutation import (STILLBORN, SURVIVED, Limits, Mutant, Stillborn, Verdict, compiled,
                            run_step)
from tools import vm
from tools.programs import (BUILD, EXTRAS, KEYED, ROOT, as_program, library_file, portion,
                            vectors, wraps)

WORK = BUILD / "mutants"
SURVIVORS = Path(__file__).with_name("survivors.tsv")
SAMPLE = Path(__file__).with_name("mutants_sample.tsv")
CODE_OF_HEADER = "#define DUMPULSE_MAGIC"  # the header has only its manual before this
CODE_OF_KEYED = "/* The labels are"
CODE_OF_WATCH = "void dumpulse_watch_lines_"  # before it are macros: tests/test_device_watch.py
LIBRARY = ("dumpulse.c", "dumpulse.h", "dumpulse_watch.c", "dumpulse_watch.h")
WIDTH = "#define DUMPULSE_NARROW_ (UINT_MAX == 0xFFFFU)"
NARROW = "#define DUMPULSE_NARROW_ (UINT_MAX != 0xFFFFU)"
NOT_TESTED = (3, 4, 5)  # pytest's statuses for errors of its own, and of how it was called
COMPILING = 1800.0  # seconds; the longest takes 5 on an idle machine, and 120 at a load of 30
# A test may take ten times as long as without any change, and this many seconds more.
FLOOR = 30.0
LEAST_OF_PORTION = 0.75  # the share of a few mutants that must be noticed
IMPATIENCE = "15"  # seconds that a test of a mutant waits for something that may never come


Only = Sequence[str]  # the names of steps and tests to run; if it is empty, all run


class Subject(Protocol):
    least: float  # the share of mutants that must be noticed
    jobs: int  # that run at a time on each processor: most tests of servers wait
    measured: Only  # the steps that the unchanged program takes before a portion; all if empty

    def mutants(self) -> list[Mutant]: ...

    def prepare(self, folder: Path) -> None:
        """Prepares a folder to test in, with the unchanged program."""

    def test(self, mutant: Mutant | None, folder: Path, patient: bool, only: Only) -> Verdict:
        """Tests a mutant. None: the unchanged program, which must survive; its times are kept."""


PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
CMOCKA = "-lcmocka"
# Each step, what it is compiled from, and how it runs.
Step = tuple[str, Sequence[str], Sequence[object]]


def run_steps(steps: Iterable[Step], limits: Limits, folder: Path, learn: bool) -> Verdict:
    """Compiles and runs each step with the library in this folder, until one notices."""
    for step, parts, command in steps:
        if parts:
            include = (folder / step).parent
            sources = [part if part[0] == "-" else
                       include / part if (include / part).exists() else ROOT / "tests" / part
                       for part in parts]
            try:
                compiled(["gcc", "-std=c99", "-O1", "-w", f"-I{include}", *sources,
                          "-o", folder / step], COMPILING, ROOT)
            except Stillborn:
                return STILLBORN, "gcc"
        verdict = run_step(step, command, limits, ROOT, learn=learn,
                           no_verdict=[2, *NOT_TESTED] if not parts else (),
                           DUMPULSE_SOURCE=str(folder))
        if verdict != SURVIVED:
            return verdict, step
    return SURVIVED, ""


class Library:
    # Each survivor needs an explanation anyway; this limits how many there are.
    least, jobs = 0.95, 1
    measured: Only = ()

    def __init__(self) -> None:
        self._limits = Limits()

    def mutants(self) -> list[Mutant]:
        mutants = []
        for name, start in (("dumpulse.c", ""), ("dumpulse.h", CODE_OF_HEADER),
                            ("dumpulse_watch.c", ""), ("dumpulse_watch.h", CODE_OF_WATCH)):
            text = library_file(name).read_text()
            mutants += mutation.c_mutants(name, text, text.index(start), thorough=True)
        return mutants

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True)

    def test(self, mutant: Mutant | None, folder: Path, patient: bool, only: Only) -> Verdict:
        for name in LIBRARY:
            shutil.copy(library_file(name), folder)
        if mutant is not None:
            (folder / mutant.file).write_text(mutant.text)
        # As if an int had 16 bits: that finds in a moment what takes AVR's simulator seconds.
        narrow = folder / "narrow"
        narrow.mkdir(exist_ok=True)
        for name in LIBRARY:
            (narrow / name).write_text((folder / name).read_text().replace(WIDTH, NARROW))
        pytest = [*PYTEST, "tests/test_targets.py", "-k"]
        steps: list[Step] = []
        if mutant is None or "watch" not in mutant.file:
            steps += [(step, ("dumpulse.c", "vectors.c"), [folder / step, vectors("vectors.tsv")])
                      for step in ("vectors", "narrow/vectors")]
            steps += [("AVR", (), [*pytest, "([ATmega328P] or [Cortex-M0+]) and not watch"])]
        if mutant is None or "watch" in mutant.file:
            steps += [("vectors_watch", ("dumpulse_watch.c", "vectors_watch.c"),
                       [folder / "vectors_watch", vectors("vectors_watch.tsv")]),
                      ("AVR_watch", (), [*pytest, "([ATmega328P] or [Cortex-M0+]) and watch"])]
        return run_steps(steps, self._limits, folder, learn=mutant is None)


class Keyed:
    least, jobs = 0.97, 1  # those that survive need a reason, as in Library
    measured: Only = ()

    def __init__(self) -> None:
        self._limits = Limits()

    def mutants(self) -> list[Mutant]:
        return [mutant for name, start in (*((file, "") for file in KEYED),
                                           ("dumpulse_keyed.h", CODE_OF_KEYED))
                for text in [library_file(name).read_text()]
                for mutant in mutation.c_mutants(name, text, text.index(start), thorough=True)]

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True)

    def test(self, mutant: Mutant | None, folder: Path, patient: bool, only: Only) -> Verdict:
        sources = (*KEYED, "dumpulse.c")
        for name in ("dumpulse.h", "dumpulse_keyed.h", "dumpulse_tag_avr.S", *sources):
            shutil.copy(library_file(name), folder)
        if mutant is not None:
            (folder / mutant.file).write_text(mutant.text)
        return run_steps([
            ("vectors_keyed", (*SANITIZERS, *sources, "vectors_keyed.c"),
             [folder / "vectors_keyed", vectors("vectors_keyed.tsv")]),
            ("unit_keyed", (*SANITIZERS, *sources, "unit_keyed.c", CMOCKA),
             [folder / "unit_keyed"]),
            ("targets", (), [*PYTEST, "tests/test_keyed.py", "-k", "highest_byte_first or "
                             "every_target and ([ATmega328P] or [Cortex-M0+])"]),
        ], self._limits, folder, learn=mutant is None)


def copy_of_the_project(folder: Path) -> None:
    shutil.copytree(ROOT, folder, symlinks=True,
                    ignore=lambda folder, names: {"build", ".git", "__pycache__",
                                                  ".library"} & set(names))
    (folder / "build").mkdir()
    (folder / "build" / "venv").symlink_to(ROOT / "build" / "venv")


class PythonTests:
    """Runs some of the Python tests in copies of the project: the fast ones, then the slow."""

    def __init__(self, files: Sequence[str], without: str, slow: str) -> None:
        self._steps = {"tests": [*files, "-k", f"not ({without}) and not ({slow})"],
                       "slow tests": [*files, "-k", f"not ({without}) and ({slow})"]}
        self._limits = Limits()
        self._seconds: dict[str, dict[str, float]] = {}
        # By file: the tests that have noticed its last mutants.
        self._noticed: dict[str, list[str]] = defaultdict(list)
        self._lock = threading.Lock()

    def test(self, mutant: Mutant | None, folder: Path, patient: bool, only: Only) -> Verdict:
        steps = {"these tests": [name for name in only if "::" in name]} if only else self._steps
        for step, tests in steps.items():
            if tests:
                verdict = self._run(step, tests, mutant, folder, patient)
                # The unchanged program may fail on a busy machine. A second try hides no mutant.
                if mutant is None and verdict[0] != SURVIVED:
                    verdict = self._run(step, tests, mutant, folder, patient)
                if verdict[0] != SURVIVED:
                    return verdict
        return SURVIVED, ""

    def _run(self, step: str, tests: Sequence[str], mutant: Mutant | None, folder: Path,
             patient: bool) -> Verdict:
        order, failed = folder / "build" / "order.json", folder / "build" / "failed"
        failed.unlink(missing_ok=True)
        order.unlink(missing_ok=True)
        if mutant is not None:
            with self._lock:
                first = list(self._noticed[mutant.file])
            order.write_text(json.dumps({"seconds": self._seconds.get(step, {}), "first": first,
                                         "floor": FLOOR}))
        more = {} if patient or mutant is None else {"DUMPULSE_PATIENCE": IMPATIENCE}
        with tempfile.TemporaryDirectory(prefix="mutant-") as scratch:
            verdict = run_step(
                step, [folder / "build/venv/bin/python", "-m", "pytest", "-q", "-x",
                       "-p", "no:cacheprovider",
                       "--tb=native",  # pytest's own fails at the traceback of endless recursion
                       "-p", "tests.ordered", *tests],
                self._limits, folder, learn=mutant is None, no_verdict=NOT_TESTED,
                DUMPULSE_ORDER=str(order),
                DUMPULSE_FAILED=str(failed), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", TMPDIR=scratch,
                **more)
        test = failed.read_text() if failed.exists() else step
        if mutant is None and verdict == SURVIVED:
            self._seconds[step] = json.loads(order.read_text())["seconds"]
        elif mutant is None:
            print(f"without any change, this does not pass: {test}", file=sys.stderr)
        elif failed.exists():
            with self._lock:
                self._noticed[mutant.file] = list(dict.fromkeys([test,
                                                                 *self._noticed[mutant.file]]))[:8]
        return verdict, test


class Client:
    least, jobs = 0.9, 4
    measured: Only = ("none",)

    def __init__(self) -> None:
        self._tests = PythonTests(
            ["client/tests", "tests/test_watch.py", "server/tests/test_can.py"],
            without="machine_with_can",
            slow="commands_of_the_readme or demo or changed_cells or over_the_wrap or restart or "
                 "nobody_answers or pulled_out or asks_again or 64_variables")

    def mutants(self) -> list[Mutant]:
        return mutation.python_mutants("client.py", (ROOT / "client.py").read_text())

    def prepare(self, folder: Path) -> None:
        copy_of_the_project(folder)
        subprocess.run(["make", "-s", "CFLAGS=-O1", "build/udpserver", "build/canserver"],
                       cwd=folder, check=True)

    def test(self, mutant: Mutant | None, folder: Path, patient: bool, only: Only) -> Verdict:
        (folder / "client.py").write_text((ROOT / "client.py").read_text() if mutant is None
                                         else mutant.text)
        return self._tests.test(mutant, folder, patient, only)


SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SERVER_FLAGS = ["-std=c99", "-O1", "-g1", "-w", "-I.", "-Iextras", *SANITIZERS]
PARTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "server").glob("*.c")
               if path.name != "canserver.c")
ROLES = [f"{EXTRAS.name}/{file}" for file in KEYED]
AGENT = [*PARTS, "dumpulse.c", *ROLES, "extras/dumpulse_watch.c"]
# Each program that Python's tests start, and the sources that it is linked from.
SERVER_PROGRAMS = {
    "udpserver": ["udpserver.c", *AGENT],
    "canserver": ["server/canserver.c", *AGENT],
    "udpserver-calls": ["server/tests/calls.c", "udpserver.c", *AGENT],
}
# Tests in C, the sources that each one tests, and the other ones that it is linked from.
OF_LOG = ("server/alarms.c", "server/counters.c", "server/options.c")
COMMON = ("server/tests/stand_ins.c", *OF_LOG)
UNITS = {
    "unit-can": (["server/can.c"], ["server/tests/unit_can.c", *COMMON, "dumpulse.c"]),
    "unit-table": (["server/table.c", "server/watch.c"],
                   ["server/tests/unit_table.c", *COMMON, "server/hook.c", "server/limits.c",
                    "extras/dumpulse_watch.c"]),
    "unit-udpserver": (["server/address.c", "server/limits.c", "server/sources.c",
                        "server/sockets.c"],
                       ["server/tests/unit_udpserver.c", *COMMON, "server/loop.c"]),
    "unit-hook": (["server/hook.c", "server/limits.c"], ["server/tests/unit_hook.c", *COMMON]),
    "unit-log": (["server/log.c"], ["server/tests/unit_log.c", *OF_LOG, "server/timing.c"]),
    "unit-keys": (["server/keys.c", "server/numbers.c"], [
        "server/tests/unit_keys.c", *COMMON, "dumpulse.c", *ROLES,
        *(f"server/{part}.c" for part in ("overlap", "snapshot", "table"))]),
}
FUZZER = "server/tests/fuzz_udpserver.c"
# clang compiles these, so that the fuzzer sees where it gets in them.
IN_FUZZ = ("udpserver.c", *ROLES,
           *(f"server/{part}.c"
             for part in ("endpoints", "keys", "numbers", "options", "snapshot")))
OF_FUZZER = (*IN_FUZZ, "server/address.c")
RUN_FUZZER = ["build/fuzz", "-runs=2000", "-seed=1", "-max_len=1600", "-artifact_prefix=build/",
              "-dict=build/fuzz-words", "build/fuzz-seeds"]
# Only a machine with CAN can test these completely.
IN_VM = ("server/can.c", "server/sockets.c", "server/canserver.c")
HEADERS_WITH_CODE = tuple(f"server/{part}.h" for part in (
    "address", "hook_internal", "keys_internal", "limits", "snapshot", "table", "udp"))


class Server:
    least, jobs = 0.9, 4
    measured: Only = (*UNITS, "fuzz")

    def __init__(self) -> None:
        self._limits = Limits()
        self._tests = PythonTests(
            ["server/tests/test_udpserver.py", "server/tests/test_udpserver_keyed.py",
             "server/tests/test_overlap.py", "server/tests/test_watch_server.py",
             "server/tests/test_can.py", "server/tests/test_alarm_runs.py"],
            without="machine_with_can or install_units or addresses_that_cannot",
            slow="only_then or kills_amid or fails_later or during_a_flood or "
                 "wastes_no_processor or watchdog or each_alarm")

    def mutants(self) -> list[Mutant]:
        return [mutant for file in ("udpserver.c", "server/canserver.c", *PARTS, *HEADERS_WITH_CODE)
                for mutant in mutation.c_mutants(file, (ROOT / file).read_text())]

    def prepare(self, folder: Path) -> None:
        copy_of_the_project(folder)
        (folder / "build" / "objects").mkdir()
        (folder / "build" / "vm").symlink_to(ROOT / "build" / "vm")
        for name in ("seeds", "words"):
            subprocess.run(["make", "-s", f"build/fuzz/server-{name}"], cwd=folder, check=True)
            (folder / f"build/fuzz/server-{name}").rename(folder / f"build/fuzz-{name}")
        (folder / "build" / "fuzz").rmdir()  # the fuzzer gets this name

    def test(self, mutant: Mutant | None, folder: Path, patient: bool, only: Only) -> Verdict:
        original = None if mutant is None else (folder / mutant.file).read_text()
        try:
            if mutant is not None:
                (folder / mutant.file).write_text(mutant.text)
            return self._built_and_tested(mutant, folder, patient, only)
        except Stillborn:
            if mutant is None:
                raise
            return STILLBORN, "gcc"
        finally:
            if mutant is not None and original is not None:
                (folder / mutant.file).write_text(original)

    def _built_and_tested(self, mutant: Mutant | None, folder: Path, patient: bool,
                          only: Only) -> Verdict:
        units = {unit: [*tested, *others] for unit, (tested, others) in UNITS.items()}
        sources = {source for parts in (*SERVER_PROGRAMS.values(), *units.values())
                   for source in parts}
        changed = sources
        if mutant is not None and not mutant.file.endswith(".h"):
            changed = {mutant.file} & sources
        objects = {source: f"build/objects/{source.replace('/', '-')}.o" for source in sources}
        for source in changed:
            object_file = objects[source]
            if mutant is not None:  # the other objects are those of the unchanged program
                objects[source] = object_file = object_file.replace(".o", ".mutant.o")
            compiled(["gcc", *SERVER_FLAGS, "-c", source, "-o", object_file], COMPILING, folder)

        def link(program: str, parts: Sequence[str]) -> None:
            compiled(["gcc", *SANITIZERS, *(objects[source] for source in parts), "-lcmocka",
                      *wraps(f"build/{program}"), "-o", f"build/{program}"], COMPILING, folder)

        for program, parts in SERVER_PROGRAMS.items():
            link(program, parts)
        for step, (tested, _) in UNITS.items():
            if step in only if only else mutant is None or mutant.file in (*tested,
                                                                           *HEADERS_WITH_CODE):
                link(step, units[step])
                verdict = run_step(step, [f"build/{step}"], self._limits, folder,
                                   learn=mutant is None)
                if verdict != SURVIVED:
                    return verdict, step
        if "fuzz" in only if only else mutant is None or mutant.file in (*OF_FUZZER,
                                                                         *HEADERS_WITH_CODE):
            rest = [objects[source] for source in AGENT
                    if source not in (*IN_FUZZ, "server/main.c")]
            compiled(["clang", "-fsanitize=fuzzer", "-Wno-everything", *SERVER_FLAGS, FUZZER,
                      *IN_FUZZ, *rest, *wraps("build/fuzz/server"), "-o", "build/fuzz"], COMPILING,
                     folder)
            verdict = run_step("fuzz", RUN_FUZZER, self._limits, folder, learn=mutant is None)
            if verdict != SURVIVED:
                return verdict, "fuzz"
        verdict, step = self._tests.test(mutant, folder, patient, only)
        if verdict == SURVIVED and not only and (mutant is None or mutant.file in IN_VM):
            if mutant is None:
                vm.kernel()  # fetches it, if it is not here yet
            step = "VM"
            verdict = run_step(step, [folder / "build/venv/bin/python", "-m", "tools.vm",
                                      "env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
                                      "build/venv/bin/python", "-m", "pytest", "-q", "-x", "-p",
                                      "no:cacheprovider", "--assert=plain",
                                      "server/tests/vm_can.py"], self._limits, folder,
                               learn=mutant is None)
        for story in ("storm", "storm-can"):
            if verdict == SURVIVED and not only:
                step = story
                command = f"make -s WARNINGS=-w build/{step} && build/{step} --count 60"
                verdict = run_step(step, ["sh", "-c", command], self._limits, folder,
                                   learn=mutant is None)
        return verdict, step


SUBJECTS: dict[str, type[Library] | type[Keyed] | type[Server] | type[Client]] = {
    "library": Library, "keyed": Keyed, "server": Server, "client": Client}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mutants",
                                     description="Breaks a program; do its tests notice?")
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--count", type=int, help="how large a sample; all unless given")
    parser.add_argument("--file", action="append", help="mutants of this file alone (repeatable)")
    parser.add_argument("--portion", type=portion, default=slice(None), metavar="K/N",
                        help="each N-th of them, from the K-th on")
    parser.add_argument("--jobs", type=int, help="how many run at a time")
    parser.add_argument("--sample", action="store_true",
                        help="those of mutants_sample.tsv, each with its own test alone")
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="add a line to it for each: what noticed it")
    parser.add_argument("--list", action="store_true", help="only list what would be tested")
    return parser


def main() -> None:
    parser = make_parser()
    options = parser.parse_args()
    name = "mutants" if options.subject == "library" else f"mutants-{options.subject}"
    subject: Subject = SUBJECTS[options.subject]()
    every = subject.mutants()
    files = {mutant.file for mutant in every}
    for file in options.file or ():
        if file not in files:
            parser.error(f"no mutant is of {file}: they are of {', '.join(sorted(files))}")
    only: dict[tuple[str, str, str], str] = {}
    if options.sample:
        only = {key: test for key, test in mutation.rows(SAMPLE).items() if key[0] in files}
        chosen = [mutant for mutant in every if mutant.key in only]
        missing = [" | ".join(key) for key in only.keys() - {mutant.key for mutant in chosen}]
        if missing:
            raise SystemExit("\n".join(f"{SAMPLE.name}: no mutant is this; choose another: {one}"
                                       for one in missing))
    else:
        chosen = mutation.sample([mutant for mutant in every if not options.file
                                  or mutant.file in options.file],
                                 options.seed, options.count)
    chosen = chosen[options.portion]
    if options.list:
        for mutant in chosen:
            print(f"{mutant.file}:{mutant.line}\t{mutant.before}\t{mutant.after}")
        return
    reasons = {key: reason for key, reason in mutation.rows(SURVIVORS).items() if key[0] in files}
    again = "--sample" if options.sample else f"--seed {options.seed} --count {len(chosen)}"
    print(f"{name}: {len(chosen)} of {len(every)} mutants; the same again with {again}", flush=True)

    work = WORK / options.subject
    shutil.rmtree(work, ignore_errors=True)
    jobs = options.jobs or subject.jobs * (os.cpu_count() or 1)
    folders = [work / str(number) for number in range(min(jobs, len(chosen)))]
    subject.prepare(folders[0])
    verdict = subject.test(None, folders[0], True, subject.measured if options.portion.step
                           else sorted(set(only.values())))
    if verdict[0] != SURVIVED:
        raise SystemExit(
            f"{name}: without any change it does not pass: {verdict[1]}: mend that first")
    for folder in folders[1:]:
        shutil.copytree(folders[0], folder, symlinks=True)

    def tested(mutant: Mutant, folder: Path, patient: bool) -> Verdict:
        verdict = subject.test(mutant, folder, patient, [only[mutant.key]] if only else [])
        if options.record is not None:
            with options.record.open("a") as record:
                record.write("\t".join([*mutant.key, *verdict]) + "\n")
        return verdict

    is_strict = options.portion.step is None
    faults = mutation.campaign(name, every, chosen, reasons, folders, tested,
                               LEAST_OF_PORTION if not is_strict else
                               subject.least if len(chosen) == len(every) else 0.0, is_strict)
    shutil.rmtree(work)
    if faults:
        raise SystemExit("\n".join(faults))
    print(f"{name}: {len(chosen)} passed, 0 failed")


if __name__ == "__main__":
    as_program(main, ".*")
