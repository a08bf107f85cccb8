"""What an image does for a packet while it is awake, interrupts and waking up included: cycles that
simavr counts, or instructions that QEMU counts.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from bench import stack
from sim.boards import PATIENCE, Board, Line
from sim.model import REQUEST, heartbeat
from sim.programs import built

FEW, MANY = 200, 1000  # packets on simavr; the difference of two runs has no start-up in it
PAINT = 0xA5  # there, the stack has never been
READ = 33  # where serial.h's ring counts, in its last byte, the bytes that the loop has taken


def beats(count: int) -> list[bytes]:
    return [heartbeat(number % 64, 76, number % 256) for number in range(count)]


def junk(count: int) -> list[bytes]:
    return [b"\x55" * 8] * count


# ---------------------------------------------------------------- simavr: cycles

Counts = dict[str, int]


def on_line(board: Board) -> Callable[[list[bytes]], Counts]:
    """What serial_board counts when these packets come, at full speed."""
    def run(packets: list[bytes]) -> Counts:
        with Line(board, script=b"".join(packets)) as line:
            line.receive(260 * packets.count(REQUEST))
            return line.end()
    return run


def on_bus(packets: list[bytes]) -> Counts:
    """What avr_can counts when these come as frames, 250 us apart."""
    script = "".join(f"{0x6FF if packet == REQUEST else 0x680:03X}#{packet.hex()}\n" for packet in packets)
    done = subprocess.run([built("build/avr_can"), built("build/firmware/can_avr.elf")], input=script,
                          capture_output=True, text=True, timeout=PATIENCE, check=True)
    *frames, last = done.stdout.splitlines()
    assert len(frames) == 33 * packets.count(REQUEST), "a report is missing"
    words = last.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def cycles(run: Callable[[list[bytes]], Counts]) -> Counts:
    """Of a packet of each kind; and the deepest stack in these runs, in bytes."""
    def awake(packets: list[bytes]) -> int:
        counted = run(packets)
        deepest.append(counted["stack"])
        return counted["cycles"] - counted["asleep"]

    deepest: list[int] = []
    found = {kind: round((awake(packets) - awake(packets[:FEW])) / (MANY - FEW))
             for kind, packets in (("heartbeat", beats(MANY)), ("junk", junk(MANY)))}
    asked = awake([*beats(MANY), REQUEST]) - awake(beats(MANY))
    return found | {"report": asked, "stack": max(deepest)}


# ---------------------------------------------------------------- QEMU: instructions

class Counted(Line):
    """A board on QEMU that counts its instructions, and is asked for them through QEMU's monitor."""

    def __init__(self, board: Board, objdump: str) -> None:
        image = board.image()
        with image.open("rb") as stream:
            table = ELFFile(stream).get_section_by_name(".symtab")
            assert isinstance(table, SymbolTableSection)
            at = {symbol.name.partition(".")[0]: symbol["st_value"] for symbol in table.iter_symbols()}
        self._read, self._ticks = at["ring"] + READ, at["ticks"]
        self._free, self._top = at["zeros_end"], at["stack_top"]
        self._asleep = after_wfi(objdump, image)
        self._taken = 0
        ours, theirs = socket.socketpair()
        number = theirs.fileno()
        with tempfile.NamedTemporaryFile() as paint:
            paint.write(bytes([PAINT]) * (self._top - self._free))
            paint.flush()
            super().__init__(board, keep=[number], more=[
                "-icount", "shift=0", "-device", f"loader,file={paint.name},addr={self._free},force-raw=on",
                "-chardev", f"socket,id=monitor,fd={number}", "-mon", "chardev=monitor,mode=control"])
            theirs.close()
            ours.settimeout(PATIENCE)
            self._monitor = ours.makefile("rw")
            ours.close()
            self._monitor.readline()  # its greeting
            self.ask("qmp_capabilities")  # answered once the board is there, the paint too
        self.settle()

    def hang_up(self) -> None:
        super().hang_up()
        self._monitor.close()

    def ask(self, command: str, **arguments: str) -> object:
        json.dump({"execute": command, "arguments": arguments}, self._monitor)
        self._monitor.flush()
        while "return" not in (answer := json.loads(self._monitor.readline())):
            assert "event" in answer, answer
        return answer["return"]

    def show(self, line: str) -> str:
        return str(self.ask("human-monitor-command", **{"command-line": line}))

    def read(self, address: int, size: int = 1) -> bytes:
        shown = self.show(f"xp /{size}xb {address:#x}")
        return bytes(int(byte, 16) for byte in re.findall(r" 0x([0-9a-f]{2})\b", shown))

    def deepest(self) -> int:
        """Bytes of stack that were ever written."""
        return len(self.read(self._free, self._top - self._free).lstrip(bytes([PAINT])))

    def settle(self) -> None:
        """Until the loop has taken all that was sent, and sleeps."""
        end = time.monotonic() + PATIENCE
        while True:
            (taken,) = self.read(self._read)
            at = re.findall(r"(?:R15=| pc +)([0-9a-f]+)", self.show("info registers"))
            if taken == self._taken and int(at[0], 16) == self._asleep:
                return
            assert time.monotonic() < end, "it does not sleep"

    def instructions(self) -> int:
        answer = self.ask("query-replay")
        assert isinstance(answer, dict)
        return int(answer["icount"])

    def one_byte(self, value: int, answer: int) -> int | None:
        """How many instructions a byte takes, and what is sent as an answer; none if the clock ticked
        meanwhile, which takes some, too."""
        ticks = self.read(self._ticks)
        self.settle()
        before = self.instructions()
        self.send(bytes([value]))
        self._taken = (self._taken + 1) % 256
        self.receive(answer)
        self.settle()
        taken = self.instructions() - before
        return taken if self.read(self._ticks) == ticks else None

    def one_packet(self, packet: bytes) -> dict[int, int]:
        """They come one by one, as on a real line: each wakes it up. What they take, by their places."""
        last = len(packet) - 1
        found = {at: self.one_byte(value, 260 if packet == REQUEST and at == last else 0)
                 for at, value in enumerate(packet)}
        return {at: taken for at, taken in found.items() if taken is not None}

    def packet(self, packet: bytes) -> int:
        """How many instructions it takes when another of its kind came before."""
        end = time.monotonic() + PATIENCE
        self.one_packet(packet)
        found: dict[int, int] = {}
        while len(found) < len(packet):
            assert time.monotonic() < end, "the clock ticks each time"
            found |= self.one_packet(packet)
        return sum(found.values())


def after_wfi(objdump: str, image: Path) -> int:
    """Where the core is while it sleeps: behind the only instruction of its kind."""
    every = [line for body in stack.code(objdump, image).values() for line in body]
    (at,) = (at for at, (_, what, _) in enumerate(every) if what == "wfi")
    return every[at + 1][0]


def instructions(board: Board, objdump: str) -> Counts:
    with Counted(board, objdump) as line:
        found = {kind: round(sum(map(line.packet, packets)) / len(packets))
                 for kind, packets in (("heartbeat", beats(64)[::16]), ("junk", junk(64)[::16]))}
        found["report"] = line.packet(REQUEST)
        return found | {"stack": line.deepest()}
