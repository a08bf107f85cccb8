"""What a packet costs while an image runs, interrupts and waking up included.

simavr counts cycles, QEMU counts instructions. The time in which the image sleeps does not count.
"""

import json
import re
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from firmware.costs.interrupts import CORTEX_M
from firmware.simulators.boards import (PATIENCE, REPORT_SIZE, REQUEST_AT, Board, Bus, Line,
                                        LiveBus, LiveLine, blocks, eeprom, eeprom_of_node,
                                        frame, serial_frame, written)
from spec.keyed import READER_LABEL, Keys
from spec.model import REQUEST, heartbeat
from tools.processors import memory

FEW, MANY = 200, 1000  # packets in simavr; the start-up cancels out in the difference of two runs
PAINT = 0xA5  # the bytes of the stack before they are used
READ = 33  # offset of the member `read` in serial.h's ring: how many bytes the loop has taken


def beats(count: int) -> list[bytes]:
    return [heartbeat(number % 64, 76, number % 256) for number in range(count)]


def junk(count: int) -> list[bytes]:
    return [b"\x55" * 8] * count


# ---------------------------------------------------------------- simavr: cycles

Counts = dict[str, int]


def on_line(board: Board) -> Callable[[list[bytes]], Counts]:
    """Returns a function that sends packets at full speed. It returns what serial_board counts."""
    def run(packets: list[bytes]) -> Counts:
        with Line(board, script=b"".join(packets)) as line:
            line.receive(REPORT_SIZE * packets.count(REQUEST))
            return line.end()
    return run


def on_bus(board: Board) -> Callable[[list[bytes]], Counts]:
    """Returns a function that sends packets: on CAN as frames, one each 250 us, on I²C without a
    pause. It returns the counts."""
    def run(packets: list[bytes]) -> Counts:
        if board.i2c:
            script = [written(board, packet) for packet in packets]
            script += blocks(board) * packets.count(REQUEST)
            with Bus(board, script) as bus:
                return bus.end()
        script = [frame(board.can_id + (REQUEST_AT if packet == REQUEST else 0), packet)
                  for packet in packets]
        with Bus(board, script) as bus:
            counts = bus.end()
            assert len(bus.frames()) == 33 * packets.count(REQUEST), "a report is missing"
            return counts
    return run


KEYS, BLOCK = Keys(bytes(range(16))), 0x122
EPOCH = (BLOCK + 1) * 256  # of an agent that begins with this block
SLOW = 600  # microseconds from packet to packet: an agent with keys takes no more


def keyed_packets() -> dict[str, list[bytes]]:
    """Heartbeats that nobody has sent before, of as many nodes that hear as there are variables;
    junk that only its tag gives away; and a request."""
    beats = [KEYS.counted(at % 64, EPOCH, at // 64 + 1, 76, at % 256) for at in range(MANY)]
    return {"heartbeat": beats, "junk": [bytes([beat[0] ^ 1]) + beat[1:] for beat in beats],
            "request": [KEYS.counted(READER_LABEL, EPOCH, 1, 0xBE, 0xEF)]}


def keyed_cycles(board: Board) -> Counts:
    """Returns the same as cycles(), for an agent with keys."""
    deepest, kinds = [0], keyed_packets()

    def awake(packets: list[bytes]) -> int:
        with LiveBus(board, eeprom(KEYS, BLOCK)) as bus:
            sent = bus.do("until 1100000", f"gap {SLOW}", *(frame(
                board.can_id + (REQUEST_AT if packet in kinds["request"] else packet[4] % 64),
                packet) for packet in packets), "until 2000000")
            assert sent[0][1] == KEYS.beacon(0, EPOCH), "it is in another epoch"
            reports = sum(number - board.can_id in range(64, 97) for number, _ in sent)
            assert reports == 33 * (packets[-1:] == kinds["request"]), "a report is missing"
            counts = bus.end()
            deepest[0] = max(deepest[0], counts["stack"])
            return counts["cycles"] - counts["asleep"]

    return {"report": awake(kinds["heartbeat"] + kinds["request"]) - awake(kinds["heartbeat"]),
            "stack": deepest[0]} | {
        kind: round((awake(kinds[kind]) - awake(kinds[kind][:FEW])) / (MANY - FEW))
        for kind in ("heartbeat", "junk")}


def cycles(run: Callable[[list[bytes]], Counts]) -> Counts:
    """Returns what a packet of each kind takes, and the deepest stack in these runs, in bytes."""
    def awake(packets: list[bytes]) -> int:
        counts = run(packets)
        deepest.append(counts["stack"])
        return counts.get("instructions", counts["cycles"] - counts["asleep"])

    deepest: list[int] = []
    taken = {kind: round((awake(packets) - awake(packets[:FEW])) / (MANY - FEW))
             for kind, packets in (("heartbeat", beats(MANY)), ("junk", junk(MANY)))}
    report = awake([*beats(MANY), REQUEST]) - awake(beats(MANY))
    return taken | {"report": report, "stack": max(deepest)}


def with_keys_on_line(board: Board) -> Counts:
    """The deepest stack of a board with keys, in bytes."""
    if board.keyed_node:
        memory = eeprom_of_node(KEYS, 7, board=board)
        packets = [serial_frame(97, KEYS.beacon(7, EPOCH))]
    else:
        memory = eeprom(KEYS, BLOCK, board)
        packets = [serial_frame(7, KEYS.counted(7, EPOCH, 1, 76, 9)),
                   serial_frame(REQUEST_AT, KEYS.counted(READER_LABEL, EPOCH, 1, 1, 1))]
    with LiveLine(board, memory) as line:
        line.do("wait 2600000")
        sent = line.do("wait 4000000", send=b"".join(packets))
        assert board.keyed_node or len(sent) > 33 * 10, "the report is missing"
        return {"stack": line.end()["stack"]}


# ---------------------------------------------------------------- QEMU: instructions

class Counted(Line):
    """A board in QEMU, which counts instructions. QEMU's monitor tells how many."""

    def __init__(self, board: Board) -> None:
        image = board.image()
        with image.open("rb") as stream:
            table = ELFFile(stream).get_section_by_name(".symtab")
            assert isinstance(table, SymbolTableSection)
            at = {symbol.name.partition(".")[0]: symbol["st_value"]
                  for symbol in table.iter_symbols()}
        self._read, self._ticks = at["ring"] + READ, at["ticks"]
        self._free, self._top = at["zeros_end"], at["stack_top"]
        self._asleep = after_wfi(image)
        self._taken = 0
        ours, theirs = socket.socketpair()
        number = theirs.fileno()
        with tempfile.NamedTemporaryFile() as paint:
            paint.write(bytes([PAINT]) * (self._top - self._free))
            paint.flush()
            super().__init__(board, keep_open=[number], arguments=[
                "-icount", "shift=0",
                "-device", f"loader,file={paint.name},addr={self._free},force-raw=on",
                "-chardev", f"socket,id=monitor,fd={number}",
                "-mon", "chardev=monitor,mode=control"])
            theirs.close()
            ours.settimeout(PATIENCE)
            self._monitor = ours.makefile("rw")
            ours.close()
            self._monitor.readline()  # its greeting
            self.ask("qmp_capabilities")  # the answer comes when the board and the paint are there
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
        """How many bytes of the stack have ever been written: whole words, of which a byte may look
        like paint."""
        used = len(self.read(self._free, self._top - self._free).lstrip(bytes([PAINT])))
        return used + -used % 4

    def settle(self) -> None:
        """Waits until the loop has taken all bytes that were sent, and sleeps."""
        deadline = time.monotonic() + PATIENCE
        while True:
            (taken,) = self.read(self._read)
            at = re.findall(r"R15=([0-9a-f]+)", self.show("info registers"))
            if taken == self._taken and int(at[0], 16) == self._asleep:
                return
            assert time.monotonic() < deadline, "it does not sleep"

    def instructions(self) -> int:
        answer = self.ask("query-replay")
        assert isinstance(answer, dict)
        return int(answer["icount"])

    def one_byte(self, value: int, answer: int) -> int | None:
        """How many instructions a byte and its answer take. None if the clock has ticked meanwhile,
        because a tick takes instructions, too."""
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
        """What each byte of a packet takes, by its index. The bytes come one by one, as on a real
        line, so each wakes the board."""
        last = len(packet) - 1
        taken = {at: self.one_byte(value, REPORT_SIZE if packet == REQUEST and at == last else 0)
                 for at, value in enumerate(packet)}
        return {at: count for at, count in taken.items() if count is not None}

    def packet(self, packet: bytes) -> int:
        """How many instructions a packet takes after another one of its kind."""
        deadline = time.monotonic() + PATIENCE
        self.one_packet(packet)
        taken: dict[int, int] = {}
        while len(taken) < len(packet):
            assert time.monotonic() < deadline, "the clock ticks each time"
            taken |= self.one_packet(packet)
        return sum(taken.values())


def after_wfi(image: Path) -> int:
    """The address of the core while it sleeps: after the only instruction "wfi"."""
    lines = [line for body in memory.code(CORTEX_M.objdump, image).values()
             for line in body]
    (at,) = (at for at, (_, instruction, _) in enumerate(lines) if instruction == "wfi")
    return lines[at + 1][0]


def instructions(board: Board) -> Counts:
    with Counted(board) as line:
        taken = {kind: round(sum(map(line.packet, packets)) / len(packets))
                 for kind, packets in (("heartbeat", beats(64)[::16]), ("junk", junk(64)[::16]))}
        taken["report"] = line.packet(REQUEST)
        return taken | {"stack": line.deepest()}
