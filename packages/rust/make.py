"""Makes the crate."""

import os
import re
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
    path = shutil.which(program, path=PATH)
    if not path:
        raise SystemExit(f"packages.rust: {program} is not installed: run make setup")
    return path


def lock(own: str) -> str:
    """Returns Cargo.lock, in which `own` are the version and the needs of the crate itself."""
    text = "version = 3\n"
    for line in sorted([*(HERE / "lock.txt").read_text().splitlines()[1:], own]):
        name, version, total, *needs = line.split()
        origin = 'source = "registry+https://github.com/rust-lang/crates.io-index"\n' \
            f'checksum = "{total}"\n' if total != "-" else ""
        text += f'\n[[package]]\nname = "{name}"\nversion = "{version}"\n{origin}' + (
            f"dependencies = {needs}\n".replace("'", '"') if needs else "")
    return text


def tree(to: Path) -> Path:
    """Writes the crate as a folder."""
    fields = {"version": project.version(), "summary": project.SUMMARY,
              "license": project.LICENSE, "url": project.URL, "repository": project.REPOSITORY}
    crate = to / project.NAME
    shutil.copytree(HERE / "crate", crate)
    shutil.copy(project.ROOT / "LICENSE", crate)
    manifest = crate / "Cargo.toml"
    manifest.write_text(re.sub("@([a-z]+)@", lambda field: fields[field[1]], manifest.read_text()))
    needs = "defmt embedded-can embedded-io"
    (crate / "Cargo.lock").write_text(lock(f"dumpulse {project.version()} - {needs}"))
    return crate


def build(to: Path) -> list[Path]:
    with tempfile.TemporaryDirectory() as folder:
        crate = tree(Path(folder))
        # Without Git, cargo writes no commit into the crate. All else in it has a fixed time.
        subprocess.run([installed("cargo"), "package", "--quiet", "--no-verify", "--locked",
                        "--target-dir", "target"], cwd=crate, check=True,
                       env={**os.environ, "PATH": PATH})
        (crate_file,) = (crate / "target" / "package").glob("*.crate")
        return [Path(shutil.copy(crate_file, to))]
