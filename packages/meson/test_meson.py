"""Do projects that use Meson get Dumpulse?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from packages import project
from packages.c import make as library
from packages.cmake import consumers
from packages.cmake.consumers import NOTHING, damage, run
from packages.meson import make

BUILD_FILE = consumers.WORLDS / "meson" / "consumer" / "meson.build"
OLDEST = project.ROOT / "build" / "venv-packages" / "bin"


def with_wrap(tmp_path: Path, name: str, changes: tuple[tuple[str, str], ...] = ()) -> Path:
    """A project with the wrap file, whose address is that of an archive made here. The file has
    another name."""
    made = library.write_archive(tmp_path)
    source = consumers.consumer(tmp_path / "consumer", BUILD_FILE)
    (source / "subprojects").mkdir()
    (wrap,) = make.build(source / "subprojects")
    for old, new in ((library.where(made)["address"], made.as_uri()), *changes):
        damage(wrap, old, new)
    wrap.rename(wrap.with_name(name))
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
def test_the_oldest_meson(tmp_path: Path) -> None:
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
