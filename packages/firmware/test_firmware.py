"""The images of a release, in their simulators."""

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from firmware.simulators.boards import BOARDS, Line
from packages import project
from packages.firmware import make
from tools.agents import run as client

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="images")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked zip file."""
    folder = tmp_path_factory.mktemp("firmware")
    (made,) = make.build(folder)
    with zipfile.ZipFile(made) as packed:
        packed.extractall(folder)
    return folder / made.stem


def test_the_page_leads_to_what_is_there(images: Path) -> None:
    """Who has the zip file alone needs the pages of keys and fuses, too."""
    links = re.findall(r"\]\(([^)]*)", (images / "README.md").read_text())
    assert links and all((images / link).is_file() for link in links), links


def flashed(image: Path) -> Path:
    """A .hex file as the simulators take it."""
    made = image.with_suffix(".elf")
    tools, kind, machine = ("avr", "elf32-avr", ["-m", "avr5"]) if BOARDS[image.stem].mcu else \
        ("arm-none-eabi", "elf32-littlearm", [])
    begin = "0x08000000" if "stm32" in image.stem else "0"
    subprocess.run([f"{tools}-objcopy", "-I", "ihex", "-O", kind, "--rename-section",
                    ".sec1=.text,alloc,load,readonly,code,contents", image, f"{made}.o"],
                   check=True)
    subprocess.run([f"{tools}-ld", *machine, "-e", "0", "-Ttext", begin, f"{made}.o", "-o", made],
                   check=True)
    return made


def flash_in(image: Path, folder: Path) -> bytes:
    """The bytes that a file has for the flash. Each block of a .uf2 file has 256 of them."""
    if image.suffix == ".uf2":
        blocks = image.read_bytes()
        return b"".join(blocks[at + 32:at + 288] for at in range(0, len(blocks), 512))
    tool = ["objcopy", "-I", "ihex"] if image.suffix == ".hex" else \
        make.objcopy(BOARDS[image.stem])
    subprocess.run([*tool, "-O", "binary", image, folder / "flash"], check=True)
    return (folder / "flash").read_bytes()


def test_each_image_for_a_real_board_is_there_and_is_what_make_builds(images: Path) -> None:
    made = {path.stem: path for path in images.glob("*.*") if path.suffix in (".hex", ".uf2")}
    assert {*made} == {*make.IMAGES} == {*BOARDS}
    for name, image in made.items():
        built = flash_in(project.ROOT / f"build/firmware/{name}.elf", images)
        there = flash_in(image, images)
        assert there[:len(built)] == built and not any(there[len(built):]) and len(built) > 100


@pytest.mark.parametrize("name", ["uart_atmega328p", "watch_atmega328p", "uart_attiny85",
                                  "uart_nrf51", "uart_stm32-f4"])
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
