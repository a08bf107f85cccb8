"""Are the packages for Debian right, the same each time, and do they work where they are installed?
SPDX-License-Identifier: MIT"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import client
from packages import project
from packages.cmake import consumers
from packages.debian import boot, make
from packages.static import make as static
from tests.support.servers import Server

# What lintian says beyond errors and warnings, and why it may.
ACCEPTED = {
    "debian-watch-file-is-missing": "there is no address yet where releases can be looked for",
    "package-supports-alternative-init-but-no-init.d-script": "the units are for systemd alone",
}
@pytest.mark.slow
@pytest.mark.parametrize("when", ["not released yet", "2999-12-31"])
def test_the_changelog_has_every_version(when: str, monkeypatch: pytest.MonkeyPatch,
                                         tmp_path: Path) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setattr(project, "ROOT", tmp_path)
    monkeypatch.setattr(project, "version", lambda: "1.2.0-dev")
    (tmp_path / "CHANGELOG.md").write_text(f"# C\n\n## 1.2.0, {when}\n\n- x\n\n"
                                           "## 1.1.9, 2025-02-28\n\n- y\n")
    (tmp_path / "log").write_text(make.changelog())
    parsed = subprocess.run(["dpkg-parsechangelog", "--all", "-l", tmp_path / "log"], text=True,
                            capture_output=True, check=True)
    assert parsed.stderr == "" and f"Maintainer: {make.maintainer()}" in parsed.stdout
    assert re.findall(r"dumpulse \((.*)\)", parsed.stdout) == ["1.2.0~dev-0upstream1",
                                                               "1.1.9-0upstream1"]
    assert re.findall(r"--.*>  (.*)", (tmp_path / "log").read_text()) == [
        "Tue, 14 Nov 2023 22:13:20 +0000", "Fri, 28 Feb 2025 12:00:00 +0000"]


@pytest.mark.slow
def test_the_sources_have_the_version(tmp_path: Path) -> None:
    made = {path.name: path.read_bytes() for path in make.make_sources(tmp_path)}
    version = make.debian_version()
    upstream = project.FORMS["debian"](project.version())
    assert version.startswith(f"{upstream}-")
    assert [*made] == [
        f"dumpulse_{version}.debian.tar.xz", f"dumpulse_{version}.dsc",
        f"dumpulse_{upstream}.orig.tar.gz"]
    assert f"\nVersion: {version}\n".encode() in made[f"dumpulse_{version}.dsc"]


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
    return folder


def debs(folder: Path, machine: str = "") -> dict[str, Path]:
    """Returns the packages for users of a machine, else of this one, by their names."""
    return {path.name.partition("_")[0]: path for path in sorted(folder.glob("*.deb"))
            if "dbgsym" not in path.name and path.stem.rpartition("_")[2] in (
                "all", machine or make.native())}


@pytest.mark.long
@pytest.mark.parametrize("machine", ["", *make.CROSS])
def test_udpserver_has_xdp(built: Path, machine: str) -> None:
    """Without it, it would not need the library that loads programs into the kernel."""
    needs = make.run("dpkg-deb", "--field", debs(built, machine)["dumpulse"], "Depends")
    assert re.search(r"\blibbpf1\b", needs), needs


@pytest.mark.long
@pytest.mark.parametrize("machine", ["", *make.CROSS])
def test_the_packages_are_the_same_each_time(built: Path, tmp_path: Path, machine: str) -> None:
    (dsc,) = built.glob("*.dsc")
    made = make.make_debs(
        dsc, tmp_path, machine, place="/var/another/place", hostname="elsewhere", around="""
mkdir -p /var/another
umask 027
export TZ=Asia/Tokyo LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS="parallel=1 nocheck"
""")
    assert {*debs(built, machine)} - {"python3-dumpulse"} <= {*debs(tmp_path, machine)}
    for path in made:
        assert path.read_bytes() == (built / path.name).read_bytes(), path.name


@pytest.mark.long
@pytest.mark.parametrize("machine", make.CROSS)
def test_packages_for_other_processors_work_in_qemu(built: Path, tmp_path: Path,
                                                    machine: str) -> None:
    """With the libraries of that Debian: an agent keeps its table, and a program uses the
    library."""
    for name in ("dumpulse", "libdumpulse-dev"):
        make.run("dpkg-deb", "--extract", debs(built, machine)[name], tmp_path)
    qemu = [f"qemu-{make.CROSS[machine]}", "-L", str(make.base("cross"))]
    for turn in range(2):
        with Server("--state", str(tmp_path / "table"),
                    program=[*qemu, str(tmp_path / "usr/sbin/udpserver")]) as server:
            agent = client.Agent(f"127.0.0.1:{server.port}")
            if turn == 0:
                agent.beat(7, 12, 230)
            assert agent.ask()[7][1:] == (12, 230)
            server.stop()
    tools = static.MACHINES[machine]
    make.run(f"{tools}-gcc", "-static", f"-I{tmp_path}/usr/include", consumers.SOURCES / "agent.c",
             f"-L{tmp_path}/usr/lib/{tools}", "-ldumpulse", "-o", tmp_path / "agent")
    consumers.check_agent([*qemu, tmp_path / "agent"], tmp_path)


def lintian(folder: Path) -> dict[str, str]:
    """Returns the lines of lintian, by their tags."""
    files = " ".join(path.name for path in folder.iterdir() if path.suffix in (".deb", ".dsc"))
    said = make.in_debian(make.base("checker"), f"""
cp -r /shared /tmp/all
chmod -R go+rX /tmp/all
su nobody -s /bin/sh -c 'cd /tmp/all && lintian --display-info --pedantic --fail-on none {files}'
""", folder)
    lines = [line for line in said.splitlines() if line and line[0] != "N"]
    assert all(re.match(r"[EWIP]: ", line) for line in lines), said
    return {line.split(": ")[2].split()[0]: line for line in lines}


@pytest.mark.long
def test_lintian_has_nothing_to_say(built: Path, tmp_path: Path) -> None:
    for path in built.iterdir():
        shutil.copy(path, tmp_path)
    found = lintian(tmp_path)
    assert set(found) <= set(ACCEPTED), "\n".join(found.values())


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
    tests = re.findall("^Tests: (.*)$", (make.HERE / "files/tests/control").read_text(), re.M)
    assert set(tests) == {*results, "units"}  # which needs a machine of its own: see below


def booted(folder: Path, tmp_path: Path) -> tuple[int, str]:
    """Installs packages in a machine that has booted, and runs the tests of the units there."""
    for path in (debs(folder)["dumpulse"], debs(folder)["python3-dumpulse"],
                 make.HERE / "files" / "tests" / "units"):
        shutil.copy(path, tmp_path)
    (tmp_path / "script").write_text("""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
dpkg -i /shared/*.deb && CAN=1 DEB=$(echo /shared/dumpulse_*.deb) sh /shared/units 2>&1
""")
    return boot.boot(make.base("system"), tmp_path)


@pytest.mark.long
def test_the_units_work_under_systemd(built: Path, tmp_path: Path) -> None:
    status, said = booted(built, tmp_path)
    assert status == 0 and said.endswith("units: all passed\n"), said
