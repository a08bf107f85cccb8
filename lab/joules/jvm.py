"""The server and the client of lab/run formats on a JVM: Spring Boot, by Maven.

lab/jvm has the Java."""

import fcntl
import functools
import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.joules.loopback import Child, Pair
from lab.joules.measuring import Failed
from tools.programs import ROOT

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
