"""Checks that the library and its other parts deviate from MISRA C:2012 only as misra.tsv says.

    make lint

It uses cppcheck's addon, which does not check every rule. SPDX-License-Identifier: MIT"""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.programs import KEYED, ROOT, as_program, library_file

TABLE = Path(__file__).with_name("misra.tsv")
# What stands before a rule in the table, and the header and the sources of each part.
PARTS = {"": ("dumpulse.h", "dumpulse.c"), "watch ": ("dumpulse_watch.h", "dumpulse_watch.c"),
         "keyed ": ("dumpulse_keyed.h", *KEYED)}


def version() -> str:
    """Of cppcheck: its first two numbers."""
    done = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True, check=True)
    return ".".join(re.findall(r"\d+", done.stdout)[:2])


def deviations(folder: Path) -> Counter[str]:
    """Returns the number of deviations by part and rule."""
    found: Counter[str] = Counter()
    # cppcheck writes files beside the sources, which others may be packing or compiling.
    with TemporaryDirectory(prefix="dumpulse-misra-") as copy:
        for files in PARTS.values():
            for file in files:
                shutil.copy(library_file(file, folder), copy)
        for prefix, (header, *sources) in PARTS.items():
            done = subprocess.run(["cppcheck", "--addon=misra", "--std=c99", "--enable=style",
                                   "--quiet", "--template={file}:{line}: {id}", "-I.", *sources],
                                  cwd=copy, capture_output=True, text=True, check=False)
            if done.returncode or "noValidConfiguration" in done.stderr:
                raise SystemExit(f"misra: cppcheck failed:\n{done.stdout}{done.stderr}")
            own = "|".join(map(re.escape, (header, *sources)))
            places = set(re.findall(rf"^((?:.*/)?(?:{own}):\d+): misra-c2012-([0-9.]+)$",
                                    done.stderr, re.M))
            found.update(prefix + rule for _, rule in places)
    return found


def main() -> None:
    rows = [line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    here = version()
    allowed = {rule: (int(places), reason) for rule, places, by, reason in rows
               if by in ("all", here)}
    found = deviations(Path(sys.argv[1]) if sys.argv[1:] else ROOT)
    faults = [
        f"misra: rule {rule}: {found[rule]} places deviate, and {TABLE.name} has "
        f"{allowed.get(rule, (0, ''))[0]} for cppcheck {here}"
              for rule in found | allowed if found[rule] != allowed.get(rule, (0, ""))[0]]
    faults += [f"misra: rule {rule} has no reason" for rule, (_, reason) in allowed.items()
               if not reason.strip()]
    if not found:
        faults = ["misra: nothing was found: has cppcheck its addon?"]
    if faults:
        raise SystemExit("\n".join(faults))
    print(f"misra: {len(found)} rules passed, 0 failed")


if __name__ == "__main__":
    as_program(main, "([^-].*)?")
