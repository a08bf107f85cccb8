"""A program on a terminal of its own, which pyte emulates."""

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable
from typing import Self

import pyte

from tools.programs import PATIENCE

UNSIZED = {name: value for name, value in os.environ.items()
           if name not in ("COLUMNS", "LINES", "NO_COLOR")}


def take_terminal() -> None:
    """Ctrl-C in this terminal is a signal to the process. Under nohup it would ignore SIGHUP."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Terminal:
    """A program on a terminal of its own. pyte emulates the terminal."""

    def __init__(self, *argv: str, columns: int = 80, lines: int = 24, **environment: str) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.raw = b""
        self._lock = threading.Lock()
        self._stream = pyte.ByteStream(self.screen)
        self._ours, theirs = os.openpty()
        self.resize(columns, lines)
        self.attributes = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs,
                                        start_new_session=True, preexec_fn=take_terminal,
                                        env={**UNSIZED, "TERM": "xterm", **environment})
        self._theirs = theirs
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while piece := os.read(self._ours, 65536):
                with self._lock:
                    self.raw += piece
                    self._stream.feed(piece)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        with self._lock:
            self.screen.resize(lines, columns)

    def text(self) -> list[str]:
        with self._lock:
            return [line.rstrip() for line in self.screen.display]

    def wait_for(self, condition: Callable[[list[str]], object],
                 seconds: float = PATIENCE) -> list[str]:
        """Returns the screen once it fulfils the condition, and nothing more is on its way."""
        deadline = time.monotonic() + seconds
        while not condition(text := self.text()) or not self.raw.endswith(b"\x1b[?2026l"):
            assert time.monotonic() < deadline, "\n".join(text)
            time.sleep(0.02)
        return text

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        """Waits for the program's end, and checks that the terminal is as it was before."""
        status = self.process.wait(PATIENCE)
        assert termios.tcgetattr(self._theirs) == self.attributes
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        os.close(self._theirs)
        os.close(self._ours)
        self._reader.join(PATIENCE)
