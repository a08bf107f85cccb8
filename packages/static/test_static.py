"""The servers for any Linux, as users unpack them. QEMU runs those for other processors."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from packages import project
from packages.static import make
from tools.programs import run

pytestmark = pytest.mark.long
RUN = {"amd64": (), "arm64": ("qemu-aarch64",), "armhf": ("qemu-arm",)}
# musl has texts of its own for errors.
OTHER_TEXTS = "not too_few_descriptors and not written_in_part"
# QEMU's Linux tells no drops, and not that a packet has no room for an address.
NOT_IN_QEMU = f"{OTHER_TEXTS} and not kernels_drops and not options_have_no_room"


@pytest.fixture(scope="module", name="unpacked")
def fixture_unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders, by processors."""
    folder = tmp_path_factory.mktemp("static")
    for made in make.build(folder):
        with tarfile.open(made) as archive:
            archive.extractall(folder)
    return {path.name.rpartition("-")[2]: path for path in folder.iterdir() if path.is_dir()}


@pytest.mark.parametrize("machine", make.MACHINES)
def test_each_is_one_file_for_its_processor(unpacked: dict[str, Path], machine: str) -> None:
    folder = unpacked[machine]
    assert {path.name for path in folder.iterdir()} == {
        "LICENSE", "LICENSE.musl", "LICENSE.zig", "README.md", "canserver", "canserver.8",
        "udpserver", "udpserver.8", "udpserver-keys.8"}
    kind = {"amd64": "X86-64", "arm64": "AArch64", "armhf": "ARM"}[machine]
    for name in make.PROGRAMS:
        told = run(["readelf", "--file-header", "--program-headers", folder / name])
        assert f"{kind}\n" in told and "INTERP" not in told  # the loader of libraries
        assert run([*RUN[machine], folder / name, "--version"]) == project.shown(name)
    wrong = subprocess.run([*RUN[machine], folder / "canserver", "nocan0"], text=True,
                           stderr=subprocess.PIPE, check=False)
    assert wrong.returncode == 1 and "nocan0" in wrong.stderr, wrong.stderr


@pytest.mark.parametrize("machine", make.MACHINES)
def test_udpserver_passes_the_tests_of_the_server(unpacked: dict[str, Path], machine: str) -> None:
    command = " ".join([*RUN[machine], str(unpacked[machine] / "udpserver")])
    tests = [f"server/tests/test_{name}.py" for name in ("udpserver", "udpserver_keyed")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p",
         "tools.tiers", "-n", "2", "--dist", "loadfile", "--timeout", "600", "-m",
         "not slow", "-k", NOT_IN_QEMU if RUN[machine] else OTHER_TEXTS, *tests],
        cwd=project.ROOT, env={**os.environ, "DUMPULSE_SERVER": command}, text=True,
        stdout=subprocess.PIPE, check=False)
    told = re.search(r"^(\d+) passed in ", done.stdout, re.M)
    assert done.returncode == 0 and told and int(told[1]) > 300, done.stdout[-4000:]
