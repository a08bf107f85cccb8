"""What every package says of Dumpulse: its name, its version, who makes it, and where it is.

    python3 -m packages.project            prints the version

dumpulse.h has the version. Nothing else does, except what is generated from it.
SPDX-License-Identifier: MIT"""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

NAME = "dumpulse"
TEAM = "The Dumpulse developers"
EMAIL = "developers@dumpulse.example"
# The address of the project's pages. Whoever publishes packages writes the real one here, once:
# names that end in .example lead nowhere (RFC 2606).
URL = "https://dumpulse.example"
REPOSITORY = f"{URL}/dumpulse.git"
CHANGES = f"{URL}/CHANGELOG.md"
LICENSE = "MIT"
# What the package is, in one line, and the same in one paragraph.
SUMMARY = "A heartbeat monitor so small that it fits anywhere"
DESCRIPTION = (
    "Each node sends heartbeats of 8 bytes, over CAN, a serial line, UDP or anything else. The "
    "agent takes 200 bytes of code and 260 of RAM on an AVR. It keeps the last heartbeat of each "
    "of 64 variables with the time when it came, and answers a question of 8 bytes with one "
    "report of 260 bytes: who is alive.")
# The library: whoever copies it into a package copies these files into one folder. CMake and Meson
# read the list, too.
LIBRARY_FILES = {Path(name).name: ROOT / name
                 for name in (ROOT / "packages" / "library.txt").read_text().split()}
KEYWORDS = ("heartbeat", "watchdog", "monitor", "health", "can", "serial", "udp", "embedded")


def version(root: Path = ROOT) -> str:
    """Returns the version in dumpulse.h, such as 1.2.3 or 1.2.3-dev."""
    text = (root / "dumpulse.h").read_text()
    found = re.findall(r'^#define DUMPULSE_VERSION "(\d+\.\d+\.\d+(?:-dev)?)"', text, re.M)
    if len(found) != 1:
        raise SystemExit("dumpulse.h must define DUMPULSE_VERSION once, as 1.2.3 or 1.2.3-dev")
    return str(found[0])


def git(*words: str, root: Path = ROOT) -> str:
    """Returns what git prints. If there is no git, or it refuses, the program ends and says why."""
    try:
        done = subprocess.run(["git", *words], cwd=root, text=True, capture_output=True,
                              check=False)
    except FileNotFoundError:
        raise SystemExit("git is not installed, and this folder is a clone: install git") from None
    if done.returncode != 0:
        raise SystemExit(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


# How each world writes the version of a state before a release. Where no rule is here, the world
# uses semantic versions, and so the version as it is.
FORMS: dict[str, Callable[[str], str]] = {
    "semantic": lambda text: text,
    "python": lambda text: text.replace("-dev", ".dev0"),
    "debian": lambda text: text.replace("-dev", "~dev"),
    "numbers": lambda text: text.replace("-dev", ""),
    "number": lambda text: "{}{:02}{:02}".format(
        *map(int, text.replace("-dev", "").split("."))).lstrip("0"),  # 0… would be octal in C
}


if __name__ == "__main__":
    print(version())
