"""The images of a release, in their simulators.   SPDX-License-Identifier: MIT"""

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from firmware.simulators.boards import BOARDS, Line
from packages import project
from packages.firmware import make
from tests.support.agents import run as client

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="images")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked zip file."""
    folder = tmp_path_factory.mktemp("firmware")
    (made,) = make.build(folder)
    with zipfile.ZipFile(made) as packed:
        packed.extractall(folder)
    return folder / made.stem


def flashed(image: Path) -> Path:
    """A .hex file as simavr takes it."""
    made = image.with_suffix(".elf")
    subprocess.run(["avr-objcopy", "-I", "ihex", "-O", "elf32-avr", "--rename-section",
                    ".sec1=.text,alloc,load,readonly,code,contents", image, f"{made}.o"],
                   check=True)
    subprocess.run(["avr-ld", "-m", "avr5", "-e", "0", "-Ttext", "0", f"{made}.o", "-o", made],
                   check=True)
    return made


def test_each_image_without_keys_is_there_and_is_what_make_builds(images: Path) -> None:
    assert {path.stem for path in images.glob("*.hex")} == {*make.IMAGES}
    assert {name for name, board in BOARDS.items() if "keyed" not in name and board.mcu} == {
        *make.IMAGES}
    for name in make.IMAGES:
        flash = []
        for source in (project.ROOT / f"build/firmware/{name}.elf",
                       flashed(images / f"{name}.hex")):
            subprocess.run(["avr-objcopy", "-O", "binary", "-j", ".text", "-j", ".data", source,
                            images / "flash"], check=True)
            flash.append((images / "flash").read_bytes())
        assert flash[0] == flash[1] and len(flash[0]) > 100


@pytest.mark.parametrize("name", ["uart_atmega328p", "watch_atmega328p", "uart_attiny85"])
def test_the_client_asks_an_image(images: Path, name: str) -> None:
    page = (images / "README.md").read_text()
    (row,) = re.findall(rf"^\| `{name}` .*$", page, re.M)
    with Line(BOARDS[name], flashed(images / f"{name}.hex"), pty=True) as line:
        address = f"serial:{line.path}@{19200 if '19,200' in row else 115200}"
        assert client("set", address, "7", "9", "--sender", "12").returncode == 0
        done = client("get", address, "--json", "--now-from", "0", "--timeout", "60s")
        assert done.returncode == 0, done.stderr
        found = {entry["variable"]: entry["value"]
                 for entry in json.loads(done.stdout)["variables"]}
        assert found[7] == 9 and 0 in found
