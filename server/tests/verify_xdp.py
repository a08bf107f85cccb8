"""Has the kernel verify the program of udpserver --xdp, and prints its words.

    make part ONLY=verify-xdp

The last lines of the verifier's log say how long it took, the bytes of stack, and how many
instructions and states it has followed. The whole log is in build/xdp-verifier.log.
SPDX-License-Identifier: MIT"""

import platform
import re
import subprocess

from tests.support.programs import BUILD, as_program, built

LOG = BUILD / "xdp-verifier.log"
# The program is pinned in a file system that is gone when the command ends.
LOAD = "mount -t bpf bpf /sys/fs/bpf && PATH=$PATH:/usr/sbin exec bpftool --debug prog load $0 " \
       "/sys/fs/bpf/heartbeats"


def main() -> None:
    program = built("build/xdp_program.o")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", LOAD, program], capture_output=True,
                          text=True, check=False)
    said = done.stdout + done.stderr
    LOG.write_text(said)
    words = re.findall(r"^(?:verification time|stack depth|processed \d+ insns) .*", said, re.M)
    if done.returncode or len(words) != 3:
        tail = "\n".join(said.splitlines()[-20:])
        raise SystemExit(f"{tail}\nverify-xdp: this machine did not load the program. It needs "
                         "root, and a kernel that may load programs (CONFIG_BPF_SYSCALL)")
    print(f"Linux {platform.release()} accepts server/xdp/program.bpf.c, with dumpulse.c in it:",
          *words, "verify-xdp: 1 passed, 0 failed", sep="\n")


if __name__ == "__main__":
    as_program(main)
