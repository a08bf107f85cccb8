"""Does the steps of the Dockerfile without Docker, and asks the agent that they make.

Each instruction becomes lines of a shell script. It runs in a copy of this machine's Debian that is
gone afterwards, where apt-get only looks whether the packages are there.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import client
from packages import making, project, source
from packages.debian import make
from tests.support.servers import Server

DOCKERFILE = Path(__file__).with_name("Dockerfile")
APT_GET = """#!/bin/sh
set -eu
case $1 in
update) exit 0 ;;
install) shift ;;
esac
for word in "$@"; do
    case $word in -*) continue ;; esac
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$word")" = installed ]
done
"""
Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    lines = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ").splitlines()
    return [(name, rest.strip()) for name, _, rest in
            (line.partition(" ") for line in lines if line.strip())]


class Image:
    """What a Dockerfile says: a script that makes the image in /shared/image, and how it runs."""

    def __init__(self, text: str) -> None:
        self.lines: list[str] = []
        self.place, self.user, self.entry = "/", "0:0", [""]
        self.last_stage = ""  # the folder of the stage: "" is the whole Debian
        self.volumes: list[str] = []
        known: dict[str, Callable[[str], None]] = {
            "FROM": self.begin, "RUN": self.run, "COPY": self.copy, "WORKDIR": self.work_in,
            "USER": self.become, "VOLUME": self.volumes.append,
            "EXPOSE": lambda port: None, "ENTRYPOINT": self.start}
        for name, rest in instructions(text):
            assert name in known, f"the test knows no {name}"
            known[name](rest)

    def begin(self, rest: str) -> None:
        assert rest in ("debian:bookworm-slim AS build", "scratch"), rest
        self.last_stage = "/shared/image" if rest == "scratch" else ""
        self.place = "/"

    def run(self, rest: str) -> None:
        assert self.last_stage == "", "there is no shell in an empty image"
        self.lines.append(f"cd {self.place}; sh -euc {shlex.quote(rest)}")

    def work_in(self, rest: str) -> None:
        self.place = rest
        self.lines.append(f"mkdir -p {self.last_stage}{rest}")

    def copy(self, rest: str) -> None:
        words = rest.split()
        flags = dict(re.findall(r"--(\w+)=(\S+)", rest))
        assert set(flags) <= {"from", "chown"}, flags
        *files, to = [word for word in words if not word.startswith("--")]
        assert len(files) == 1 or to.endswith("/"), "several files go into a folder: TO/"
        context = "/" if flags.get("from") == "build" else "/shared/context/"
        target = self.last_stage + ("" if to.startswith("/") else f"{self.place}/") + to
        self.lines.append(f"mkdir -p {shlex.quote(target.rpartition('/')[0])}")
        for file in files:
            # Docker copies what is in a folder, and makes the folder itself.
            self.lines.append(
                f"if [ -d {context}{file} ]; then mkdir -p {target} && cp -r {context}{file}/. "
                f"{target}; else cp {context}{file} {target}; fi")
        if "chown" in flags:
            self.lines.append(f"chown -R {flags['chown']} {target}")

    def become(self, rest: str) -> None:
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", rest), f"{rest} may be root"
        self.user = rest

    def start(self, rest: str) -> None:
        self.entry = [str(word) for word in json.loads(rest)]

    def make(self, shared: Path) -> Path:
        """Makes the image; returns its folder."""
        for name, path in source.sources().items():
            to = shared / "context" / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if path.is_file():
                to.write_bytes(path.read_bytes())
        (shared / "image").mkdir()
        (shared / "bin").mkdir()
        (shared / "bin" / "apt-get").write_text(APT_GET)
        (shared / "bin" / "apt-get").chmod(0o755)
        make.in_debian(Path("/"), "\n".join(["export PATH=/shared/bin:$PATH", *self.lines]),
                       shared)
        return shared / "image"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Image, Path]]:
    steps = Image(DOCKERFILE.read_text())
    folder = tmp_path_factory.mktemp("container")
    for part in (folder, *folder.parents[:2]):  # pytest keeps others out of its folders
        part.chmod(0o755)
    yield steps, steps.make(folder)


@pytest.mark.slow
def test_the_image_has_one_program_alone(image: tuple[Image, Path]) -> None:
    steps, folder = image
    assert sorted(path.name for path in folder.rglob("*")) == ["state", "udpserver"]
    assert {f"/{path.name}" for path in folder.iterdir() if path.is_dir()} == set(steps.volumes)
    kind = subprocess.run(["readelf", "--program-headers", folder / "udpserver"], text=True,
                          stdout=subprocess.PIPE, check=True).stdout
    assert "LOAD" in kind and "INTERP" not in kind  # which would name the loader of libraries


@pytest.mark.slow
def test_the_agent_answers_and_keeps_its_table(image: tuple[Image, Path]) -> None:
    steps, folder = image
    wrap = ["chroot", f"--userspec={steps.user}", str(folder)]
    for turn in range(2):
        with Server(program=steps.entry, wrap=wrap) as server:
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            for name in ("Uid", "Gid"):
                assert set(re.findall(rf"^{name}:\s+(.*)$", status, re.M)[0].split()) == {"65532"}
            # From outside, the container has another address than 127.0.0.1.
            agent = client.Agent(f"127.0.0.2:{server.port}")
            if turn == 0:
                agent.beat(7, 12, 230)
            entry = agent.ask()[7]
            assert (entry.sender, entry.value) == (12, 230)
            server.process.terminate()
            server.process.wait()
    version = subprocess.run([*wrap, "/udpserver", "--version"], text=True, check=True,
                             stdout=subprocess.PIPE).stdout
    assert version == f"udpserver {project.version()}\n"


@pytest.mark.parametrize(("old", "new", "says"), [
    ("USER 65532:65532", "USER root", "may be root"),
    ("COPY server server", "COPY server servers", "exit status"),
    ("libc6-dev make", "libc6-dev make no-such-package", "exit status"),
    ("dumpulse.h ./", "dumpulse.h .", "several files"),
    ("EXPOSE", "EXPOSES", "knows no EXPOSES"),
])
def test_a_wrong_step_is_noticed(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = DOCKERFILE.read_text()
    assert text.count(old) == 1
    with pytest.raises((AssertionError, making.Failed), match=says):
        Image(text.replace(old, new)).make(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("old", "new"), [
    ('"0.0.0.0"', '"127.0.0.1"'),  # nobody outside reaches it
    ("--chown=65532:65532 ", ""),  # the state cannot be written
    ('LDFLAGS="-static -s"', 'LDFLAGS="-s"'),
])
def test_an_image_that_does_not_work_is_noticed(
        tmp_path_factory: pytest.TempPathFactory, old: str, new: str) -> None:
    text = DOCKERFILE.read_text()
    assert text.count(old) == 1
    steps = Image(text.replace(old, new))
    folder = tmp_path_factory.mktemp("wrong")
    for part in (folder, *folder.parents[:2]):
        part.chmod(0o755)
    made = steps, steps.make(folder)
    with pytest.raises((AssertionError, FileNotFoundError, subprocess.CalledProcessError,
                        client.Error)):
        test_the_image_has_one_program_alone(made)
        test_the_agent_answers_and_keeps_its_table(made)
