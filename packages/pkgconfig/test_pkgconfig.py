"""Do projects that use pkg-config get Dumpulse?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import run

MAKEFILE = consumers.WORLDS / "pkgconfig" / "consumer" / "Makefile"


def by_make(source: Path, to: Path) -> None:
    """`make install` builds all programs, quickly here."""
    run(["make", "-s", "-C", source, "install", f"PREFIX={to}", "CFLAGS=-O0"], to.parent)


def by_cmake(source: Path, to: Path) -> None:
    built = to.parent / "built"
    run(["cmake", "-S", source, "-B", built, "-DCMAKE_INSTALL_LIBDIR=lib"], to.parent)
    run(["cmake", "--build", built], to.parent)
    run(["cmake", "--install", built, "--prefix", to], to.parent)


@pytest.mark.slow
@pytest.mark.parametrize("install", [by_make, by_cmake])
def test_a_makefile_with_pkg_config(tmp_path: Path, install: Callable[[Path, Path], None]) -> None:
    source, prefix = consumers.copy(tmp_path / "copy", "4.5.6-dev"), tmp_path / "prefix"
    install(source, prefix)
    found = {"PKG_CONFIG_LIBDIR": str(prefix / "lib" / "pkgconfig")}
    run(["pkg-config", "--validate", "dumpulse"], tmp_path, more=found)
    run(["pkg-config", "--exists", "dumpulse >= 4.5.6"], tmp_path, more=found)
    assert run(["pkg-config", "--modversion", "dumpulse"], tmp_path, more=found) == b"4.5.6-dev\n"
    told = run(["pkg-config", "--variable=prefix", "dumpulse"], tmp_path, more=found).decode()
    assert Path(told.strip()).resolve() == prefix
    built = consumers.consumer(tmp_path / "consumer", MAKEFILE)
    run(["make", "-s"], built, more=found)
    consumers.check(built)
    if install is by_make:
        run(["make", "-s", "-C", source, "uninstall", f"PREFIX={prefix}"], tmp_path)
        assert not [path for path in prefix.rglob("*") if path.is_file()]


def test_it_says_what_the_other_packages_say() -> None:
    template = (consumers.WORLDS / "pkgconfig" / "dumpulse.pc.in").read_text()
    assert re.findall("^(Name|Description|URL): (.*)$", template, re.M) == [
        ("Name", project.NAME), ("Description", project.SUMMARY), ("URL", project.URL)]
    meson = (consumers.WORLDS / "meson" / "meson.build").read_text()
    assert f"description: '{project.SUMMARY}',\n    url: '{project.URL}'" in meson
