"""Counts the group operations of a scheme in Java, and times it by JMH.     lab/run groups --help

The scheme is a class on Cryptimeleon's API with the methods of lab/jvm's Scheme.java. The counts,
in both modes, are those of Cryptimeleon's own DebugBilinearGroup."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from lab.joules import jvm
from lab.joules.measuring import Failed
from tools.programs import scratch


def compiled(source: Path, folder: Path) -> str:
    """Compiles a scheme into the folder, and returns the name of its class."""
    made = jvm.built()
    jvm.run("javac", "-cp", f"{made}/classes:{made}/lib/*", "-d", folder, source)
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
            words = ["-counts"] if options.counts else options.jmh.split()
            done = subprocess.run(jvm.java("dumpulse.lab.Groups", name, *words, own=Path(folder)),
                                  check=False)
    except Failed as reason:
        sys.exit(f"lab/run groups: {reason}")
    sys.exit(done.returncode)
