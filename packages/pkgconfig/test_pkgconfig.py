"""Do projects that use pkg-config get Dumpulse?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from packages import project
from packages.cmake import consumers
from packages.cmake.consumers import fails, run

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


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "message"), [
    ("Name", "Nmae", "Package dumpulse was not found"),
    ("Description", "Descriptino", "Package dumpulse was not found"),
    ("Version", "Versoin", "Package dumpulse was not found"),
    ("@includedir@", "/nonexistent", "dumpulse.h: No such file"),
    ("@libdir@", "/nonexistent", "cannot find -ldumpulse"),
    ("-ldumpulse", "-ldumpuls", "cannot find -ldumpuls"),
    ("keyed=", "keyd=", "undefined reference"),
])
def test_a_wrong_field(tmp_path: Path, old: str, new: str, message: str) -> None:
    """The agents need what the .pc file says. The folder has the library without it."""
    root = project.ROOT
    built = consumers.consumer(tmp_path / "consumer", MAKEFILE)
    found = {"PKG_CONFIG_LIBDIR": str(tmp_path)}
    # A .pc file cannot have every path as it is, and the sources may be anywhere.
    headers = tmp_path / "include"
    headers.mkdir()
    (tmp_path / "dumpulse").mkdir()
    for name, path in project.LIBRARY_FILES.items():
        ((headers if name.endswith(".h") else tmp_path / "dumpulse") / name).symlink_to(path)
    run(["gcc", "-c", root / "dumpulse.c", "-o", "dumpulse.o"], tmp_path)
    run(["ar", "rcs", "libdumpulse.a", "dumpulse.o"], tmp_path)
    text = (root / "packages" / "pkgconfig" / "dumpulse.pc.in").read_text()
    assert old in text
    for template, works in ((text, True), (text.replace(old, new), False)):
        for field, value in (("prefix", "/"), ("libdir", tmp_path), ("includedir", headers),
                             ("datadir", tmp_path), ("version", "1.2.3")):
            template = template.replace(f"@{field}@", str(value))
        (tmp_path / "dumpulse.pc").write_text(template)
        if works:
            run(["make", "-s", "agent", "keyed"], built, more=found)
            (built / "agent").unlink()
            (built / "keyed").unlink()
        else:
            fails(["make", "-s", "agent", "keyed"], built, message, more=found)
