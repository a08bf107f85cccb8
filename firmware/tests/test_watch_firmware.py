"""The firmware that watches nodes, in simulators: its lamps and relays against the Python model."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from firmware.simulators.boards import BOARDS, REQUEST_AT, Board, Bus, Line, PinChange, frame
from spec.model import HEARTBEAT, REQUEST, Agent, heartbeat
from spec.watch import ALIVE, LATE, OUT_OF_RANGE, WAITING, Watch, line
from tools.programs import INCLUDES, ROOT, run

SERIAL = replace(BOARDS["watch_atmega328p"], pins=tuple(f"B{pin}" for pin in range(6)))
CAN = BOARDS["can_avr-watch"]
PACKET = 8
WITHIN = 0.003  # seconds from a tick, or from when a packet begins, until a pin changes

MOTOR, BATTERY, DOOR = 5, 10, 12  # the variables of the table in watch_atmega328p.c
LINES = [line(MOTOR, late=2, dead=6, grace=5, lowest=10, highest=120),
         line(BATTERY, late=5, dead=10, grace=10),
         line(DOOR, late=1, dead=4, grace=12, highest=1)]
LAMPS = {MOTOR: "5", BATTERY: "5", DOOR: "4"}  # pins of port B; of port C in the CAN agent
RELAYS = {MOTOR: "0", BATTERY: "1"}

Event = tuple[float, bytes]  # seconds since the start, a packet that begins then


def levels(port: str, watch: Watch, before: dict[str, int]) -> dict[str, int]:
    """What the pins of watch_atmega328p.c have to be in these states. A relay stays as it was
    before if its node is late or out of range."""
    states = dict(zip((one.variable for one in LINES), watch.states, strict=True))
    pins = dict.fromkeys((port + pin for pin in LAMPS.values()), 0)
    for variable, state in states.items():
        if state not in (WAITING, ALIVE):
            pins[port + LAMPS[variable]] = 1
        if variable in RELAYS:
            relay = port + RELAYS[variable]
            pins[relay] = before.get(relay, 0) if state in (LATE, OUT_OF_RANGE) else state == ALIVE
    return pins


def expected(events: Sequence[Event], end: float, port: str) -> list[PinChange]:
    """When the pins change, by the models of the agent and of the watch. The agent looks at each
    tick of its clock, each second, and after each heartbeat."""
    agent, watch = Agent(), Watch(LINES)
    pins = dict.fromkeys(levels(port, watch, {}), 0)
    changes = []
    moments = sorted([*events, *((float(tick), b"") for tick in range(int(end) + 1))])
    for moment, packet in moments:
        now = int(moment) % 65536
        if agent.process(now, packet) == HEARTBEAT or packet == b"":
            watch.look(agent.entries, now)
        after = levels(port, watch, pins)
        changes += [(moment, pin, after[pin]) for pin in sorted(pins) if pins[pin] != after[pin]]
        pins = after
    return changes


def on_line(events: Sequence[Event], end: float, image: Path | None = None,
            boots: int = 1) -> list[PinChange]:
    """When the pins change in the simulator, up to the end."""
    starts = [moment for moment, _ in events] + [end]
    taken = PACKET * 10 / SERIAL.baud
    assert starts[0] == 0.01  # serial_board's line begins then
    rests = [later - earlier - taken for earlier, later in zip(starts, starts[1:], strict=False)]
    assert min(rests) > -1e-6
    script = b"".join(packet for _, packet in events) + bytes(PACKET)
    arguments = [str(round(max(0, rest) * SERIAL.hertz)) for rest in rests]
    with Line(SERIAL, image, script=script, arguments=arguments) as board:
        counts = board.end()
        assert counts["boots"] >= boots and counts["bytes"] == len(script)
        assert boots > 1 or counts["boots"] == 1
        return [change for change in board.pin_changes if change[0] <= end]


def on_bus(events: Sequence[Event], end: float, image: Path | None = None,
           boots: int = 1) -> list[PinChange]:
    script = ["gap 0"]
    for moment, packet in [*events, (end, b"")]:
        script.append(f"until {round(moment * 1e6)}")
        if packet:
            script.append(frame(CAN.can_id + packet[5] % 64, packet))
    with Bus(CAN, script, image) as board:
        assert board.end()["boots"] == boots
        return [change for change in board.pin_changes if change[0] <= end]


RUNS = {"B": on_line, "C": on_bus}  # keys are the ports of the pins


def check(seen: Sequence[PinChange], wanted: Sequence[PinChange]) -> None:
    assert [change[1:] for change in seen] == [change[1:] for change in wanted], (seen, wanted)
    for (at, *_), (then, *_) in zip(seen, wanted, strict=True):
        assert then <= at <= then + WITHIN, (at, then)


def beside_the_tick(moment: float) -> float:
    """The same time or nearly: not so near a tick that it is open which comes first."""
    return int(moment) + min(max(moment % 1, 0.05), 0.95)


def each(variable: int, value: int, begin: float, end: float, step: float = 0.9) -> list[Event]:
    """Heartbeats at regular times."""
    return [(beside_the_tick(begin + number * step), heartbeat(variable, 1, value))
            for number in range(int((end - begin) / step) + 1)]


def in_turn(events: Sequence[Event]) -> list[Event]:
    """In order of time, with 1.5 ms at least from one to the next. The first one is junk."""
    ordered = [(0.01, bytes(PACKET))]
    for moment, packet in sorted(events):
        ordered.append((max(moment, ordered[-1][0] + 0.0015), packet))
    return ordered


@pytest.mark.parametrize("port", RUNS)
def test_any_scene(port: str, chance: random.Random) -> None:
    """Nodes come and go at random for 5 minutes. Their values are good and bad, and some packets
    are damaged."""
    beats: list[Event] = []
    for variable in (MOTOR, BATTERY, DOOR, DOOR + 1):
        moment = chance.uniform(0.1, 20)
        while moment < 300:
            value = chance.choice((0, 1, 9, 10, 120, 121))
            packet = heartbeat(variable, chance.randrange(256), value)
            if chance.randrange(8) == 0:
                packet = packet[:7] + bytes([packet[7] ^ 0x10])
            beats.append((beside_the_tick(moment), packet))
            moment += chance.choice((0.1, 0.7, 1.1, 2.3, 3.1, 7.1, 15.1))
    events = in_turn(beats)
    wanted = expected(events, 300.5, port)
    assert len(wanted) > 50
    check(RUNS[port](events, 300.5), wanted)


TABLE = (ROOT / "firmware" / "watch_atmega328p.c").read_text()


def compiled(folder: Path, board: Board, before: str = TABLE, after: str = TABLE,
             file: str = "firmware/watch_atmega328p.c", more: Sequence[str] = ()) -> Path:
    """The image of a board with another line in a file."""
    text = (ROOT / file).read_text()
    assert text.count(before) == 1, before
    changed, image = folder / Path(file).name, folder / "watch.elf"
    changed.write_text(text.replace(before, after))
    sources = ["firmware/watch_atmega328p.c", "dumpulse.c", "extras/dumpulse_watch.c",
               "firmware/serial_agent.c" if board is SERIAL else "firmware/can_avr.c"]
    run(["avr-gcc", *board.options, "-std=c11", "-Os", "-DWATCH",
         *["-DWATCH_ON_C"] * (board is CAN), *more, *INCLUDES, f"-I{ROOT / 'firmware'}",
         *[changed if source == file else ROOT / source for source in sources], "-o", image])
    return image


RELAY_TABLE = TABLE[TABLE.index("#define RELAYS"):TABLE.index("/* The nodes.")]
NODES = TABLE[TABLE.index("#define NODES"):TABLE.index("/* A lamp and a relay")]


def row(variable: int, lamp: str, relay: str) -> str:
    return f" node(variable({variable}), silence(2), misses(3), grace(5), values(10, 120), " \
           f"lamp({lamp}), relay({relay}))"


def with_tables(relays: str, nodes: str) -> str:
    return TABLE.replace(RELAY_TABLE, f"#define RELAYS(relay){relays}\n").replace(
        NODES, f"#define NODES(node){nodes}\n")


def busy(folder: Path, board: Board, lines: int,
         chance: random.Random) -> tuple[Path, list[bytes], list[bytes]]:
    """An image with a table of so many lines, many heartbeats, and what a report then has of them:
    sender and value of each variable but 0."""
    nodes = "".join(row(variable, "5", "MOTOR") for variable in range(1, 1 + lines))
    agent = Agent()
    beats = [heartbeat(chance.randrange(1, 64), chance.randrange(256), chance.randrange(256))
             for _ in range(5000)]
    for packet in beats:
        agent.process(0, packet)
    return (compiled(folder, board, TABLE, with_tables(" relay(MOTOR, 0, OPEN, OPEN, OPEN, OPEN)",
                                                       nodes)), beats,
            [entry[2:] for entry in agent.entries[1:]])


def test_a_full_bus(tmp_path: Path, chance: random.Random) -> None:
    """The shortest frames with 8 bytes have 111 bits, at 500 kbit/s. They come for 3 s, so that a
    loop that the watchdog resets when it is busy is noticed."""
    image, beats, wanted = busy(tmp_path, CAN, 20, chance)  # lines, as in can_avr.md
    script = ["gap 222", *(frame(CAN.can_id, packet) for packet in 3 * beats), "wait 20000",
              frame(CAN.can_id + REQUEST_AT, REQUEST)]
    with Bus(CAN, script, image) as bus:
        assert bus.end()["errors"] == 0
        report = bytes.fromhex("".join(line.partition("#")[2] for line in bus.frames()))
    assert [report[at + 2:at + 4] for at in range(8, 260, 4)] == wanted


def test_a_full_line(tmp_path: Path, chance: random.Random) -> None:
    image, beats, wanted = busy(tmp_path, SERIAL, 63, chance)  # lines, as in watch_atmega328p.md
    with Line(SERIAL, image, script=b"".join(beats) + REQUEST) as board:
        report = board.receive(260)
    assert report[7] == 0  # no byte was lost
    assert [report[at + 2:at + 4] for at in range(8, 260, 4)] == wanted


Choice = tuple[int, ...]  # without power, in reset, before all were heard, after a death
CHOICES = [tuple(map(int, f"{number:04b}")) for number in range(16)]
LEGAL = [choice for choice in CHOICES if list(choice) == sorted(choice)]


def errors(text: str) -> str:
    done = subprocess.run(["avr-gcc", "-mmcu=atmega328p", "-std=c11", "-Os", "-DWATCH", *INCLUDES,
                           "-DF_CPU=16000000UL", f"-I{ROOT / 'firmware'}", "-fsyntax-only", "-xc",
                           "-"], input=text, capture_output=True, text=True)
    assert (done.returncode != 0) == ("error: " in done.stderr)
    return done.stderr


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_a_choice_that_would_chatter_does_not_compile(choice: Choice) -> None:
    said = errors(with_tables(f" relay(FAN, 0, {str(choice)[1:]}", row(5, "4", "FAN")))
    pairs = [before > after for before, after in zip(choice, choice[1:], strict=False)]
    for is_wrong, message in zip(pairs, ("FAN: each loss of power would close it",
                                         "FAN: each reset would close it for a moment",
                                         "FAN: each reset would close it again"), strict=True):
        assert is_wrong == (message in said), said


A, B = "relay(A, 0, 0, 0, 0, 0)", "relay(B, 1, 0, 0, 0, 0)"


@pytest.mark.parametrize(("relays", "nodes", "message"), [
    (A, row(5, "4", "A") + row(6, "4", "1"), "or a node one without a line"),
    (A + B, row(5, "4", "A"), "a relay has no node"),
    (A + B.replace("1", "0"), row(5, "4", "A"), "two relays have one pin"),
    (A.replace("0", "5", 1), row(5, "4", "A"), "the boot loader of a Uno blinks PB5"),
    (A, row(5, "0", "A"), "a pin cannot have a lamp and a relay"),
    (A, row(5, "6", "A"), "the port has the pins 0 to 5"),
    (A, row(5, "4", "A").replace("silence(2), misses(3)", "misses(3), silence(2)"),
     "DUMPULSE_2_misses")])
def test_a_mistake_does_not_compile(relays: str, nodes: str, message: str) -> None:
    assert message in errors(with_tables(" " + relays, nodes))


def test_each_choice_of_a_line(tmp_path: Path) -> None:
    """Relays of one node with all choices that compile: before its first heartbeat, while it is
    alive, and when it is dead or missing."""
    names = [f"relay(R{pin}, {pin}, {str(choice)[1:]}" for pin, choice in enumerate(LEGAL)]
    image = compiled(tmp_path, SERIAL, TABLE, with_tables(
        " " + " ".join(names), "".join(row(MOTOR, "5", f"R{pin}") for pin in range(len(names)))))
    for beats, last in ([(3.3, heartbeat(MOTOR, 1, 50))], 10.0), ([], 6.0):
        changes = on_line(in_turn(beats), 12, image)
        for pin, (unpowered, _, unheard, dead) in enumerate(LEGAL):
            wanted = [(0.0, unheard ^ unpowered)]
            wanted += [(moment, 1 - dead ^ unpowered) for moment, _ in beats]
            wanted += [(last, dead ^ unpowered)]
            before = [(0.0, 0), *wanted]
            check([change for change in changes if change[1] == f"B{pin}"],
                  [(moment, f"B{pin}", level) for (moment, level), (_, was)
                   in zip(wanted, before, strict=False) if level != was])


STOP = b"StopTime"  # the interrupt of the clock gets lost: firmware/tests/hang.c
RESET_WITHIN = 2.2  # seconds from when the clock stops
HANGING = [str(ROOT / "firmware" / "tests" / "hang.c"), "-Wl,--wrap=dumpulse_process_packet"]


@pytest.mark.parametrize("port", RUNS)
def test_the_clock_stands_still(port: str) -> None:
    """Other nodes speak on, and the motor's is dead. The watchdog cuts its relay in 2 s, and in its
    second life the agent finds that it is missing."""
    events = in_turn(each(MOTOR, 50, 0.1, 2.9) + each(DOOR, 1, 0.5, 19, 0.3) + [(3.2, STOP)])
    image = (SERIAL if port == "B" else CAN).image("hanging")
    changes = RUNS[port](events, 20, image, 2)
    relay, lamp = ([change for change in changes if change[1] == port + pin] for pin in "05")
    assert [level for *_, level in relay] == [1, 0] and relay[1][0] < 3.2 + RESET_WITHIN
    assert [level for *_, level in lamp] == [1]
    assert lamp[0][0] < relay[1][0] + 5 + 1 + WITHIN


def test_a_loop_of_resets(tmp_path: Path) -> None:
    """For 10 minutes, each life of the agent ends when its clock stops. The relay of a dead node
    never closes again, and one of a node that is alive closes once in each life."""
    image, end = compiled(tmp_path, SERIAL, more=HANGING), 600
    events = in_turn(each(MOTOR, 50, 0.1, 2.9) + each(BATTERY, 1, 0.3, end - 1, 0.5)
                     + [(3.2 + number, STOP) for number in range(end - 5)])
    changes = on_line(events, end, image, 180)
    motor, battery = ([change for change in changes if change[1] == pin] for pin in ("B0", "B1"))
    assert [level for *_, level in motor] == [1, 0] and motor[1][0] < 3.2 + RESET_WITHIN
    closures = sum(level for *_, level in battery)
    assert 180 < closures < end / 2


def test_the_latency() -> None:
    """Single heartbeats of the motor's node, at all parts of a second: its relay opens as
    safety.md states. Other tests have the limits WITHIN and RESET_WITHIN."""
    page = " ".join((ROOT / "firmware" / "safety.md").read_text().split())
    ((low, high),) = re.findall(r"variable 5 opens between ([\d.]+) and ([\d.]+) s after", page)
    assert f"less than {WITHIN * 1000:.0f} ms after a tick" in page
    assert f"The watchdog takes {RESET_WITHIN} s at most" in page
    starts = [number * 10 + 1 + number / 20 for number in range(1, 20)]
    events = in_turn([(start, heartbeat(MOTOR, 1, 50)) for start in starts])
    relay = [moment for moment, pin, _ in on_line(events, 205) if pin == "B0"]
    delays = [after - before for before, after in zip(starts, relay[1::2], strict=True)]
    assert len(relay) == 2 * len(starts)
    assert float(low) < min(delays) < float(low) + 0.06
    assert float(high) - 0.06 < max(delays) < float(high)
