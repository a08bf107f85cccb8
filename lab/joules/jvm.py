"""The server and the client of lab/run formats on a JVM: Spring Boot, by Maven.

    lab/run formats --on boot3            times, as on Python
    make figures ONLY=lab-jvm             instructions of a message, by valgrind

lab/jvm has the Java. SPDX-License-Identifier: MIT"""

import fcntl
import functools
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.joules.loopback import Child, Pair
from lab.joules.measuring import Failed
from tests.support.programs import ROOT, as_program

SOURCE, BUILD = ROOT / "lab" / "jvm", ROOT / "build" / "jvm"
LIBRARIES = SOURCE / "libraries.txt"
TITLES = {"jackson": "JSON, Jackson", "gson": "JSON, Gson", "xml": "XML, Jackson",
          "cbor": "CBOR, Jackson", "protobuf": "Protobuf, protobuf",
          "java": "Java's serialization"}


@dataclass(frozen=True)
class Kind:
    boot: str  # the profile of Maven, and the folder of what it makes
    options: tuple[str, ...] = ()  # of java


KINDS = {f"{boot}{ending}": Kind(boot, options) for boot in ("boot3", "boot2")
         for ending, options in (("", ()), ("-interpreted", ("-Xint",)))}


def run(*words: object) -> str:
    try:
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Failed(f"{words[0]} is not installed: the JVM's part needs Java 17 and Maven") \
            from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise Failed(f"{words[0]} failed: {(said or ['it does not say why'])[0]}")
    return done.stdout + done.stderr


def wanted(boot: str) -> dict[str, str]:
    """The SHA-256 of each library."""
    lines = [line.split() for line in LIBRARIES.read_text().splitlines() if line[:1] != "#"]
    return {name: sha256 for sha256, boots, name in lines if boot in boots.split(",")}


def right(boot: str) -> None:
    """The libraries are those that were chosen. Their code has not run yet."""
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()
             for file in (BUILD / boot / "lib").glob("*.jar")}
    for name, sha256 in (found.items() ^ wanted(boot).items()):
        raise Failed(f"{name}: the SHA-256 {sha256} stands only "
                     f"{'in build/jvm' if found.get(name) == sha256 else f'in {LIBRARIES.name}'}")


@functools.cache  # a program looks at the libraries once
def built(boot: str) -> Path:
    """The folder of classes and libraries."""
    BUILD.mkdir(parents=True, exist_ok=True)
    made, ready = BUILD / boot, BUILD / f"{boot}.ready"
    sources = [*SOURCE.rglob("*.java"), SOURCE / "pom.xml", LIBRARIES]
    with open(BUILD / f"{boot}.lock", "w") as lock:  # other programs may want the same at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(file.stat().st_mtime for file in sources)
        if not ready.exists() or ready.stat().st_mtime < newest:
            print(f"lab: Maven makes {boot} and fetches its libraries", file=sys.stderr)
            shutil.rmtree(made, ignore_errors=True)
            run("mvn", "--quiet", "--batch-mode", "-f", SOURCE, f"-P{boot}", "process-classes")
            ready.touch()
        right(boot)
    return made


def java(kind: Kind) -> list[str]:
    made = built(kind.boot)
    return ["java", *kind.options, "-cp", f"{made}/classes:{made}/lib/*"]


class JvmPair(Pair):
    """As on Python. Both processes run through their own optimisation from the start."""

    def __init__(self, name: str, port: int) -> None:
        command = java(KINDS[name])
        self.server = Child("server", [*command, "dumpulse.lab.Server", str(port)])
        try:
            found = self.server.line().strip()  # its port
            if not found.isdecimal():
                raise Failed(self.server.ended() or f"the server says {found!r} and no port")
            self.port = int(found)
            self.client = Child("client", [*command, "dumpulse.lab.Client", found])
        except BaseException:
            self.server.end()
            raise


def versions(name: str) -> dict[str, str]:
    """Of Java and of each library, as a file is called."""
    found = re.search(r'version "(.+?)"', run("java", "-version"))
    return {"java": found[1] if found else "unknown"} | {
        each[1]: each[2] for library in wanted(KINDS[name].boot)
        if (each := re.match(r"(.+)-(\d.*)\.jar$", library))}


# Instructions, of a message that is made and read in one process, without HTTP.


@dataclass(frozen=True)
class Counted:
    title: str
    options: tuple[str, ...]
    before: int  # messages before those that are counted
    count: int


# One thread collects garbage, and none compiles at the same time, or counts would differ more.
STEADY = ("-XX:+UseSerialGC", "-Xbatch")
COUNTED = (Counted("interpreted", ("-Xint",), 100, 200), Counted("the first 100", (), 0, 100),
           Counted("optimised", (), 10_000, 2_000))


def total(boot: str, name: str, options: tuple[str, ...], messages: int) -> int:
    command = java(Kind(boot, (*STEADY, *options)))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
             # Java changes its own code, and reads through null pointers on purpose.
             "--smc-check=all-non-file", "--vex-iropt-register-updates=allregs-at-mem-access",
             *command, "dumpulse.lab.Client"], check=True, text=True,
            input=f"{name} {messages}\n", capture_output=True, cwd=folder)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


def instructions(boot: str, name: str, how: Counted) -> float:
    """Of one message, by the difference of two runs."""
    few, many = (total(boot, name, how.options, messages)
                 for messages in (how.before, how.before + how.count))
    return (many - few) / how.count


def main() -> None:
    print(f"Instructions of a message, made and read in one JVM ({versions('boot3')['java']}):\n")
    print(f"{'':21}" + "".join(f"{how.title:>15}" for how in COUNTED))
    for name, title in TITLES.items():
        print(f"{title:21}" + "".join(f"{instructions('boot3', name, how):>15,.0f}"
                                      for how in COUNTED), flush=True)


if __name__ == "__main__":
    as_program(main)
