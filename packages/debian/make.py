"""Makes the packages for Debian: the sources, and .deb files, built in a clean Debian.

The Debian is made by mmdebstrap from the mirrors of this machine, and stays in build/debian. Each
build begins with it as it was made. Packages for arm64 are built there by Debian's cross
compiler."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path

from packages import archive, making, project
from tools import vm

HERE = Path(__file__).resolve().parent
DEBIAN = project.ROOT / "build" / "debian"  # The Debians stay here between builds.
CROSS = "arm64"  # the other processor that the packages are for
# Each Debian in a folder has mmdebstrap's variant and its packages. "builder" has no more than
# Build-Depends, "cross" builds for the other processor, "checker" runs Debian's own checkers, and
# "system" boots, and "user" has what users of any Debian have.
BUILD_DEPENDS = ("debhelper", "dh-python", "python3")
BASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "builder": ("buildd", BUILD_DEPENDS),
    "cross": ("buildd", (*BUILD_DEPENDS, "gcc-aarch64-linux-gnu", f"libc6-dev:{CROSS}")),
    "checker": ("minbase", ("lintian", "python3")),
    "system": ("minbase", ("dbus", "iproute2", "python3", "systemd-sysv", "udev")),
    "user": ("apt", ("ca-certificates", "curl")),
}
# Debian's own packages of a version begin with revision 1, which is newer than this one.
REVISION = "0upstream1"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, errors="replace",
                          stderr=subprocess.STDOUT, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "SOURCE_DATE_EPOCH": str(archive.build_time())})
    if done.returncode != 0:
        raise making.Failed(f"{shlex.join(map(str, command))}: exit status "
                            f"{done.returncode}\n{done.stdout}")
    return done.stdout


def say(text: str) -> None:
    print(f"debian: {text}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- the sources

# The short files of debian/; files/ has the others. Of the scripts: debhelper does not restart the
# instances of a template. It stops only the socket, because it has started nothing else, and it
# removes only links that it has made. The agents' tables are purged, but not the fleet's folder,
# which is beside them and belongs to no package. The unit that lintian finds unusual is for a CAN
# interface, and starts when the interface appears.
SCRIPT = """\
#!/bin/sh
# SPDX-License-Identifier: MIT
set -e

#DEBHELPER#

"""
SHORT_FILES = {
    "dumpulse.postinst": SCRIPT + """\
if [ "$1" = configure ] && [ -n "$2" ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke try-restart 'dumpulse-can@*.service' >/dev/null || true
fi""",
    "dumpulse.prerm": SCRIPT + """\
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop dumpulse.service 'dumpulse-can@*.service' >/dev/null || true
fi""",
    "dumpulse.postrm": SCRIPT + """\
if [ "$1" = purge ]; then
    for state in /var/lib/dumpulse /var/lib/private/dumpulse /var/lib/dumpulse-* \\
            /var/lib/private/dumpulse-*; do
        [ "${state##*/}" = dumpulse-fleet ] || rm -rf "$state"
    done
    rm -f /etc/systemd/system/*.wants/dumpulse-can@*.service
fi""",
    "source/format": "3.0 (quilt)",
    "copyright": """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: dumpulse
Upstream-Contact: @maintainer@
Source: @url@

Files: *
Copyright: @copyright@
License: Expat

License: Expat
@licence@""",
    "python3-dumpulse.install": "usr/lib/python3",
    "libdumpulse-dev.install": "usr/include\nusr/lib/*-*",
    "dumpulse.install": "usr/bin\nusr/sbin\nusr/share/doc/dumpulse/examples\nusr/share/man",
    "dumpulse.lintian-overrides": "systemd-service-file-refers-to-unusual-wantedby-target "
                                  "sys-subsystem-net-devices-%i.device *"}


def debian_version() -> str:
    return f"{project.FORMS['debian'](project.version())}-{REVISION}"


def maintainer() -> str:
    return f"{project.TEAM} <{project.EMAIL}>"


def changelog() -> str:
    """Returns debian/changelog: an entry for this version, with its time."""
    number = project.FORMS["numbers"](project.version())
    when = format_datetime(datetime.fromtimestamp(archive.build_time(), timezone.utc))
    return (f"dumpulse ({debian_version()}) unstable; urgency=medium\n\n"
            f"  * Version {number}. changelog.gz, beside this file, says what is new.\n\n"
            f" -- {maintainer()}  {when}\n")


def fields() -> dict[str, str]:
    """Returns what the files of debian/ have as @name@."""
    licence = (project.ROOT / "LICENSE").read_text()
    copyrights = re.findall(r"^Copyright \(c\) (.*)$", licence, re.M)
    terms = licence.partition(copyrights[-1])[2].strip()
    return {
        "maintainer": maintainer(), "url": project.URL, "repository": project.REPOSITORY,
        # Debian wants no article, and no capital letter.
        "short": re.sub("^a ", "", project.SUMMARY[:1].lower() + project.SUMMARY[1:]),
        "long": textwrap.indent(textwrap.fill(project.DESCRIPTION, 78), " "),
        "copyright": "\n ".join(copyrights),
        "licence": "\n".join(f" {line}" if line else " ." for line in terms.splitlines()),
    }


def write_debian(folder: Path) -> None:
    """Writes debian/ into a folder of sources. The modes do not depend on the user's mask."""
    files = {name: (path.read_text(), archive.mode_of(path))
             for name, path in archive.files_of(HERE / "files").items()}
    files |= {name: (f"{text}\n", 0o644) for name, text in SHORT_FILES.items()}
    files["changelog"] = changelog(), 0o644
    for name, (text, mode) in files.items():
        for field, value in fields().items():
            text = text.replace(f"@{field}@", value)
        to = folder / "debian" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text)
        to.chmod(mode)
    for path in (folder / "debian", *(folder / "debian").rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def make_sources(to: Path) -> list[Path]:
    """Writes the three files of a source package."""
    with tempfile.TemporaryDirectory() as work:
        packed = archive.build_sources(Path(work))
        folder = archive.unpack(packed, Path(work))
        upstream = debian_version().rpartition("-")[0]
        packed.rename(Path(work, f"dumpulse_{upstream}.orig.tar.gz"))
        write_debian(folder)
        run("dpkg-source", "-Zxz", "--build", folder.name, cwd=Path(work))
        return [Path(shutil.copy(path, to / path.name))
                for path in sorted(Path(work).glob("dumpulse_*"))]


# ---------------------------------------------------------------- a Debian in a folder


def base(name: str, codename: str = "") -> Path:
    """Returns a Debian in a folder, which nobody writes to: this machine's release, or another one.
    Makes it if it is not there, or if it was made of other packages."""
    folder, variant, include = DEBIAN / f"{name}{codename and '-'}{codename}", *BASES[name]
    made_of, packages = folder / "made-of", f"{variant}: {' '.join(include)}\n"
    if made_of.exists() and made_of.read_text() == packages:
        return folder
    if os.geteuid() != 0:
        raise SystemExit("packages.debian: this needs root, to make a Debian in a folder")
    say(f"making a Debian in {folder.relative_to(project.ROOT)}, once")
    DEBIAN.mkdir(parents=True, exist_ok=True)
    release = dict(line.split("=", 1) for line in
                   Path("/etc/os-release").read_text().splitlines() if "=" in line)
    lists = [*Path("/etc/apt/sources.list.d").glob("*debian.sources"),
             *Path("/etc/apt").glob("sources.list")]
    also = [f"--include={','.join(include)}"]
    host = release["VERSION_CODENAME"].strip('"')
    with tempfile.TemporaryDirectory(dir=DEBIAN) as work:
        new_root, list_of_apt = Path(work) / "root", Path(work) / lists[0].name
        text = lists[0].read_text().replace(host, codename or host)
        if architectures := {name.partition(":")[2] for name in include} - {""}:
            also.append(f"--architectures={','.join([native(), *sorted(architectures)])}")
            # A library has the same version for all processors, and security updates do not come
            # for all at once.
            text = without_security(text)
        list_of_apt.write_text(text)
        run("mmdebstrap", "--quiet", f"--variant={variant}", *also, codename or host, new_root,
            list_of_apt)
        (new_root / made_of.name).write_text(packages)
        if folder.exists():
            folder.rename(Path(work) / "old")
        new_root.rename(folder)
    return folder


def native() -> str:
    """The processor of this machine, as Debian calls it."""
    return run("dpkg", "--print-architecture").strip()


def without_security(text: str) -> str:
    """A list of apt has an archive in each paragraph, or, in its old form, in each line."""
    between = "\n\n" if "URIs:" in text else "\n"
    return between.join(entry for entry in text.split(between) if "-security" not in entry) + "\n"


def in_debian(root: Path, script: str, shared: Path, has_network: bool = False) -> str:
    """Runs a script in a Debian that is as `root` was made. What the script writes is gone after
    it, except in the folder `shared`, which is /shared there."""
    with tempfile.TemporaryDirectory() as work:
        mount = f"""
set -e
umask 022
hostname debian
mount -t tmpfs -o mode=755,size=12G none {work}
mkdir {work}/lower {work}/upper {work}/work {work}/root
# The options of an overlay cannot have all characters that a path may have.
mount --bind {shlex.quote(str(root))} {work}/lower
mount -t overlay -o lowerdir={work}/lower,upperdir={work}/upper,workdir={work}/work none {work}/root
cd {work}/root
mkdir -p shared
mount --bind {shlex.quote(str(shared))} shared
mount -t proc proc proc
mount --rbind /dev dev
ip link set lo up 2>/dev/null || true
exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \\
    DEBIAN_FRONTEND=noninteractive /bin/sh -euc "$1"
"""
        return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts",
                   *([] if has_network else ["--net"]), "sh", "-c", mount, "sh", script)


# ---------------------------------------------------------------- .deb files


def make_debs(dsc: Path, to: Path, machine: str = "") -> list[Path]:
    """Builds a source package in a clean Debian, for another machine only what depends on the
    machine. The mask, the time zone and the language are those of this process, and the folder and
    the machine have the name of the folder `to`: what is built must not depend on them."""
    os.umask(mask := os.umask(0o022))
    place, language = shlex.quote(f"/{to.name}"), os.environ.get("LC_ALL", "C")
    root, kind = base("cross" if machine else "builder"), f"-B -a{machine}" if machine else "-b"
    # Programs for another processor do not run here: test_debian.py has QEMU. Debugging symbols
    # need no packages, because the sources build in seconds.
    checks = "nocheck" if machine else os.environ.get("DEB_BUILD_OPTIONS", "")
    options = f"noautodbgsym {checks}"
    with tempfile.TemporaryDirectory() as shared:
        for path in dsc.parent.glob("dumpulse_*"):
            if path.suffix != ".deb":
                shutil.copy(path, shared)
        in_debian(root, f"""
export DEB_BUILD_OPTIONS={shlex.quote(options)}
hostname {place[1:]}
umask {mask:03o}
export TZ={shlex.quote(os.environ.get("TZ", "UTC"))} LC_ALL={shlex.quote(language)}
useradd --create-home --home-dir {place} builder
cd {place}
cp /shared/* .
chown -R builder: .
su builder -c {shlex.quote(f'''umask {mask:03o} && cd {place} &&
    dpkg-source --extract {dsc.name} sources && cd sources && dpkg-buildpackage -us -uc {kind}''')}
cp ./*.deb /shared/
""", Path(shared))
        return [Path(shutil.copy(path, to / path.name))
                for path in sorted(Path(shared).glob("*.deb"))]


def build(to: Path) -> list[Path]:
    files = make_sources(to)
    (dsc,) = [path for path in files if path.suffix == ".dsc"]
    for machine in ("", CROSS):
        say(f"building the packages for {machine or native()} in a clean Debian")
        files += make_debs(dsc, to, machine)
    return files


# ---------------------------------------------------------------- a Debian that has booted

# The kernel is that of tools/vm.py. The machine reads the Debian from a folder.
# What it writes stays in its memory, and is gone when it ends.
BOOT_SECONDS = 900.0  # after which the machine is ended; a quarter is enough if nothing else runs

INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
for module in $(cat /modules/order); do insmod /modules/$module || echo "boot: no $module"; done
echo "boot: the kernel runs"
mkdir /debian /memory /system
options=trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro
mount -t 9p -o $options debian /debian || echo "boot: no files"
mount -t tmpfs memory /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/debian,upperdir=/memory/upper,workdir=/memory/work none /system
mkdir /system/shared
mount -t 9p -o $options shared /system/shared
units=/system/etc/systemd/system
mkdir -p $units/multi-user.target.wants
cp /script.service $units
ln -s ../script.service $units/multi-user.target.wants
ln -s /dev/null $units/getty.target
umount /proc
exec switch_root /system /sbin/init
"""
UNIT = """[Unit]
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=simple
ExecStart=/bin/sh -c 'echo "vm: begins"; /bin/sh /shared/script; echo "vm: exit status $$?"'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
"""


def boot(debian: Path, shared: Path) -> tuple[int, str]:
    """Boots the Debian in a folder, and runs shared/script. The folder `shared` is /shared there.
    Returns the exit status of the script, and all that it wrote."""
    return vm.started({"init": INIT, "script.service": UNIT}, {"debian": debian, "shared": shared},
                      "systemd.show_status=no", 1024, BOOT_SECONDS)
