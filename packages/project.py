"""What every package says of Dumpulse: its name, its version, who makes it, and where it is.

    python3 -m packages.project            # prints the version
    python3 -m packages.project --write    # or make version: into the files that have it as it is

dumpulse.h has the version, and each experimental part has one of its own. All else that has a
version is generated from these."""

import argparse
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tools.programs import as_program

ROOT = Path(__file__).resolve().parent.parent

NAME = "dumpulse"
TEAM = "The Dumpulse developers"
# Whoever publishes packages writes the real values here, and runs `make version`: names that end in
# .example lead nowhere (RFC 2606). All addresses follow from these.
EMAIL = "developers@dumpulse.example"
URL = "https://forge.example/owner/dumpulse"
REPOSITORY = f"{URL}.git"
LICENSE = "MIT"
# What the package is, in one line, and the same in one paragraph.
SUMMARY = "A heartbeat monitor so small that it fits anywhere"
DESCRIPTION = (
    "Each node sends heartbeats of 8 bytes, over CAN, a serial line, UDP or anything else. The "
    "agent takes 200 bytes of code and 260 of RAM on an AVR. It keeps the last heartbeat of each "
    "of 64 variables with the time when it came, and answers a question of 8 bytes with one "
    "report of 260 bytes: which nodes are alive.")
# The library: whoever copies it into a package copies these files into one folder.
LIBRARY_FILES = {
    Path(name).name: ROOT / name for name in re.findall(
        r"(?<=set\(FILES)[^)]*", (ROOT / "CMakeLists.txt").read_text())[0].split()}
KEYWORDS = ("heartbeat", "watchdog", "monitor", "health", "can", "serial", "udp", "embedded")


# Where each version is, and what stands before it.
VERSIONS = {
    "library": ("dumpulse.h", "#define DUMPULSE_VERSION"),
    "keys": ("extras/dumpulse_keyed.h", "#define DUMPULSE_KEYED_VERSION"),
    "fleet": ("dumpulse_fleet/model/version.py", "VERSION ="),
    "lab": ("lab/start.py", "VERSION ="),
}


def changes() -> str:
    """Returns the address of the changes in this version."""
    return f"{URL}/blob/v{version()}/CHANGELOG.md"


def download(name: str) -> str:
    """Returns the address of a file of the release of this version."""
    return f"{URL}/releases/download/v{version()}/{name}"


def version(part: str = "library", root: Path = ROOT) -> str:
    """Returns the version of a part, such as 1.2.3, 1.2.3-rc1 or 1.2.3-dev."""
    name, before = VERSIONS[part]
    text = (root / name).read_text()
    versions = re.findall(rf'^{before} "(\d+\.\d+\.\d+(?:-dev|-rc\d+)?)"', text, re.M)
    if len(versions) != 1:
        raise SystemExit(f"{name} must have {before} once, as 1.2.3, 1.2.3-rc1 or 1.2.3-dev")
    return str(versions[0])


def shown(program: str) -> str:
    """Returns what `--version` prints of a program whose keys are experimental."""
    return f"{program} {version()}, keys {version('keys')} (experimental)\n"


def git(*words: str, root: Path = ROOT) -> str:
    """Returns what git prints."""
    return subprocess.run(["git", *words], cwd=root, text=True, stdout=subprocess.PIPE,
                          check=True).stdout


# How each world writes the version of a state before a release. Where no rule is here, the world
# uses semantic versions, and so the version as it is.
FORMS: dict[str, Callable[[str], str]] = {
    "semantic": lambda text: text,
    "python": lambda text: text.replace("-dev", ".dev0").replace("-", ""),
    "debian": lambda text: text.replace("-", "~"),
    "heading": lambda text: text.replace("-dev", ""),  # CHANGELOG.md has it.
    "numbers": lambda text: text.partition("-")[0],
    "number": lambda text: "{}{:02}{:02}".format(
        *map(int, text.partition("-")[0].split("."))).lstrip("0"),  # 0… would be octal in C
}

# The part, the file, the form of the version, and what stands before and after it. The address has
# its places, too.
PLACES = (
    ("address", "meson.build", "semantic", "^    url: '", r"'\)$"),
    ("address", "packages/pkgconfig/dumpulse.pc.in", "semantic", "^URL: ", "$"),
    ("address", "packages/zephyr/README.md", "semantic", "^      url: ", r"\.git$"),
    ("address", "packages/c/README.md", "semantic", "^    URL ", "/releases/download/vVERSION/"),
    ("library", "dumpulse.h", "number", "^#define DUMPULSE_VERSION_NUMBER ", "L "),
    ("library", "meson.build", "semantic", "^        version: '", "'\\)$"),
    ("library", "client.py", "semantic", r'^VERSION = __version__ = "', r'"$'),
    *(("library", name, "semantic", r'^\.TH [A-Z-]+ \d \S+ "Dumpulse ', r'" "Dumpulse"$')
      for name in ("client/dumpulse.1", "server/canserver.8", "server/udpserver.8",
                   "server/udpserver-keys.8")),
    ("keys", "client.py", "semantic", r'^KEYS_VERSION = "', r'"  #'),
    ("fleet", "dumpulse_fleet/dumpulse-fleet.1", "semantic",
     r'^\.TH DUMPULSE-FLEET 1 \S+ "Dumpulse fleet ', r'" "Dumpulse"$'),
    ("lab", "lab/sources.md", "semantic", "^> Dumpulse lab, version ", r"\. "),
    *((part, name, "semantic", r"^\*\*Experimental, version ", r"\.\*\*") for part, name in (
        ("keys", "extras/keys.md"), ("keys", "spec/keyed.md"), ("lab", "lab/README.md"),
        ("fleet", "dumpulse_fleet/README.md"), ("fleet", "packages/fleet/README.md"))),
)


def behind(root: Path = ROOT) -> dict[Path, str]:
    """Returns the files that do not have the version of their part, or the address, with the text
    they need."""
    changed_texts: dict[Path, str] = {}
    for part, name, form, before, after in PLACES:
        path = root / name
        text = changed_texts.get(path, path.read_text())
        value = URL if part == "address" else FORMS[form](version(part, root))
        # The group 1 keeps what stands before the value.
        new, count = re.subn(f"({before})[^\"' \n]*(?={after})", rf"\g<1>{value}", text,
                             flags=re.M)
        if count != 1:
            raise SystemExit(f"{name} must have the version or address once, after {before}: it is "
                             f"there {count} times")
        if new != text:
            changed_texts[path] = new
    return changed_texts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m packages.project",
                                     description="Prints the version of dumpulse.h.")
    parser.add_argument("--write", action="store_true", help="write it, and those of experimental "
                        "parts, to all files that have them, and print their names")
    if not parser.parse_args().write:
        print(version())
        return
    for file, text in behind().items():
        file.write_text(text)
        print(f"{file.relative_to(ROOT)} has its version now")


if __name__ == "__main__":
    as_program(main, ".*")
