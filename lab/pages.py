"""Keeps the output of the lab's commands in its pages up to date.

    python -m lab.pages           puts today's output into the pages, and draws their pictures
    python -m lab.pages --check   fails if a page or a picture differs
SPDX-License-Identifier: MIT"""

import subprocess
import sys

from bench import pages
from tests.support.programs import ROOT, as_program

PAGES = {
    "lab/messages/README.md": ["lab-answer", "lab-fits", "lab-sent", "lab-studies"],
    "lab/designing.md": ["lab-choices"],
    "client/examples/keys/README.md": ["lab-keyed"],
    "lab/groups/README.md": ["lab-operations", "lab-mislead"],
}
DRAWN_BY = ("messages.choices", "messages.published")


def main() -> None:
    check = sys.argv[1:] == ["--check"]
    for module in () if check else DRAWN_BY:
        subprocess.run([sys.executable, "-m", f"lab.{module}", "--draw"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    if faults := [fault for page, targets in PAGES.items()
                  for fault in pages.refreshed(page, targets, check=check)]:
        raise SystemExit("\n".join(faults))
    print(f"lab pages: {sum(map(len, PAGES.values()))} passed, 0 failed")


if __name__ == "__main__":
    as_program(main, "(--check)?")
