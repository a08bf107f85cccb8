"""Prints how heavy the project is: the files and lines of each room, by kind.

    python3 -m tools.weigh

It counts what git tracks, except symbolic links."""

import re
import subprocess
from collections import Counter
from pathlib import Path

MOST_FILES, MOST_LINES, MOST_ROOT_ENTRIES, MOST_MAKE_LINES = 557, 99700, 35, 533
KINDS = {  # the first pattern that is found in a path decides
    "tests": r"(^|/)tests/|(^|/)(test|unit|fuzz)_[^/]*$",
    "pages": r"\.(md|[1-8])$|(^|/)LICENSE$",
    "data": r"\.(tsv|txt|svg|png|json|hex|dict|ml|sha256|xml)$",
    "code": r"",
}


def kind_of(path: str) -> str:
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, path))


def main() -> None:
    listed = subprocess.run(["git", "ls-files"], stdout=subprocess.PIPE, text=True, check=True)
    paths = [Path(path) for path in listed.stdout.splitlines()]
    lines = {path: path.read_bytes().count(b"\n") for path in paths if not path.is_symlink()}
    files, table = Counter[str](), Counter[tuple[str, str]]()
    for path, count in lines.items():
        room = path.parts[0] if len(path.parts) > 1 else "root"
        files[room] += 1
        table[room, kind_of(str(path))] += count
    print(f"{'room':15}" + "".join(f"{head:>9}" for head in ("files", *KINDS, "lines")))
    for room in sorted(files):
        counts = [table[room, kind] for kind in KINDS]
        row = (files[room], *counts, sum(counts))
        print(f"{room:15}" + "".join(f"{count:9,}" for count in row))
    totals = [sum(table[room, kind] for room in files) for kind in KINDS]
    print(f"{'all':15}" + "".join(f"{n:9,}" for n in (len(lines), *totals, sum(totals))))
    make = sum(count for path, count in lines.items()
               if path.name == "Makefile" or path.suffix == ".mk")
    roots = len({path.parts[0] for path in paths})
    for what, count, limit in (
            ("files", len(paths), MOST_FILES), ("lines", sum(totals), MOST_LINES),
            ("root entries", roots, MOST_ROOT_ENTRIES), ("lines of make", make, MOST_MAKE_LINES)):
        print(f"{what}: {count:,}, at most {limit:,}")


if __name__ == "__main__":
    main()
