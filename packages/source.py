"""Writes the archive of the sources: all files that git has, and no others.

It also works where there is no git, in the unpacked archive, and writes the same bytes there.
SPDX-License-Identifier: MIT"""

import os
import subprocess
from pathlib import Path

from packages.archive import write_tar
from packages.project import NAME, ROOT, git, version


def sources(root: Path = ROOT) -> dict[str, Path]:
    """Returns the project's own files by their names, new ones too, and none that was built."""
    if (root / ".git").exists():
        names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard",
                    root=root).split("\0")
        paths = [root / name for name in names if name]
    else:
        paths = []
        for folder, folders, files in os.walk(root):
            # As in .gitignore, and in that of each folder of keys.
            folders[:] = [name for name in folders if name not in ("__pycache__", ".hypothesis") and
                          Path(folder, name) != root / "build" and
                          not ignores_all(Path(folder, name, ".gitignore"))]
            links = [name for name in folders if Path(folder, name).is_symlink()]
            paths += [Path(folder, name) for name in files + links
                      if not name.endswith((".key", ".eep"))]
    return {str(path.relative_to(root)): path for path in paths
            if path.is_symlink() or path.is_file()}


def ignores_all(gitignore: Path) -> bool:
    """Such a file is in the folders that `dumpulse key split` makes."""
    return gitignore.is_file() and b"*" in gitignore.read_bytes().splitlines()


# PyPI wants the name dumpulse-VERSION.tar.gz for the source distribution of the client.
END = "-source.tar.gz"


def top() -> str:
    """Returns the name of the folder that is in the archive."""
    return f"{NAME}-{version()}"


def build(to: Path) -> list[Path]:
    files = {f"{top()}/{name}": path for name, path in sources().items()}
    return [write_tar(to / f"{top()}{END}", files)]


def unpack(archive: Path, to: Path) -> Path:
    """Unpacks an archive of sources into the folder `to`; returns the folder of the sources."""
    to.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", to], check=True)
    return to / archive.name.removesuffix(END)
