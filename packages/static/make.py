"""Makes the servers for any Linux: an archive of static programs for each kind of processor."""

import subprocess
import tempfile
from pathlib import Path

from packages import archive, project

HERE = Path(__file__).resolve().parent
# Debian's names of the processors, and those of their compilers.
MACHINES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu",
            "armhf": "arm-linux-gnueabihf"}
PROGRAMS = ("udpserver", "canserver")


def programs(machine: str, root: Path) -> dict[str, Path]:
    """Compiles them in a folder of sources."""
    tools = MACHINES[machine]
    built = [f"build/{name}" for name in PROGRAMS]
    subprocess.run(["make", "-s", "--no-print-directory", "-C", root, f"CC={tools}-gcc",
                    "LDFLAGS=-static -s", *built], check=True)
    return {name: root / "build" / name for name in PROGRAMS}


def build(to: Path) -> list[Path]:
    made = []
    with tempfile.TemporaryDirectory() as folder:
        # A copy of the sources: in build/ may be programs for this machine.
        root = archive.unpack(archive.build_sources(Path(folder)), Path(folder))
        page = (HERE / "README.md").read_text().replace("VERSION", project.version())
        texts: dict[str, Path | str] = {
            "LICENSE": root / "LICENSE", "README.md": page,
            **{page.name: page for page in (root / "server").glob("*.8")}}
        for machine in MACHINES:
            top = f"{project.NAME}-servers-{project.version()}-linux-{machine}"
            files = {**texts, **programs(machine, root)}
            made.append(archive.write_tar(to / f"{top}.tar.gz", {
                f"{top}/{name}": path for name, path in files.items()}))
    return made
