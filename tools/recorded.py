"""Records the inputs with which parts of the tests have passed. `make full` leaves out a part whose
inputs are the same.

    python3 -m tools.recorded due          prints the recorded parts that must run
    python3 -m tools.recorded write PART   records that this part has passed

The variable RECORDED of the environment has a line for each part: PART|INPUT...|COMMAND. The
inputs of a part are its command, the files below its paths that git does not ignore, and the
versions of packages of Debian, which are given as deb:NAME. In each commit, one in five of the
parts is due whatever its inputs are, so a wrong record does not stay."""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tools.programs import ROOT, as_program

FILE = ROOT / "tests" / "recorded.tsv"
TURNS = 5  # commits, in one of which each part is due


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def inputs_hash(inputs: list[str], command: str) -> str:
    """Returns the SHA-256 of a part's command, files and packages."""
    packages = [name.removeprefix("deb:") for name in inputs if name.startswith("deb:")]
    paths = [name for name in inputs if not name.startswith("deb:")]
    digest = hashlib.sha256(command.encode())
    listed = output_of("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--",
                       *paths)
    for name in sorted({*listed.split("\0")} - {""}):
        file = ROOT / name
        if file != FILE and file.is_file():
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"\0{name}\0{file.stat().st_mode & 0o100}\0{content}".encode())
    if packages:
        digest.update(output_of("dpkg-query", "-W", *packages).encode())
    return digest.hexdigest()


def parts() -> dict[str, str]:
    """Returns the hash of the inputs of each part."""
    rows = [line.strip().split("|", 2) for line in os.environ["RECORDED"].splitlines()]
    return {row[0]: inputs_hash(row[1].split(), row[2]) for row in rows if len(row) == 3}


def records() -> dict[str, str]:
    text = FILE.read_text() if FILE.exists() else ""
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return {part: inputs for part, inputs in rows}


def due(now: dict[str, str], recorded: dict[str, str], commits: int) -> list[str]:
    """Returns the parts with other inputs than those recorded, and those whose turn it is."""
    return [part for place, part in enumerate(sorted(now))
            if recorded.get(part) != now[part] or (place + commits) % TURNS == 0]


def write(part: str) -> None:
    """Records a part. Others may be recorded at the same time."""
    with (ROOT / "build" / "recorded.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = records() | {part: parts()[part]}
        FILE.write_text("# part\tSHA-256 of all that it reads: python3 -m tools.recorded\n" + "".join(
            f"{name}\t{inputs}\n" for name, inputs in sorted(rows.items())))


def main() -> None:
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        print(*due(parts(), records(), int(output_of("git", "rev-list", "--count", "HEAD"))))


if __name__ == "__main__":
    as_program(main, "due|write [a-z0-9-]+")
