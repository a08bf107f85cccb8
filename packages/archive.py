"""Writes zip and tar files that are the same to the byte whenever the same files go in.

The order of the files, their owners, their modes and their times do not depend on the machine. The
archive of the sources has all files that git has, and no others. It is the same if it is written in
the unpacked archive, which is no repository."""

import gzip
import io
import os
import re
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

from packages.project import NAME, ROOT, git, version

FIRST_YEAR_OF_ZIP = 315532800  # 1980-01-01: a zip file can tell no earlier time


def build_time() -> int:
    """Returns the seconds since 1970 that packages tell as their time: those of
    SOURCE_DATE_EPOCH, else of the last commit, else of dumpulse.h."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    if (ROOT / ".git").exists():
        return int(git("log", "-1", "--format=%ct"))
    return int((ROOT / "dumpulse.h").stat().st_mtime)


def files_of(folder: Path, prefix: str = "") -> dict[str, Path]:
    """Returns the files of a folder by the names that they shall have in an archive."""
    return {f"{prefix}{path.relative_to(folder)}": path
            for path in sorted(folder.rglob("*")) if path.is_file()}


def page(path: Path, kept: Collection[Path]) -> str:
    """Returns a page, whose links to files that are not kept beside it have become text."""
    def link(match: re.Match[str]) -> str:
        is_kept = match[2] == "" or (path.parent / match[2]).resolve() in kept
        return match[0] if is_kept or "://" in match[2] else match[1]
    return re.sub(r"\[([^]]*)\]\(([^)#]*)(#[^)]*)?\)", link, path.read_text())


def mode_of(file: Path | str) -> int:
    return 0o755 if isinstance(file, Path) and os.access(file, os.X_OK) else 0o644


def content(file: Path | str) -> bytes:
    return file.read_bytes() if isinstance(file, Path) else file.encode()


def write_zip(to: Path, files: Mapping[str, Path | str]) -> Path:
    """Writes files, of which each is somewhere, or a text."""
    when = time.gmtime(max(build_time(), FIRST_YEAR_OF_ZIP))[:6]
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode_of(files[name])) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content(files[name]))
    return to


def write_tar(to: Path, files: Mapping[str, Path | str]) -> Path:
    """The same for a .tar.gz. A symbolic link stays one."""
    when = build_time()
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.mtime = when
            if isinstance(file := files[name], Path) and file.is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(file)
                archive.addfile(entry)
                continue
            data = content(file)
            entry.size, entry.mode = len(data), mode_of(file)
            archive.addfile(entry, io.BytesIO(data))
    with to.open("wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=when) as packed:
        packed.write(plain.getvalue())
    return to


# ---------------------------------------------------------------- the sources


def sources(root: Path = ROOT) -> dict[str, Path]:
    """Returns the project's own files by their names, new ones too, and none that was built. Where
    there is no repository, an empty one lists what .gitignore leaves."""
    with tempfile.TemporaryDirectory() as empty:
        words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        if not (root / ".git").exists():
            git("init", "--quiet", empty)
            words = [f"--git-dir={empty}/.git", f"--work-tree={root}", *words]
        names = git(*words, root=root).split("\0")
    return {name: root / name for name in names
            if name and ((root / name).is_symlink() or (root / name).is_file())}


# PyPI wants the name dumpulse-VERSION.tar.gz for the source distribution of the client.
END = "-source.tar.gz"


def top() -> str:
    """Returns the name of the folder that is in the archive."""
    return f"{NAME}-{version()}"


def build_sources(to: Path) -> Path:
    files = {f"{top()}/{name}": path for name, path in sources().items()}
    return write_tar(to / f"{top()}{END}", files)


def unpack(archive: Path, to: Path) -> Path:
    """Unpacks an archive of sources into the folder `to`; returns the folder of the sources."""
    to.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", to], check=True)
    return to / archive.name.removesuffix(END)


def dead_links(folder: Path) -> list[str]:
    """Returns the relative links of all pages in a folder that lead to no file there."""
    return [f"{page.name}: {link}" for page in folder.rglob("*.md")
            for link in re.findall(r"\]\(\s*([^)#:\s]+)[)#]", page.read_text())
            if not (page.parent / link).exists()]
