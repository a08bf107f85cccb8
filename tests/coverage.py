"""What the unit tests alone reach in dumpulse.c and dumpulse.h.    make coverage

Every line that this machine can run, and both ways out of every condition, or it
fails. Each decision of the library is one condition, or a chain of `&&` or `||`
alone: there, both outcomes of each condition are MC/DC, since the earlier ones
must have let it be evaluated. What only a 16-bit int runs is compiled out here: the
vectors on simulated AVRs, and the mutants, account for it.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections import defaultdict

from sim.targets import BUILD, ROOT, run

FILES = ("dumpulse.c", "dumpulse.h")


def measure() -> tuple[dict[tuple[str, int], int], dict[tuple[str, int, int], int]]:
    """How often each line, and each way out of a condition of it, was taken."""
    place = BUILD / "coverage"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    compile_one = ["gcc", "-std=c99", "-O0", "--coverage", f"-I{ROOT}", "-c"]
    objects = []
    for source in (ROOT / "dumpulse.c", ROOT / "tests" / "unit.c"):
        objects.append(place / f"{source.stem}.o")
        run([*compile_one, source, "-o", objects[-1]])
    run(["gcc", "--coverage", *objects, "-lcmocka", "-o", place / "unit"])
    run([place / "unit"])

    lines: dict[tuple[str, int], int] = defaultdict(int)
    branches: dict[tuple[str, int, int], int] = defaultdict(int)
    for built in objects:
        run(["sh", "-c", f"cd {place} && gcov --json-format --branch-probabilities {built.name}"])
        report = json.loads(gzip.decompress((place / f"{built.stem}.gcov.json.gz").read_bytes()))
        for file in report["files"]:
            name = file["file"].rsplit("/", 1)[-1]
            if name not in FILES:
                continue
            for line in file["lines"]:
                lines[name, line["line_number"]] += line["count"]
                for index, branch in enumerate(line["branches"]):
                    branches[name, line["line_number"], index] += branch["count"]
    return lines, branches


def main() -> None:
    lines, branches = measure()
    text = {name: (ROOT / name).read_text().splitlines() for name in FILES}
    missed = [f"{name}:{number}: never run: {text[name][number - 1].strip()}"
              for (name, number), count in sorted(lines.items()) if count == 0]
    missed += [f"{name}:{number}: outcome {index} never taken: {text[name][number - 1].strip()}"
               for (name, number, index), count in sorted(branches.items()) if count == 0]
    for name in FILES:
        total = sum(1 for file, _ in lines if file == name)
        ways = sum(1 for file, _, _ in branches if file == name)
        print(f"{name}: {total} lines, {ways} outcomes of conditions")
    if missed or not branches:
        raise SystemExit("\n".join(missed))
    print("coverage: all of them reached by the unit tests; 1 passed, 0 failed")


if __name__ == "__main__":
    main()
