"""Makes a component of ESP-IDF: dumpulse-espidf-VERSION.tar.gz. SPDX-License-Identifier: MIT"""

import tempfile
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
REGISTER = "idf_component_register(SRCS {sources} INCLUDE_DIRS .)\n"


def files() -> dict[str, Path]:
    """The component's files that are somewhere in the tree, by their names in the component."""
    library = {name: path for name, path in project.LIBRARY_FILES.items() if name[-2:] != ".S"}
    return {**library, "LICENSE": project.ROOT / "LICENSE",
            "README.md": HERE / "README.md",
            **archive.files_of(HERE / "examples", "examples/")}


def manifest() -> str:
    return MANIFEST.format(
        version=project.version(), summary=project.SUMMARY, url=project.URL,
        repository=project.REPOSITORY,
        license=project.LICENSE, team=project.TEAM, email=project.EMAIL,
        tags="\n".join(f'  - "{word}"' for word in project.KEYWORDS))


def build(to: Path) -> list[Path]:
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        (made / "idf_component.yml").write_text(manifest())
        (made / "CMakeLists.txt").write_text(REGISTER.format(
            sources=" ".join(each for each in files() if each.endswith(".c") and "/" not in each)))
        everything = {**files(), **archive.files_of(made)}
        return [archive.write_tar(
            to / f"dumpulse-espidf-{project.version()}.tar.gz",
            {f"dumpulse/{each}": path for each, path in everything.items()})]
