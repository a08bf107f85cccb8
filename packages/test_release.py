"""Is there one version? Does `make release` refuse what must not be released, and make the same
each time?"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from packages import archive, making, project, release
from packages.firmware import make as firmware
from tools.programs import run


def test_each_world_has_its_form() -> None:
    for version, python, debian in (("0.10.2-dev", "0.10.2.dev0", "0.10.2~dev"),
                                    ("0.10.2-rc1", "0.10.2rc1", "0.10.2~rc1")):
        assert {form: write(version) for form, write in project.FORMS.items()} == {
            "semantic": version, "python": python, "debian": debian, "number": "1002",
            "heading": version.replace("-dev", ""), "numbers": "0.10.2"}


def test_the_version_is_the_same_everywhere() -> None:
    assert project.behind() == {}, "run make version"
    newest = (project.ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    numbers = {part: project.FORMS["heading"](project.version(part)) for part in project.VERSIONS}
    assert newest.startswith(f"{numbers.pop('library')}, ")
    assert [part for part, number in numbers.items()
            if f"\n- **{part.title()}** {number}" not in newest] == []


# ---------------------------------------------------------------- a release


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of the sources."""
    return archive.build_sources(tmp_path_factory.mktemp("release"))


@pytest.fixture
def clone(original: Path, tmp_path: Path) -> Path:
    """A repository of its own, of which everything is committed."""
    root = archive.unpack(original, tmp_path)
    git(root, "init", "--quiet")
    commit(root)
    return root


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=A name", "-c", "user.email=name@dumpulse.example",
                    *words], cwd=root, check=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "All of it")


def started(program: str, *words: str, root: Path = project.ROOT) -> tuple[int, str]:
    """Runs a program of packages. Returns its exit status, and what it says."""
    python = release.TOOLS / "python" if program == "sbom" else sys.executable
    # -B: a module that was compiled in the second in which it changed would be used again.
    done = subprocess.run([python, "-B", "-m", f"packages.{program}", *words], cwd=root, text=True,
                          capture_output=True, check=False,
                          env={**os.environ, "DEB_BUILD_OPTIONS": "nocheck"})  # checked elsewhere
    return done.returncode, done.stdout + done.stderr


def asked(root: Path, *options: str) -> tuple[int, str]:
    return started("release", *options, root=root)


def write_heading(root: Path, version: str, heading: str) -> None:
    for name, pattern, text in (
            ("dumpulse.h", r'(?<=DUMPULSE_VERSION ")[^"]*', version),
            ("dumpulse_fleet/model/version.py", '(?<=VERSION = ")[^"]*', version),
            ("CHANGELOG.md", r"(?<=^## )\d.*", heading)):
        path = root / name
        path.write_text(re.sub(pattern, text, path.read_text(), count=1, flags=re.M))
    subprocess.run(["make", "-s", "version"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    commit(root)


@pytest.mark.slow
def test_what_cannot_be_released_is_refused_with_all_reasons(clone: Path) -> None:
    assert asked(clone, "--check") == (0, f"release: {project.version()} can be released\n")
    for version, heading, status in (
            ("7.8.9", "7.8.9, 2026-12-24", 0), ("7.8.9-dev", "7.8.9, not released yet", 0),
            ("7.8.9", "7.8.9, not released yet", 2), ("7.8.9", "7.8.90, 2026-12-24", 2),
            ("7.8.9-rc1", "7.8.9, 2026-12-24", 2), ("7.8.9-rc1", "7.8.9-rc1, 2026-12-24", 0)):
        write_heading(clone, version, heading)
        found, said = asked(clone, "--check")
        assert (found, said.count("\n")) == (status, 1), said
        assert status == 0 or 'CHANGELOG.md must be "## 7.8.9' in said

    write_heading(clone, "7.8.9", "7.8.9, 2026-12-25")
    for name, text, other in (("client/dumpulse.1", "7.8.9", "7.8.8"),
                              ("dumpulse_fleet/model/version.py", "7.8.9", "0.7.8-dev")):
        (clone / name).write_text((clone / name).read_text().replace(text, other))
    git(clone, "config", "status.showUntrackedFiles", "no")
    (clone / "new.txt").touch()
    status, said = asked(clone)
    assert status == 2 and [line.partition(": ")[2] for line in said.splitlines()] == [
        "git has not all of this folder: client/dumpulse.1 and 2 more: commit or remove what is "
        "new or changed",
        *(f"{name} does not have its version or the address: run make version" for name in (
            "client/dumpulse.1", "dumpulse_fleet/README.md", "dumpulse_fleet/dumpulse-fleet.1",
            "packages/fleet/README.md")),
        "the version is 7.8.9, and the fleet's is 0.7.8-dev: both or none end in -dev"]


@pytest.mark.slow
@pytest.mark.parametrize("address", ["https://codeberg.invalid/a-b/dumpulse",
                                     "https://git.sub.invalid:8443/x/y.z", "http://localhost/o/n"])
def test_any_address_is_written_to_all_its_places(clone: Path, address: str) -> None:
    settings = clone / "packages" / "project.py"
    settings.write_text(settings.read_text().replace(f'URL = "{project.URL}"',
                                                     f'URL = "{address}"'))
    assert asked(clone, "--check")[1].count("does not have its version or the address") == 4
    subprocess.run(["make", "-s", "version"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
    commit(clone)
    assert asked(clone, "--check")[0] == 0
    assert started("making", "c", root=clone)[0] == 0
    wrap = (clone / "build" / "packages" / "dumpulse.wrap").read_text()
    assert f"\nsource_url = {address}/releases/download/v{project.version()}/dumpulse-c-" in wrap
    left = [name for name, path in archive.sources(clone).items()
            if path.is_file() and project.URL in path.read_text(errors="replace")]
    assert left == []


@pytest.mark.parametrize("git", [True, False], ids=["git", "archive"])
def test_no_archive_has_keys_or_what_tests_found(git: bool, tmp_path: Path) -> None:
    """Somebody may make keys in the folder of the sources, or run pytest there."""
    if git:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ".gitignore", "a.c", "agent-7.key", "agent-7-3.eep":
        (tmp_path / name).write_bytes((project.ROOT / ".gitignore").read_bytes())
    (tmp_path / ".hypothesis" / "constants").mkdir(parents=True)
    (tmp_path / ".hypothesis" / "constants" / "0027d71c1f3a5b69").touch()
    for words in ("new x.key", "split x.key --out keys --variable 0-3 --agent --readers"):
        subprocess.run([sys.executable, project.ROOT / "client.py", "key", *words.split()],
                       cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    assert (tmp_path / "keys" / "x-agent.h").is_file()
    assert archive.sources(tmp_path).keys() == {".gitignore", "a.c"}


def test_builds_that_differ_are_no_release() -> None:
    release.compare({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": "1"})
    for one, other, sources in (({"a": "1"}, {"a": "2"}, {}), ({"a": "1"}, {}, {}),
                                ({}, {"a": "1"}, {}), ({"a": "1"}, {"a": "1"}, {"a": "2"})):
        with pytest.raises(making.Failed, match="two builds differ in a"):
            release.compare(one, other, sources)


def test_the_workflow_uploads_to_pypi_only_what_is_for_pip(tmp_path: Path) -> None:
    workflow = (project.ROOT / ".github/workflows/release.yml").read_text()
    (command,) = re.findall("- run: (mkdir wheels .*)", workflow)
    for_pip = {"dumpulse-1.2.3rc1.tar.gz", "dumpulse-1.2.3rc1-py3-none-any.whl",
               "dumpulse_fleet-0.1.0.tar.gz", "dumpulse_fleet-0.1.0-py3-none-any.whl"}
    (tmp_path / "release").mkdir()
    for name in {*for_pip, "dumpulse-1.2.3-rc1-source.tar.gz", "dumpulse-1.2.3-rc1.crate",
                 "dumpulse-servers-1.2.3-rc1-linux-amd64.tar.gz"}:
        (tmp_path / "release" / name).touch()
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=True)
    assert {path.name for path in (tmp_path / "wheels").iterdir()} == for_pip


# ---------------------------------------------------------------- the bill of materials


def linked_into_images() -> set[str]:
    """Links each image again. Returns the packages of Debian that its link map names."""
    files = set[str]()
    for name in firmware.IMAGES:
        shown = run(["make", "-nB", "QUICK=", f"build/firmware/{name}.elf"], cwd=project.ROOT)
        (command,) = re.findall(r"^(\w+(?:-none-eabi)?-gcc .*) -o \S+$", shown, re.M)
        link_map = run(["sh", "-c", f"{command} -o /dev/null -Wl,-Map=/dev/stdout"],
                       cwd=project.ROOT)
        files |= {*re.findall(r"^(/usr/\S+\.a)\(", link_map, re.M),
                  *re.findall(r"^LOAD (/usr/\S+\.o)$", link_map, re.M)}
    return {run(["dpkg-query", "-S", Path(file).resolve()]).partition(":")[0] for file in files}


@pytest.mark.long
@pytest.mark.timeout(3600)  # It builds images and servers, in minutes on a machine that is busy.
def test_the_bill_of_materials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is there with its sum, and what others have made is told."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name in ("firmware", "python", "static"):
        making.builder(name)(tmp_path)
    files = release.sums(tmp_path)
    bills = []
    for _ in range(2):
        made = release.bill_of_materials(tmp_path)
        bills.append(made.read_bytes())
        made.unlink()
    assert bills[0] == bills[1]
    told = json.loads(bills[0])
    listed = {each["name"]: each for each in told["components"]}
    for name, value in files.items():
        assert listed[name]["hashes"] == [{"alg": "SHA-256", "content": value}]
    inside = {name: [part["name"] for part in each.get("components", [])]
              for name, each in listed.items()}
    version = project.version()
    assert inside[f"dumpulse-servers-{version}-linux-arm64.tar.gz"] == ["ziglang"]
    assert inside[f"dumpulse-firmware-{version}.zip"] == sorted(linked_into_images())
    assert all(part["version"] and part["supplier"] for each in told["components"]
               for part in [each, *each.get("components", [])] if part.get("type") != "file")
    (wheel,) = (each for each in told["dependencies"]
                if re.fullmatch(r"dumpulse_fleet.*\.whl", each["ref"]))
    assert f"{wheel['ref']}>aiohttp" in wheel["dependsOn"]
