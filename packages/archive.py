"""Writes zip and tar files that are the same to the byte whenever the same files go in.

The order of the files, their owners, their modes and their times do not depend on the machine.
SPDX-License-Identifier: MIT"""

import gzip
import io
import os
import re
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from packages.project import ROOT, git

FIRST_YEAR_OF_ZIP = 315532800  # 1980-01-01: a zip file can tell no earlier time
LAST_OF_GZIP = 2**32 - 1  # 2106-02-07: and a .gz file no later one


def build_time(root: Path = ROOT) -> int:
    """Returns the seconds since 1970 that packages tell as their time: those of
    SOURCE_DATE_EPOCH, else of the last commit, else of dumpulse.h."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        told = os.environ["SOURCE_DATE_EPOCH"]
        if not re.fullmatch("[0-9]{1,10}", told) or int(told) > LAST_OF_GZIP:
            raise SystemExit(f"SOURCE_DATE_EPOCH is {told!r}: it must be the seconds since 1970, "
                             f"from 0 to {LAST_OF_GZIP}")
        return int(told)
    if (root / ".git").exists():
        return int(git("log", "-1", "--format=%ct", root=root))
    return int((root / "dumpulse.h").stat().st_mtime)


def files_of(folder: Path, prefix: str = "") -> dict[str, Path]:
    """Returns the files of a folder by the names that they shall have in an archive."""
    return {f"{prefix}{path.relative_to(folder)}": path
            for path in sorted(folder.rglob("*")) if path.is_file()}


def mode_of(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) else 0o644


def write_zip(to: Path, files: Mapping[str, Path]) -> Path:
    when = time.gmtime(max(build_time(), FIRST_YEAR_OF_ZIP))[:6]
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100000 | mode_of(files[name])) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name].read_bytes())
    return to


def write_tar(to: Path, files: Mapping[str, Path]) -> Path:
    """Writes a .tar.gz. A symbolic link stays one."""
    when = build_time()
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.mtime = when
            if files[name].is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(files[name])
                archive.addfile(entry)
                continue
            entry.size = files[name].stat().st_size
            entry.mode = mode_of(files[name])
            with files[name].open("rb") as content:
                archive.addfile(entry, content)
    with to.open("wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=when) as packed:
        packed.write(plain.getvalue())
    return to
