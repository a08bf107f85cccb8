"""Starts a fake fleet: see fake_fleet.c."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import subprocess
import tempfile
import threading

SOURCE = pathlib.Path(__file__).with_name("fake_fleet.c")
BUILD = SOURCE.parents[2] / "build" / "fleet"
FIRST = int(ipaddress.ip_address("127.1.0.0"))  # The address of the first agent.


def build(source: pathlib.Path, *options: str) -> pathlib.Path:
    """Compiles a program, or a library, if its source is newer."""
    program = BUILD / (source.stem + ".so" * ("-shared" in options))
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            subprocess.run([os.environ.get("CC", "cc"), "-O2", *options, "-o", f"{folder}/new",
                            source], check=True)
            pathlib.Path(folder, "new").replace(program)
    return program


class FakeFleet:
    """A fake fleet of so many agents, in a process of its own, which Ctrl-C does not reach."""

    def __init__(self, count: int, speed: float = 1.0, variables: int = 15, boot: float = 2.0
                 ) -> None:
        self.count = count
        self._lock = threading.Lock()
        self.process = subprocess.Popen(
            [build(SOURCE), "0", *map(str, (count, speed, variables, boot))], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())

    def address(self, number: int) -> str:
        return f"{ipaddress.ip_address(FIRST + number)}:{self.port}"

    def tell(self, verb: str, first: float, last: float = 0, variable: int = 0) -> list[float]:
        """Does this to the agents from first to last, and waits until it is done. Returns the
        numbers of the answer."""
        assert self.process.stdin and self.process.stdout
        with self._lock:
            self.process.stdin.write(f"{verb} {first} {last} {variable}\n")
            self.process.stdin.flush()
            return [float(word) for word in self.process.stdout.readline().split()
                    if word != "done"]

    def __enter__(self) -> FakeFleet:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
