"""Fetches the third-party code of sources.tsv into build/lab/sources, and checks its hashes.

    python -m lab.sources

Each comes from its registry by the registry's own client: cargo, apt-get, pip. What is there
already is not fetched again. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sim.targets import BUILD, run, scratch

TABLE = Path(__file__).with_name("sources.tsv")
FOLDER = BUILD / "lab" / "sources"
READY = "ready"  # a file with the hash, written last of all


@dataclass(frozen=True)
class Source:
    kind: str
    name: str
    version: str
    sha256: str
    licence: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.name


@functools.cache
def table() -> dict[str, Source]:
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()
            if line and not line.startswith("#")]
    return {source.name: source for source in (Source(*row) for row in rows)}


def of_cargo(source: Source, scratch_folder: Path) -> tuple[Path, str]:
    """The crate, and the hash that cargo has checked it against. What it depends on is not used."""
    (scratch_folder / "src").mkdir()
    (scratch_folder / "src" / "lib.rs").touch()
    (scratch_folder / "Cargo.toml").write_text(
        '[package]\nname = "lab-sources"\nversion = "0.0.0"\nedition = "2018"\n\n[dependencies]\n'
        f'{source.name} = "={source.version}"\n')
    run(["cargo", "vendor", "--quiet", "crates"], cwd=scratch_folder)
    crate = scratch_folder / "crates" / source.name
    checksums = json.loads((crate / ".cargo-checksum.json").read_text())
    for name, expected in checksums["files"].items():
        if hashlib.sha256((crate / name).read_bytes()).hexdigest() != expected:
            raise SystemExit(f"sources: {source.name}: {name} is not what its checksum says")
    return crate, checksums["package"]


def deb_src_lists(into: Path, suite: str) -> None:
    """This machine's own package sources, of source packages; or those of another suite."""
    own = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.M)
    if own is None:
        raise SystemExit("sources: /etc/os-release names no release of Debian")
    parts = into / "parts"
    parts.mkdir()
    etc = Path("/etc/apt")
    for file in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if file.suffix == ".sources":
            lines = ["Types: deb-src" if line.startswith("Types:") else line
                     for line in file.read_text().splitlines()]
        elif file.suffix == ".list" and file.exists():
            lines = [line.replace("deb ", "deb-src ", 1) for line in file.read_text().splitlines()
                     if line.startswith("deb ")]
        else:
            continue
        text = "\n".join(lines) + "\n"
        (parts / file.name).write_text(text.replace(f" {own[1]}", f" {suite or own[1]}"))


def of_debian(source: Source, scratch_folder: Path, suite: str = "") -> tuple[Path, str]:
    """The upstream archive, which apt-get has checked against the signed list of packages.

    A version without Debian's revision is the same in all of them: security brings new ones."""
    deb_src_lists(scratch_folder, suite)
    (scratch_folder / "lists" / "partial").mkdir(parents=True)
    apt = ["apt-get", "-q", "-o", "Dir::Etc::sourcelist=/dev/null",
           "-o", f"Dir::Etc::sourceparts={scratch_folder}/parts",
           "-o", f"Dir::State::lists={scratch_folder}/lists", "-o", "APT::Sandbox::User=root"]
    run([*apt, "update"], cwd=scratch_folder)
    wanted = f"{source.name}={source.version}" if "-" in source.version else source.name
    run([*apt, "source", "--download-only", "--tar-only", wanted], cwd=scratch_folder)
    archives = list(scratch_folder.glob(f"{source.name}_*.orig.tar.*"))
    if len(archives) != 1:
        raise SystemExit(f"sources: {source.name}: one upstream archive is expected, "
                         f"not {len(archives)}")
    unpacked = scratch_folder / "unpacked"
    unpacked.mkdir()
    run(["tar", "-xf", archives[0], "-C", unpacked, "--strip-components=1"])
    return unpacked, hashlib.sha256(archives[0].read_bytes()).hexdigest()


def of_pip(source: Source, scratch_folder: Path) -> tuple[Path, str]:
    run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-binary", ":all:", "--dest", scratch_folder,
         f"{source.name}=={source.version}"])
    archive, = scratch_folder.glob("*.tar.gz")
    unpacked = scratch_folder / "unpacked"
    unpacked.mkdir()
    run(["tar", "-xf", archive, "-C", unpacked, "--strip-components=1"])
    return unpacked, hashlib.sha256(archive.read_bytes()).hexdigest()


CLIENTS: dict[str, tuple[str, Callable[[Source, Path], tuple[Path, str]]]] = {
    "crate": ("cargo", of_cargo), "deb": ("apt-get", of_debian), "sdist": ("pip", of_pip),
    "trixie": ("apt-get", functools.partial(of_debian, suite="trixie"))}


def fetched(name: str) -> Path:
    """The folder of a source, fetched if it is not there."""
    source = table()[name]
    ready = source.folder / READY
    if ready.exists() and ready.read_text() == source.sha256:
        return source.folder
    client, fetch = CLIENTS[source.kind]
    if client != "pip" and shutil.which(client) is None:
        raise SystemExit(f"sources: {name} {source.version} is fetched by {client}, "
                         "which is not installed")
    print(f"sources: fetching {name} {source.version} by {client}", file=sys.stderr)
    with scratch() as folder:
        unpacked, sha256 = fetch(source, Path(folder))
        if sha256 != source.sha256:
            raise SystemExit(f"sources: {name} {source.version} has the SHA-256 {sha256}, "
                             f"and must have {source.sha256}")
        shutil.rmtree(source.folder, ignore_errors=True)
        source.folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(unpacked, source.folder, symlinks=True)
    ready.write_text(source.sha256)
    return source.folder


def main() -> None:
    for source in table().values():
        fetched(source.name)
        print(f"{source.kind:<6} {source.name:<20} {source.version:<14} "
              f"{source.sha256[:16]}…  {source.licence}")


if __name__ == "__main__":
    main()
