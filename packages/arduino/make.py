"""Makes the library for the Arduino IDE: a zip file for "Add .ZIP Library".

The same folder, unpacked, is what the mirror repository of the Library Manager has."""

import re
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


def build(to: Path) -> list[Path]:
    """Writes the zip file. The one folder in it has the name of the library."""
    files: dict[str, Path | str] = {
        "library.properties": properties(), "keywords.txt": keywords(),
        "LICENSE": project.ROOT / "LICENSE", "README.md": HERE / "README.md",
        **{f"src/{name}": path for name, path in project.LIBRARY_FILES.items()},
        **archive.files_of(EXAMPLES, "examples/")}
    return [archive.write_zip(to / f"{project.NAME}-arduino-{project.version()}.zip", {
        f"{project.NAME}/{name}": file for name, file in files.items()})]
