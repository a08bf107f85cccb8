"""Measures what the vectors alone reach in the library, its watch, and its part with keys.

    make part ONLY=coverage

They must reach every line that this machine can run, and both outcomes of every condition. Each
decision of the library is one condition, or a chain of only `&&` or only `||`. In such a chain,
both outcomes of each condition give MC/DC, because a condition is evaluated only if the earlier
ones decide nothing. Some code is only for an int of 16 bits. It is measured in a copy of the header
that claims to have such an int: its arithmetic is right for a wider int, too."""

import gzip
import json
import shutil
from collections import defaultdict
from pathlib import Path

from tools.programs import BUILD, KEYED, ROOT, as_program, library_file, run, vectors

FILES = ("dumpulse.c", "dumpulse.h", "dumpulse_watch.c", "dumpulse_watch.h")
WITH_KEYS = (*KEYED, "dumpulse_keyed.h")
# Each part with its tests, and what these read.
TESTED = ((("dumpulse.c",), "vectors.c", "vectors.tsv"),
          (("dumpulse_watch.c",), "vectors_watch.c", "vectors_watch.tsv"),
          (KEYED, "vectors_keyed.c", "vectors_keyed.tsv"))
WIDTH = "#define DUMPULSE_NARROW_ (UINT_MAX == 0xFFFFU)"
WIDTHS = {"wide": WIDTH, "narrow": "#define DUMPULSE_NARROW_ (UINT_MAX != 0xFFFFU)"}

Lines = dict[tuple[str, int], int]
Branches = dict[tuple[str, int, int], int]


def measure(width: str, lines: Lines, branches: Branches) -> None:
    """Adds up how often each line ran, and how often its conditions had each outcome."""
    folder = BUILD / "coverage" / width
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in (*FILES, *WITH_KEYS):
        text = library_file(name).read_text()
        assert name != "dumpulse.h" or text.count(WIDTH) == 1
        (folder / name).write_text(text.replace(WIDTH, WIDTHS[width]))
    # Inline functions that no test calls are kept, so that they are found to be missed.
    compile_one = ["gcc", "-std=c99", "-O0", "--coverage", "-fkeep-inline-functions",
                   f"-I{folder}", "-c"]
    objects: list[Path] = []
    plain = folder / "plain.o"  # version 1 without counters, for the part with keys
    run(["gcc", "-std=c99", f"-I{folder}", "-c", folder / "dumpulse.c", "-o", plain])
    for part, tests, reads in TESTED:
        before = len(objects)
        for source in (*(folder / file for file in part), ROOT / "tests" / tests):
            objects.append(folder / f"{source.stem}.o")
            run([*compile_one, source, "-o", objects[-1]])
        run(["gcc", "--coverage", *objects[before:], *[plain] * (part is KEYED),
             "-o", folder / "unit"])
        run([folder / "unit", vectors(reads)])
    for built in objects:
        run(["gcov", "--json-format", "--branch-probabilities", built.name], cwd=folder)
        report = json.loads(gzip.decompress((folder / f"{built.stem}.gcov.json.gz").read_bytes()))
        for file in report["files"]:
            name = file["file"].rsplit("/", 1)[-1]
            if name not in (*FILES, *WITH_KEYS):
                continue
            for line in file["lines"]:
                lines[name, line["line_number"]] += line["count"]
                for index, branch in enumerate(line["branches"]):
                    branches[name, line["line_number"], index] += branch["count"]


def main() -> None:
    lines: Lines = defaultdict(int)
    branches: Branches = defaultdict(int)
    for width in WIDTHS:
        measure(width, lines, branches)
    text = {name: library_file(name).read_text().splitlines() for name in (*FILES, *WITH_KEYS)}
    missed = [f"{name}:{number}: never run: {text[name][number - 1].strip()}"
              for (name, number), count in sorted(lines.items()) if count == 0]
    missed += [f"{name}:{number}: outcome {index} never taken: {text[name][number - 1].strip()}"
               for (name, number, index), count in sorted(branches.items()) if count == 0]
    for name in (*FILES, *KEYED):
        total = sum(1 for file, _ in lines if file == name)
        ways = sum(1 for file, _, _ in branches if file == name)
        print(f"{name}: {total} lines, {ways} outcomes of conditions")
    if missed or not branches:
        raise SystemExit("\n".join(missed))
    print(f"coverage: {len(lines) + len(branches)} passed, 0 failed")


if __name__ == "__main__":
    as_program(main)
