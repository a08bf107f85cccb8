"""Breaks the library in every small way and sees that the tests notice.    make mutants

Each comparison, operator and constant of dumpulse.c and dumpulse.h is changed, and each
statement that assigns or calls is left out, one at a time. A mutant must fail the unit tests or the vectors, on this
machine or, if it lives only where an int has 16 bits or nothing divides, on a simulated AVR or Cortex-M0+. One that
cannot be told from the original stands in equivalent.tsv with the reason.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutants"
EQUIVALENT = Path(__file__).with_name("equivalent.tsv")
CODE_OF_HEADER = "#define DUMPULSE_MAGIC"  # before it there is only the manual
TIMEOUT = 20  # seconds; a mutant that loops for ever is caught, too

# What each operator may become. Longer ones first: `<<` is not two `<`.
OPERATORS = {
    "<<": (">>",), ">>": ("<<",), "++": ("--",), "--": ("++",),
    "+=": ("-=", "="), "-=": ("+=", "="), "&&": ("||",), "||": ("&&",),
    "==": ("!=",), "!=": ("==",), "<=": ("<", ">"), ">=": (">", "<"),
    "->": (), "<": ("<=", ">"), ">": (">=", "<"), "+": ("-",), "-": ("+",),
    "*": ("+",), "|": ("&",), "&": ("|",), "!": ("",), "=": (),
}
TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/)|(?P<directive>^[ \t]*#(?!define DUMPULSE_[A-Z])[^\n]*)|(?P<text>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<assertion>\btypedef char [^;]*;)"  # no code: tests/test_targets.py has it fail
    r"|(?P<number>\b(?:0[xX][0-9A-Fa-f]+|\d+)(?P<suffix>[uUlL]*)\b)"
    r"|(?P<word>\b(?:true|false)\b)"
    r"|(?P<operator>"
    + "|".join(re.escape(operator) for operator in OPERATORS) + ")", re.S | re.M)

STATEMENT = re.compile(
    r"^ +(?:\*?\w+(?:\[\w+\]|\.\w+)? [-+]?= [^;]*|dumpulse_\w+\([^;{}]*\));$", re.M)


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    before: str  # the line, without its indentation
    after: str
    text: str  # the whole file

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.before, self.after


def replacements(match: re.Match[str]) -> tuple[str, ...]:
    if match["number"]:
        digits = match["number"].rstrip("uUlL")
        value = int(digits, 0)
        return tuple(f"{new}{match['suffix']}" for new in (value + 1, value - 1) if new >= 0)
    if match["word"]:
        return ("false",) if match["word"] == "true" else ("true",)
    return OPERATORS[match["operator"]] if match["operator"] else ()


def is_type(text: str, match: re.Match[str]) -> bool:
    """A `*` or `&` that belongs to a type or takes an address is no operator here."""
    before, after = text[:match.start()].rstrip(), text[match.end():]
    if match["operator"] == "*":
        return not after[:1].isspace()
    if match["operator"] == "&":
        return before[-1:] in "(,=" or after[:1].isalpha()
    return False


def mutants(name: str) -> list[Mutant]:
    text = (ROOT / name).read_text()
    start = text.index(CODE_OF_HEADER) if name.endswith(".h") else 0
    found = []

    def add(match: re.Match[str], new: str) -> None:
        if match.start() >= start:
            mutated = text[:match.start()] + new + text[match.end():]
            number = text.count("\n", 0, match.start())
            found.append(Mutant(name, number + 1, text.split("\n")[number].strip(),
                                mutated.split("\n")[number].strip(), mutated))

    for match in TOKEN.finditer(text):
        if not is_type(text, match):
            for new in replacements(match):
                add(match, new)
    for match in STATEMENT.finditer(text):
        add(match, "    ;" + "\n" * match[0].count("\n"))
    return found


def passes(command: list[object]) -> bool:
    """Whether a program of a mutant ends well, and in time."""
    try:
        return subprocess.run([str(word) for word in command], cwd=ROOT, timeout=TIMEOUT,
                              capture_output=True, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def passes_simulated(place: Path) -> bool:
    """Whether the vectors pass on a simulated AVR and Cortex-M0+; anything but a failed test is an error."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
         "tests/test_targets.py", "-k", "[ATmega328P] or [Cortex-M0+]"], cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {"DUMPULSE_SOURCE": str(place)}, timeout=120, check=False)
    if done.returncode == 0:
        return True
    if done.returncode == 1 and re.search(r"^1 failed", done.stdout, re.M):
        return False
    raise SystemExit(f"mutants: the tests in simulators could not be run:\n{done.stdout}{done.stderr}")


def verdict(job: tuple[int, Mutant]) -> str:
    """stillborn, native, simulated or survived."""
    number, mutant = job
    place = WORK / str(number)
    place.mkdir(parents=True)
    for name in ("dumpulse.c", "dumpulse.h"):
        shutil.copy(ROOT / name, place)
    (place / mutant.file).write_text(mutant.text)
    result = test(place)
    shutil.rmtree(place)
    return result


def test(place: Path) -> str:
    build = ["gcc", "-std=c99", "-O1", "-w", f"-I{place}", place / "dumpulse.c"]
    unit, vectors = place / "unit", place / "vectors"
    if not passes([*build, "tests/unit.c", "-lcmocka", "-o", unit]):
        return "stillborn"
    if not passes([unit]):
        return "native"
    if not passes([*build, "tests/vectors.c", "-o", vectors]):
        return "stillborn"
    if not passes([vectors, "tests/vectors.tsv"]):
        return "native"
    if not passes_simulated(place):
        return "simulated"
    return "survived"


def main() -> None:
    known = {}
    for line in EQUIVALENT.read_text().splitlines():
        if line and not line.startswith("#"):
            file, before, after, reason = line.split("\t")
            known[file, before, after] = reason
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    original = WORK / "original"
    shutil.copytree(ROOT, original, ignore=lambda folder, names:
                    [name for name in names if name not in ("dumpulse.c", "dumpulse.h")])
    if test(original) != "survived":
        raise SystemExit("mutants: the tests fail without any mutation: mend that first")

    every = mutants("dumpulse.c") + mutants("dumpulse.h")
    counts = dict.fromkeys(("native", "simulated", "stillborn", "survived"), 0)
    faults = []
    survivors = set()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (mutant, result) in enumerate(
                zip(every, pool.map(verdict, enumerate(every)), strict=True), 1):
            counts[result] += 1
            if sys.stderr.isatty():
                print(f"\rmutants: {done} of {len(every)}", end="", file=sys.stderr)
            if result == "survived":
                survivors.add(mutant.key)
                if mutant.key not in known:
                    faults.append(f"{mutant.file}:{mutant.line}: no test notices\n"
                                  f"    {mutant.before}\n    {mutant.after}")
    if sys.stderr.isatty():
        print(file=sys.stderr)
    faults += [f"{EQUIVALENT.name}: no such survivor any more: {' '.join(key)}"
               for key in known.keys() - survivors]
    live = len(every) - counts["stillborn"]
    print(f"mutants: {counts['native'] + counts['simulated']} of {live} killed, {counts['simulated']} of them "
          f"only in simulators; {counts['survived']} survived, {len(survivors & known.keys())} of them "
          f"equivalent by {EQUIVALENT.name}; {counts['stillborn']} did not compile")
    if faults:
        raise SystemExit("\n".join(faults))
    print(f"mutants: {live} passed, 0 failed")


if __name__ == "__main__":
    main()
