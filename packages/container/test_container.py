"""buildah builds the Dockerfile as it is, and the agent in the image is asked.

The registry's image of Debian is not used: the Debian under its name is made by mmdebstrap.
SPDX-License-Identifier: MIT"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import client
from packages import archive, project
from packages.debian import make
from tests.support.servers import Server

pytestmark = pytest.mark.long
DOCKERFILE = Path(__file__).with_name("Dockerfile")


class Buildah:
    """With a store of its own, and without the rights that a sandbox may refuse to give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        debian = self("from", "scratch")
        self("add", "--quiet", debian, str(make.base("container")), "/")
        self("commit", "--quiet", debian, "debian:bookworm-slim")
        self("rm", debian)
        self.context = archive.unpack(archive.build_sources(folder), folder)

    def __call__(self, *words: str) -> str:
        return make.run("buildah", "--root", self.folder / "store", "--runroot",
                        self.folder / "run", "--storage-driver", "vfs", *words).strip()

    def built(self, dockerfile: str) -> tuple[Path, dict[str, list[str] | str]]:
        """Builds an image. Returns its files, and how it is started."""
        (self.folder / "Dockerfile").write_text(dockerfile)
        self("bud", "--quiet", "--pull=never", "--isolation=chroot", "--network=host", "-f",
             str(self.folder / "Dockerfile"), "-t", "dumpulse", str(self.context))
        told = json.loads(self("inspect", "--type", "image", "dumpulse"))
        return Path(self("mount", self("from", "dumpulse"))), told["OCIv1"]["config"]


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    folder = tmp_path_factory.mktemp("container")
    for part in (folder, *folder.parents[:2]):  # pytest keeps others out of its folders
        part.chmod(0o755)
    made = Buildah(folder)
    yield made
    made("rm", "--all")
    shutil.rmtree(folder)


def test_the_image_is_one_program_that_answers(buildah: Buildah) -> None:
    """It keeps its table, and runs as nobody."""
    folder, config = buildah.built(DOCKERFILE.read_text())
    assert sorted(path.name for path in folder.rglob("*") if path.parent.name != "etc") == [
        "state", "udpserver"]
    assert set(config["Volumes"]) == {"/state"} and set(config["ExposedPorts"]) == {"9060/udp"}
    kind = make.run("readelf", "--program-headers", folder / "udpserver")
    assert "LOAD" in kind and "INTERP" not in kind  # which would name the loader of libraries
    wrap = ["chroot", f"--userspec={config['User']}", str(folder)]
    for turn in range(2):
        with Server(program=list(config["Entrypoint"]), wrap=wrap) as server:
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
    assert make.run(*wrap, "/udpserver", "--version") == f"udpserver {project.version()}\n"
