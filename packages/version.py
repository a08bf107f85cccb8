"""Writes the version of dumpulse.h to the files that must have it as it is.

    python3 -m packages.version            # or make version
    python3 -m packages.version --check    # exit status 1 if a file is behind; changes nothing

All else that has the version is made from dumpulse.h when it is built.
SPDX-License-Identifier: MIT"""

import argparse
import re
import sys
from pathlib import Path

from packages.project import FORMS, ROOT, version

# The file, the form of its version, and what stands before and after the version.
PLACES = (
    ("dumpulse.h", "number", "^#define DUMPULSE_VERSION_NUMBER ", "L "),
    ("meson.build", "semantic", "^        version: '", "'\\)$"),
    ("client.py", "semantic", r'^VERSION = __version__ = "', r'"$'),
    ("server/canserver.8", "semantic", r'^\.TH CANSERVER 8 \S+ "Dumpulse ', r'" "Dumpulse"$'),
    ("dumpulse_fleet/dumpulse-fleet.1", "semantic", r'^\.TH DUMPULSE-FLEET 1 \S+ "Dumpulse ',
     r'" "Dumpulse"$'),
    ("client/dumpulse.1", "semantic", r'^\.TH DUMPULSE 1 \S+ "Dumpulse ', r'" "Dumpulse"$'),
    ("server/udpserver.8", "semantic", r'^\.TH UDPSERVER 8 \S+ "Dumpulse ', r'" "Dumpulse"$'),
)


def behind(root: Path = ROOT) -> dict[Path, str]:
    """Returns the files that do not have the version of dumpulse.h, with the text they need."""
    found: dict[Path, str] = {}
    now = version(root)
    for name, form, before, after in PLACES:
        path = root / name
        text = found.get(path, path.read_text())
        # The group 1 keeps what stands before the version.
        new, count = re.subn(f"({before})[^\"' ]*(?={after})",
                             lambda match: match[1] + FORMS[form](now), text, flags=re.M)
        if count != 1:
            raise SystemExit(f"{name} must have the version once, after {before}: it is there "
                             f"{count} times")
        if new != text:
            found[path] = new
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="make version")
    parser.add_argument("--check", action="store_true", help="only say which files are behind")
    check = parser.parse_args().check
    files = behind()
    for path, text in files.items():
        name = path.relative_to(ROOT)
        if check:
            print(f"{name} does not have version {version()}: make version", file=sys.stderr)
        else:
            path.write_text(text)
            print(f"{name} has version {version()} now")
    return 1 if check and files else 0


if __name__ == "__main__":
    sys.exit(main())
