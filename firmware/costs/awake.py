"""What a packet costs while an image runs, interrupts and waking up included.

simavr counts cycles, Unicorn counts instructions. The time in which the image sleeps does not
count.
"""

import io
from collections.abc import Callable
from contextlib import redirect_stdout

from firmware.simulators.boards import (REPORT_SIZE, REQUEST_AT, Board, Bus, Line, LiveBus,
                                        LiveLine, blocks, eeprom, eeprom_of_node, frame,
                                        serial_frame, written)
from firmware.simulators.stm32_can import Board as Stm32
from firmware.simulators.stm32_line import Chip
from spec.keyed import READER_LABEL, Keys
from spec.model import REQUEST, heartbeat

FEW, MANY = 200, 1000  # packets in simavr; the start-up cancels out in the difference of two runs


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
EPOCH = (BLOCK + 1) * 256  # number of the epoch of an agent that begins with this block
SLOW = 600  # microseconds from packet to packet: an agent with keys takes no more


def keyed_packets() -> dict[str, list[bytes]]:
    """Heartbeats that nobody has sent before, of as many nodes that hear as there are variables;
    junk that only its tag gives away; and a request."""
    beats = [KEYS.counted(i % 64, EPOCH, i // 64 + 1, 76, i % 256) for i in range(MANY)]
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


# ---------------------------------------------------------------- Unicorn: instructions

class Counted(Chip):
    """An STM32 on a line, whose instructions are counted one by one."""
    counts, slice = Stm32.counts, Stm32.slice

    def count(self, engine: object, at: int, size: int, data: object) -> None:
        Stm32.count(self, engine, at, size, data)


def in_unicorn(board: Board) -> Callable[[list[bytes]], Counts]:
    """Returns a function that sends packets at full speed, and returns the counts."""
    def run(packets: list[bytes]) -> Counts:
        chip = Counted(board.baud, board.image(), b"", board.name[-2:])
        with redirect_stdout(io.StringIO()) as sent:
            chip.run(20_000)
            for byte in b"".join(packets):
                chip.play(f"send {byte:x}")
            chip.run(100_000)
        assert len(sent.getvalue().split()) == REPORT_SIZE * packets.count(REQUEST)
        return {"cycles": chip.instructions, "asleep": 0, "stack": chip.stack()}
    return run
