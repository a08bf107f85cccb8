"""What all scripts and tests share: where the project is, and how to run and build programs."""

import argparse
import contextlib
import fcntl
import functools
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
EXTRAS = ROOT / "extras"  # The library's optional parts.
INCLUDES = (f"-I{ROOT}", f"-I{EXTRAS}")
# The part with keys has a file for each role.
KEYED = tuple(f"dumpulse_{role}.c" for role in (
    "tag", "agent", "mixed", "report", "node", "reader", "master", "slots"))

# Seconds until something that we wait for has failed. Machines may be busy.
PATIENCE = 30.0


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A new folder, as two processes may measure the same thing at the same time."""
    BUILD.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(dir=BUILD)


def library_file(name: str, folder: Path = ROOT) -> Path:
    """Where a file of the library is. A changed copy has all of them in one folder."""
    return folder / name if (folder / name).exists() else folder / EXTRAS.name / name


def run(command: list[object], cwd: Path | None = None) -> str:
    """Runs a command, and returns its output. A failure shows the command and its messages."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def as_program(main: Callable[[], int | None], arguments: str = "") -> None:
    """Runs what prints a table. Whoever reads it may have enough, as `head` has: that is no fault,
    and ends the program as SIGPIPE ends others. What a table has found wrong is said even so.

    `arguments` is a pattern of all arguments, with a space between two: ".*" if main() has a parser
    of its own. If it does not match, the lines of the program's own text that start it are its
    help; without such lines, the words that started it."""
    if not re.fullmatch(arguments, " ".join(sys.argv[1:]), re.S):
        asked = sys.argv[1:] in (["-h"], ["--help"])
        ways = re.findall(r"^ {4}((?:python|make).*)", sys.modules["__main__"].__doc__ or "", re.M)
        ways = ways or ["python3 " + " ".join(sys.orig_argv[1:-len(sys.argv[1:])])]
        print("usage:", *ways, sep="\n  ", file=sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)
    status: object = 0
    try:
        try:
            status = main()
        except SystemExit as end:
            status = end.code
        except FileNotFoundError as problem:
            if problem.filename not in sys.argv:
                raise
            status = f"{problem.filename}: there is no such file"
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest of the output
        status = status or 128 + signal.SIGPIPE
    sys.exit(status)  # type: ignore[arg-type]


@functools.cache
def built(program: str) -> str:
    """Builds a file of the Makefile if it is not up to date. Returns its path. Other processes
    may want the same file at this moment: one builds it, and they wait."""
    with (ROOT / "Makefile").open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        subprocess.run(["make", "--no-print-directory", "-s", "-C", ROOT, program], check=True)
    return str(ROOT / program)


@functools.cache
def wraps(program: str) -> list[str]:
    """Returns what the linker is told of a program of the Makefile: calls of NAME go to
    __wrap_NAME."""
    return re.findall(r"-Wl,--wrap=\S+", run(["make", "-nB", "-C", ROOT, program]))


def vectors(name: str) -> Path:
    return Path(built(f"build/vectors/{name}"))


def portion(text: str) -> slice:
    """Returns the slice of a list that K/N means: each N-th, from the K-th on."""
    fraction = re.fullmatch(r"([1-9][0-9]*)/([1-9][0-9]*)", text)
    if fraction is None or int(fraction[1]) > int(fraction[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no portion: K/N, with K from 1 to N")
    return slice(int(fraction[1]) - 1, None, int(fraction[2]))


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not seen in {PATIENCE:.0f} s: {what}"
        time.sleep(0.005)


@contextlib.contextmanager
def started(*command: object, **popen: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that is killed at the end, if it still runs."""
    with subprocess.Popen([str(word) for word in command], text=True, **popen) as process:
        try:
            yield process
        finally:
            process.kill()


def open_files(pid: int) -> int:
    """Returns how many descriptors a server has open. For each line it opens its log once more, for
    a moment: so this is the smallest of some counts."""
    counts = []
    for _ in range(10):
        counts.append(len(list(Path(f"/proc/{pid}/fd").iterdir())))
        time.sleep(0.01)
    return min(counts)


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of 127.0.0.1 that nobody uses. It is below those that the kernel gives to whoever
    asks for any (/proc/sys/net/ipv4/ip_local_port_range), so it stays free."""
    for port in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, kind) as unused:
            unused.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")
