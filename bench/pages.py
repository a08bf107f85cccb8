"""Keeps what commands printed in the pages true.

    python3 -m bench.pages           puts today's output into README.md and performance.md
    python3 -m bench.pages --check   fails, and shows the difference, where a page differs

A fenced block of a page whose first line is `$ make TARGET` holds what that prints.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import difflib
import functools
import re
import sys

from sim.targets import ROOT, run

PAGES = {"README.md": ["tour"],  # and what each shows
         "performance.md": ["size", "cost", "paths", "firmware-size"]}
BLOCK = re.compile(r"^```text\n\$ make (?P<target>[a-z-]+)\n.*?^```$", re.S | re.M)


@functools.cache
def output(target: str) -> str:
    return run(["make", "--no-print-directory", "-s", "-C", ROOT, target])


def main() -> None:
    if sys.argv[1:] not in ([], ["--check"]):
        raise SystemExit("usage: python3 -m bench.pages [--check]")
    for name, targets in PAGES.items():
        page = ROOT / name
        before = page.read_text()
        if [match["target"] for match in BLOCK.finditer(before)] != targets:
            raise SystemExit(f"{name} must show what these print: {targets}")
        after = BLOCK.sub(
            lambda match: f"```text\n$ make {match['target']}\n{output(match['target'])}```", before)
        if not sys.argv[1:]:
            page.write_text(after)
        elif before != after:
            raise SystemExit("".join(difflib.unified_diff(
                before.splitlines(True), after.splitlines(True), name, "what the commands print")))
    print(f"pages: {sum(map(len, PAGES.values()))} passed, 0 failed")


if __name__ == "__main__":
    main()
