"""Runs a program in QEMU's user emulation, and controls it by gdb's remote protocol.

It has the parts of that protocol that are needed to call a function: registers, breakpoints,
steps, and memory, at most 1 KB at a time."""

import socket
import subprocess
import tempfile
import time
from pathlib import Path

PATIENCE = 30.0  # seconds


class Debugged:
    """A process that has stopped before its first instruction."""

    def __init__(self, *command: str | Path) -> None:
        """The last word of the command is the program. The name of a socket goes before it."""
        self.folder = tempfile.TemporaryDirectory()
        name = str(Path(self.folder.name) / "gdb")
        *emulator, program = command
        self.process = subprocess.Popen([*emulator, name, program])
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.socket.connect(name)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{emulator[0]} does not listen") from None
                time.sleep(0.01)

    def ask(self, text: str) -> str:
        """Sends $text#sum. Returns the answer, which comes as + and $answer#sum."""
        self.socket.sendall(f"+${text}#{sum(text.encode()) % 256:02x}".encode())
        answer = b""
        while answer[-3:-2] != b"#":
            received = self.socket.recv(65536)
            if not received:
                raise RuntimeError(f"the emulator has ended, status {self.process.wait(PATIENCE)}")
            answer += received
        return answer.decode().partition("$")[2][:-3]

    def tell(self, text: str) -> None:
        if self.ask(text) != "OK":
            raise RuntimeError(f"the emulator refuses {text:.40}")

    def read(self, address: int, size: int) -> bytes:
        return bytes.fromhex(self.ask(f"m{address:x},{size:x}"))

    def write(self, address: int, data: bytes) -> None:
        self.tell(f"M{address:x},{len(data):x}:{data.hex()}")

    def registers(self) -> list[int]:
        raw = bytes.fromhex(self.ask("g"))
        return [int.from_bytes(raw[start:start + 4], "little") for start in range(0, len(raw), 4)]

    def set_registers(self, values: list[int]) -> None:
        self.tell("G" + b"".join(value.to_bytes(4, "little") for value in values).hex())

    def break_at(self, address: int) -> None:
        self.tell(f"Z0,{address:x},1")

    def step(self) -> None:
        self._stopped(self.ask("s"))

    def go_on(self) -> None:
        self._stopped(self.ask("c"))

    def _stopped(self, answer: str) -> None:
        if not answer.startswith("T05"):
            raise RuntimeError(f"the program did not stop as it should: {answer}")

    def close(self) -> None:
        self.process.kill()  # first, as the program would run on without its debugger, and crash
        self.process.wait()
        self.socket.close()
        self.folder.cleanup()
