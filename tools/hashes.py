"""Writes the hash of each file to a list of Python packages, for the Pythons of Debian 12 and 13.

    python3 -m tools.hashes tools/requirements.txt    # after a change of a version; uv finds files

pip rejects other files. A line has the wheels for amd64 and arm64, or the sources if a Python has
no wheel."""

import argparse
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from packaging import tags
from packaging.utils import parse_wheel_filename

from tools.programs import as_program

PYTHONS, MACHINES, GLIBC = ((3, 11), (3, 13)), ("x86_64", "aarch64"), 36


def ranks(python: tuple[int, int], machine: str) -> dict[tags.Tag, int]:
    """The tags of wheels that fit, the best first."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 16, -1)] + [
        f"manylinux{year}_{machine}" for year in (2014, 2010, 1)] + [f"linux_{machine}"]
    known_tags = [*tags.cpython_tags(python, platforms=platforms),
                  *tags.compatible_tags(python, f"cp{python[0]}{python[1]}", platforms)]
    return {tag: rank for rank, tag in reversed([*enumerate(known_tags)])}


ALL_RANKS = [ranks(python, machine) for python in PYTHONS for machine in MACHINES]


def hashes(package: dict[str, Any]) -> list[str]:
    """Returns those of the files that pip would take, each once."""
    files = []
    for rank in ALL_RANKS:
        fitting = [(min(rank[tag] for tag in fits), wheel) for wheel in package.get("wheels", [])
                   if (fits := parse_wheel_filename(wheel["url"].rpartition("/")[2])[3] &
                       rank.keys())]
        files.append(min(fitting, key=lambda fit: fit[0])[1] if fitting else package.get("sdist"))
    return [*dict.fromkeys(file["hashes"]["sha256"] for file in files if file)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools.hashes", description="Writes the hashes of Python "
                                     "packages to their lists. It needs uv.")
    parser.add_argument("lists", nargs="+", type=Path, metavar="LIST",
                        help="a file such as tools/requirements.txt")
    for path in parser.parse_args().lists:
        lines = path.read_text().splitlines()
        locked = tomllib.loads(subprocess.run(
            ["uv", "pip", "compile", "--quiet", "--no-deps", "--universal", "--python-version",
             "3.11", "--format", "pylock.toml", "-"], input="\n".join(
                 line.partition(" --")[0] for line in lines), text=True, check=True,
            stdout=subprocess.PIPE).stdout)
        packages = {package["name"]: package for package in locked["packages"]}
        for number, line in enumerate(lines):
            if "==" in line and not line.startswith("#"):
                pin = line.partition(" --")[0]
                normal = re.sub("[-_.]+", "-", pin.partition("==")[0]).lower()
                lines[number] = " --hash=sha256:".join([pin, *hashes(packages[normal])])
        path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    as_program(main, ".*")
