"""The images of a release: are they those that the simulators run?"""

import subprocess
import zipfile
from pathlib import Path

import pytest

from firmware.simulators.boards import BOARDS
from packages import project
from packages.firmware import make

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="images")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked zip file."""
    folder = tmp_path_factory.mktemp("firmware")
    (made,) = make.build(folder)
    with zipfile.ZipFile(made) as packed:
        packed.extractall(folder)
    return folder / made.stem


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
