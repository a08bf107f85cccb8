"""Keeps the output of the lab's commands in its page up to date.

    python -m lab.pages           puts today's output into lab/README.md, and draws its pictures
    python -m lab.pages --check   fails if the page or a picture differs

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
import sys

from bench import pages
from sim.targets import ROOT

PAGE = "lab/README.md"
TARGETS = ["lab-answer", "lab-fits", "lab-table", "lab-sent", "lab-energy", "lab-studies",
           "lab-formats", "lab-trial"]
DRAWN_BY = ("answer", "published")


def main() -> None:
    if sys.argv[1:] not in ([], ["--check"]):
        raise SystemExit("usage: python -m lab.pages [--check]")
    check = sys.argv[1:] == ["--check"]
    for module in () if check else DRAWN_BY:
        subprocess.run([sys.executable, "-m", f"lab.{module}", "--draw"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    if faults := pages.refreshed(PAGE, TARGETS, check=check):
        raise SystemExit("\n".join(faults))
    print(f"lab pages: {len(TARGETS)} passed, 0 failed")


if __name__ == "__main__":
    main()
