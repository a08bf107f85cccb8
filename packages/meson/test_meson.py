"""Do projects that use Meson get Dumpulse?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import NOTHING, fails, run
from packages.meson import make

BUILD_FILE = consumers.WORLDS / "meson" / "consumer" / "meson.build"
OLDEST = project.ROOT / "build" / "venv-packages" / "bin"


def with_wrap(tmp_path: Path, name: str, changes: tuple[tuple[str, str], ...] = ()) -> Path:
    """A project with the wrap file, whose address is a repository made here. The file has another
    name."""
    address = consumers.repository(tmp_path / "repository")
    source = consumers.consumer(tmp_path / "consumer", BUILD_FILE)
    (source / "subprojects").mkdir()
    (wrap,) = make.build(source / "subprojects")
    text = wrap.read_text()
    for old, new in ((f"{project.URL}/dumpulse.git", address), *changes):
        assert old in text
        text = text.replace(old, new)
    wrap.rename(wrap.with_name(name)).write_text(text)
    return source


def try_it(source: Path, more: Mapping[str, str] = NOTHING) -> None:
    built = source / "built"
    run(["meson", "setup", built], source, more=more)
    run(["ninja", "-C", built], source, more=more)
    consumers.check(built)


@pytest.mark.slow
def test_a_wrap(tmp_path: Path) -> None:
    try_it(with_wrap(tmp_path, "dumpulse.wrap"))


@pytest.mark.long
def test_the_oldest_meson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the wrap of a release."""
    monkeypatch.setattr(make, "revision", lambda version: f"v{version}\ndepth = 1")
    old = {"PATH": consumers.path_with(OLDEST)}
    assert run(["meson", "--version"], tmp_path, more=old).startswith(b"0.57.")
    try_it(with_wrap(tmp_path, "heartbeats.wrap"), more=old)


@pytest.mark.long
def test_what_it_installs(tmp_path: Path) -> None:
    """Meson installs the library as CMake and make do, and tells the version of the header. No
    other program is needed: there is no python3 in the PATH."""
    source, tools = consumers.copy(tmp_path / "copy", "4.5.6-dev"), tmp_path / "tools"
    tools.mkdir()
    for name in ("ar", "as", "cc", "ld", "meson", "ninja"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    run(["meson", "setup", "built", "--libdir", "lib", "--prefix", tmp_path / "prefix"], source,
        more={"PATH": str(tools)})
    run(["ninja", "-C", "built", "install"], source)
    told = json.loads(run(["meson", "introspect", "built", "--projectinfo"], source))
    assert told["version"] == "4.5.6-dev"
    found = {"PKG_CONFIG_PATH": str(tmp_path / "prefix" / "lib" / "pkgconfig")}
    assert run(["pkg-config", "--modversion", "dumpulse"], source, more=found) == b"4.5.6-dev\n"
    try_it(consumers.consumer(tmp_path / "consumer", BUILD_FILE), more=found)  # without a wrap


@pytest.mark.long
@pytest.mark.parametrize(("old", "new", "message"), [
    ("dependency_names = dumpulse", "dependency_names = other",
     'Dependency "dumpulse" not found'),
    ("revision = ", "revision = v0.0.1", "Git command failed"),
    ("wrap-git", "wrap-gti", "Unknown wrap type"),
])
def test_mistakes_in_the_wrap(tmp_path: Path, old: str, new: str, message: str) -> None:
    fails(["meson", "setup", "built"], with_wrap(tmp_path, "heartbeats.wrap", ((old, new),)),
          message)


@pytest.mark.parametrize(("version", "revision"), [("4.5.6", "v4.5.6"), ("4.5.6-dev", "HEAD")])
def test_the_wrap_of_a_release_has_its_tag(tmp_path: Path, version: str, revision: str,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "version", lambda: version)
    (wrap,) = make.build(tmp_path)
    text = configparser.ConfigParser()
    text.read(wrap)
    assert text["wrap-git"]["revision"] == revision
    assert text["wrap-git"].get("depth") == (None if revision == "HEAD" else "1")
    assert re.fullmatch(r"https://.*/dumpulse\.git", text["wrap-git"]["url"])
