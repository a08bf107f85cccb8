"""Starts a fake fleet: see fake_fleet.c."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTRAS = ROOT / "extras"
SOURCES = [pathlib.Path(__file__).with_name("fake_fleet.c"), ROOT / "dumpulse.c",
           *(EXTRAS / f"dumpulse_{part}.c" for part in ("agent", "master", "report", "tag"))]
PROGRAM = ROOT / "build" / "fleet" / "fake_fleet"
FIRST = 0x7F010000  # The address of the first agent.


def build() -> pathlib.Path:
    """Compiles it if it is older than its source."""
    newest = max(path.stat().st_mtime for path in (
        *SOURCES, ROOT / "dumpulse.h", EXTRAS / "dumpulse_keyed.h"))
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < newest:
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PROGRAM.parent) as folder:
            new = pathlib.Path(folder) / "fake_fleet"
            subprocess.run([os.environ.get("CC", "cc"), "-O2", f"-I{ROOT}", f"-I{EXTRAS}",
                            "-o", new, *SOURCES, "-lm"], check=True)
            new.replace(PROGRAM)
    return PROGRAM


class FakeFleet:
    """A fake fleet of so many agents, in a process of its own."""

    def __init__(self, count: int, *prefix: str, **options: int) -> None:
        self.count = count
        self._process = subprocess.Popen(
            [*prefix, build(), str(count), *(f"{key}={value}" for key, value in options.items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())

    def address(self, number: int) -> str:
        whole = FIRST + number
        return ".".join(str(whole >> shift & 255) for shift in (24, 16, 8, 0)) + f":{self.port}"

    def tell(self, verb: str, first: int, last: int) -> None:
        """Does this to the agents from first to last, and waits until it is done."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{verb} {first} {last}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline()

    def __enter__(self) -> FakeFleet:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()
