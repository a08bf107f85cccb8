"""Makes the archive of the C library alone, and the file with which Meson fetches it.

Its files are where the project's tree has them, so that CMake and Meson build it as they do there.
"""

import hashlib
from pathlib import Path

from packages import archive, project
from packages.archive import top

HERE = Path(__file__).resolve().parent
FILES = ("CMakeLists.txt", "LICENSE", "meson.build", "packages/pkgconfig/dumpulse.pc.in")
WRAP = """\
# Put this file into subprojects/. Then dependency('dumpulse') is the library.
[wrap-file]
directory = {top}
source_url = {address}
source_filename = {name}
source_hash = {sum}

[provide]
dependency_names = dumpulse
"""


def write_archive(to: Path) -> Path:
    paths = [*(project.ROOT / name for name in FILES), *project.LIBRARY_FILES.values()]
    files = {str(path.relative_to(project.ROOT)): path for path in paths}
    files["README.md"] = HERE / "README.md"
    return archive.write_tar(to / f"{project.NAME}-c-{project.version()}.tar.gz", {
        f"{top()}/{name}": path for name, path in files.items()})


def where(archive: Path) -> dict[str, str]:
    """Where a release of it can be fetched, and its sum: what other tools' files say of it."""
    return {"address": f"{project.URL}/releases/{archive.name}",
            "sum": hashlib.sha256(archive.read_bytes()).hexdigest()}


def write_wrap(archive: Path, to: Path) -> Path:
    wrap = to / "dumpulse.wrap"
    wrap.write_text(WRAP.format(top=top(), name=archive.name, **where(archive)))
    return wrap


def build(to: Path) -> list[Path]:
    made = write_archive(to)
    return [made, write_wrap(made, to)]
