"""A serial line. The device at its other end may say anything.

Every wait ends: after its time, or after so many lines that nobody who keeps to the protocol would
send them. What comes is cut into lines of printable ASCII; bytes of NUL are dropped, as a
PowerShield strews them in."""

import errno
import fcntl
import os
import select
import termios
import time
import tty
from collections.abc import Callable

LONGEST = 400  # bytes of a line; the longest that is right has 80
MOST = 3000  # lines in one wait; an acquisition has about 110
SENDING = 5.0  # seconds until a line must have taken what is sent

Heard = Callable[[str, str], None]  # who, and what was said


class Trouble(Exception):
    """Something did not go as it should; another attempt may help."""


class Gone(Trouble):
    """The device is not there, or no longer: no attempt helps."""


def printable(raw: bytes) -> str:
    """Returns only the ASCII of a line that changes nothing on a terminal."""
    text = raw.replace(b"\0", b"").strip().decode("latin-1")
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if " " <= each <= "~" else f"\\x{ord(each):02x}" for each in text)


class Line:
    """What is said on it goes to `heard`, too: `name`, or `to name`."""

    def __init__(self, path: str, name: str, heard: Heard = lambda who, text: None) -> None:
        self.path, self.name, self.heard = path, name, heard
        self.buffer = b""
        try:
            self.file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise Gone(f"{name}: {path}: {error.strerror}") from None
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            tty.setraw(self.file)
            settings = termios.tcgetattr(self.file)
            settings[4] = settings[5] = termios.B115200
            termios.tcsetattr(self.file, termios.TCSANOW, settings)
        except BlockingIOError:
            os.close(self.file)
            raise Gone(f"{name}: {path} is in use by another program") from None
        except termios.error:
            os.close(self.file)
            raise Gone(f"{name}: {path} is not a serial line") from None

    def close(self) -> None:
        os.close(self.file)

    def _gone(self, error: OSError) -> Gone:
        return Gone(f"{self.name}: {self.path} is gone: {error.strerror}")

    def send(self, text: str) -> None:
        self.heard(f"to {self.name}", text.strip())
        left, until = text.encode(), time.monotonic() + SENDING
        while left:
            _, ready, _ = select.select([], [self.file], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise Trouble(f"{self.name}: {self.path} has taken nothing for {SENDING:g} s")
            try:
                left = left[os.write(self.file, left):]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._gone(error) from None

    def _read(self, until: float) -> bool:
        """More bytes into the buffer; false if none came in time."""
        ready, _, _ = select.select([self.file], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return False
        try:
            more = os.read(self.file, 4096)
        except BlockingIOError:
            return True
        except OSError as error:
            raise self._gone(error) from None
        if not more:
            raise self._gone(OSError(errno.EIO, os.strerror(errno.EIO)))
        self.buffer += more
        return True

    def forget(self) -> None:
        """Drops what came before, because it does not answer the next command. A line keeps at most
        64 KB. If more than this many times 4 KB come, the device does not stop."""
        for _ in range(100):
            if not self._read(0):
                break
            self.buffer = self.buffer[-LONGEST:]
        self.buffer = b""

    def line(self, until: float) -> str | None:
        """The next line that is not empty; nothing if none came in time."""
        while True:
            raw, end, rest = self.buffer.partition(b"\n")
            if not end and len(self.buffer) < LONGEST:
                if not self._read(until):
                    return None
                continue
            if not end or len(raw) > LONGEST:
                raw, rest = self.buffer[:LONGEST], self.buffer[LONGEST:]
            self.buffer = rest
            if text := printable(raw):
                self.heard(self.name, text)
                return text
            if time.monotonic() > until:  # empty lines without end
                return None

    def until(self, wanted: Callable[[str], bool], seconds: float, what: str) -> list[str]:
        """The lines up to the one that is wanted."""
        lines: list[str] = []
        end = time.monotonic() + seconds
        while len(lines) < MOST:
            if (text := self.line(end)) is None:
                said = f'; the last it said was "{lines[-1][:60]}"' if lines else \
                    "; it has said nothing"
                raise Trouble(f"{self.name}: no {what} within {seconds:g} s{said}")
            lines.append(text)
            if wanted(text):
                return lines
        raise Trouble(f"{self.name}: no {what} in {MOST:,} lines; "
                      f'the last was "{lines[-1][:60]}"')
