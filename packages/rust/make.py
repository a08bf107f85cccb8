"""Makes the crate. SPDX-License-Identifier: MIT"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from packages import project

HERE = Path(__file__).resolve().parent
# rustup puts its programs where only a shell of its user looks.
PATH = os.pathsep.join([os.environ["PATH"], str(Path.home() / ".cargo" / "bin")])


def installed(program: str) -> str:
    """Where cargo or rustc is."""
    found = shutil.which(program, path=PATH)
    if not found:
        raise SystemExit(f"packages.rust: {program} is not installed: run make setup")
    return found


def tree(to: Path) -> Path:
    """Writes the crate as a folder."""
    fields = {"version": project.version(), "summary": project.SUMMARY,
              "license": project.LICENSE, "url": project.URL, "repository": project.REPOSITORY}
    crate = to / project.NAME
    shutil.copytree(HERE / "crate", crate)
    shutil.copy(project.ROOT / "LICENSE", crate)
    for path in (crate / "Cargo.toml", crate / "Cargo.lock"):
        text = path.read_text()
        for field, value in fields.items():
            text = text.replace(f"@{field}@", value)
        path.write_text(text)
    return crate


def build(to: Path) -> list[Path]:
    with tempfile.TemporaryDirectory() as folder:
        crate = tree(Path(folder))
        # Without Git, cargo writes no commit into the crate. All else in it has a fixed time.
        subprocess.run([installed("cargo"), "package", "--quiet", "--no-verify", "--locked",
                        "--target-dir", "target"], cwd=crate, check=True,
                       env={**os.environ, "PATH": PATH})
        (made,) = (crate / "target" / "package").glob("*.crate")
        return [Path(shutil.copy(made, to))]
