"""Fetches the third-party code of sources.tsv into build/lab/sources, and checks its hashes.

    python -m lab.sources

Each comes from its registry by the registry's own client: cargo, apt-get. What is there
already is not fetched again; if somebody has changed it, the program ends."""

import fcntl
import functools
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.programs import BUILD, as_program, run, scratch

TABLE = Path(__file__).with_name("sources.tsv")
FOLDER = BUILD / "lab" / "sources"
READY = "ready"  # a file with two hashes, of the archive and of its contents, written last of all


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


def installed(client: str) -> str | None:
    """Where a client is. rustup puts cargo where only a shell of its user looks."""
    return shutil.which(client) or shutil.which(client, path=Path.home() / ".cargo" / "bin")


def of_cargo(source: Source, folder: Path) -> Path:
    """The crate, from where cargo keeps what it has downloaded. What it depends on is not used."""
    (folder / "src").mkdir()
    (folder / "src" / "lib.rs").touch()
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "lab-sources"\nversion = "0.0.0"\nedition = "2018"\n\n[dependencies]\n'
        f'{source.name} = "={source.version}"\n')
    run([installed("cargo"), "fetch", "--quiet"], cwd=folder)
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    archives = home.glob(f"registry/cache/*/{source.name}-{source.version}.crate")
    return one(source, sorted(archives, key=lambda file: file.stat().st_mtime)[-1:])


def deb_src_lists(into: Path, suite: str) -> None:
    """This machine's own package sources, of source packages and of this suite."""
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.M)
    if release is None:
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
        (parts / file.name).write_text(text.replace(f" {release[1]}", f" {suite}"))


def of_debian(source: Source, folder: Path, suite: str) -> Path:
    """The upstream archive, which apt-get has checked against the signed list of packages.

    A version without Debian's revision stands for all revisions: security brings new ones."""
    deb_src_lists(folder, suite)
    (folder / "lists" / "partial").mkdir(parents=True)
    apt = ["apt-get", "-q", "-o", "Dir::Etc::sourcelist=/dev/null",
           "-o", f"Dir::Etc::sourceparts={folder}/parts", "-o", f"Dir::State::lists={folder}/lists",
           "-o", "APT::Sandbox::User=root", "-o", "APT::Update::Error-Mode=any"]
    run([*apt, "update"], cwd=folder)
    package = f"{source.name}={source.version}" if "-" in source.version else source.name
    run([*apt, "source", "--download-only", "--tar-only", package], cwd=folder)
    return one(source, list(folder.glob(f"{source.name}_*.orig.tar.*")))


def one(source: Source, archives: list[Path]) -> Path:
    if len(archives) != 1:
        raise SystemExit(f"sources: {source.name}: one archive is expected, not {len(archives)}")
    return archives[0]


CLIENTS: dict[str, tuple[str, Callable[[Source, Path], Path]]] = {
    "crate": ("cargo", of_cargo),
    "bookworm": ("apt-get", functools.partial(of_debian, suite="bookworm"))}


def contents(folder: Path) -> str:
    """The hash of all files, and of their names."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file != folder / READY:
            sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{sha256} {file.relative_to(folder)}\n".encode())
    return digest.hexdigest()


seen_contents = functools.cache(contents)  # a program looks once


def fetched(name: str) -> Path:
    """The folder of a source, fetched if it is not there. Nothing is unpacked before its hash has
    been compared, and nothing is used that has been changed since."""
    source = table()[name]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{name}.lock", "w") as lock:  # other programs may want the same at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        fetch_once(source)
    return source.folder


def fetch_once(source: Source) -> None:
    ready = source.folder / READY
    hashes = ready.read_text().split() if ready.exists() else []
    if len(hashes) == 2 and hashes[0] == source.sha256:
        if hashes[1] != seen_contents(source.folder):
            raise SystemExit(f"sources: {source.folder} is not as it was fetched: remove it, "
                             "and it will be fetched again")
        return
    client, fetch = CLIENTS[source.kind]
    if installed(client) is None:
        raise SystemExit(f"sources: {source.name} {source.version} is fetched by {client}, "
                         "which is not installed")
    print(f"sources: fetching {source.name} {source.version} by {client}", file=sys.stderr)
    with scratch() as folder:
        archive = fetch(source, Path(folder))
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        if sha256 != source.sha256:
            raise SystemExit(f"sources: {archive.name} has the SHA-256 {sha256}, "
                             f"and must have {source.sha256}")
        shutil.rmtree(source.folder, ignore_errors=True)
        source.folder.mkdir(parents=True)
        run(["tar", "-xf", archive, "-C", source.folder, "--strip-components=1", "--no-same-owner"])
    ready.write_text(f"{source.sha256} {contents(source.folder)}\n")


def main() -> None:
    for source in table().values():
        fetched(source.name)
        print(f"{source.kind:<8} {source.name:<20} {source.version:<14} "
              f"{source.sha256[:16]}…  {source.licence}")


if __name__ == "__main__":
    as_program(main)
