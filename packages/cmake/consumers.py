"""Projects outside of the tree that use Dumpulse: what they are built from, and whether they work.

Every build system builds the same three programs, those of packages/cmake/consumer.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Union

from packages import project
from packages import version as versions
from spec.keyed import Keys
from spec.model import REQUEST, Agent, heartbeat
from spec.watch import ALIVE, DEAD, LATE, MISSING, OUT_OF_RANGE, Watch, line
from tests.support.programs import EXTRAS, PATIENCE

NOTHING: Mapping[str, str] = MappingProxyType({})
WORLDS = project.ROOT / "packages"
SOURCES = WORLDS / "cmake" / "consumer"
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
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, f"{words}: status {done.returncode}: {said}"
    return done.stdout


def fails(words: Words, folder: Path, message: str, more: Mapping[str, str] = NOTHING) -> None:
    """The command must fail, with this message."""
    done = try_run(words, folder, more=more)
    said = " ".join((done.stdout + done.stderr).decode(errors="replace").split())
    assert done.returncode != 0 and message in said, said


def damage(file: Path, old: str, new: str, times: int = -1) -> None:
    """Replaces a text that must be in the file: everywhere, or so many times."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, times))


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
        for path, text in versions.behind(to).items():
            path.write_text(text)
    return to


def repository(to: Path, version: str = "") -> str:
    """Makes a repository of a copy, with a tag. Returns its address."""
    copy(to, version)
    version = project.version(to)
    for words in (["init", "-q", "-b", "main"], ["add", "-f", "."],
                  ["-c", "user.name=test", "-c", "user.email=test@tests.example", "commit", "-q",
                   "-m", "a copy"], ["tag", f"v{version}"]):
        run(["git", *words], to)
    return to.as_uri()


def consumer(to: Path, build_file: Path | None = None) -> Path:
    """Lays out a project with the programs, and with the build file of another world."""
    shutil.copytree(SOURCES, to)
    if build_file:
        shutil.copy(build_file, to)
    return to


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


def check_watcher(watcher: Path) -> None:
    """Runs the program that watches, and compares its lines with the model of the watch."""
    agent, watch = Agent(), Watch([line(3, late=2, dead=4, grace=3, highest=99),
                                   line(5, late=1, dead=1, grace=5)])
    packets = [*PACKETS, *[REQUEST] * 3, heartbeat(3, 76, 100)]
    changes = []
    for now, packet in enumerate(packets, 1):
        agent.process(now, packet)
        changes += watch.look(agent.entries, now)
    assert {state for _, _, state in changes} == {MISSING, ALIVE, OUT_OF_RANGE, LATE, DEAD}
    assert run([watcher], watcher.parent, b"".join(packets)).decode().splitlines() == [
        f"{variable}: from state {was} to {now}" for variable, was, now in changes]


def check(folder: Path) -> None:
    """Runs the programs that were built in a folder."""
    reports, node = check_agent([folder / "agent"], folder), folder / "node"
    assert run([node, "3", "76", "9"], folder) == heartbeat(3, 76, 9)
    assert run([node], folder, reports[-260:]).decode().splitlines() == [
        "3: sender 76, value 10, time 5", "63: sender 1, value 255, time 2"]
    fails([node], folder, "node: this is no report")
    check_watcher(folder / "watcher")
    check_keyed(folder / "keyed")


def check_keyed(agent: Path) -> None:
    """The agent with keys, which its own project compiles, has room for the number of variable 7,
    and none for that of variable 8."""
    keys = Keys(bytes(range(16)))
    packets = keys.announce(7, 0x800001) + keys.announce(8, 0x800001) + \
        keys.counted(7, 0x80000100, 1, 76, 9) + keys.counted(7, 0x100, 1, 76, 9)
    assert run([agent], agent.parent, packets).decode().split() == [
        keys.beacon(0x100).hex(), "3", "0", "1", "4"]


def path_with(folder: Path) -> str:
    """The PATH with a folder in front."""
    return os.pathsep.join((str(folder), environment(folder)["PATH"]))
