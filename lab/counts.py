"""Builds every step of every scheme for every machine, runs it, and counts.     make lab-counts

    python -m lab.counts [--only WORDS] [--target NAME] [--quick] [--write]

Without options it measures all and compares with counts.tsv: what differs is said, and is a
failure. --only compares what has these words in its name, --target what is of that machine.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from bench import figures
from lab import arguments, schemes, targets
from lab.schemes import NOTHING, SCHEMES, Scheme, Step
from lab.targets import LARGER, MACHINES, DoesNotFit, Machine, Run, Size
from sim.targets import BUILD, say_strangers, strangers

FILE = Path(__file__).with_name("counts.tsv")
FOLDER = BUILD / "lab" / "images"


@dataclass(frozen=True)
class Count:
    """One step of a scheme on one machine, less the step that does nothing."""

    scheme: str
    by: str
    step: str
    length: int  # bytes of the message
    target: str
    least: int  # instructions, or cycles on AVR
    mean: int
    most: int
    flash: int  # bytes that the step needs, linked alone
    ram: int  # static bytes
    stack: int  # the deepest, in bytes
    chip: str  # that ran it

    @property
    def key(self) -> tuple[str, ...]:
        return self.scheme, self.by, self.step, str(self.length), self.target


QUICK = ("check", "MAC", "hash")  # families
COLUMNS = [field.name for field in fields(Count)]
HEAD = ("# What each step costs: instructions, or cycles on AVR; bytes of flash, of static RAM\n"
        "# and of stack. make lab-counts ARGS=--write makes this file.\n"
        "# " + "\t".join(COLUMNS) + "\n")


def parse(text: str) -> dict[tuple[str, ...], Count]:
    found: dict[tuple[str, ...], Count] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            scheme, by, step, length, target, *numbers, chip = line.split("\t")
            least, mean, most, flash, ram, stack = map(int, numbers)
            count = Count(scheme, by, step, int(length), target, least, mean, most, flash, ram,
                          stack, chip)
            found[count.key] = count
    return found


def read() -> dict[tuple[str, ...], Count]:
    return parse(FILE.read_text()) if FILE.exists() else {}


def folder_of(scheme: Scheme, machine: Machine) -> Path:
    return FOLDER / re.sub(r"[^A-Za-z0-9]+", "-", f"{machine.name} {scheme.key}")


class Builder:
    """Compiles the code of a scheme for a machine, and links images with it."""

    def __init__(self, scheme: Scheme, machine: Machine, target: str) -> None:
        self.scheme, self.machine, self.target = scheme, machine, target
        self.folder = folder_of(scheme, machine)
        self.options = scheme.options(target)
        self.link = scheme.link.get(target, ())
        self.library = []
        for number, path in enumerate(path for code in scheme.code for path in code.paths()):
            self.library.append(self.folder / f"{number}-{path.stem}.o")
            machine.compile(path, self.library[-1], *self.options)
        marks = self.folder / "marks.o"
        machine.compile(targets.C / machine.marks, marks)
        self.library.append(marks)

    def image(self, step: Step, length: int, *, size: bool = False) -> Path:
        """The program that runs a step, or what a node needs for it, for its size."""
        name = f"{step.name}-{length}" + ("-size" if size else "")
        needs = [f"-DLAB_NEEDS={step.needs}"] if step.needs else []
        defines = ["-DLAB_SIZE", *needs] if size else []
        objects = []
        for file in (self.scheme.file, "image.c"):
            objects.append(self.folder / f"{name}-{Path(file).stem}.o")
            self.machine.compile(targets.C / file, objects[-1], *self.options,
                                 f"-DLAB_LENGTH={length or schemes.HEARTBEAT}",
                                 f"-DLAB_STEP={step.name}",
                                 f"-DLAB_RUNS={self.scheme.runs(step, self.target)}", *defines)
        image = self.folder / f"{name}.elf"
        self.machine.build([*objects, *self.library], image, *self.link)
        return image


def chips(target: str) -> tuple[Machine, ...]:
    """What can run a step of it: the chip itself, and larger ones."""
    return MACHINES[target], *LARGER.get(target, ())


@functools.cache
def builder(scheme: str, chip: str, target: str) -> Builder:
    """By names; only one thread at a time works on a scheme for a target."""
    found = next(one for one in (NOTHING, *SCHEMES) if one.key == scheme)
    return Builder(found, next(one for one in chips(target) if one.name == chip), target)


def run_on(scheme: Scheme, step: Step, length: int, target: str) -> tuple[list[Run], str]:
    """On the first chip that has room for it."""
    for machine in chips(target):
        image = builder(scheme.key, machine.name, target).image(step, length)
        size = targets.size(image)
        if size.flash > (machine.flash or size.flash) or size.ram > (machine.ram or size.ram):
            continue
        try:
            return machine.runs(image), machine.name
        except DoesNotFit:
            continue
    raise SystemExit(f"lab: {scheme.key}: {step.name} fits no chip like the {target}")


class Nothing:
    """What the empty step takes on each chip, measured once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Run, Size]] = {}

    def on(self, target: str, chip: str) -> tuple[Run, Size]:
        with self._lock:
            if chip not in self._known:
                machine, = (one for one in chips(target) if one.name == chip)
                made = builder(NOTHING.key, chip, target)
                run, *_ = machine.runs(made.image(NOTHING.steps[0], 0))
                self._known[chip] = run, targets.size(made.image(NOTHING.steps[0], 0, size=True))
            return self._known[chip]


def measure(scheme: Scheme, step: Step, length: int, target: str, nothing: Nothing) -> Count:
    runs, chip = run_on(scheme, step, length, target)
    if not step.random and len({run.cost for run in runs}) != 1:
        raise SystemExit(f"lab: {scheme.key}: {step.name} on {target} is not deterministic: "
                         f"{[run.cost for run in runs]}")
    size = targets.size(builder(scheme.key, target, target).image(step, length, size=True))
    empty, _ = nothing.on(target, chip)
    _, empty_size = nothing.on(target, target)
    costs = [run.cost - empty.cost for run in runs]
    return Count(scheme.name, scheme.by, step.name, length, target,
                 min(costs), round(sum(costs) / len(costs)), max(costs),
                 size.own_flash - empty_size.own_flash, size.own_ram - empty_size.own_ram,
                 max(run.stack for run in runs) - empty.stack, chip)


def check_vectors(scheme: Scheme, target: str) -> None:
    """Published vectors come before every count: the program ends if one is not met."""
    run_on(scheme, Step("vectors"), 0, target)


def measure_scheme(scheme: Scheme, target: str, nothing: Nothing) -> list[Count]:
    check_vectors(scheme, target)
    return [measure(scheme, step, length, target, nothing)
            for step in scheme.steps for length in step.lengths]


def chosen(only: str, target: str) -> Iterator[tuple[Scheme, str]]:
    for scheme in SCHEMES:
        for name in scheme.targets:
            if only.casefold() in scheme.key.casefold() and target in ("", name):
                yield scheme, name


def as_figures(counts: dict[tuple[str, ...], Count]) -> figures.Figures:
    found: figures.Figures = {}
    for count in counts.values():
        row = f"{count.scheme} ({count.by}), {count.step} {count.length} bytes, {count.target}"
        for name, cell in zip(COLUMNS[5:], astuple(count)[5:], strict=True):
            found["lab-counts", row, name] = str(cell)
    return found


def table(counts: list[Count]) -> str:
    row = "{:<26}{:<17}{:<17}{:>6} {:<11}{:>13}{:>13}{:>13}{:>8}{:>7}{:>8}"
    lines = [row.format("scheme", "by", "step", "bytes", "machine", "least", "mean", "most",
                        "flash", "RAM", "stack")]
    for count in counts:
        numbers = (count.least, count.mean, count.most, count.flash, count.ram, count.stack)
        cells = [count.scheme, count.by, count.step, count.length or "", count.target,
                 *(f"{number:,}" for number in numbers)]
        elsewhere = "" if count.chip == count.target else f"  on {count.chip}"
        lines.append(row.format(*cells) + elsewhere)
    return "\n".join(lines)


def main() -> None:
    parser = arguments.Parser("lab-counts", "Counts what each step of each scheme costs.")
    parser.add_argument("--only", default="", metavar="WORDS",
                        help="schemes with these words in their name")
    parser.add_argument("--target", default="", choices=MACHINES, help="this machine alone")
    parser.add_argument("--quick", action="store_true",
                        help="what takes a minute or two: checks and MACs")
    parser.add_argument("--write", action="store_true", help="put the counts into counts.tsv")
    options = parser.parse_args()
    work = [(scheme, target) for scheme, target in chosen(options.only, options.target)
            if not options.quick or scheme.family in QUICK]
    if not work:
        parser.error(f"no scheme has {options.only!r} in its name")
    for scheme, _ in work:
        for code in scheme.code:
            code.paths()  # fetched before any two of them want it
    nothing, done = Nothing(), 0
    measured: dict[tuple[str, ...], Count] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counted = pool.map(lambda pair: measure_scheme(pair[0], pair[1], nothing), work)
        for (scheme, target), counts in zip(work, counted, strict=True):
            done += 1
            print(f"lab: {done} of {len(work)}: {scheme.key} on {target}", file=sys.stderr)
            measured |= {count.key: count for count in counts}
    print(table(list(measured.values())))
    before = read()
    if options.write:
        every = before | measured
        order = {(scheme.name, scheme.by, step.name, str(length), target): None
                 for scheme in SCHEMES for step in scheme.steps
                 for length in step.lengths for target in scheme.targets}
        FILE.write_text(HEAD + "".join("\t".join(map(str, astuple(every[key]))) + "\n"
                                       for key in order if key in every))
        return
    if apart := strangers():
        say_strangers(apart)
        return
    names = {(scheme.name, scheme.by, target) for scheme, target in work}
    compared = {key: count for key, count in before.items() if (key[0], key[1], key[4]) in names}
    if moved := figures.moved(as_figures(compared), as_figures(measured)):
        raise SystemExit("\n".join(moved))
    print(f"lab: {len(measured)} counts are as in {FILE.name}")


if __name__ == "__main__":
    main()
