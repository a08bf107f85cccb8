"""Makes the library for the Arduino IDE: a zip file for "Add .ZIP Library".

The same folder, unpacked, is what the mirror repository of the Library Manager has.
SPDX-License-Identifier: MIT"""

import re
import tempfile
from pathlib import Path

from packages import archive, project

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE / "examples"


def properties() -> str:
    """Returns the text of library.properties."""
    maker = f"{project.TEAM} <{project.EMAIL}>"
    fields = {"name": project.NAME, "version": project.version(), "author": maker,
              "maintainer": maker, "sentence": f"{project.SUMMARY}.",
              "paragraph": project.DESCRIPTION, "category": "Communication", "url": project.URL,
              "architectures": "*", "includes": f"{project.NAME}.h", "license": project.LICENSE}
    return "".join(f"{field}={value}\n" for field, value in fields.items())


def keywords() -> str:
    """Returns the text of keywords.txt: the names in the headers that the editor colours. Names
    that end in an underscore are not for users, nor are those that guard a header."""
    text = "".join(path.read_text() for name, path in project.LIBRARY_FILES.items()
                   if name.endswith(".h"))
    kinds = {"KEYWORD1": r"^(?:typedef .*|\} )\b(dumpulse(?:_\w+[a-z])?);",
             "KEYWORD2": r"^[a-z].*\b(dumpulse_\w+[a-z])\(",
             "LITERAL1": r"^(?:#define|   ) (DUMPULSE_(?!H\b|\w+_H\b)\w+[A-Z])\b"}
    found = {kind: sorted(set(re.findall(pattern, text, re.M))) for kind, pattern in kinds.items()}
    return "".join(f"{name}\t{kind}\n" for kind, names in found.items() for name in names)


def write_library(folder: Path) -> dict[str, Path]:
    """Writes what is generated into the folder. Returns all files of the library, by their names in
    it."""
    for name, text in (("library.properties", properties()), ("keywords.txt", keywords())):
        (folder / name).write_text(text)
    return {**archive.files_of(folder),
            "LICENSE": project.ROOT / "LICENSE",
            "README.md": HERE / "README.md",
            **{f"src/{name}": path for name, path in project.LIBRARY_FILES.items()},
            **archive.files_of(EXAMPLES, "examples/")}


def build(to: Path) -> list[Path]:
    """Writes the zip file. The one folder in it has the name of the library."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_library(Path(folder))
        name = f"{project.NAME}-arduino-{project.version()}.zip"
        return [archive.write_zip(to / name, {f"{project.NAME}/{file}": path
                                              for file, path in files.items()})]
