"""Projects outside of the tree that use Dumpulse: what they are built from, and whether they work.

Every build system builds the same programs, those of packages/c/consumer."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Union

from packages import project
from spec.model import REQUEST, Agent, heartbeat
from tools.programs import EXTRAS, PATIENCE

NOTHING: Mapping[str, str] = MappingProxyType({})
SOURCES = Path(__file__).with_name("consumer")
# Heartbeats that replace each other, one with a wrong byte, and questions.
PACKETS = [heartbeat(3, 76, 9), heartbeat(63, 1, 255), heartbeat(64, 1, 1), REQUEST,
           heartbeat(3, 76, 10), heartbeat(5, 2, 3)[:-1] + b"\x04", REQUEST]


Words = Sequence[Union[str, Path]]


def environment(home: Path) -> dict[str, str]:
    """What a user's shell has, and nothing of the one that runs the tests."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1"}


def try_run(words: Words, folder: Path, standard_input: bytes = b"",
            more: Mapping[str, str] = NOTHING) -> subprocess.CompletedProcess[bytes]:
    """Runs a command in a folder, with more in its environment."""
    try:
        return subprocess.run([str(word) for word in words], cwd=folder, input=standard_input,
                              env={**environment(folder), **more}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=10 * PATIENCE)
    except FileNotFoundError as error:
        raise AssertionError(
            f"{error}: make setup and make packages-setup install the tools") from None


def run(words: Words, folder: Path, standard_input: bytes = b"",
        more: Mapping[str, str] = NOTHING) -> bytes:
    """Returns what the command prints."""
    done = try_run(words, folder, standard_input, more)
    output = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, f"{words}: status {done.returncode}: {output}"
    return done.stdout


def fails(words: Words, folder: Path, message: str, more: Mapping[str, str] = NOTHING) -> None:
    """The command must fail, with this message."""
    done = try_run(words, folder, more=more)
    output = " ".join((done.stdout + done.stderr).decode(errors="replace").split())
    assert done.returncode != 0 and message in output, output


def compiles(given: str, source: Path, *options: str | Path) -> None:
    """Lets a compiler read a source for a system that is not there: `given` has its types and
    constants. Nothing is known of its functions, so only the calls of Dumpulse are checked."""
    with tempfile.TemporaryDirectory() as work:
        for name in re.findall(r"^#include [<\"](.*/.*)[>\"]", source.read_text(), re.M):
            header = Path(work, name)
            header.parent.mkdir(parents=True, exist_ok=True)
            header.touch()
        Path(work, "given.h").write_text(given)
        run(["gcc", "-fsyntax-only", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
             "-Wno-implicit-function-declaration", f"-I{work}", "-include", "given.h", *options,
             source], Path(work))


def library(kind: str) -> list[str]:
    """Returns the library's files of a kind, such as h, as the folders have them."""
    return sorted(path.name for folder in (project.ROOT, EXTRAS)
                  for path in folder.glob(f"dumpulse*.{kind}"))


def copy(to: Path, version: str = "") -> Path:
    """Copies the project, without what was built, and with this version."""
    shutil.copytree(project.ROOT, to, symlinks=True,
                    ignore=shutil.ignore_patterns(".git", "build", "__pycache__"))
    if version:
        header = to / "dumpulse.h"
        header.write_text(re.sub(r'(#define DUMPULSE_VERSION) "[^"]*"', rf'\1 "{version}"',
                                 header.read_text()))
        for path, text in project.behind(to).items():
            path.write_text(text)
    return to


def consumer(to: Path) -> Path:
    """Lays out a project with the programs, and with its file for CMake."""
    return Path(shutil.copytree(SOURCES, to))


def expected() -> bytes:
    """The reports that a right agent sends. Its clock counts the packets."""
    agent = Agent()
    reports = b""
    for now, packet in enumerate(PACKETS, 1):
        if agent.process(now, packet) == 2:
            reports += agent.table()
    return reports


def check_agent(agent: Words, folder: Path) -> bytes:
    """Runs an agent, and compares its reports with those of the model of the protocol."""
    reports = run(agent, folder, b"".join(PACKETS))
    assert reports == expected()
    return reports


def check(folder: Path) -> None:
    """Runs the programs that were built in a folder."""
    reports, node = check_agent([folder / "agent"], folder), folder / "node"
    assert run([node, "3", "76", "9"], folder) == heartbeat(3, 76, 9)
    # The clock has begun again at 0 since then.
    assert run([node, "1"], folder, reports[-260:]).decode().splitlines() == [
        "3: sender 76, value 10, age 65532", "63: sender 1, value 255, age 65535"]
    fails([node, "1"], folder, "node: this is no report")
