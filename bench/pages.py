"""Keeps the output of commands in the pages up to date.

    python3 -m bench.pages           puts today's output into the pages
    python3 -m bench.pages --check   fails if a page differs, and says which figure has changed
    python3 -m bench.pages --noisy   puts in the noisy measurements, too, with their date

If the first line of a fenced block in a page is `$ make TARGET`, the block has that target's
output. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import difflib
import functools
import re
import subprocess
import sys

from bench import figures
from sim.targets import ROOT, run, say_strangers, strangers

PAGES = {  # each page and the targets whose output it shows
    "README.md": ["tour"],
    "CONTRIBUTING.md": ["layers"],
    "performance.md": ["summary", "size", "cost", "keyed", "paths", "worst", "energy", "loopbench",
                       "firmware-size", "instructions", "startup", "functions", "bench", "growth",
                       "accepted", "bias", "bits", "bursts", "moved",
                       "report-damage", "channels", "residual"],
}
LAST = "summary"  # it shows figures that the other targets have measured
# Figures of compilers. With other compilers they are printed and not compared.
COMPILED = ("size", "cost", "keyed", "paths", "worst", "energy", "firmware-size", "instructions",
            "functions", "growth")
NOISY = ("loopbench", "startup", "bench")  # they differ from day to day: never compared
BLOCK = re.compile(r"^```text\n\$ make (?P<target>[a-z-]+)\n.*?^```$", re.S | re.M)


@functools.cache
def output(target: str) -> str:
    """Returns what the target prints. If it fails, this first prints which figures have changed."""
    kept = figures.kept(target)
    kept.unlink(missing_ok=True)
    print(f"pages: make {target}", file=sys.stderr)
    try:
        return run(["make", "--no-print-directory", "-s", "-C", ROOT, target])
    except SystemExit:
        if kept.exists():
            print("\n".join(moved([target])), file=sys.stderr)
        raise


def draw(command: str) -> None:
    subprocess.run([sys.executable, "-m", f"bench.{command}", "--draw"], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)


def measured(targets: list[str]) -> figures.Figures:
    files = [figures.kept(target) for target in targets]
    return figures.parse("".join(file.read_text() for file in files if file.exists()))


def moved(targets: list[str]) -> list[str]:
    before = figures.parse(figures.FILE.read_text() if figures.FILE.exists() else "")
    return figures.moved({key: figure for key, figure in before.items() if key[0] in targets},
                         measured(targets))


def refreshed(name: str, targets: list[str], *, check: bool, noisy: bool = False,
              not_compared: bool = False) -> list[str]:
    """Puts the output of these targets into a page, or lists how the page differs from it. With
    other compilers than those of the figures (not_compared), it prints what they have compiled."""
    page = ROOT / name
    before = page.read_text()
    if [match["target"] for match in BLOCK.finditer(before)] != targets:
        raise SystemExit(f"{name} must show what these print: {targets}")

    def block(match: re.Match[str]) -> str:
        target = match["target"]
        if target in NOISY and not noisy:
            return match[0]
        if not_compared and target in COMPILED:
            print(f"$ make {target}\n{output(target)}")
            return match[0]
        return f"```text\n$ make {target}\n{output(target)}```"

    after = BLOCK.sub(block, before)
    if not check:
        page.write_text(after)
        return []
    compared = [target for target in targets if not not_compared or target not in COMPILED]
    return moved(compared) + list(difflib.unified_diff(
        before.splitlines(), after.splitlines(), name, "what the commands print", lineterm=""))


def main() -> None:
    if sys.argv[1:] not in ([], ["--check"], ["--noisy"]):
        raise SystemExit("usage: python3 -m bench.pages [--check | --noisy]")
    check, noisy = sys.argv[1:] == ["--check"], sys.argv[1:] == ["--noisy"]
    not_compared = strangers()
    if not check:
        if not_compared:
            say_strangers(not_compared)
            raise SystemExit("pages: only with Debian 12's compilers can they be written")
        draw("growth")
        every = [target for targets in PAGES.values() for target in targets if target != LAST]
        for target in every:
            if noisy or target not in NOISY:
                output(target)
        figures.FILE.write_text(figures.HEAD + "".join("\t".join((*key, figure)) + "\n"
                                                       for key, figure in measured(every).items()))
        draw(LAST)
    faults = [line for name, targets in PAGES.items()
              for line in refreshed(name, targets, check=check, noisy=noisy,
                                    not_compared=bool(not_compared))]
    if faults:
        raise SystemExit("\n".join(faults))
    say_strangers(not_compared)
    left_out = len(COMPILED) if not_compared else 0
    passed = sum(map(len, PAGES.values())) - len(NOISY) * (not noisy) - left_out
    print(f"pages: {passed} passed, 0 failed" + f", {left_out} not compared" * bool(not_compared))


if __name__ == "__main__":
    main()
