"""Breaks the programs in small ways, and checks that the tests notice.

    python3 -m tests.mutants library|keyed|server [--file NAME] [--portion K/N] [--jobs N]

A mutant is a source file with one change: another operator or constant, a flag or a statement that
is gone, or a condition that is reversed. A mutant that passes all steps of its subject survives.

- library: it changes each comparison, operator, constant and statement of dumpulse.c, dumpulse.h,
  dumpulse_watch.c and dumpulse_watch.h. The unit tests and the vectors must notice. They run on
  this machine, also with a copy of the header that claims to have an int of 16 bits: its arithmetic
  is right for a wider int, too. If a mutant makes a difference only there, they run on a simulated
  AVR. A line that no vector runs has mutants that survive.
- keyed: the same with dumpulse_keyed.h and the file of each role. Its tests are those of `make
  test`: on this machine, and on a simulated AVR and two ARM, one with the highest byte first.
- server: it changes udpserver.c and server/. The unit tests, the deterministic part of the fuzzer
  and 60 stories of each storm run, if they are built from the changed file.

Of library and keyed, each mutant that survives must be in survivors.tsv with the reason. It is a
failure if a mutant in that file is noticed. For server, only the share of those that are noticed
counts, and in a portion (each N-th mutant, from the K-th on) of all subjects.

A step may take ten times as long as without any change, and a minute more. If it takes longer, it
has noticed the mutant, too. If a compiler fails without naming an error in the source, something is
wrong with the machine, and everything ends."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.programs import (BUILD, EXTRAS, KEYED, ROOT, as_program, library_file, portion,
                            vectors)

SURVIVORS = Path(__file__).with_name("survivors.tsv")
SLACK, FLOOR, FIRST = 10, 60.0, 1800.0  # FIRST: seconds of a step without any change
NO_VERDICT = (2, 3, 4, 5)  # pytest's statuses for errors of its own, and of how it was called
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    before: str  # the line, without its indentation
    after: str
    text: str = field(repr=False)  # the whole file

    @property
    def key(self) -> Key:
        return self.file, self.before, self.after


# ---- Changes of C.

Change = tuple[int, int, str]  # the begin and the end in the text, and the new text for this part
# What each operator may become. Longer operators come first: `<<` is not two `<`.
OPERATORS = {
    "<<": (">>",), ">>": ("<<",), "++": ("--",), "--": ("++",),
    "+=": ("-=", "="), "-=": ("+=", "="), "&&": ("||",), "||": ("&&",),
    "==": ("!=",), "!=": ("==",), "<=": ("<", ">"), ">=": (">", "<"),
    "->": (), "<": ("<=", ">"), ">": (">=", "<"), "+": ("-",), "-": ("+",),
    "*": ("+",), "|": ("&",), "&": ("|",), "!": ("",), "=": (),
}
TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/)|(?P<directive>^[ \t]*#(?!define "
    r"DUMPULSE_[A-Z])[^\n]*)|(?P<text>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<assertion>\btypedef char [^;]*;)"  # no code; tests/test_targets.py tests that it fails
    r"|(?P<number>\b(?:0[xX][0-9A-Fa-f]+|\d+)(?P<suffix>[uUlL]*)\b)"
    r"|(?P<word>\b(?:true|false)\b)"
    r"|(?P<operator>"
    + "|".join(re.escape(operator) for operator in OPERATORS) + ")", re.S | re.M)
# An assignment, a call, a ++ or --, or a jump. It is no declaration: there a type comes first.
STATEMENT = re.compile(
    r"^ +(?:\(void\))?[*+-]*(?!(?:return|case|default|else|goto|if|while|for|do)\b)\w+"
    r"(?:\[[^\]\n]*\]|\.\w+|->\w+)*(?: [-+*/|&]?= |\+\+|--|\(|;)(?:\"[^\"\n]*\"|[^;{}\"])*;?$",
    re.M)
# Two kinds of numbers are changed only in the library. One is the size of a buffer, which may be
# more than enough. The other is a number in a comparison, if the change of an operator there does
# the same.
DECLARATION = re.compile(
    r"^ *(?:static |const )*(?:char|u?int\d+_t|size_t|struct \w+|union \w+) \**\w+\[.*$", re.M)
BRACKETS = re.compile(r"(?<=\w)\[[^\]\n]*\]|(?<=\])\[[^\]\n]*\]")
COMPARED = re.compile(r"[<>]=? \d\w*|[!=]= 0\b|\bsizeof [\w.]+\[0")
# The size of an array that is a parameter means nothing to a compiler.
PARAMETER = re.compile(r"\buint\d+_t \w+(\[[^\]\n]*\])+(?=[,)])")
CONDITION = re.compile(r"\b(?:if|while) (?=\()")
FLAG = re.compile(r"(?<=[(, ])[A-Z][A-Z0-9_]+ \| | \| [A-Z][A-Z0-9_]+\b")


def mutants_of(file: str, text: str, changes: Iterable[Change]) -> list[Mutant]:
    """Returns a mutant for each change that makes a difference, in the order of the text."""
    lines = text.split("\n")
    found = []
    for start, end, new in sorted(set(changes)):
        if text[start:end] == new:
            continue
        changed = text[:start] + new + text[end:]
        number = text.count("\n", 0, start)
        after = changed[sum(len(line) + 1 for line in lines[:number]):].split("\n", 1)[0]
        found.append(Mutant(file, number + 1, lines[number].strip(), after.strip(), changed))
    return found


def is_type(text: str, match: re.Match[str]) -> bool:
    """Does this `*` or `&` belong to a type, or take an address? Then it is not changed."""
    before, after = text[:match.start()].rstrip(), text[match.end():]
    if match["operator"] == "*":
        return not after[:1].isspace()
    if match["operator"] == "&":
        return before[-1:] in "(,=" or after[:1].isalpha()
    return False


def closing(text: str, at: int) -> int:
    """Returns where the parenthesis is closed that opens there."""
    depth = 0
    for match in re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()]').finditer(text, at):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    raise ValueError(f"no parenthesis closes: {text[at:at + 40]}")


def c_changes(text: str, numbers: Callable[[int], Iterable[int]]) -> Iterator[Change]:
    for match in TOKEN.finditer(text):
        new: Iterable[str] = ()
        if match["number"]:
            digits = match["number"].rstrip("uUlL")
            is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
            value = int(digits, 8 if is_octal else 0)
            new = (f"{'0' if is_octal else ''}{other:{'o' if is_octal else 'd'}}{match['suffix']}"
                   for other in numbers(value) if other >= 0)
        elif match["word"]:
            new = ("false",) if match["word"] == "true" else ("true",)
        elif match["operator"] and not is_type(text, match):
            new = OPERATORS[match["operator"]]
        for one in new:
            yield match.start(), match.end(), one
    for match in STATEMENT.finditer(text):
        if match[0].endswith(";"):
            indentation = len(match[0]) - len(match[0].lstrip())
            yield match.start() + indentation, match.end(), ";" + "\n" * match[0].count("\n")


def more_c_changes(text: str) -> Iterator[Change]:
    """Reverses conditions, unless the change of an operator does that anyway, and removes flags."""
    for match in CONDITION.finditer(text):
        end = closing(text, match.end())
        if re.search(r"&&|\|\|", text[match.end():end]) or not re.search(r"[!=<>]=|[<>!]",
                                                                         text[match.end():end]):
            yield match.end(), end, "(!" + text[match.end():end] + ")"
    for match in FLAG.finditer(text):
        yield match.start(), match.end(), ""


def c_mutants(file: str, text: str, begin: int = 0, thorough: bool = False) -> list[Mutant]:
    """Mutants of the text from `begin` on. `thorough`: constants become one more and one less.
    Otherwise each becomes one that a test should notice: the next one, or twice as many."""
    changes = set(c_changes(text, (lambda value: (value + 1, value - 1)) if thorough else
                            (lambda value: (value ^ 1 if value < 256 else 2 * value,))))
    alone = [match.span() for match in re.finditer(r"/\*.*?\*/", text, re.S)]
    alone += [match.span() for match in PARAMETER.finditer(text)]
    if not thorough:
        changes |= set(more_c_changes(text))
        for line in DECLARATION.finditer(text):
            alone += [match.span() for match in BRACKETS.finditer(text, *line.span())]
        alone += [(match.end() - 1, match.end()) for match in COMPARED.finditer(text)]
        changes = {change for change in changes
                   if not any(start < change[1] <= end for start, end in alone)}
    return mutants_of(file, text, (change for change in changes if change[0] >= begin and not any(
        start <= change[0] < end for start, end in alone)))


# ---- Steps.

class Stillborn(Exception):
    """The mutant does not compile."""


def compiled(command: Sequence[object], cwd: Path = ROOT) -> None:
    """Compiles. Raises Stillborn only if the compiler names an error in the source."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, timeout=FIRST,
                          capture_output=True, text=True)
    if done.returncode != 0:
        if not re.search(r"\berror:|undefined reference", done.stderr):
            raise SystemExit(f"mutants: the compiler failed: {command}\n{done.stderr}")
        raise Stillborn(done.stderr)


class Subject:
    # Each survivor of these needs an explanation anyway; this limits how many there are. A few
    # mutants vary more.
    least, least_of_portion = 0.95, 0.75
    is_thorough = True
    files: Sequence[tuple[str, str]] = ()  # those that are changed, and where their code begins

    def __init__(self) -> None:
        self._taken: dict[str, float] = {}  # seconds of each step without any change

    def mutants(self) -> list[Mutant]:
        return [mutant for name, start in self.files for text in [library_file(name).read_text()]
                for mutant in c_mutants(name, text, text.index(start), thorough=self.is_thorough)]

    def prepare(self, folder: Path) -> None:
        """Puts the unchanged files there. Tests get a copy of the folder."""
        raise NotImplementedError

    def test(self, mutant: Mutant | None, folder: Path) -> str:
        """Returns the step that notices a mutant, or "". None: the unchanged program."""
        raise NotImplementedError

    def notices(self, step: str, command: Sequence[object], cwd: Path = ROOT,
                **environment: str) -> bool:
        """Runs a step. Without any change, it has learned how long that takes."""
        begun = time.monotonic()
        seconds = SLACK * self._taken[step] + FLOOR if step in self._taken else FIRST
        with subprocess.Popen([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, **environment}, process_group=0) as process:
            try:
                said, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return True
            finally:  # ends all that the step has left running, too
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if process.returncode in NO_VERDICT and "pytest" in command:
            raise SystemExit(f"mutants: {step} could not be run: status {process.returncode}\n"
                             f"{said.decode(errors='replace')}")
        self._taken.setdefault(step, time.monotonic() - begun)
        return process.returncode != 0


PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Each step, what it is compiled from, and how it runs.
Step = tuple[str, Sequence[str], Sequence[object]]


class Library(Subject):
    # The header has only its manual before this; before the other place are macros:
    # tests/test_device_watch.py.
    files: Sequence[tuple[str, str]] = (
        ("dumpulse.c", ""), ("dumpulse.h", "#define DUMPULSE_MAGIC"),
        ("dumpulse_watch.c", ""), ("dumpulse_watch.h", "void dumpulse_watch_lines_"))
    more: Sequence[str] = ()  # files that are not changed

    def prepare(self, folder: Path) -> None:
        for name in (*(name for name, _ in self.files), *self.more):
            shutil.copy(library_file(name), folder)

    def test(self, mutant: Mutant | None, folder: Path) -> str:
        for step, parts, command in self.steps(mutant, folder):
            if parts:
                include = (folder / step).parent
                sources = [part if part[0] == "-" else
                           include / part if (include / part).exists() else ROOT / "tests" / part
                           for part in parts]
                compiled(["gcc", "-std=c99", "-O1", "-w", f"-I{include}", *sources,
                          "-o", folder / step])
            if self.notices(step, command, DUMPULSE_SOURCE=str(folder)):
                return step
        return ""

    def steps(self, mutant: Mutant | None, folder: Path) -> list[Step]:
        # As if an int had 16 bits: that finds in a moment what takes AVR's simulator seconds.
        narrow = folder / "narrow"
        narrow.mkdir()
        for name, _ in self.files:
            (narrow / name).write_text((folder / name).read_text().replace(
                "#define DUMPULSE_NARROW_ (UINT_MAX == 0xFFFFU)",
                "#define DUMPULSE_NARROW_ (UINT_MAX != 0xFFFFU)"))
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
        return steps


class Keyed(Library):
    least = 0.97
    files = (*((file, "") for file in KEYED), ("dumpulse_keyed.h", "/* The labels are"))
    more = ("dumpulse.c", "dumpulse.h", "dumpulse_tag_avr.S")

    def steps(self, mutant: Mutant | None, folder: Path) -> list[Step]:
        sources = (*SANITIZERS, *KEYED, "dumpulse.c")
        return [
            ("vectors_keyed", (*sources, "vectors_keyed.c"),
             [folder / "vectors_keyed", vectors("vectors_keyed.tsv")]),
            ("unit_keyed", (*sources, "unit_keyed.c", "-lcmocka"), [folder / "unit_keyed"]),
            ("targets", (), [*PYTEST, "tests/test_keyed.py", "-k", "highest_byte_first or "
                             "every_target and ([ATmega328P] or [Cortex-M0+])"])]


class Server(Subject):
    least, least_of_portion = 0.7, 0.4  # Its tests in Python do not run here.
    is_thorough = False
    files = [(path.relative_to(ROOT).as_posix(), "") for path in (
        ROOT / "udpserver.c", *sorted((ROOT / "server").glob("*.c")),
        *(ROOT / f"server/{part}.h" for part in ("address", "hook_internal", "keys_internal",
                                                 "limits", "snapshot", "table", "udp")))]
    # Each program of the Makefile, and its arguments.
    PROGRAMS = {**{f"unit-{part}": "" for part in ("can", "table", "udpserver", "hook", "log",
                                                   "keys")},
                "fuzz/server": "-runs=2000 -seed=1 -max_len=1600 -artifact_prefix=build/ "
                               "-dict=build/fuzz/server-words build/fuzz/server-seeds",
                "storm": "--count 60", "storm-can": "--count 60"}

    def prepare(self, folder: Path) -> None:
        shutil.copytree(ROOT, folder, symlinks=True, dirs_exist_ok=True,
                        ignore=lambda _, names: {"build", ".git", "__pycache__"} & {*names})
        (folder / "build").mkdir()
        (folder / "build" / "venv").symlink_to(BUILD / "venv")
        self.make(folder, "-j2", "build/fuzz/server-seeds", "build/fuzz/server-words",
                  *(f"build/{program}" for program in self.PROGRAMS))

    def make(self, folder: Path, *words: str) -> None:
        compiled(["make", "-s", "WARNINGS=-w", *words], folder)

    def test(self, mutant: Mutant | None, folder: Path) -> str:
        for program, arguments in self.PROGRAMS.items():
            path = folder / "build" / program
            before = path.stat().st_mtime_ns
            self.make(folder, f"build/{program}")
            if (mutant is None or path.stat().st_mtime_ns != before) and self.notices(
                    program, [path, *arguments.split()], folder):
                return program
        return ""


# ---- A campaign.

def explained() -> dict[Key, str]:
    """Reads the list of survivors: file, line, changed line, and why it survives."""
    rows: dict[Key, str] = {}
    for number, line in enumerate(SURVIVORS.read_text().splitlines(), 1):
        if not line.startswith("#"):
            file, before, after, reason = line.split("\t")
            if not reason or (file, before, after) in rows:
                raise SystemExit(f"{SURVIVORS.name}:{number}: has no reason, or is there twice")
            rows[file, before, after] = reason
    return rows


def campaign(subject: Subject, chosen: Sequence[Mutant], base: Path, jobs: int,
             least: float, is_strict: bool) -> Iterator[str]:
    """Tests the mutants, some at a time. Prints a line for each survivor without an explanation,
    and the counts. Returns what is wrong: if it is not strict, only that less than `least` of them
    are noticed."""
    def tested(mutant: Mutant) -> str:
        # A link is as good as a copy: who writes a file makes it anew.
        with tempfile.TemporaryDirectory(dir=base.parent) as folder:
            shutil.copytree(base, folder, symlinks=True, dirs_exist_ok=True, copy_function=os.link)
            file = Path(folder, mutant.file)
            file.unlink()
            file.write_text(mutant.text)
            try:
                return subject.test(mutant, Path(folder))
            except Stillborn:
                return "compiler"

    reasons, steps, noticed = explained(), Counter[str](), set[Key]()
    begun, unexplained = time.monotonic(), 0
    with ThreadPoolExecutor(jobs) as pool:
        for number, (mutant, step) in enumerate(zip(chosen, pool.map(tested, chosen)), 1):
            steps[step] += 1
            if step:
                noticed.add(mutant.key)
            elif mutant.key not in reasons:
                unexplained += 1
                print(f"{mutant.file}:{mutant.line}: no test notices\n    {mutant.before}\n    "
                      f"{mutant.after}", flush=True)
            if number % 100 == 0:
                print(f"mutants: {number} of {len(chosen)} in {time.monotonic() - begun:.0f} s",
                      file=sys.stderr, flush=True)
    survived, stillborn = steps.pop("", 0), steps.pop("compiler", 0)
    share = steps.total() / (steps.total() + survived) if steps else 0.0
    print(f"mutants: {steps.total()} noticed, {share:.1%}, by "
          f"{', '.join(f'{step} {count}' for step, count in steps.most_common())}; "
          f"{survived} survived, {unexplained} of them without an explanation; "
          f"{stillborn} did not compile")
    if unexplained and is_strict:
        yield f"mutants: {unexplained} survivors above are not explained"
    yield from (f"mutants: a listed survivor is noticed now: {' | '.join(key)}" for key in reasons
                if key in noticed and is_strict)
    if share < least:
        yield f"mutants: {share:.1%} noticed, where {least:.0%} should be"


SUBJECTS: dict[str, type[Subject]] = {"library": Library, "keyed": Keyed, "server": Server}


def main() -> None:
    parser = argparse.ArgumentParser(prog="mutants",
                                     description="Breaks a program; do its tests notice?")
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--file", help="mutants of this file alone")
    parser.add_argument("--portion", type=portion, default=slice(None), metavar="K/N",
                        help="each N-th of them, from the K-th on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many run at a time")
    options = parser.parse_args()
    subject = SUBJECTS[options.subject]()
    every = subject.mutants()
    chosen = [mutant for mutant in every if options.file in (None, mutant.file)][options.portion]
    print(f"mutants: {len(chosen)} of {len(every)} of {options.subject}", flush=True)
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="mutants-") as work:
        base, unchanged = Path(work, "base"), Path(work, "unchanged")
        base.mkdir()
        subject.prepare(base)
        shutil.copytree(base, unchanged, symlinks=True)
        if step := subject.test(None, unchanged):
            raise SystemExit(f"mutants: without any change it does not pass: {step}")
        is_all = len(chosen) == len(every)
        faults = [*campaign(subject, chosen, base, options.jobs,
                            subject.least if is_all else subject.least_of_portion,
                            subject.is_thorough and is_all)]
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    as_program(main, ".*")
