"""Makes the crate. It needs no cargo, because the crate depends on no other."""

import re
from pathlib import Path

from packages import archive, project

HERE = Path(__file__).resolve().parent


def files() -> dict[str, Path | str]:
    """Returns the files of the crate by their names."""
    fields = {"version": project.version(), "summary": project.SUMMARY,
              "license": project.LICENSE, "url": project.URL, "repository": project.REPOSITORY}
    manifest = re.sub("@([a-z]+)@", lambda field: fields[field[1]],
                      (HERE / "crate/Cargo.toml").read_text())
    return {**archive.files_of(HERE / "crate"), "LICENSE": project.ROOT / "LICENSE",
            "Cargo.toml": manifest}


def build(to: Path) -> list[Path]:
    top = f"{project.NAME}-{project.version()}"
    return [archive.write_tar(to / f"{top}.crate", {
        f"{top}/{name}": file for name, file in files().items()})]
