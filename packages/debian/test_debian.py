"""Are the packages for Debian right, and do they work where they are installed? `make release`
builds them twice, in other surroundings, and compares them."""

import re
import shutil
from pathlib import Path

import pytest

import client
from packages.c import consumers
from packages.debian import make
from tools.servers import Server

# What lintian says beyond errors and warnings, and why it may.
ACCEPTED = {
    "debian-watch-file-is-missing": "there is no address yet where releases can be looked for",
    "package-supports-alternative-init-but-no-init.d-script": "the units are for systemd alone",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("debian")
    made = make.build(folder)
    assert sorted(made) == sorted(folder.iterdir())
    assert len([path for path in made if path.suffix == ".deb"]) == 5
    return folder


def debs(folder: Path, machine: str = "") -> dict[str, Path]:
    """Returns the packages for users of a machine, else of this one, by their names."""
    return {path.name.partition("_")[0]: path for path in sorted(folder.glob("*.deb"))
            if path.stem.rpartition("_")[2] in ("all", machine or make.native())}


@pytest.mark.long
def test_packages_for_arm64_work_in_qemu(built: Path, tmp_path: Path) -> None:
    """With the libraries of that Debian: an agent keeps its table, and a program uses the
    library."""
    for name in ("dumpulse", "libdumpulse-dev"):
        make.run("dpkg-deb", "--extract", debs(built, make.CROSS)[name], tmp_path)
    qemu = ["qemu-aarch64", "-L", str(make.base("cross"))]
    for turn in range(2):
        with Server("--state", str(tmp_path / "table"),
                    program=[*qemu, str(tmp_path / "usr/sbin/udpserver")]) as server:
            agent = client.Agent(f"127.0.0.1:{server.port}")
            if turn == 0:
                agent.beat(7, 12, 230)
            assert agent.ask()[7][1:] == (12, 230)
            server.stop()
    shutil.copy(consumers.SOURCES / "agent.c", tmp_path)
    make.in_debian(make.base("cross"), """
cd /shared/usr
aarch64-linux-gnu-gcc -static -Iinclude ../agent.c -Llib/aarch64-linux-gnu -ldumpulse -o ../agent
""", tmp_path)
    consumers.check_agent([*qemu, tmp_path / "agent"], tmp_path)


@pytest.mark.long
def test_lintian_has_nothing_to_say(built: Path) -> None:
    files = " ".join(path.name for path in built.iterdir() if path.suffix in (".deb", ".dsc"))
    said = make.in_debian(make.base("checker"), f"""
cp -r /shared /tmp/all
chmod -R go+rX /tmp/all
su nobody -s /bin/sh -c 'cd /tmp/all && lintian --display-info --pedantic --fail-on none {files}'
""", built)
    lines = [line for line in said.splitlines() if line and line[0] != "N"]
    assert all(re.match(r"[EWIP]: ", line) for line in lines), said
    assert {line.split(": ")[2].split()[0] for line in lines} <= set(ACCEPTED), said


@pytest.mark.long
def test_the_units_work_under_systemd(built: Path, tmp_path: Path) -> None:
    """In a machine that has booted, where the packages are installed."""
    for path in (debs(built)["dumpulse"], debs(built)["python3-dumpulse"],
                 make.HERE / "units"):
        shutil.copy(path, tmp_path)
    (tmp_path / "script").write_text("""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
dpkg -i /shared/*.deb && sh /shared/units /shared/dumpulse_*.deb 2>&1
""")
    status, said = make.boot(make.base("system"), tmp_path)
    assert status == 0 and said.endswith("units: all passed\n"), said
