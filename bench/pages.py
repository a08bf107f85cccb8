"""Keeps the output of commands in the pages up to date.

    python3 -m bench.pages           puts today's output into the pages
    python3 -m bench.pages --check   fails if a page differs, and shows where

If the first line of a fenced block in a page is `$ make figures ONLY=NAME`, the block has its
output."""

import difflib
import functools
import re
import sys

from tools.processors.targets import say_strangers, strangers
from tools.programs import ROOT, as_program, run

PAGES = {  # each page and the targets whose output it shows
    "performance.md": ["summary", "size", "cost", "firmware-size", "bits", "bursts",
                       "report-damage", "channels"],
    "extras/keys.md": ["keyed"],
    "proof/README.md": ["worst"],
    "server/README.md": ["instructions"],
    "lab/messages/README.md": ["lab-answer"],
    "lab/designing.md": ["lab-choices"],
}
# Figures of compilers. With other compilers they are printed and not compared.
COMPILED = ("size", "cost", "keyed", "worst", "firmware-size", "instructions")
BLOCK = re.compile(r"^```text\n\$ make figures ONLY=(?P<target>[a-z-]+)\n.*?^```$", re.S | re.M)


@functools.cache
def output(target: str) -> str:
    """Returns what the target prints."""
    print(f"pages: {target}", file=sys.stderr)
    return run(["make", "--no-print-directory", "-s", "-C", ROOT, "figures",
                f"ONLY={target}"])


def refreshed(name: str, targets: list[str], *, check: bool,
              not_compared: bool = False) -> list[str]:
    """Puts the output of these targets into a page, or lists how the page differs from it. With
    other compilers than those of the figures (not_compared), it prints what they have compiled."""
    page = ROOT / name
    before = page.read_text()
    if [match["target"] for match in BLOCK.finditer(before)] != targets:
        raise SystemExit(f"{name} must show what these print: {targets}")

    def block(match: re.Match[str]) -> str:
        target = match["target"]
        if not_compared and target in COMPILED:
            print(f"$ make figures ONLY={target}\n{output(target)}")
            return match[0]
        return f"```text\n$ make figures ONLY={target}\n{output(target)}```"

    after = BLOCK.sub(block, before)
    if not check:
        page.write_text(after)
        return []
    return list(difflib.unified_diff(
        before.splitlines(), after.splitlines(), name, "what the commands print", lineterm=""))


def main() -> None:
    check = sys.argv[1:] == ["--check"]
    not_compared = strangers()
    if not_compared and not check:
        say_strangers(not_compared)
        raise SystemExit("pages: only with Debian 12's compilers can they be written")
    faults = [line for name, targets in PAGES.items()
              for line in refreshed(name, targets, check=check, not_compared=bool(not_compared))]
    if faults:
        raise SystemExit("\n".join(faults))
    say_strangers(not_compared)
    left_out = len(COMPILED) if not_compared else 0
    passed = sum(map(len, PAGES.values())) - left_out
    print(f"pages: {passed} passed, 0 failed" + f", {left_out} not compared" * bool(not_compared))


if __name__ == "__main__":
    as_program(main, "(--check)?")
