"""Rehearses a release: all commands of its pages run in fresh Debians, where a forge on loopback
has its files.

    make rehearse                                                  # after make release
    build/venv/bin/python -m packages.debian.rehearse [FOLDER] [--debian trixie] [--only NAME]

The forge has the address that the pages have: the files of the release as it will show them, an
index for pip, and an archive for apt. A block that cannot run here follows a comment with the
reason, such as <!-- rehearse: needs a board -->. The links of a page must resolve in its file."""

import argparse
import functools
import http.server
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from packages import archive, project
from packages.debian import make as debian
from tools.programs import as_program

SITE = urlsplit(project.URL)
ORIGIN = f"{SITE.scheme}://{SITE.netloc}"
ADDRESS = "127.77.0.1"  # Another program may listen at port 443 of 127.0.0.1.
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
SOURCES = f"dumpulse-{project.version()}-source.tar.gz"
TREE = f"dumpulse-{project.version()}"
SERVERS = f"dumpulse-servers-{project.version()}-linux-amd64"
C_ZIP = f"dumpulse-c-{project.version()}.zip"
# These programs run until they are stopped: the next command begins 5 seconds later.
ENDLESS = re.compile(r"(\S*/)?udpserver (?!.*--key-is-new)|dumpulse watch |"
                     r"dumpulse-fleet serve (?!.*--config.check)")
NO_COMMAND = re.compile(r"\S+ +\+?= |([0-9a-f]{2} ){4}|.*;(\n|$)")  # A formula, a packet, or C.
# The functions fetch files of the release. is_agent sends a heartbeat of variable 3 and a request.
START = f"""
cp /shared/resolv.conf /etc/
printf "127.0.0.1 localhost\\n{ADDRESS} {SITE.hostname}\\n" >/etc/hosts
cp /shared/certificates {CERTIFICATES}
export SSL_CERT_FILE={CERTIFICATES} PIP_CERT={CERTIFICATES} PIP_DISABLE_PIP_VERSION_CHECK=1
echo 'APT::Get::Assume-Yes "true"; quiet "2";' >/etc/apt/apt.conf.d/99user
release() {{ for name; do curl -fsSLO {project.download("$name")}; done; }}
source_file() {{ curl -fsSLO "{project.URL}/blob/v{project.version()}/$1"; }}
servers() {{ release {SERVERS}.tar.gz && tar xzf {SERVERS}.tar.gz; PATH=$PATH:$PWD/{SERVERS}; }}
is_agent() {{ printf '\\4\\162\\1\\112\\361\\3\\114\\11AreyouOK' | "$1" | wc -c | grep -qx 260; }}
in_cmake() {{ printf '%s\\n' 'cmake_minimum_required(VERSION 3.16)' 'project(user C)' \\
    'add_executable(agent agent.c)' "$@" >CMakeLists.txt; }}
exec 3>/shared/results </dev/null
trap 'echo "block $block: $BASH_COMMAND" >&3' ERR
mkdir ~/work && cd ~/work && apt-get update
"""


@dataclass(frozen=True)
class Page:
    """How a user comes to the commands of a page."""
    artefact: str = ""  # The name of a file of the release, with * in it.
    path: str = ""  # The page in this file.
    before: str = ""  # Commands that the page expects its reader to have run.
    code: Mapping[str, str] = field(default_factory=dict)  # Commands that read a block of code.
    codename: str = ""  # The only release of Debian that the page is for.


PAGES = (
    Page("*-linux-amd64.tar.gz", "README.md", f"""
apt-get install python3-venv
release {SERVERS}.tar.gz $wheel"""),
    Page("dumpulse-[0-9]*.whl", "README.md", """
apt-get install python3-venv
release $wheel
servers
udpserver & sleep 1""", {"python": "python3 -"}),
    Page("dumpulse_fleet*.whl", "README.md", """
apt-get install python3-venv
release $wheel $fleet""", {"toml": "cat >fleet.toml"}),
    Page("dumpulse-c-*.zip", "README.md", f"""
apt-get install cmake gcc libc6-dev meson pkgconf python3-venv unzip
release SHA256SUMS {C_ZIP} $wheel
for name in agent node; do source_file packages/c/consumer/$name.c; done
servers
python3 -m venv client && client/bin/pip install --quiet ./$wheel; PATH=$PATH:$PWD/client/bin
mkdir -p ~/Arduino/libraries && unzip -q {C_ZIP} -d ~/Arduino/libraries
cp -r ~/Arduino/libraries/dumpulse/examples/KeyedNode .""", {
    "cmake": """in_cmake "$(sed "s/…/$(sed -n 's/ .*-c-.*//p' SHA256SUMS)/")"
cmake -B by-cmake && cmake --build by-cmake && is_agent by-cmake/agent""",
    "meson": """{ echo "project('user', 'c')"; cat; } >meson.build
mkdir subprojects && cd subprojects && release dumpulse.wrap && cd ..
meson setup by-meson && ninja -C by-meson && is_agent by-meson/agent"""}),
    Page("dumpulse-firmware-*.zip", "README.md", """
apt-get install python3-venv
release $wheel
python3 -m venv client && client/bin/pip install --quiet ./$wheel; PATH=$PATH:$PWD/client/bin"""),
    Page("*-source.tar.gz", "packages/debian/README.md", """
apt-get install gcc libc6-dev
release $debs
source_file packages/c/consumer/agent.c"""),
    Page("*-source.tar.gz", "packages/dbc/README.md", f"""
apt-get install python3-venv
release {SOURCES} dumpulse.dbc $wheel
tar xzf {SOURCES} --strip-components 1
python3 -m venv tools
tools/bin/pip install --quiet cantools ./$wheel; PATH=$PATH:$PWD/tools/bin"""),
    Page("*-source.tar.gz", "packages/publishing.md", f"release {SOURCES} SHA256SUMS $buildinfo",
         codename="bookworm"),
    Page("*-source.tar.gz", "packages/wireshark/README.md"),
    Page("*-source.tar.gz", "packages/zephyr/README.md"))
# From a fresh Debian to a first report: what is there before, and the commands.
FIRST_REPORTS = {
    "pip": ("servers\nudpserver & sleep 1", f"""
apt-get install python3-venv
python3 -m venv client
client/bin/pip install --quiet --pre --index-url {ORIGIN}/simple dumpulse
client/bin/dumpulse get 127.0.0.1"""),
    "apt": ("", f"""
echo 'deb [trusted=yes] {ORIGIN}/debian ./' >/etc/apt/sources.list.d/dumpulse.list
apt-get update
apt-get install dumpulse
udpserver & sleep 1
dumpulse get 127.0.0.1"""),
    "static server": ("", f"""
apt-get install python3-minimal
release {SERVERS}.tar.gz $wheel
tar xzf {SERVERS}.tar.gz
{SERVERS}/udpserver & sleep 1
PYTHONPATH=$wheel python3 -m dumpulse get 127.0.0.1"""),
    "C in a CMake project": ("", f"""
apt-get install cmake gcc libc6-dev make unzip
release {C_ZIP}
source_file packages/c/consumer/agent.c
unzip -q {C_ZIP}
in_cmake 'add_subdirectory(dumpulse)' 'target_link_libraries(agent dumpulse::dumpulse)'
cmake -B built && cmake --build built
is_agent built/agent"""),
    "image in a simulator": ("", f"""
apt-get install gcc make python3
release {SOURCES}
tar xzf {SOURCES}
make -C {TREE} try BOARD=uart_atmega328p""")}


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Yields the blocks of a page: the language, the text, and why it cannot run here."""
    mark = r"(?:^ *<!-- rehearse: (?P<reason>.*) -->\n+)?"
    fenced = r"(?P<indent> *)```(?P<language>\w*)\n(?P<code>(?:.*\n)*?)(?P=indent)```\n"
    indented = r"(?<=\n\n)(?P<text>(?: {4}.*\n|\n(?= {4}))+)"
    for block in re.finditer(f"{mark}(?:^{fenced}|{indented})", page, re.M):
        text = textwrap.dedent(block["code"] or block["text"] or "").strip("\n")
        language, reason = block["language"] or "", block["reason"] or ""
        is_text = NO_COMMAND.match(text) if block["text"] else not language
        yield "text" if is_text else language, text, reason


def commands(text: str) -> str:
    """Returns a block as a script. Of a block with prompts, only the lines with them."""
    lines = text.replace("\\\n", "").splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    plain = [re.sub(r"\s+# .*", "", line).replace("COMMAND", "get") for line in lines]
    return "\n".join(f"{line} & sleep 5; kill -0 $!" if ENDLESS.match(line) else line
                     for line in plain)


def script_of(page: Page, text: str) -> str:
    """Returns the script that runs the blocks of a page."""
    parts = [page.before]
    for number, (language, block, reason) in enumerate(blocks(text)):
        if not reason and language in {"", *page.code}:
            parts += [f"block={number}", f"cat >block.txt <<'END OF BLOCK'\n{block}\nEND OF BLOCK\n"
                      f"{{ {page.code[language]}\n}} <block.txt" if language else commands(block)]
    return "\n".join(parts)


def run(codename: str, text: str, shared: Path) -> list[str]:
    """Runs a script in a fresh Debian. Returns the commands that failed."""
    (shared / "script").write_text(f"{text}\necho ended >&3\n")
    (shared / "results").write_text("")
    output = debian.in_debian(debian.base("user", codename), "timeout 1800 bash /shared/script 2>&1"
                              " || true", shared, has_network=True)
    failed = (shared / "results").read_text().splitlines()
    failed = failed[:-1] if failed[-1:] == ["ended"] else [*failed, "it did not end"]
    if failed:
        print(output[-4000:], file=sys.stderr)
    return failed


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Debian 13's apt rejects a connection that ends with each file.

    def log_message(self, *_: object) -> None:
        """A command that does not get its file fails, and shows why."""


@contextmanager
def forge(release: Path) -> Iterator[Path]:
    """Serves a release. Yields the folder that the Debians share."""
    with tempfile.TemporaryDirectory(prefix="dumpulse-forge-") as work:
        site, shared = Path(work, "site"), Path(work, "shared")
        shutil.copytree(release, site / urlsplit(project.download("")).path.strip("/"))
        source = site / SITE.path.strip("/") / "blob" / f"v{project.version()}"
        source.parent.mkdir(parents=True)
        archive.unpack(release / SOURCES, Path(work)).rename(source)
        for file in release.iterdir():
            name = re.split(r"-\d", file.name)[0].replace("_", "-")
            folder = "debian" if file.suffix == ".deb" else f"simple/{name}"
            (site / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, site / folder)
        listed = subprocess.run(["dpkg-scanpackages", "--multiversion", "."], cwd=site / "debian",
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        (site / "debian" / "Packages").write_bytes(listed.stdout)
        key, certificate = Path(work, "key"), Path(work, "certificate")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
                        "-out", certificate, "-subj", f"/CN={SITE.hostname}", "-addext",
                        f"subjectAltName=DNS:{SITE.hostname}"], check=True, capture_output=True)
        shared.mkdir()
        (shared / "certificates").write_bytes(
            Path(CERTIFICATES).read_bytes() + certificate.read_bytes())
        shutil.copy("/etc/resolv.conf", shared)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with http.server.ThreadingHTTPServer(
                (ADDRESS, SITE.port or 443), functools.partial(Quiet, directory=site)) as server:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield shared
            server.shutdown()


def unpacked(file: Path, to: Path) -> Path:
    """Unpacks a file of a release, if it has pages. Returns the folder of its pages."""
    to = to / file.name
    to.mkdir()
    if file.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(file) as packed:
            packed.extractall(to)
    elif file.suffix == ".md":
        shutil.copy(file, to)
    elif file.name.endswith((".tar.gz", ".crate")):
        subprocess.run(["tar", "-xf", file, "-C", to], check=True)
    for fields in to.rglob("*.dist-info/METADATA"):  # The page that PyPI shows.
        (to / "README.md").write_text(fields.read_text().partition("\n\n")[2])
    folders = [*to.iterdir()]
    return folders[0] if len(folders) == 1 and folders[0].is_dir() else to


def rehearse(release: Path, codenames: list[str], only: str) -> bool:
    """Prints the tables. Returns whether nothing has failed."""
    files = sorted(release.iterdir())
    prelude = "".join(f"{name}='{' '.join(path.name for path in files if path.match(pattern))}'\n"
                      for name, pattern in (("wheel", "dumpulse-[0-9]*.whl"), ("debs", "*.deb"),
                                            ("fleet", "dumpulse_fleet*.whl"),
                                            ("buildinfo", "*.buildinfo"))) + START
    failures, marked, seen, links = list[str](), list[str](), set[str](), 0

    def show(what: str, codename: str, script: str, *counts: int) -> None:
        began = time.monotonic()
        failed = run(codename, f"{prelude}\n{script}", shared)
        failures.extend(f"{what}, {codename}: {line}" for line in failed)
        print("".join(f"{number:8}" for number in (*counts, len(failed))) +
              f"{time.monotonic() - began:8.0f} {codename:9}{what}", flush=True)

    with forge(release) as shared, tempfile.TemporaryDirectory() as work:
        print("  blocks  marked  failed seconds Debian   page")
        for file in files:
            folder = unpacked(file, Path(work))
            failures += [f"{file.name}: {link} leads nowhere" for link
                         in archive.dead_links(folder)]
            for path in sorted(folder.rglob("*.md")):
                what, text = f"{file.name}: {path.relative_to(folder)}", path.read_text()
                links += len(re.findall(r"\]\(\s*[^)#:\s]+[)#]", text))
                page = next((page for page in PAGES if what.endswith(f": {page.path}") and
                             file.match(page.artefact)), Page())
                shown = [block for block in blocks(text) if block[0] in {"", *page.code}]
                # Commands of other pages of the sources are for those who have the repository.
                if text in seen or only not in what or not shown or (
                        not page.path and file.name == SOURCES):
                    continue
                seen.add(text)
                if text.count("<!-- rehearse: ") != sum(bool(why) for *_, why in blocks(text)):
                    failures.append(f"{what}: a mark is not before a block")
                reasons = [f"{what}: {block.splitlines()[0]}: {reason}"
                           for _, block, reason in shown if reason]
                marked += reasons
                if len(shown) == len(reasons) or page.codename not in {"", *codenames}:
                    print(f"{0:8}{len(reasons):8}{'':26}{what}")
                    continue
                for codename in [page.codename] if page.codename else codenames:
                    show(what, codename, script_of(page, text), len(shown) - len(reasons),
                         len(reasons))
        print("        commands  failed seconds Debian   to the first report, by")
        for way, (before, text) in FIRST_REPORTS.items():
            for codename in codenames if only in way else []:
                show(way, codename, f"{before}\n{text}", 0, len(text.strip().splitlines()))
    print(f"{links} links; {len(marked)} blocks that cannot run here:", *marked, sep="\n  ")
    print(f"{len(failures)} failures", *failures, sep="\n  ")
    return not failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="packages.debian.rehearse",
                                     description="Runs the commands of a "
                                     "release's pages in fresh Debians. It needs root.")
    parser.add_argument("folder", nargs="?", type=Path, default=project.ROOT / "build" / "release",
                        help="the files of the release")
    parser.add_argument("--debian", nargs="*", default=["bookworm", "trixie"], metavar="CODENAME",
                        help="the releases of Debian (bookworm, trixie)")
    parser.add_argument("--only", default="", metavar="NAME",
                        help="only the pages and ways to a report with this in their name")
    options = parser.parse_args()
    return 0 if rehearse(options.folder, options.debian, options.only) else 1


if __name__ == "__main__":
    as_program(main, ".*")
