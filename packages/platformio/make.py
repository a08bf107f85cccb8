"""Makes the library for PlatformIO: a .tar.gz file as `pio pkg pack` makes it.

library.json in the root folder says how the library is compiled, for those who take it from git.
Here the library is in one folder, and gets the version and what else the registry of PlatformIO
wants to know."""

import json
from pathlib import Path
from typing import Any

from packages import archive, project
from packages.arduino.make import EXAMPLES

HERE = Path(__file__).resolve().parent
BUILD = {"srcDir": ".", "includeDir": ".", "srcFilter": "+<dumpulse*>"}


def manifest() -> dict[str, Any]:
    """Returns the whole library.json."""
    return {**json.loads((project.ROOT / "library.json").read_text()),
            "build": BUILD, "version": project.version(), "description": f"{project.SUMMARY}. "
            f"{project.DESCRIPTION}", "keywords": list(project.KEYWORDS),
            "authors": [{"name": project.TEAM, "email": project.EMAIL, "maintainer": True}],
            "license": project.LICENSE, "homepage": project.URL,
            "repository": {"type": "git", "url": project.REPOSITORY},
            "headers": [name for name in project.LIBRARY_FILES if name.endswith(".h")],
            "frameworks": "*", "platforms": "*"}


def build(to: Path) -> list[Path]:
    return [archive.write_tar(to / f"{project.NAME}-platformio-{project.version()}.tar.gz", {
        "library.json": json.dumps(manifest(), indent=2) + "\n",
        "LICENSE": project.ROOT / "LICENSE", "README.md": HERE / "README.md",
        **project.LIBRARY_FILES, **archive.files_of(EXAMPLES, "examples/")})]
