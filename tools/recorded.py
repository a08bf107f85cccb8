"""Records the inputs with which parts of the tests have passed. `make full` leaves out a part that
would read the same again.

    python3 -m tools.recorded due PART PATH...          prints the hash of the inputs if it must run
    python3 -m tools.recorded RESULT PART HASH PATH...  records it if the result is "passed"

The inputs of a part are its command, which is COMMAND in the environment; the compiler's flags; the
files below its paths that git does not ignore; and the versions of the Debian packages that the
tests need, and of those that have their programs: gcc needs gcc-12, and cvc4 libcvc4-7. A part
that fails, or whose inputs have changed during the run, loses its record. One in five of the parts
must run in each commit, whatever its inputs are: so a wrong record is found."""

import fcntl
import hashlib
import os
import re
import subprocess
import sys

from tools.programs import ROOT, as_program

FILE = ROOT / "tests" / "recorded.tsv"
HEAD = "# part\tSHA-256 of what it reads; tools/recorded.py writes this\n"
TURNS = 5  # commits, in one of which a part must run


def output_of(*command: str, check: bool = True) -> str:
    return subprocess.run(command, cwd=ROOT, check=check, text=True, stdout=subprocess.PIPE,
                          stderr=None if check else subprocess.DEVNULL).stdout


def inputs_hash(paths: list[str]) -> str:
    """Returns the SHA-256 of the command, the flags, the files and the packages' versions. A path
    without files is an error."""
    digest = hashlib.sha256(os.environ["COMMAND"].encode())
    listed = output_of("git", "ls-files", "-z", "--error-unmatch", "--cached", "--others",
                       "--exclude-standard", "--", *paths).split("\0")
    for name in ["build/flags", *sorted({*listed} - {""})]:
        file = ROOT / name
        if file != FILE and file.is_file():
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"\0{name}\0{file.stat().st_mode & 0o100}\0{content}".encode())
    digest.update(versions().encode())
    return digest.hexdigest()


def versions() -> str:
    """Returns the versions of the packages. Of what a package depends on, those are meant whose
    names have its first word."""
    names = {*re.findall("^[^#].*", (ROOT / "tools" / "packages.txt").read_text(), re.M)}
    for line in output_of("dpkg-query", "-W", "-f", "${Package}\t${Depends}\n", *sorted(names),
                          check=False).splitlines():
        name, needed = line.split("\t")
        names |= {word for word in re.findall(r"[^\s,|:]+", re.sub(r"\(.*?\)", "", needed))
                  if name.split("-")[0] in word}
    return output_of("dpkg-query", "-W", *sorted(names), check=False)


def is_its_turn(part: str, commits: int) -> bool:
    return (hashlib.sha256(part.encode()).digest()[0] + commits) % TURNS == 0


def records() -> dict[str, str]:
    rows = [line.split("\t") for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return {part: inputs for part, inputs in rows}


def write(part: str, inputs: str) -> None:
    """Records a part, or removes its record. Others may be recorded at the same time."""
    with FILE.open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        rows = records() | {part: inputs}
        FILE.write_text(HEAD + "".join(f"{name}\t{rows[name]}\n" for name in sorted(rows)
                                if rows[name]))


def main() -> None:
    action, part, *words = sys.argv[1:]
    if action != "due":
        has_passed = action == "passed" and inputs_hash(words[1:]) == words[0]
        write(part, words[0] if has_passed else "")
    elif records().get(part) != (now := inputs_hash(words)) or is_its_turn(
            part, int(output_of("git", "rev-list", "--count", "HEAD"))):
        print(now)


if __name__ == "__main__":
    as_program(main, "due [a-z-]+ .+|(passed|FAILED|TIMEOUT) [a-z-]+ [0-9a-f]{64} .+")
