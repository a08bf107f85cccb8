"""Boots a Debian with its own systemd in QEMU, and runs a script there as root.

The kernel is that of tools/vm.py. The machine reads the Debian from a folder. What it writes
is in its memory, and is gone when it ends."""

from pathlib import Path

from tools import vm

SECONDS = 900.0  # after which the machine is ended; a quarter is enough if nothing else runs

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
                      "systemd.show_status=no", 1024, SECONDS)
