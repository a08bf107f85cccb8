"""The archive of the C library, used by CMake and by Conan; Meson's test has its wrap file.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from packages import project
from packages.c import make
from packages.cmake import consumers
from packages.cmake.consumers import damage, fails, run

CONAN = project.ROOT / "build" / "venv-packages" / "bin" / "conan"


def test_it_is_small_and_has_the_whole_library(tmp_path: Path) -> None:
    with tarfile.open(make.write_archive(tmp_path)) as archive:
        names = {name.removeprefix(f"{make.top()}/") for name in archive.getnames()}
    assert len(names) <= 20 and {*make.FILES, "README.md"} < names
    assert {Path(name).name for name in names} > {*project.LIBRARY_FILES}


@pytest.mark.slow
def test_cmake_fetches_it_by_its_sum(tmp_path: Path) -> None:
    made = make.write_archive(tmp_path)
    source = consumers.consumer(tmp_path / "consumer")
    words: list[str | Path] = ["cmake", "-GNinja", "-S", source, f"-DURL={made.as_uri()}"]
    right = make.where(made)["sum"]
    run([*words, "-B", "built", f"-DSUM={right}"], tmp_path)
    run(["cmake", "--build", "built"], tmp_path)
    consumers.check(tmp_path / "built")
    fails([*words, "-B", "other", f"-DSUM={right[::-1]}"], tmp_path,
          "does not match expected value")


@pytest.mark.long
def test_conan_builds_it(tmp_path: Path) -> None:
    made, recipe = make.build(tmp_path)
    damage(recipe, make.where(made)["address"], made.as_uri())
    home = {"CONAN_HOME": str(tmp_path / "conan")}
    run([CONAN, "profile", "detect"], tmp_path, more=home)
    run([CONAN, "create", recipe], tmp_path, more=home)
    source = consumers.consumer(tmp_path / "consumer")
    run([CONAN, "install", f"--requires=dumpulse/{project.version()}", "-g", "CMakeToolchain",
         "-of", source], source, more=home)
    run(["cmake", "-GNinja", "-B", "built", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_TOOLCHAIN_FILE=conan_toolchain.cmake"], source)
    run(["cmake", "--build", "built"], source)
    consumers.check(source / "built")
    damage(recipe, make.where(made)["sum"], "0" * 64)
    fails([CONAN, "create", recipe], tmp_path, "sha256 hash failed", more=home)
