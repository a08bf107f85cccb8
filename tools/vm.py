"""Runs commands in an emulated machine with Debian's own kernel and its CAN modules.

The kernel of the machine that runs the tests may have no CAN. So the tests bring the kernel of
Debian's linux-image-amd64, which QEMU starts. It can read this machine's files, but not write them.
It has vcan0, and two SJA1000 controllers can0 and can1 on one bus. All that is fetched and unpacked
stays in build/vm."""

import functools
import lzma
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from tools.programs import BUILD, ROOT, run

SECONDS = 400.0  # after which the machine is ended; half a minute is enough if nothing else runs
MODULES = ("virtio_pci", "9p", "9pnet_virtio", "vcan", "vxcan", "kvaser_pci", "can-raw",
           "sch_tbf", "overlay")
BEGINS, STATUS = "vm: begins\n", "vm: exit status "

# Only /run can be written. It is gone when the machine ends.
INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
echo "vm: begins"
mount -t proc proc /proc
for module in $(cat /modules/order); do insmod /modules/$module || echo "vm: no $module"; done
options=trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro
mount -t 9p -o $options root /root || echo "vm: no files"
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mount -t tmpfs run /root/run
cp /command /root/run/
chroot /root /bin/bash /run/command
echo "vm: exit status $?"
poweroff -f
"""
COMMAND = """
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run LC_ALL=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1
ip link set lo up
ip link add vcan0 type vcan && ip link set vcan0 up
for can in can0 can1; do ip link set $can up type can bitrate 500000 restart-ms 100; done
cd {directory} && {command}
"""


@functools.cache
def kernel() -> tuple[Path, Path]:
    """Returns the kernel and an initial file system. Fetches them if they are not here yet."""
    names = [line.split()[1]
             for line in run(["apt-cache", "depends", "linux-image-amd64"]).splitlines()
             if "Depends: linux-image-" in line]
    if not names:
        raise SystemExit("vm: apt knows no linux-image-amd64: run apt-get update")
    folder = BUILD / "vm" / f"{names[0]}-{zlib.crc32(' '.join(MODULES).encode()):08x}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            print(f"vm: fetching {names[0]}, 70 MB, once", file=sys.stderr)
            unpack(Path(work), names[0])
            (Path(work) / "out").replace(folder)
    return folder / "vmlinuz", folder / "initrd"


def unpack(work: Path, package: str) -> None:
    run(["apt-get", "-q", "download", package], cwd=work)
    (archive,) = work.glob("*.deb")
    files, out, first = work / "files", work / "out", work / "first"
    run(["dpkg-deb", "-x", archive, files])
    (image,) = files.glob("boot/vmlinuz-*")
    version = image.name.removeprefix("vmlinuz-")
    if not (files / "lib").exists():  # Debian 13 and later have modules in /usr/lib.
        (files / "lib").symlink_to("usr/lib")
    run(["/sbin/depmod", "-b", files, version])
    for folder in ("bin", "modules", "proc", "root"):
        (first / folder).mkdir(parents=True)
    order: list[str] = []
    for module in MODULES:
        for line in run(["/sbin/modprobe", "-d", files, "-S", version, "-D", module]).splitlines():
            file = Path(line.split()[1]) if line.startswith("insmod") else None
            if file is not None and (name := file.name.removesuffix(".xz")) not in order:
                order.append(name)
                content = file.read_bytes()
                (first / "modules" / name).write_bytes(
                    content if name == file.name else lzma.decompress(content))
    (first / "modules" / "order").write_text("\n".join(order) + "\n")
    shutil.copy("/bin/busybox", first / "bin")
    out.mkdir()
    image.replace(out / "vmlinuz")
    (out / "initrd").write_bytes(packed(first))


def packed(folder: Path) -> bytes:
    """Returns the folder as a cpio archive. A kernel takes several of them, one after the other."""
    names = "".join(f"{path.relative_to(folder)}\n" for path in sorted(folder.rglob("*")))
    return subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], cwd=folder,
                          input=names.encode(), stdout=subprocess.PIPE, check=True).stdout


def started(files: dict[str, str], folders: dict[str, Path], more: str = "",
            memory: int = 512, seconds: float = SECONDS) -> tuple[int, str]:
    """Starts the machine with these files in its first file system, of which `init` is run. It can
    read the folders, by their names. Returns the status that it tells, and what it said before."""
    vmlinuz, initrd = kernel()
    shared = [word for name, path in folders.items() for word in (
        "-virtfs", f"local,path={path},mount_tag={name},security_model=none,readonly=on,"
                   "multidevs=remap")]
    with tempfile.TemporaryDirectory() as work:
        both, folder = Path(work) / "initrd", Path(work) / "more"
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        both.write_bytes(initrd.read_bytes() + packed(folder))
        try:
            done = subprocess.run(
                ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", str(memory),
                 "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio", "-monitor", "none",
                 "-net", "none", "-object", "can-bus,id=bus", "-device", "kvaser_pci,canbus=bus",
                 "-device", "kvaser_pci,canbus=bus", *shared, "-kernel", vmlinuz, "-initrd", both,
                 "-append", f"console=ttyS0 quiet panic=-1 {more}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=seconds)
        except subprocess.TimeoutExpired as late:
            console = (late.stdout or b"").decode(errors="replace")
            raise AssertionError(f"the VM did not end in {seconds:.0f} s:\n{console}") from late
    console = done.stdout.decode(errors="replace").replace("\r\n", "\n")
    output, separator, status = console.rpartition(STATUS)
    if not separator:
        raise AssertionError(f"the VM ended without a word:\n{console}")
    return int(status.split()[0]), output.partition(BEGINS)[2]


def run_in_vm(command: str) -> tuple[int, str]:
    """Runs a shell command there. Returns its exit status, and all that it wrote."""
    command = COMMAND.format(directory=shlex.quote(str(ROOT)), command=command)
    return started({"init": INIT, "command": command}, {"root": Path("/")})
