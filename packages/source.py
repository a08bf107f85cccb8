"""Writes the archive of the sources: all files that git has, and no others.

    python3 -m packages.source             # writes build/packages/dumpulse-VERSION.tar.gz

It also works where there is no git, in the unpacked archive, and writes the same bytes there.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from packages.archive import write_tar
from packages.project import NAME, ROOT, version


def sources(root: Path = ROOT) -> dict[str, Path]:
    """Returns the project's own files by their names, new ones too, and none that was built."""
    if (root / ".git").exists():
        names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others",
                                "--exclude-standard"], cwd=root, text=True,
                               stdout=subprocess.PIPE, check=True).stdout.split("\0")
        paths = [root / name for name in names if name]
    else:
        paths = []
        for folder, folders, files in os.walk(root):
            # As in .gitignore.
            folders[:] = [name for name in folders if name != "__pycache__" and
                          Path(folder, name) != root / "build"]
            links = [name for name in folders if Path(folder, name).is_symlink()]
            paths += [Path(folder, name) for name in files + links]
    return {str(path.relative_to(root)): path for path in paths
            if path.is_symlink() or path.is_file()}


def top() -> str:
    """Returns the name of the folder that is in the archive."""
    return f"{NAME}-{version()}"


def build(to: Path) -> list[Path]:
    files = {f"{top()}/{name}": path for name, path in sources().items()}
    return [write_tar(to / f"{top()}.tar.gz", files)]


def unpack(archive: Path, to: Path) -> Path:
    """Unpacks an archive of sources into the folder `to`; returns the folder of the sources."""
    to.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", to], check=True)
    return to / archive.name.removesuffix(".tar.gz")


if __name__ == "__main__":
    (ROOT / "build" / "packages").mkdir(parents=True, exist_ok=True)
    print(*build(ROOT / "build" / "packages"), sep="\n")
