"""Makes a component of ESP-IDF: dumpulse-espidf-VERSION.tar.gz."""

from pathlib import Path

from packages import archive, project

HERE = Path(__file__).resolve().parent

# All values are in quotes, as in JSON, so that YAML takes them as they are.
MANIFEST = """\
version: "{version}"
description: "{summary}"
url: "{url}"
repository: "{repository}"
documentation: "{url}"
license: "{license}"
maintainers:
  - "{team} <{email}>"
tags:
{tags}
dependencies:
  idf: ">=5.0"
examples:
  - path: examples/uart_agent
"""
EXAMPLE = "examples/uart_agent"
OF_EXAMPLE = {
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.16)
include($ENV{IDF_PATH}/tools/cmake/project.cmake)
project(uart_agent)
""",
    "main/CMakeLists.txt": "idf_component_register(SRCS uart_agent.c)\n",
    "main/idf_component.yml": """\
dependencies:
  idf: ">=5.0"
  dumpulse/dumpulse:
    version: "*"
    override_path: ../../.. # here, the component that this example came with
"""}


def manifest() -> str:
    return MANIFEST.format(
        version=project.version(), summary=project.SUMMARY, url=project.URL,
        repository=project.REPOSITORY,
        license=project.LICENSE, team=project.TEAM, email=project.EMAIL,
        tags="\n".join(f'  - "{word}"' for word in project.KEYWORDS))


def build(to: Path) -> list[Path]:
    library = {name: path for name, path in project.LIBRARY_FILES.items() if name[-2:] != ".S"}
    sources = " ".join(name for name in library if name.endswith(".c"))
    files: dict[str, Path | str] = {
        "idf_component.yml": manifest(), **library, "LICENSE": project.ROOT / "LICENSE",
        "CMakeLists.txt": f"idf_component_register(SRCS {sources} INCLUDE_DIRS .)\n",
        "README.md": HERE / "README.md", f"{EXAMPLE}/main/uart_agent.c": HERE / "uart_agent.c",
        **{f"{EXAMPLE}/{name}": text for name, text in OF_EXAMPLE.items()}}
    return [archive.write_tar(to / f"dumpulse-espidf-{project.version()}.tar.gz", {
        f"dumpulse/{name}": file for name, file in files.items()})]
