"""Makes the servers for any Linux: an archive of static programs for each kind of processor.

Zig's C compiler links them with musl, which comes with it."""

import os
import subprocess
import tempfile
from pathlib import Path

from packages import archive, project

HERE = Path(__file__).resolve().parent
PYTHON = project.ROOT / "build" / "venv-packages" / "bin" / "python"
# Debian's names of the processors, and the compiler's options for each.
MACHINES = {"amd64": "-target x86_64-linux-musl", "arm64": "-target aarch64-linux-musl",
            "armhf": "-target arm-linux-musleabihf -mcpu=arm1176jzf_s"}
PROGRAMS = ("udpserver", "canserver")


def programs(machine: str, root: Path) -> dict[str, Path]:
    """Compiles them in a folder of sources."""
    cache = str(project.ROOT / "build" / "zig")
    subprocess.run(["make", "-s", "--no-print-directory", "-C", root, "LDFLAGS=-static -s",
                    f"CC={PYTHON} -m ziglang cc {MACHINES[machine]}",
                    *(f"build/{name}" for name in PROGRAMS)], check=True,
                   env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache})
    return {name: root / "build" / name for name in PROGRAMS}


def licences() -> dict[str, Path]:
    """Returns the licences of what the compiler links."""
    (compiler,) = PYTHON.parent.parent.glob("lib/python3*/site-packages/ziglang")
    return {"LICENSE.musl": compiler / "lib/libc/musl/COPYRIGHT",
            "LICENSE.zig": compiler / "LICENSE"}


def build(to: Path) -> list[Path]:
    archives = []
    with tempfile.TemporaryDirectory() as folder:
        # A copy of the sources: in build/ may be programs for this machine.
        root = archive.unpack(archive.build_sources(Path(folder)), Path(folder))
        page = (HERE / "README.md").read_text().replace("VERSION", project.version())
        texts: dict[str, Path | str] = {
            "LICENSE": root / "LICENSE", "README.md": page, **licences(),
            **{page.name: page for page in (root / "server").glob("*.8")}}
        for machine in MACHINES:
            top = f"{project.NAME}-servers-{project.version()}-linux-{machine}"
            files = {**texts, **programs(machine, root)}
            archives.append(archive.write_tar(to / f"{top}.tar.gz", {
                f"{top}/{name}": path for name, path in files.items()}))
    return archives
