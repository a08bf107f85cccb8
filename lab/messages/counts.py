"""Builds every step of every scheme for every machine, runs it, and counts.

    make figures ONLY=lab-counts

    python -m lab.messages.counts [--only WORDS] [--target NAME] [--quick] [--write]

Without options it measures all and compares with counts.tsv; a difference is a failure. --only
compares the schemes with these words in their name, --target those of that machine. Each cell has a
hash of what it was counted from. No table prints a cell whose hash is not that of the files here,
and --quick counts it again."""

import functools
import hashlib
import inspect
import itertools
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from lab import arguments, sources
from lab.messages import machines, schemes
from lab.messages.machines import LARGER, MACHINES, DoesNotFit, Machine, Run, Size, once
from lab.messages.schemes import NOTHING, SCHEMES, Scheme, Step
from tools.processors.targets import TARGETS, say_strangers, strangers
from tools.programs import ROOT, as_program, scratch

FILE = Path(__file__).with_name("counts.tsv")


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
    hash: str  # A digest of its sources, flags, compiler and counter.
    chip: str  # that ran it

    @property
    def key(self) -> tuple[str, ...]:
        return self.scheme, self.by, self.step, str(self.length), self.target


Work = tuple[Scheme, str]  # The string is the target's name.
# What `make full` counts: each family and each target.
QUICK = ("Adler-32, ours", "CRC-16, ours", "CRC-32, bitwise, ours", "AES-128-CMAC, ours, tables",
         "AES-128-CMAC, ours, assembly", "HMAC-SHA-256, ours, assembly",
         "SHA-256, ours, assembly", "SecOC, ours, tables", "SecOC, ours, assembly",
         "Chaskey-12, version 2's", "HMAC-SHA-256, BearSSL", "AES-128-CMAC, BearSSL",
         "Dumpulse, ours", "SHA-256, BearSSL", "ECDSA P-256, P256-Cortex-M4",
         "ECDH P-256, P256-Cortex-M4")
COLUMNS = [field.name for field in fields(Count)]
HEAD = ("# What each step costs: instructions, or cycles on AVR; bytes of flash, of static RAM\n"
        "# and of stack. make figures ONLY=lab-counts ARGS=--write makes this file.\n"
        f"# Of each machine: {', '.join(COLUMNS[5:-1])}; what ran it, if another chip did.\n"
        "# " + "\t".join((*COLUMNS[:4], *MACHINES)) + "\n")


def parse(text: str) -> dict[tuple[str, ...], Count]:
    counts: dict[tuple[str, ...], Count] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            scheme, by, step, length, *cells = line.split("\t")
            for target, cell in zip(MACHINES, cells, strict=True):
                if cell != "-":
                    *numbers, of, chip = f"{cell} {target}".split(" ", 7)
                    chip = chip.removesuffix(f" {target}")
                    lowest, mean, highest, flash, ram, stack = map(int, numbers)
                    count = Count(scheme, by, step, int(length), target, lowest, mean, highest,
                                  flash, ram, stack, of, chip)
                    counts[count.key] = count
    return counts


def written(counts: dict[tuple[str, ...], Count]) -> str:
    """The text of the file: a line for each step, with a cell for each machine."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for key in keys():
        if key in counts:
            numbers = " ".join(map(str, astuple(counts[key])[5:-1]))
            elsewhere = f" {counts[key].chip}" if counts[key].chip != counts[key].target else ""
            rows.setdefault(key[:4], {})[counts[key].target] = numbers + elsewhere
    return HEAD + "".join("\t".join((*row, *(cells.get(target, "-") for target in MACHINES))) + "\n"
                          for row, cells in rows.items())


def read() -> dict[tuple[str, ...], Count]:
    """For tables. Ends the program if a cell was counted from something else than is here."""
    all_counts = parse(FILE.read_text())
    if old := stale(all_counts):
        names = ", ".join(f"{scheme.key} on {target}" for scheme, target in old)
        raise SystemExit(f"lab: {FILE.name} was counted from other sources, flags, compilers or "
                         f"counters than those here: {names}. "
                         'make figures ONLY=lab-counts ARGS="--stale --write" counts them again')
    return all_counts


# What a cell is counted from. Third-party code and Unicorn are pinned: versions stand for them.

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
COUNTERS = {"amd64": (ROOT / "bench" / "callgrind.py",),
            "ATmega328P": (machines.HERE / "hosts" / "avr.c",)}
UNICORN = (machines.HERE / "hosts" / "thumb.c",)
PACKAGES = ROOT / "tools" / "requirements.txt"


@functools.cache
def included(file: Path) -> frozenset[Path]:
    """The file, and each of the project's that it includes, however deep."""
    visited, new = set(), {file}
    while new:
        visited |= new
        new = {path.resolve() for source in new for name in INCLUDE.findall(source.read_text())
               for folder in (source.parent, machines.C, ROOT)
               if (path := folder / name).is_file()} - visited
    return frozenset(visited)


@functools.cache
def hash_of_file(file: Path) -> str:
    """Comments do not count, nor does the version of the library."""
    ignored = r"(?m)^ *#.*\n|  #.*$" if file.suffix == ".py" else \
        r"(?s)/\*.*?\*/|#define DUMPULSE_(?:KEYED_)?VERSION[^\n]*"
    code = re.sub(ignored, "", file.read_text())
    return hashlib.sha256(code.encode()).hexdigest()


def counted_from(scheme: Scheme, target: str) -> tuple[set[Path], list[str]]:
    """The project's files, and in words all else."""
    begin = [machines.C / scheme.file, *(machines.C / name for name in (
        "image.c", "marks.c", NOTHING.file)), *COUNTERS.get(target, UNICORN)]
    flags = [*scheme.flags, *scheme.by_target.get(target, ()), *scheme.link.get(target, ())]
    words = [repr(scheme.steps), repr(scheme.run_limits.get(target)), *flags, TARGETS[target].by,
             *machines.SECTIONS, *machines.LINK, inspect.getsource(measure)]
    if target not in COUNTERS:
        words += re.findall(r"^unicorn==\S+", PACKAGES.read_text(), re.M)
    for code in scheme.code:
        words.append(repr((code.files, code.include, code.flags)))
        if code.source:
            words.append(sources.table()[code.source].sha256)
        else:
            begin += [ROOT / name for name in code.files]
    for machine in chips(target):
        words.append(repr((machine.name, Path(machine.compiler).name, machine.flags, machine.link,
                           machine.flash, machine.ram, inspect.getsource(machine.runs))))
    begin += [path for word in words for name in re.findall(r'"(\w+\.h)"', word)
              if (path := machines.C / name).is_file()]
    return set[Path]().union(*map(included, begin)), words


def hash_of(scheme: Scheme, target: str) -> str:
    files, words = counted_from(scheme, target)
    text = [*words, *(f"{file.relative_to(ROOT)} {hash_of_file(file)}" for file in sorted(files))]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:10]


def stale(all_counts: dict[tuple[str, ...], Count]) -> list[Work]:
    """What has to be counted again."""
    cells: dict[tuple[str, str, str], set[str]] = {}
    for count in all_counts.values():
        cells.setdefault((count.scheme, count.by, count.target), set()).add(count.hash)
    return [(scheme, target) for scheme in SCHEMES for target in scheme.targets
            if cells.get((scheme.name, scheme.by, target)) != {hash_of(scheme, target)}]


@once
def place() -> tempfile.TemporaryDirectory[str]:
    """All is compiled anew in each run of this program: no object is older than its source."""
    return scratch()


NUMBERS = itertools.count()


def compiled(machine: Machine, source: Path, *flags: str) -> Path:
    """Each has a name of its own: two threads may want the same at once."""
    object_file = Path(place().name) / f"{next(NUMBERS)}-{source.stem}.o"
    machine.compile(source, object_file, *flags)
    return object_file


shared = once(compiled)  # for what is the same in every scheme


class Builder:
    """Compiles the code of a scheme for a machine, and links images with it."""

    def __init__(self, scheme: Scheme, machine: Machine, target: str) -> None:
        self.scheme, self.machine, self.target = scheme, machine, target
        self.options = scheme.options(target)
        self.library = [compiled(machine, path, *self.options)
                        for code in scheme.code for path in code.paths()]
        self.library.append(shared(machine, machines.C / "marks.c"))
        self.steps: dict[int, Path] = {}  # the scheme's own file has all steps, for a length

    def image(self, step: Step, length: int, *, size: bool = False,
              program: str = "image.c") -> Path:
        """The program that runs a step, or what a node needs for it, for its size."""
        length = length or schemes.HEARTBEAT
        if length not in self.steps:
            self.steps[length] = compiled(self.machine, machines.C / self.scheme.file,
                                          *self.options, f"-DLAB_LENGTH={length}")
        needs = [f"-DLAB_NEEDS={step.needs}"] if step.needs else []
        defines = ["-DLAB_SIZE", *needs] if size else [
            f"-DLAB_RUNS={self.scheme.runs(step, self.target)}"]
        begins = shared(self.machine, machines.C / program, f"-DLAB_STEP={step.name}", *defines)
        name = f"{self.scheme.key}, {step.name} {length}, {Path(program).stem}, {self.machine.name}"
        image = Path(place().name) / f"{name}{' size' * size}.elf"
        self.machine.build([begins, self.steps[length], *self.library], image,
                           *self.scheme.link.get(self.target, ()))
        return image


def chips(target: str) -> tuple[Machine, ...]:
    """What can run a step of it: the chip itself, and larger ones."""
    return MACHINES[target], *LARGER.get(target, ())


KNOWN = {scheme.key: scheme for scheme in (NOTHING, *SCHEMES)}  # make lab-scheme adds one


@functools.cache
def builder(scheme: str, chip: str, target: str) -> Builder:
    """By names; only one thread at a time works on a scheme for a target."""
    machine, = (candidate for candidate in chips(target) if candidate.name == chip)
    return Builder(KNOWN[scheme], machine, target)


def run_on(scheme: Scheme, step: Step, length: int, target: str) -> tuple[list[Run], str]:
    """On the first chip that has room for it."""
    for machine in chips(target):
        image = builder(scheme.key, machine.name, target).image(step, length)
        size = machines.size(image)
        if size.flash > (machine.flash or size.flash) or size.ram > (machine.ram or size.ram):
            continue
        try:
            return machine.runs(image), machine.name
        except DoesNotFit:
            continue
    raise SystemExit(f"lab: {scheme.key}: {step.name} fits no chip like the {target}")


@once
def nothing(target: str, chip: str) -> tuple[Run, Size]:
    """What the empty step takes."""
    machine, = (candidate for candidate in chips(target) if candidate.name == chip)
    step, empty = NOTHING.steps[0], builder(NOTHING.key, chip, target)
    run, *_ = machine.runs(empty.image(step, 0))
    return run, machines.size(empty.image(step, 0, size=True))


def measure(scheme: Scheme, step: Step, length: int, target: str) -> Count:
    runs, chip = run_on(scheme, step, length, target)
    if not step.random and len({run.cost for run in runs}) != 1:
        raise SystemExit(f"lab: {scheme.key}: {step.name} on {target} is not deterministic: "
                         f"{[run.cost for run in runs]}")
    size = machines.size(builder(scheme.key, target, target).image(step, length, size=True))
    empty, _ = nothing(target, chip)
    _, empty_size = nothing(target, target)
    costs = [run.cost - empty.cost for run in runs]
    return Count(scheme.name, scheme.by, step.name, length, target,
                 min(costs), round(sum(costs) / len(costs)), max(costs),
                 size.own_flash - empty_size.own_flash, size.own_ram - empty_size.own_ram,
                 max(run.stack for run in runs) - empty.stack, "", chip)


def check_vectors(scheme: Scheme, target: str) -> None:
    """Published vectors come before every count: the program ends if one is not met."""
    run_on(scheme, Step("vectors", 1), 0, target)


def measure_scheme(scheme: Scheme, target: str) -> list[Count]:
    check_vectors(scheme, target)
    for step in scheme.steps:
        if not step.kept:
            run_on(scheme, step, step.lengths[0], target)  # it ends the program if it is wrong
    return [measure(scheme, step, length, target)
            for step in scheme.steps if step.kept for length in step.lengths]


def chosen(only: str, target: str) -> Iterator[tuple[Scheme, str]]:
    for scheme in SCHEMES:
        for name in scheme.targets:
            if only.casefold() in scheme.key.casefold() and target in ("", name):
                yield scheme, name


def keys() -> Iterator[tuple[str, ...]]:
    """Of all counts, in the order of the table."""
    for scheme in SCHEMES:
        for step in scheme.steps:
            for length in step.lengths if step.kept else ():
                for target in scheme.targets:
                    yield scheme.name, scheme.by, step.name, str(length), target


def longest_first(work: list[Work], before: dict[tuple[str, ...], Count]) -> list[Work]:
    """So all processors end at about the same time. New work may be long, so it comes first."""
    def takes(pair: Work) -> float:
        scheme, target = pair
        earlier = [before.get((scheme.name, scheme.by, step.name, str(length), target))
                   for step in scheme.steps if step.kept for length in step.lengths]
        return sum(count.mean if count else math.inf for count in earlier)

    return sorted(work, key=takes, reverse=True)


def moved(before: dict[tuple[str, ...], Count], now: dict[tuple[str, ...], Count]) -> list[str]:
    """Returns a line for each cell that has changed."""
    return [f"{row[0]} ({row[1]}), {row[2]} {row[3]} bytes, {row[4]}: {name} was {was} and is {new}"
            for row in before | now
            for name, was, new in zip(COLUMNS[5:], *(
                astuple(counts[row])[5:] if row in counts else ["not there"] * len(COLUMNS[5:])
                for counts in (before, now)), strict=True) if was != new]


def table(counts: list[Count]) -> str:
    row = "{:<26}{:<25}{:<17}{:>6} {:<11}{:>13}{:>13}{:>13}{:>8}{:>7}{:>8}"
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
    parser.add_argument("--stale", action="store_true",
                        help="only what was counted from something else than is here")
    parser.add_argument("--quick", action="store_true",
                        help="only that, and some of each family")
    parser.add_argument("--write", action="store_true", help="put the counts into counts.tsv")
    options = parser.parse_args()
    before = parse(FILE.read_text())
    old = {(scheme.key, target) for scheme, target in stale(before)}
    work = [(scheme, target) for scheme, target in chosen(options.only, options.target)
            if not (options.quick or options.stale) or (scheme.key, target) in old
            or options.quick and scheme.key in QUICK]
    if not work and options.stale:
        print("lab: nothing has to be counted again")
        return
    if not work:
        parser.error(f"no scheme has {options.only!r} in its name")
    for scheme, _ in work:
        for code in scheme.code:
            code.paths()  # fetched before any two of them want it
    measured: dict[tuple[str, ...], Count] = {}
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        counting = {pool.submit(measure_scheme, *pair): pair
                    for pair in longest_first(work, before)}
        for done, future in enumerate(as_completed(counting), start=1):
            scheme, target = counting[future]
            measured |= {count.key: replace(count, hash=hash_of(scheme, target))
                         for count in future.result()}
            print(f"lab: {done} of {len(work)}: {scheme.key} on {target}", file=sys.stderr)
    finally:
        pool.shutdown(cancel_futures=True)
    measured = {key: measured[key] for key in keys() if key in measured}
    print(table(list(measured.values())))
    if options.write:
        FILE.write_text(written(before | measured))
        return
    if apart := strangers():
        say_strangers(apart)
        return
    names = {(scheme.name, scheme.by, target) for scheme, target in work}
    compared = {key: count for key, count in before.items() if (key[0], key[1], key[4]) in names}
    if faults := moved(compared, measured):
        raise SystemExit("\n".join(faults))
    print(f"lab: {len(measured)} counts are as in {FILE.name}")


if __name__ == "__main__":
    as_program(main, ".*")
