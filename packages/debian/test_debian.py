"""Are the packages for Debian right, and do they work where they are installed? `make release`
builds them twice, in other surroundings, and compares them."""

import re
import shutil
from pathlib import Path

import pytest

import client
from packages import project
from packages.cmake import consumers
from packages.debian import boot, make
from packages.static import make as static
from tools.servers import Server

# What lintian says beyond errors and warnings, and why it may.
ACCEPTED = {
    "debian-watch-file-is-missing": "there is no address yet where releases can be looked for",
    "package-supports-alternative-init-but-no-init.d-script": "the units are for systemd alone",
}


def test_no_field_is_left_out(tmp_path: Path) -> None:
    make.write_debian(tmp_path)
    for path in (tmp_path / "debian").rglob("*"):
        assert path.is_dir() or not re.search(r"@[a-z]+@", path.read_text()), path


# ---------------------------------------------------------------- what takes its time


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
    tools = static.MACHINES[make.CROSS]
    make.run(f"{tools}-gcc", "-static", f"-I{tmp_path}/usr/include", consumers.SOURCES / "agent.c",
             f"-L{tmp_path}/usr/lib/{tools}", "-ldumpulse", "-o", tmp_path / "agent")
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
def test_the_page_installs_the_package(built: Path) -> None:
    """Where the packages for arm64 are, too."""
    page = (make.HERE / "README.md").read_text()
    (shown,) = re.findall("^    apt-get install (.*?) +#", page, re.M)
    said = make.in_debian(make.base("checker"), f"""
rm -f /etc/apt/sources.list.d/*; true >/etc/apt/sources.list # there is no network
cd /shared
apt-get install -y {shown}
dumpulse --version""", built)
    assert said.endswith(project.shown("dumpulse")), said


@pytest.mark.long
def test_debians_own_tests_pass(built: Path, tmp_path: Path) -> None:
    for path in built.iterdir():
        if path.suffix != ".deb" or path in debs(built).values():
            shutil.copy(path, tmp_path)
    said = make.in_debian(make.base("checker"), """
rm -f /etc/apt/sources.list.d/*; true >/etc/apt/sources.list # there is no network
cd /tmp
autopkgtest --test-name library --test-name agent /shared/*.deb /shared/*.dsc \
    -- null 2>&1
""", tmp_path)
    results = dict(re.findall(r"^(\w+) +(PASS|FAIL|SKIP|FLAKY)\b", said, re.M))
    assert results == {"library": "PASS", "agent": "PASS"}, said
    tests = re.findall("^Tests: (.*)$", make.SHORT_FILES["tests/control"], re.M)
    assert set(tests) == {*results, "units"}  # which needs a machine of its own: see below


@pytest.mark.long
def test_the_units_work_under_systemd(built: Path, tmp_path: Path) -> None:
    """In a machine that has booted, where the packages are installed."""
    for path in (debs(built)["dumpulse"], debs(built)["python3-dumpulse"],
                 make.HERE / "files" / "tests" / "units"):
        shutil.copy(path, tmp_path)
    (tmp_path / "script").write_text("""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
dpkg -i /shared/*.deb && CAN=1 DEB=$(echo /shared/dumpulse_*.deb) sh /shared/units 2>&1
""")
    status, said = boot.boot(make.base("system"), tmp_path)
    assert status == 0 and said.endswith("units: all passed\n"), said
