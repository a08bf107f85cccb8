"""Makes the archive of the C library alone, and the files with which Conan and Meson fetch it.

Its files are where the project's tree has them, so that CMake and Meson build it as they do there.
SPDX-License-Identifier: MIT"""

import hashlib
import json
from pathlib import Path

from packages import archive, project
from packages.archive import top

HERE = Path(__file__).resolve().parent
FILES = ("CMakeLists.txt", "LICENSE", "meson.build", "packages/pkgconfig/dumpulse.pc.in")
CONAN = """\
# Run `conan create .` beside this file. Then require {name}/{version}.
from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout
from conan.tools.files import get


class Dumpulse(ConanFile):
    name = "{name}"
    version = "{version}"
    description = "{summary}"
    license = "{license}"
    url = homepage = "{url}"
    topics = {topics}
    settings = "os", "arch", "compiler", "build_type"
    languages = "C"
    package_type = "static-library"
    generators = "CMakeToolchain"

    def layout(self):
        cmake_layout(self)

    def source(self):
        get(self, "{address}",
            sha256="{sum}", strip_root=True)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The library has a file for CMake of its own.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/dumpulse"]
        self.cpp_info.libs = ["dumpulse"]
"""

WRAP = """\
# Put this file into subprojects/. Then dependency('dumpulse') is the library.
[wrap-file]
directory = {top}
source_url = {address}
source_filename = {name}
source_hash = {sum}

[provide]
dependency_names = dumpulse
"""


def write_archive(to: Path) -> Path:
    paths = [*(project.ROOT / name for name in FILES), *project.LIBRARY_FILES.values()]
    files = {str(path.relative_to(project.ROOT)): path for path in paths}
    files["README.md"] = HERE / "README.md"
    return archive.write_tar(to / f"{project.NAME}-c-{project.version()}.tar.gz", {
        f"{top()}/{name}": path for name, path in files.items()})


def where(archive: Path) -> dict[str, str]:
    """Where a release of it can be fetched, and its sum: what other tools' files say of it."""
    return {"address": f"{project.URL}/releases/{archive.name}",
            "sum": hashlib.sha256(archive.read_bytes()).hexdigest()}


def write_wrap(archive: Path, to: Path) -> Path:
    wrap = to / "dumpulse.wrap"
    wrap.write_text(WRAP.format(top=top(), name=archive.name, **where(archive)))
    return wrap


def build(to: Path) -> list[Path]:
    made, recipe = write_archive(to), to / "conanfile.py"
    recipe.write_text(CONAN.format(
        name=project.NAME, version=project.version(), summary=project.SUMMARY, url=project.URL,
        license=project.LICENSE, topics=json.dumps(project.KEYWORDS), **where(made)))
    return [made, recipe, write_wrap(made, to)]
