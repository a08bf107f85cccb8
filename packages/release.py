"""Builds all that a release has into build/release, with its SHA-256 sums, and tests it.

    python3 -m packages.release            # make release runs all long tests before
    python3 -m packages.release --check    # only says whether a release can be made of this state

Everything is built twice, in two folders, from the unpacked archive of the sources, and must be the
same to the byte. The tests run there, too. check() has what a state must have."""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from packages import archive, making, project
from packages.making import Failed
from tools.programs import as_program

ROOT, BUILD = project.ROOT, project.ROOT / "build"
TOOLS = BUILD / "venv-packages" / "bin"
# What is fetched once, and stays in build/ after `make clean`. The builds and tests in other
# folders use it, too.
FETCHED = re.findall("^FETCHED := (.*)$", (ROOT / "Makefile").read_text(), re.M)[0].split()
TESTS = ["check", "test ROOM=packages"]
# Packages of Debian whose versions decide what is built, beside those in the clean Debians. The
# sources fix the versions of packages of other registries.
TOOLCHAIN = ("avr-libc", "binutils-arm-none-eabi", "binutils-avr", "gcc-arm-none-eabi", "gcc-avr",
             "libnewlib-arm-none-eabi")


class Refused(Exception):
    """The state cannot be released. The text says why, and what to do."""


def say(text: str) -> None:
    print(f"release: {text}", file=sys.stderr, flush=True)


def check() -> None:
    """Refuses what must not be released, with all reasons."""
    version, reasons = project.version(), []
    if not (ROOT / ".git").exists():
        raise Refused("there is no .git here: make a release in a clone of the repository")
    # The archive of the sources gets new files, too, whatever this user wants to see of them.
    changed = project.git("status", "--porcelain", "--untracked-files=all").splitlines()
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        reasons.append(f"git has not all of this folder: {changed[0][3:]}{others}: commit or "
                       "remove what is new or changed")
    for path in sorted(project.behind()):
        reasons.append(f"{path.relative_to(ROOT)} does not have its version or the address: "
                       "run make version")
    fleet = project.version("fleet")
    if fleet.endswith("-dev") != version.endswith("-dev"):
        reasons.append(f"the version is {version}, and the fleet's is {fleet}: both or none end in "
                       "-dev")
    number, date, shown = project.FORMS["heading"](version), r"\d{4}-\d\d-\d\d", "DATE"
    if number != version:
        date = shown = "not released yet"
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    if not headings or not re.fullmatch(f"{re.escape(number)}, {date}", headings[0]):
        reasons.append(f'the first heading of CHANGELOG.md must be "## {number}, {shown}", because '
                       f'the version is {version}: it is "## {"".join(headings[:1])}"')
    if reasons:
        raise Refused("\n".join(reasons))


def build_all(to: Path) -> list[Path]:
    """Builds the archive of the sources and the artefacts of every world into a folder."""
    files = [archive.build_sources(to)]
    for name in making.WORLDS:
        begun = time.monotonic()
        new = making.builder(name)(to)
        if twice := {path.name for path in files} & {path.name for path in new}:
            raise Failed(f"{name} has written {', '.join(sorted(twice))}, which was there already")
        files += new
        say(f"{name}: built in {time.monotonic() - begun:.0f} s")
    for path in files[1:]:
        if sum_of(path) == sum_of(files[0]):  # Debian's copy of the sources, under its own name
            files.remove(path)
            path.unlink()
    return files


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums(folder: Path) -> dict[str, str]:
    return {path.name: sum_of(path) for path in sorted(folder.iterdir())}


def run(what: str, *command: str, cwd: Path, environment: Mapping[str, str]) -> None:
    """Runs a long command, whose output goes to a file."""
    say(f"{what} …")
    begun = time.monotonic()
    log = BUILD / "log" / f"release-{what.replace(' ', '-')}"
    log.parent.mkdir(parents=True, exist_ok=True)
    # The options of the make that runs this are not for others.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    with log.open("w") as out:
        done = subprocess.run(command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, env={**inherited, **environment},
                              check=False)
    if done.returncode != 0:
        print(*log.read_text(errors="replace").splitlines()[-40:], sep="\n", file=sys.stderr)
        raise Failed(f"{what}: exit status {done.returncode}: {log} has all of its output")
    say(f"{what}: {time.monotonic() - begun:.0f} s")


def bill_of_materials(folder: Path) -> Path:
    """Writes what the files of a folder contain and need. Its tool is among those of packages."""
    done = subprocess.run([TOOLS / "python", "-m", "packages.sbom", folder], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Failed(f"there is no bill of materials: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def write_buildinfo(folder: Path, files: Mapping[str, str]) -> None:
    """Writes what has built the files, in the format of deb-buildinfo(5)."""
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} (= "
                             "${Version}),\n", *TOOLCHAIN], text=True, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    fields = {
        "Format": "1.0", "Source": project.NAME, "Architecture": "source amd64 arm64",
        "Version": project.FORMS["debian"](project.version()), "Build-Architecture": "amd64",
        "Checksums-Sha256": "".join(f"\n {value} {(folder / name).stat().st_size} {name}"
                                    for name, value in files.items()),
        "Installed-Build-Depends": "".join(
            f"\n{line.removeprefix('installed')}" for line in listed.splitlines()
            if line.startswith("installed")).rstrip(","),
        "Environment": f"\n SOURCE_DATE_EPOCH=\"{os.environ['SOURCE_DATE_EPOCH']}\""}
    (folder / f"{project.NAME}-{project.version()}.buildinfo").write_text(
        "".join(f"{name}: {value}\n" for name, value in fields.items()))


def release(tests: tuple[str, ...]) -> Path:
    """Builds twice, compares, tests, and returns the folder of the release."""
    os.environ["SOURCE_DATE_EPOCH"] = str(archive.build_time())
    with tempfile.TemporaryDirectory(prefix="dumpulse-release-") as work:
        packed = archive.build_sources(Path(work))
        sums_of_builds: list[dict[str, str]] = []
        folders: list[Path] = []
        # What is built must not depend on the folder, the language, the time zone and the umask.
        for name, umask, surroundings in (
                ("one", 0o022, {"TZ": "UTC", "LC_ALL": "C.UTF-8"}),
                ("the-other", 0o027, {"TZ": "Asia/Tokyo", "LC_ALL": "C"})):
            folder = archive.unpack(packed, Path(work, name))
            (folder / "build").mkdir()
            for fetched in FETCHED:
                (BUILD / fetched).mkdir(parents=True, exist_ok=True)
                (folder / "build" / fetched).symlink_to((BUILD / fetched).resolve())
            to = Path(work, f"from-{name}")
            to.mkdir()
            before = os.umask(umask)
            try:
                run(f"build {len(folders) + 1} of 2", sys.executable, "-m", "packages.release",
                    "--build", str(to), cwd=folder, environment=surroundings)
            finally:
                os.umask(before)
            folders.append(folder)
            sums_of_builds.append(sums(to))
        write_buildinfo(Path(work, "from-one"), sums_of_builds[0])
        bill_of_materials(Path(work, "from-one"))
        notes = re.split("^## ", (ROOT / "CHANGELOG.md").read_text(), maxsplit=2, flags=re.M)[1]
        tree = project.changes().removesuffix("CHANGELOG.md")
        Path(work, "from-one", "NOTES.md").write_text(
            re.sub(r"\]\((?!https?:)", f"]({tree}", f"# Dumpulse {notes}"))
        compare(sums_of_builds[0], sums_of_builds[1], {packed.name: sum_of(packed)})
        for target in tests:
            run(f"make {target}", "make", *target.split(), cwd=folders[0], environment={})
        sums_of_files = sums(Path(work, "from-one"))
        Path(work, "from-one", "SHA256SUMS").write_text(
            "".join(f"{value}  {name}\n" for name, value in sums_of_files.items()))
        # Whoever finds the folder finds all of it, whatever stops this program.
        to, new = BUILD / "release", BUILD / "release-new"
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(Path(work, "from-one"), new)
        shutil.rmtree(to, ignore_errors=True)
    return new.rename(to)


def compare(one: Mapping[str, str], other: Mapping[str, str], sources: Mapping[str, str]) -> None:
    """Compares the sums of two builds, and of the archive of the sources that they began with."""
    differ = sorted(name for name in {*one, *other}
                    if one.get(name) != other.get(name) or
                    one.get(name) != sources.get(name, one.get(name)))
    if differ:
        raise Failed(f"two builds differ in {', '.join(differ)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make release", description="Builds, compares and tests all that a release has, into "
        "build/release.", epilog="Give options as in make release ARGS=--check.")
    parser.add_argument("--check", action="store_true",
                        help="only say whether a release can be made of this state")
    parser.add_argument("--tests", nargs="*", default=TESTS, metavar="TARGET",
                        help="the targets of make that test the unpacked sources "
                        f"({', '.join(TESTS)})")
    parser.add_argument("--build", type=Path, metavar="FOLDER",
                        help="only build, once, into a folder that exists")
    options = parser.parse_args()
    try:
        if options.build:
            print(*build_all(options.build), sep="\n")
            return 0
        check()
        if options.check:
            print(f"release: {project.version()} can be released")
            return 0
        folder = release(tuple(options.tests))
    except BrokenPipeError:
        raise  # as_program() ends with the reader
    except (Refused, Failed, OSError, subprocess.CalledProcessError) as why:
        for line in str(why).splitlines():
            say(line)
        return 2 if isinstance(why, Refused) else 1
    print((folder / "SHA256SUMS").read_text(), end="")
    say(f"{project.version()} is in {folder.relative_to(ROOT)}")
    if ".example" in project.URL + project.EMAIL:
        say("its addresses lead nowhere: before an upload, write the real ones to "
            "packages/project.py, and run make version")
    return 0


if __name__ == "__main__":
    as_program(main, ".*")
