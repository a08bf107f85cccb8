"""Boots a Debian with its own systemd in QEMU, and runs a command there.

The kernel is that of tests/vm.py. The whole system is in the machine's memory, and is gone when it
ends.     SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests import vm

SECONDS = 540.0  # after which the machine is ended: a minute is enough with KVM
BEGINS, STATUS = "boot: begins\n", "boot: exit status "

INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
for module in $(cat /modules/order); do insmod /modules/$module || echo "boot: no $module"; done
mkdir /system
mount -t tmpfs -o size=80% system /system
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro root /root || echo "boot: no files"
tar -xf /root/system.tar -C /system || echo "boot: the system does not fit"
umount /root
umount /proc
exec switch_root /system /sbin/init
"""
# It is ordered after the target that is reached when all that starts at boot has started.
UNIT = """[Unit]
After=multi-user.target
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo "boot: begins"; /bin/sh /command; echo "boot: exit status $$?"'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity

[Install]
WantedBy=default.target
"""
# A script that writes the system for boot() to /shared/system.tar, from inside of it.
PACK = f"""
cat >/etc/systemd/system/command.service <<'END'
{UNIT}END
systemctl enable --quiet command.service
systemctl mask --quiet serial-getty@ttyS0.service getty.target
rm -f /etc/resolv.conf
cp /shared/command /command
tar -C / --one-file-system --exclude=./shared/* --exclude=./var/cache/apt/* \
    --exclude=./var/lib/apt/lists/* -cf /shared/system.tar .
"""


def boot(folder: Path) -> tuple[int, str]:
    """Boots folder/system.tar. Returns the exit status of its command, and all that it wrote."""
    vmlinuz, initrd = vm.kernel()
    with tempfile.TemporaryDirectory() as work:
        more = Path(work) / "more"
        more.mkdir()
        (more / "init").write_text(INIT)
        (more / "init").chmod(0o755)
        both = Path(work) / "initrd"
        both.write_bytes(initrd.read_bytes() + vm.packed(more))
        try:
            # KVM makes it fast where the machine has it; the results are the same without.
            done = subprocess.run(
                ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max",
                 "-m", "1536", "-smp", "2", "-nographic", "-no-reboot", "-nodefaults",
                 "-serial", "stdio", "-monitor", "none", "-net", "none", "-virtfs",
                 f"local,path={folder},mount_tag=root,security_model=none,readonly=on",
                 "-kernel", vmlinuz, "-initrd", both,
                 "-append", "console=ttyS0 quiet panic=-1 systemd.show_status=no"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=SECONDS)
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"").decode(errors="replace")
            raise vm.TooLong(f"the machine did not end in {SECONDS:.0f} s:\n{said}") from late
    said = done.stdout.decode(errors="replace").replace("\r\n", "\n")
    output, found, status = said.rpartition(STATUS)
    if not found:
        raise AssertionError(f"the machine ended without a word:\n{said}")
    return int(status.split()[0]), output.partition(BEGINS)[2]
