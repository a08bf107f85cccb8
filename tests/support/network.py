"""A network namespace, in which tests may make interfaces and addresses.

    with Namespace() as network:
        network.run("ip link add dummy0 type dummy")
        with network.entered():
            ... start a server ...

It ends with the processes and sockets that use it. It needs root. SPDX-License-Identifier: MIT"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from types import TracebackType
from typing import Self

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def check(status: int, what: str) -> None:
    if status:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}: this test"
                      " needs root, and a kernel with network namespaces")


class Namespace:
    """Has nothing but the loopback interface, which is up."""

    def __enter__(self) -> Self:
        with open("/proc/thread-self/ns/net") as before:
            check(LIBC.unshare(CLONE_NEWNET), "unshare")
            self.descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            check(LIBC.setns(before.fileno(), CLONE_NEWNET), "setns")
        self.run("ip link set lo up")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        os.close(self.descriptor)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Processes and sockets that this thread makes meanwhile are in this namespace."""
        with open("/proc/thread-self/ns/net") as before:
            check(LIBC.setns(self.descriptor, CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                check(LIBC.setns(before.fileno(), CLONE_NEWNET), "setns")

    def run(self, command: str) -> None:
        with self.entered():
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
