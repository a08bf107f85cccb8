"""Makes the archive of the C library, and the file with which Meson fetches it.

The one folder in it is a project of CMake and of Meson, a library of Arduino and of PlatformIO, and
a component of ESP-IDF. Its sources are in src/, where Arduino wants them."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from packages import archive, project

HERE = Path(__file__).resolve().parent
PAGES = (project.ROOT / "SPEC.md", project.ROOT / "spec/keyed.md")  # which the headers cite
BUILD_FILES = ("CMakeLists.txt", "meson.build")
WRAP = """\
# Put this file into subprojects/. Then dependency('dumpulse') is the library.
[wrap-file]
directory = dumpulse
source_url = {address}
source_filename = {name}
source_hash = {sum}

[provide]
dependency_names = dumpulse
"""
# All values are in quotes, as in JSON, so that YAML takes them as they are.
COMPONENT = """\
version: "{version}"
description: "{summary}"
url: "{url}"
repository: "{repository}"
documentation: "{url}"
license: "{license}"
maintainers:
  - "{team} <{email}>"
tags: {tags}
dependencies:
  idf: ">=5.0"
examples:
  - path: examples/uart_agent
"""
OF_EXAMPLE = {
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.16)
include($ENV{IDF_PATH}/tools/cmake/project.cmake)
project(uart_agent)
""",
    "main/CMakeLists.txt": "idf_component_register(SRCS ../uart_agent.c)\n",
    "main/idf_component.yml": """\
dependencies:
  idf: ">=5.0"
  dumpulse/dumpulse:
    version: "*"
    override_path: ../../.. # here, the component that this example came with
"""}


def arduino() -> str:
    """Returns the text of library.properties."""
    maker = f"{project.TEAM} <{project.EMAIL}>"
    fields = {"name": project.NAME, "version": project.version(), "author": maker,
              "maintainer": maker, "sentence": f"{project.SUMMARY}.",
              "paragraph": project.DESCRIPTION, "category": "Communication", "url": project.URL,
              "architectures": "*", "includes": f"{project.NAME}.h", "license": project.LICENSE}
    return "".join(f"{field}={value}\n" for field, value in fields.items())


def platformio() -> dict[str, Any]:
    """Returns the content of library.json."""
    return {"name": project.NAME, "version": project.version(),
            "description": f"{project.SUMMARY}. {project.DESCRIPTION}",
            "keywords": list(project.KEYWORDS),
            "authors": [{"name": project.TEAM, "email": project.EMAIL, "maintainer": True}],
            "license": project.LICENSE, "homepage": project.URL,
            "repository": {"type": "git", "url": project.REPOSITORY},
            "headers": [name for name in project.LIBRARY_FILES if name.endswith(".h")],
            "frameworks": "*", "platforms": "*"}


def component() -> str:
    """Returns the text of idf_component.yml."""
    return COMPONENT.format(
        version=project.version(), summary=project.SUMMARY, url=project.URL,
        repository=project.REPOSITORY, license=project.LICENSE, team=project.TEAM,
        email=project.EMAIL, tags=json.dumps(project.KEYWORDS))


def build_file(name: str) -> str:
    """Returns the project's file for CMake or Meson, with paths in the archive."""
    text = (project.ROOT / name).read_text().replace("extras", "src")
    return re.sub(r"(?<![\w/])dumpulse\.([ch])\b", r"src/dumpulse.\1", text)


def write_archive(to: Path) -> Path:
    """Writes the zip file, for Arduino's "Add .ZIP Library" and all others."""
    files: dict[str, Path | str] = {
        "README.md": (HERE / "README.md").read_text().replace("VERSION", project.version()),
        "LICENSE": project.ROOT / "LICENSE",
        "library.properties": arduino(), "library.json": json.dumps(platformio(), indent=2) + "\n",
        "idf_component.yml": component(), **{name: build_file(name) for name in BUILD_FILES},
        "packages/pkgconfig/dumpulse.pc.in": project.ROOT / "packages/pkgconfig/dumpulse.pc.in",
        **{str(page.relative_to(project.ROOT)): archive.page(page, PAGES) for page in PAGES},
        **{f"src/{name}": path for name, path in project.LIBRARY_FILES.items()},
        **archive.files_of(HERE / "examples", "examples/"),
        **{f"examples/uart_agent/{name}": text for name, text in OF_EXAMPLE.items()}}
    return archive.write_zip(to / f"{project.NAME}-c-{project.version()}.zip", {
        f"{project.NAME}/{name}": file for name, file in files.items()})


def where(archive: Path) -> dict[str, str]:
    """Where a release of it can be fetched, and its sum: what other tools' files say of it."""
    return {"address": project.download(archive.name),
            "sum": hashlib.sha256(archive.read_bytes()).hexdigest()}


def write_wrap(archive: Path, to: Path) -> Path:
    wrap = to / "dumpulse.wrap"
    wrap.write_text(WRAP.format(name=archive.name, **where(archive)))
    return wrap


def build(to: Path) -> list[Path]:
    zip_file = write_archive(to)
    return [zip_file, write_wrap(zip_file, to)]
