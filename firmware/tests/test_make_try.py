"""What `make try` shows of each board."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from firmware.simulators.boards import BOARDS, Board
from spec.model import heartbeat
from tools.programs import ROOT
from tools.tiers import tiered

FRAME = r"  can0  [0-9A-F]{3,8}   \[[48]\]  [0-9A-F]{2}(?: [0-9A-F]{2}){3,7}\n"
ENTRY = r"  variable {}: sender {}, value {}, timestamp {}\n"
TIME = r"(?:Its report was|Its first frames were) here after \d+\.\d s\.\n"
SHOWS = {  # the end, for some boards; for the others, see below
    "sender_attiny13": heartbeat(40, 7, 32).hex(" ") + "\n" + "".join(
        heartbeat(7, 7, beat).hex(" ") + "\n" for beat in range(4)),
    "keyed_attiny85": r"It sends:\n(?:87(?: [0-9a-f]{2}){9}\n){4,}",
    **dict.fromkeys(("keyed_atmega328p", "keyed_stm32", "can_avr-keyed"),
                    ENTRY.format(7, 1, 126, 3)),
    "node_stm32": r"It sends:\n(?:87(?: [0-9a-f]{2}){9}\n){4,}"}
BOOT = r"(?:  variable 63: .*\n)?"


def make_try(name: str, *image: Path, path: str = os.environ["PATH"],
             ) -> subprocess.CompletedProcess[str]:
    """Runs what `make try BOARD=name IMAGE=image` runs."""
    return subprocess.run([sys.executable, "-m", "firmware.simulators.boards", name, *image],
                          cwd=ROOT, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PATH": path})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uart_atmega328p", "can_stm32-f4", "keyed_stm32"])
def test_an_image_of_ones_own(name: str, tmp_path: Path) -> None:
    own = tmp_path / "own.elf"
    done = make_try(name, own)
    assert (done.returncode, done.stderr) == (2, f"there is no image {str(own)!r}\n")
    shutil.copy(BOARDS[name].image(), own)
    done = make_try(name, own)
    assert done.returncode == 0 and done.stdout.startswith(f"Taking {own}, and"), done
    assert re.search(TIME, done.stdout)


@pytest.mark.parametrize("board", tiered(BOARDS.values(), lambda board: bool(board.mcu)),
                         ids=lambda board: board.name)
def test_what_it_shows(board: Board) -> None:
    """The program itself checks each report."""
    shows = SHOWS.get(board.name) or (
        r"(?:\$ ./client.py [sg]et .*\n(?:[^$].*\n|\n)*){3}" if board.baud else
        rf"go to the board:\n(?:{FRAME}){{3}}The board answers with a report:\n(?:{FRAME}){{33}}"
        rf".*\n.*\n{ENTRY.format(3, 1, 126, 0)}{ENTRY.format(7, 12, 9, 2)}")
    pins = r".*\n(?:.* s  P..? .*\n)* +3\.\d+ s  P[BC]5 high\n(?:.*\n)? +7\.\d+ s  P[BC]0 low\n"
    pins = pins if board.pins and not board.keyed else ""
    done = make_try(board.name)
    assert done.returncode == 0, done.stderr
    assert re.search(shows + BOOT + TIME + pins + r"\Z", done.stdout), done.stdout
    assert "client.py" not in done.stdout or re.search(r"^ *3\b.*\b126\b", done.stdout, re.M)


@pytest.mark.parametrize("name", ["nonsense", ""])
def test_a_name_of_no_board(name: str) -> None:
    done = make_try(name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"the boards are: {', '.join(BOARDS)}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("name", "packages"), {
    "uart_atmega328p": "gcc-avr libc6-dev binutils-avr avr-libc libsimavr-dev libelf-dev",
    "uart_stm32-f4": "gcc-arm-none-eabi qemu-system-arm",
    "can_stm32-f1": "gcc-arm-none-eabi python3-venv",
    "uart_rp2040": "gcc-arm-none-eabi python3-venv"}.items())
def test_without_root_it_prints_how_to_install_the_packages(
        name: str, packages: str, tmp_path: Path) -> None:
    for command, output in {"id": "1000", "dpkg-query": "not-installed"}.items():
        (tmp_path / command).write_text(f"#!/bin/sh\necho {output}\n")
        (tmp_path / command).chmod(0o755)
    done = make_try(name, path=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("setup: first run: sudo apt-get install --no-install-recommends "
                           f"make gcc {packages}\n")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "installed"), {
    "uart_atmega328p": set(), "uart_stm32-f4": set(),
    "can_stm32-f4": {"venv", "unicorn", "elftools"},
    "uart_rp2040": {"venv", "node", "rp2040js"}}.items())
def test_a_first_call_installs_what_the_board_needs(
        name: str, installed: set[str], tmp_path: Path) -> None:
    """It installs nothing else. A later `make test` installs the rest."""
    clone = shutil.copytree(ROOT, tmp_path / "clone", symlinks=True,
                            ignore=shutil.ignore_patterns("build", ".git"))
    environment = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
    subprocess.run(["make", "try", f"BOARD={name}"], cwd=clone, env=environment, check=True)
    places = [clone / "build", *clone.glob("build/toolchains"),
              *clone.glob("build/venv/lib/*/site-packages")]
    found = {path.name for place in places for path in place.glob("[!_]*")
             if path.suffix not in (".dist-info", ".libs", ".pth")}
    assert found - {"flags", "firmware", "sim", "toolchains", "pip", "setuptools",
                    "pkg_resources"} == installed
    assert not list(clone.glob("build/venv/ready*"))
