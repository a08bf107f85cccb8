"""Builds lab/jvm with Maven, and runs its classes: JMH's benchmarks and the server of formats.

lab/run groups counts the group operations of a scheme in Java, and times it by JMH. The scheme is a
class on Cryptimeleon's API with the methods of lab/jvm's Scheme.java. The counts, in both modes,
are those of Cryptimeleon's own DebugBilinearGroup."""

import argparse
import fcntl
import functools
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lab.joules.measuring import Failed
from tools.programs import ROOT, scratch

SOURCE, BUILD = ROOT / "lab" / "jvm", ROOT / "build" / "jvm"
# Of the lines "SHA-256, two blanks, name" of all libraries, as sha256sum prints them.
LIBRARIES = "ed9400e80a1644460442c0dcb6cac885f3e8fe6d530163fd4fbc376bc70430a7"


def run(*words: object) -> None:
    try:
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Failed(f"{words[0]} is not installed: this needs Java 17 and Maven") from None
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        errors = [line for line in lines if "ERROR" in line or "error:" in line]
        raise Failed(f"{words[0]} failed: {(errors or ['it gives no reason'])[0]}")


def check_libraries() -> None:
    """Their code has not run yet."""
    lines = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
                    for file in sorted((BUILD / "lib").glob("*.jar")))
    if hashlib.sha256(lines.encode()).hexdigest() != LIBRARIES:
        raise Failed(f"the libraries are not those that jvm.py names; they are:\n{lines}")


@functools.cache  # a program compares the libraries once
def built() -> Path:
    """The folder of classes and libraries."""
    BUILD.mkdir(parents=True, exist_ok=True)
    ready = BUILD / "ready"
    with open(BUILD.with_name("jvm.lock"), "w") as lock:  # another program may build it now
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(file.stat().st_mtime for file in (*SOURCE.rglob("*.java"),
                                                       SOURCE / "pom.xml"))
        if not ready.exists() or ready.stat().st_mtime < newest:
            print("lab: Maven builds lab/jvm and fetches its libraries", file=sys.stderr)
            shutil.rmtree(BUILD)
            run("mvn", "--quiet", "--batch-mode", "-f", SOURCE, "process-classes")
            ready.touch()
        check_libraries()
    return BUILD


def java(*words: str, extra: Path | None = None) -> list[str]:
    """The command that runs a class; `extra` is a folder of more classes."""
    folders = [*[str(extra)] * bool(extra), f"{built()}/classes", f"{built()}/lib/*"]
    return ["java", "-cp", ":".join(folders), *words]


# JMH's options, unless the user chooses others: forks, and warm-ups and iterations of 2 s.
DEFAULTS = {"-bm": "avgt", "-f": "3", "-wi": "5", "-w": "2", "-i": "5", "-r": "2"}


def benchmark(name: str, chosen: str, *words: str, extra: Path | None = None) -> list[str]:
    """The command that runs a benchmark with these options of the user, and these of the lab."""
    options = chosen.split()
    defaults = [word for pair in DEFAULTS.items() if pair[0] not in options for word in pair]
    return java("org.openjdk.jmh.Main", f"dumpulse.lab.{name}", "-foe", "true", *defaults, *words,
                *options, extra=extra)


def compiled(source: Path, folder: Path) -> str:
    """Compiles a scheme into the folder, and returns the name of its class."""
    build = built()
    run("javac", "-cp", f"{build}/classes:{build}/lib/*", "-d", folder, source)
    package = re.search(r"^package ([\w.]+);", source.read_text(), re.M)
    return f"{package[1]}.{source.stem}" if package else source.stem


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="lab/run groups", description="Counts the group operations of verifying a signature "
        "on 1 and on 10 messages, and times it by JMH, beside two pitfalls.")
    parser.add_argument("scheme", nargs="?", type=Path, metavar="FILE.java",
                        help="a class that implements dumpulse.lab.Scheme; else Ps18.java")
    parser.add_argument("--counts", action="store_true", help="only count, which takes seconds")
    parser.add_argument("--jmh", default="", metavar="WORDS",
                        help='options of JMH; --jmh="-f 1 -wi 3" for a first look')
    options = parser.parse_args()
    if options.scheme and not options.scheme.is_file():
        parser.error(f"there is no file {options.scheme}")
    try:
        with scratch() as folder:
            name = compiled(options.scheme, Path(folder)) if options.scheme else "dumpulse.lab.Ps18"
            done = subprocess.run(java("dumpulse.lab.Groups", name, extra=Path(folder)),
                                  check=False)
            if done.returncode == 0 and not options.counts:
                done = subprocess.run(benchmark("Groups", options.jmh, "-tu", "ms", "-p",
                                                f"scheme={name}", extra=Path(folder)), check=False)
    except Failed as reason:
        sys.exit(f"lab/run groups: {reason}")
    sys.exit(done.returncode)
