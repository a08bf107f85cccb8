"""Do all programs, pages and packages follow when the version in dumpulse.h changes?
SPDX-License-Identifier: MIT"""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from packages import making, project, release, source, version

NEW = "97.86.75"  # a release: before one, some packages name no version
# The worlds whose artefacts are built with what packages/setup installs, or for minutes, or with
# what cargo fetches from its registry: make test must not need that here.
SLOW = {"debian", "firmware", "fleet", "python", "rust", "static"}
WORLDS = [pytest.param(name, marks=pytest.mark.long if name in SLOW else ())
          for name in making.worlds()]
# These tell what versions had, which versions others have, and examples.
OF_OTHERS = ("*.md", "*.lock", "*requirements.txt", "test_*.py", "standins/*/*")


def change(root: Path, to: str = NEW) -> None:
    header = root / "dumpulse.h"
    header.write_text(header.read_text().replace(f'DUMPULSE_VERSION "{project.version()}"',
                                                 f'DUMPULSE_VERSION "{to}"'))


def printed(root: Path, *command: str, status: int = 0) -> str:
    done = subprocess.run(command, cwd=root, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    assert done.returncode == status, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, in which dumpulse.h has another version."""
    folder = tmp_path_factory.mktemp("version")
    (packed,) = source.build(folder)
    root = source.unpack(packed, folder)
    (root / "build").mkdir()
    for name in release.FETCHED:
        if (release.BUILD / name).is_dir():
            (root / "build" / name).symlink_to((release.BUILD / name).resolve())
    change(root)
    return root


def test_the_version_is_the_same_everywhere() -> None:
    assert version.behind() == {}, "run make version"
    assert re.search(rf"^## {re.escape(project.FORMS['numbers'](project.version()))}, ",
                     (project.ROOT / "CHANGELOG.md").read_text(), re.M)


def test_a_file_that_is_behind_is_named(tree: Path) -> None:
    said = printed(tree, sys.executable, "-m", "packages.version", "--check", status=1)
    for name, *_ in version.PLACES:
        assert f"{name} does not have version {NEW}: make version\n" in said


@pytest.fixture(scope="module")
def changed(tree: Path) -> Path:
    """The same, after `make version`."""
    said = printed(tree, "make", "--no-print-directory", "version")
    assert all(f"{name} has version {NEW} now\n" in said for name, *_ in version.PLACES)
    assert printed(tree, "make", "--no-print-directory", "version") == ""
    return tree


def left(name: str, text: str) -> Iterator[str]:
    """Yields the lines of a file that still have the version of this tree as Dumpulse's."""
    if any(Path(name).match(pattern) for pattern in OF_OTHERS):
        return
    forms = {re.escape(form(project.version())) for form in project.FORMS.values()}
    found = re.compile(rf"(?<![\w.])({'|'.join(sorted(forms, reverse=True))})(?![\w.])")
    for line in text.splitlines():
        if found.search(line) and re.search("version|dumpulse", line, re.I):
            yield f"{name}: {line[:200]}"


def test_no_source_is_left_behind(changed: Path) -> None:
    assert list(left("x.json", f'"version": "{project.version()}",')), "the test finds nothing"
    found = [line for name, path in source.sources(changed).items()
             for line in left(name, path.read_bytes().decode(errors="replace"))]
    assert not found, "\n".join(found)


def test_the_pages_name_no_file_of_one_version() -> None:
    """A reader has the files of another one."""
    of_one = re.compile(r"dumpulse[-_][\w~-]*\d+\.\d+\.\d+[\w.~-]*\.(?:tar|gz|zip|whl|crate|deb)\b")
    assert of_one.search("tar xzf dumpulse-espidf-1.0.0.tar.gz -C components")
    pages = [*(project.ROOT / "packages").glob("*/README.md"), project.ROOT / "README.md"]
    assert len(pages) > 11
    assert not [f"{page}: {found[0]}" for page in pages
                for found in of_one.finditer(page.read_text())]


def contents(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the files in an archive of any kind, with their texts."""
    if path.suffix == ".deb":
        shown = subprocess.run(["dpkg-deb", "--info", path], text=True, check=True,
                               stdout=subprocess.PIPE).stdout
        yield "control", shown
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name, archive.read(name).decode(errors="replace")
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as packed:
            for member in packed:
                content = packed.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content.read().decode(errors="replace")
    else:
        yield path.name, path.read_text()


@pytest.mark.parametrize("world", WORLDS)
def test_the_packages_follow(world: str, changed: Path, tmp_path: Path,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEB_BUILD_OPTIONS", "nocheck")  # for Debian, which is checked elsewhere
    printed(changed, sys.executable, "-c", "import sys, pathlib\n"
            f"from packages.{world}.make import build\nbuild(pathlib.Path(sys.argv[1]))",
            str(tmp_path))
    made = sorted(path for path in tmp_path.iterdir())
    assert made
    forms = {form(NEW) for form in project.FORMS.values()}
    for path in made:
        files = dict(contents(path))
        # A text that users put to where it belongs keeps its name.
        assert any(form in path.name for form in forms) or [*files] == [path.name], path.name
        assert any(form in text for name, text in files.items() for form in forms), path.name
        assert not [line for name, text in files.items() for line in left(name, text)]


def made_twice(build: Callable[[Path], list[Path]], folder: Path) -> dict[str, bytes]:
    """The files that a package makes, which must be the same whoever may read them."""
    made: list[dict[str, bytes]] = []
    for mask in (0o022, 0o077):
        to = folder / str(mask)
        to.mkdir()
        before = os.umask(mask)
        try:
            made.append({path.name: path.read_bytes() for path in build(to)})
        finally:
            os.umask(before)
        assert {path.name for path in to.iterdir()} == {*made[-1]}
    assert made[0] == made[1]
    return made[0]


@pytest.mark.parametrize("world", [world for world in WORLDS if world.values != ("debian",)])
def test_an_artefact_is_the_same_each_time(world: str, tmp_path: Path) -> None:
    """Debian's test has more surroundings."""
    made_twice(making.worlds()[world].build, tmp_path)
