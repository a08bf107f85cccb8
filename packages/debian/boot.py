"""Boots a Debian with its own systemd in QEMU, and runs a script there as root.

The kernel is that of server/tests/vm.py. The machine reads the Debian from a folder. What it writes
is in its memory, and is gone when it ends. SPDX-License-Identifier: MIT"""

import subprocess
import tempfile
from pathlib import Path

from server.tests import vm

SECONDS = 900.0  # after which the machine is ended; a quarter is enough if nothing else runs
BEGINS, STATUS = "boot: begins\n", "boot: exit status "

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
ExecStart=/bin/sh -c 'echo "boot: begins"; /bin/sh /shared/script; echo "boot: exit status $$?"'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
"""


def boot(debian: Path, shared: Path) -> tuple[int, str]:
    """Boots the Debian in a folder, and runs shared/script. The folder `shared` is /shared there.
    Returns the exit status of the script, and all that it wrote."""
    vmlinuz, initrd = vm.kernel()
    with tempfile.TemporaryDirectory() as work:
        more, both, said = Path(work) / "more", Path(work) / "initrd", Path(work) / "said"
        more.mkdir()
        (more / "init").write_text(INIT)
        (more / "init").chmod(0o755)
        (more / "script.service").write_text(UNIT)
        both.write_bytes(initrd.read_bytes() + vm.packed(more))
        files = [["-virtfs", f"local,path={path},mount_tag={tag},security_model=none,readonly=on"]
                 for path, tag in ((debian, "debian"), (shared, "shared"))]
        late = False
        try:
            subprocess.run(
                ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-nographic",
                 "-no-reboot", "-nodefaults", "-serial", f"file:{said}", "-monitor", "none",
                 "-net", "none", *files[0], *files[1], "-kernel", vmlinuz, "-initrd", both,
                 "-append", "console=ttyS0 quiet panic=-1 systemd.show_status=no"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=SECONDS, check=True)
        except subprocess.TimeoutExpired:
            late = True
        text = said.read_text(errors="replace").replace("\r\n", "\n")
    if late:
        raise vm.TooLong(f"the machine did not end in {SECONDS:.0f} s:\n{text}")
    output, found, status = text.rpartition(STATUS)
    if not found:
        raise AssertionError(f"the machine ended without a word:\n{text}")
    return int(status.split()[0]), output.partition(BEGINS)[2]
