"""Tests Dumpulse on Linux's own CAN stack. server/tests/test_can.py runs this in a virtual machine.

vcan0 is a bus in software; can0 and can1 are two SJA1000 controllers on one bus. cansend and
candump from can-utils are other programs on the bus, without any of our code."""

import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import client
from spec import keyed
from spec.model import REQUEST, checksummed, heartbeat
from tools.programs import PATIENCE, ROOT, open_files, wait_until
from tools.servers import Lines, Server, lasting

FRAME = struct.Struct("=LB3x8s")
BASE, REPORT_AT, REQUEST_AT = 0x680, 64, 127
ERROR, BUS_OFF = 0x20000000, 0x40


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          timeout=PATIENCE).stdout


class Program:
    """A running server or candump, and the lines that it has written."""

    def __init__(self, *command: str, **environment: str) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, env={**os.environ, **environment})
        assert self.process.stdout is not None
        self._output = Lines(self.process.stdout)
        self.lines = self._output.lines

    def wait_for(self, what: str) -> str:
        wait_until(lambda: any(what in line for line in self.lines)
                   or self.process.poll() is not None,
                   f"{what}: {self.lines}")
        found = [line for line in self.lines if what in line]
        assert found, self.lines
        return found[-1]

    def stats(self) -> dict[str, int]:
        before = len(self.lines)
        self.process.send_signal(signal.SIGUSR1)
        begins = "packets "
        wait_until(lambda: any(line.startswith(begins) for line in self.lines[before:]), begins)
        return Server.counters(next(line for line in self.lines[before:]
                                    if line.startswith(begins)))

    def freeze(self) -> None:
        """Stops it until SIGCONT."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def processor_time(self) -> float:
        """Returns the seconds of processor time that it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, number: int = signal.SIGTERM) -> dict[str, int]:
        self.process.send_signal(number)
        assert self.process.wait(PATIENCE) == 0, self.lines
        return Server.counters(self._output.all()[-1])


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    started: list[Program] = []
    yield started
    for program in started:
        if program.process.poll() is None:
            program.process.kill()
        program.process.wait(PATIENCE)


@pytest.fixture
def serve(programs: list[Program]) -> Callable[..., Program]:
    def start(*options: str, name: str = "canserver", ready: str = "listening on",
              wrap: tuple[str, ...] = (), **environment: str) -> Program:
        program = Program(*wrap, str(ROOT / "build" / name), *options, **environment)
        programs.append(program)
        program.wait_for(ready)
        return program
    return start


def opened(interface: str) -> socket.socket:
    """Opens a socket that gets every frame of the bus and every error frame, but not its own."""
    bus = socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW)
    bus.setsockopt(socket.SOL_CAN_RAW, client.CAN_RAW_ERR_FILTER, struct.pack("=L", 0x1FFFFFFF))
    bus.bind((interface,))
    bus.settimeout(PATIENCE)
    return bus


def send(bus: socket.socket, number: int, data: bytes) -> None:
    """Sends a frame. Waits until the queue of a slow interface has room for it."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            bus.send(FRAME.pack(number, len(data), data))
            return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.002)


def cansend(interface: str, frame: str) -> None:
    run("cansend", interface, frame)


def text(packet: bytes) -> str:
    return packet.hex().upper()


def report_on(bus: socket.socket, base: int = BASE, last: int = 4) -> bytes:
    """Returns the next report, put together as SPEC.md says. Drops the rest of an earlier one. Its
    last frame has that many bytes."""
    parts: list[bytes] = []
    while True:
        number, length, data = FRAME.unpack(bus.recv(FRAME.size))
        at = number - base - REPORT_AT
        if number & ERROR or not 0 <= at < 33 or (at and not parts):
            continue
        assert at == len(parts), f"frame {at} where {len(parts)} was due"
        parts.append(data[:length])
        assert length == (last if at == 32 else 8)
        if at == 32:
            return b"".join(parts)


def entries(report: bytes) -> list[bytes]:
    assert report == checksummed(report[4:]) and len(report) == 260
    return [report[at:at + 4] for at in range(4, 260, 4)]


def candump(programs: list[Program]) -> Program:
    dump = Program("candump", "-L", "vcan0")
    programs.append(dump)

    def has_begun() -> bool:
        cansend("vcan0", "001#")
        return bool(dump.lines)

    wait_until(has_begun, "candump sees something")
    return dump


def test_the_worked_example_with_can_utils(serve: Callable[..., Program],
                                           programs: list[Program]) -> None:
    """cansend sends the frames that SPEC.md shows, and candump sees the answer."""
    server = serve("vcan0", "--rate", "1000")
    dump = candump(programs)
    cansend("vcan0", "683#0472014AF1034C09")
    cansend("vcan0", "6FF#417265796F754F4B")
    dump.wait_for(" 6E0#")
    frames = [re.findall(r"vcan0 (\w+)#(\w*)", line)[0] for line in dump.lines]
    answer = [frame for frame in frames if 0x6C0 <= int(frame[0], 16) < 0x6FF]
    assert [int(number, 16) for number, _ in answer] == list(range(0x6C0, 0x6E1))
    assert [len(data) for _, data in answer] == [16] * 32 + [8]
    table = entries(bytes.fromhex("".join(data for _, data in answer)))
    assert table[3][2:] == b"\x4c\x09" and table.count(bytes(4)) == 63
    assert server.stop()["heartbeats"] == 1


@pytest.mark.parametrize("digits", ["700", "18FF5080"])
def test_identifiers_are_options(serve: Callable[..., Program], digits: str) -> None:
    server = serve("vcan0", "--can-id", digits)
    agent = client.Agent(f"can:vcan0:{digits}")
    agent.beat(5, 6, 7)
    assert agent.ask(PATIENCE)[5][1:] == (6, 7)
    other = client.Agent("can:vcan0")
    with pytest.raises(client.NoAnswer):
        other.ask(0.3)
    assert server.stop()["packets"] >= 2  # packets of others do not count


def test_two_agents_hear_the_same_nodes(serve: Callable[..., Program]) -> None:
    """Their reports do not mix, though both send them at the same time, and either may die."""
    first, second = serve("vcan0"), serve("vcan0", "--can-id", "680:700")
    assert "heartbeats from 680, reports from 700" in "\n".join(second.lines)
    agents = [client.Agent("can:vcan0"), client.Agent("can:vcan0:700")]
    agents[0].beat(5, 6, 7)
    for request in ("6FF#", "77F#"):
        cansend("vcan0", request + text(REQUEST))
    for agent in agents:
        assert agent.ask(PATIENCE)[5][1:] == (6, 7)
    assert first.stop()["reports"] == 2
    agents[0].beat(5, 6, 8)
    assert agents[1].ask(PATIENCE)[5][1:] == (6, 8)


def test_can_fd(serve: Callable[..., Program], programs: list[Program]) -> None:
    """Whoever asks in a frame of CAN FD gets five of them. A classic reader is not disturbed."""
    run("ip", "link", "set", "vcan0", "down")
    run("ip", "link", "set", "vcan0", "mtu", "72", "up")
    server = serve("vcan0")
    dump = candump(programs)
    with_fd, classic = client.Agent("canfd:vcan0"), client.Agent("can:vcan0")
    with_fd.beat(5, 6, 7)
    for agent in (with_fd, classic, with_fd):
        assert agent.ask(PATIENCE)[5][1:] == (6, 7)
    wait_until(lambda: sum("6C4##" in line for line in dump.lines) == 2, "the last frames")
    fd = [line.split()[2][:6] for line in dump.lines if "##" in line]
    assert [line[:3] for line in fd] == ["6FE", "6C0", "6C1", "6C2", "6C3", "6C4"] * 2
    assert all(int(line[5], 16) & 1 == (line[:3] != "6FE") for line in fd)  # BRS
    classic_frames = [line.split()[2][:4] for line in dump.lines if "##" not in line]
    assert [frame for frame in classic_frames if frame != "001#"] == [
        "685#", "6FF#", *(f"{0x6C0 + at:X}#" for at in range(33))]
    assert server.stop()["reports"] == 3


def test_what_is_refused(serve: Callable[..., Program]) -> None:
    """The kernel keeps other traffic away. The rest is counted for the first error."""
    server = serve("vcan0")
    good = heartbeat(3, 76, 9)
    for frame in ("683#", f"683#{text(good[:7])}", f"683#{text(good[:7])}08",
                  f"683#{text(b'12345678')}", f"683#{text(heartbeat(64, 1, 1))}"):
        cansend("vcan0", frame)
    other_traffic = ("683#R", "683#R8", "00000683#" + text(good), "67F#" + text(good),
                     "6C0#" + text(good), "6FE#" + text(REQUEST), "7FF#" + text(good),
                     "683##1" + text(good))
    for frame in other_traffic[:-1]:
        cansend("vcan0", frame)
    run("ip", "link", "set", "vcan0", "down")
    run("ip", "link", "set", "vcan0", "mtu", "72", "up")
    server.wait_for("is back")
    cansend("vcan0", other_traffic[-1])  # CAN FD
    cansend("vcan0", "6BF#" + text(heartbeat(63, 1, 2)))
    wait_until(lambda: server.stats()["heartbeats"] == 1, "the good one")
    counters = server.stop()
    assert {key: counters[key] for key in ("length", "checksum", "magic", "variable")} == \
        {"length": 2, "checksum": 1, "magic": 1, "variable": 1}
    assert counters["packets"] == 6


def test_the_last_that_came_over_an_interface(serve: Callable[..., Program]) -> None:
    """Frames that waited in the socket when the interface was removed are still taken. Frames that
    a full socket dropped are counted. Without special rights, it holds about 500 frames."""
    run("ip", "link", "add", "vcan8", "type", "vcan")
    run("ip", "link", "set", "vcan8", "up")
    server = serve("vcan8", wrap=("setpriv", "--bounding-set", "-net_admin"))
    server.freeze()
    bus = opened("vcan8")
    for _ in range(1000):
        send(bus, BASE, heartbeat(1, 2, 3))
    run("ip", "link", "del", "vcan8")
    server.process.send_signal(signal.SIGCONT)
    server.wait_for("waiting for it")
    counters = server.stop()
    assert counters["heartbeats"] == counters["packets"] >= 100, counters
    assert counters["packets"] + counters["drops"] == 1000 and counters["drops"] > 0, counters


def test_the_interface_comes_and_goes(serve: Callable[..., Program]) -> None:
    run("ip", "link", "add", "vcan7", "type", "vcan")
    assert "vcan7 is down: ip link set vcan7 up" in failing("can:vcan7")
    # The server starts while the interface is down.
    server = serve("vcan7", "--rate", "100", ready="is down: waiting")
    server.wait_for("listening on vcan7")
    before = server.processor_time()
    time.sleep(0.5)
    assert server.processor_time() - before < 0.2  # it waits without using the processor
    run("ip", "link", "set", "vcan7", "up")
    server.wait_for("vcan7 is back")
    descriptors = open_files(server.process.pid)
    agent = client.Agent("can:vcan7")
    agent.beat(1, 2, 3)
    assert agent.ask(PATIENCE)[1][1:] == (2, 3)
    reader = client.Can("vcan7", BASE)
    reader.open(PATIENCE)
    run("ip", "link", "del", "vcan7")
    with pytest.raises(client.NoAnswer, match="there is no CAN interface vcan7"):
        reader.send(REQUEST)
    wait_until(lambda: sum("waiting for it" in line for line in server.lines) == 2, "it is missed")
    run("ip", "link", "add", "vcan7", "type", "vcan")
    run("ip", "link", "set", "vcan7", "up")
    wait_until(lambda: sum("is back" in line for line in server.lines) == 2, "back again")
    assert open_files(server.process.pid) == descriptors
    assert agent.ask(PATIENCE)[1][1:] == (2, 3)  # the table is kept
    server.stats()  # now the request has been taken, and its report leaves before the next one
    server.stats()
    run("ip", "link", "set", "vcan7", "down")
    wait_until(lambda: sum("waiting for it" in line for line in server.lines) == 3, "down again")
    assert server.stop()["unsent"] == 0  # a report that has left stays counted
    run("ip", "link", "del", "vcan7")


def failing(address: str) -> str:
    with pytest.raises(client.NoAnswer) as caught:
        client.Agent(address).ask(0.3)
    return str(caught.value)


def test_errors_that_say_what_to_do() -> None:
    assert "there is no CAN interface can9: ip link lists them" in failing("can:can9")
    assert "there is no CAN interface lo: ip link lists them" in failing("can:lo")
    for interface in ("can9", "lo"):
        done = subprocess.run([ROOT / "build/canserver", interface], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (1, f"canserver: cannot use {interface}: there is "
                                                  "no such CAN interface; ip link lists them\n")


def test_controllers_on_a_bus(serve: Callable[..., Program]) -> None:
    """Two SJA1000 at 500 kbit/s. Their queues take 10 frames, and a report has 33."""
    server = serve("can0", "--rate", "1000")
    agent = client.Agent("can:can1")
    for value in range(8):
        agent.beat(9, 8, value)
        wait_until(lambda: agent.ask(PATIENCE)[9].value == value, "the value")
    counters = server.stop()
    assert counters["unsent"] == 0 and counters["reports"] >= 8


SLOW = "64kbit"  # 500 frames a second
STUCK = "8bit"  # hardly any frame at all


def slow_bus(change: str, rate: str) -> None:
    """Makes or changes a slow bus from slow0, whose queue holds 10 frames, to slow1."""
    run("tc", "qdisc", change, "dev", "slow0", "root", "tbf", "burst", "32", "limit", "160",
        "rate", rate)


def add_slow_bus(rate: str) -> None:
    run("ip", "link", "add", "slow0", "type", "vxcan", "peer", "name", "slow1")
    slow_bus("add", rate)
    for interface in ("slow0", "slow1"):
        run("ip", "link", "set", interface, "up")


def test_a_slow_bus_and_one_that_is_stuck(serve: Callable[..., Program]) -> None:
    """A request that comes before the server ends gets its report, unless the bus is stuck."""
    add_slow_bus(SLOW)
    server = serve("slow0", "--rate", "1000")
    bus = opened("slow1")
    send(bus, BASE + 1, heartbeat(1, 2, 3))
    send(bus, BASE + REQUEST_AT, REQUEST)
    assert entries(report_on(bus))[1][2:] == b"\2\3"
    counters = server.stats()
    assert (counters["packets"], counters["reports"], counters["unsent"]) == (2, 1, 0)
    slow_bus("change", STUCK)
    send(bus, BASE + REQUEST_AT, REQUEST)
    wait_until(lambda: server.stats()["unsent"] == 1, "the report is given up")
    send(bus, BASE + REQUEST_AT, REQUEST)
    wait_until(lambda: server.stats()["packets"] == 4, "the next one is on its way")
    send(bus, ERROR | BUS_OFF, bytes(8))
    wait_until(lambda: server.stats()["bus_offs"] == 1, "the bus is off")
    assert server.stats()["unsent"] == 2  # Queued frames are lost at once.
    send(bus, BASE + REQUEST_AT, REQUEST)
    counters = server.stop()  # it ends, although the report cannot leave
    assert (counters["packets"], counters["reports"], counters["unsent"]) == (5, 1, 3)
    run("ip", "link", "del", "slow0")
    add_slow_bus(SLOW)
    bus = opened("slow1")
    for name, arguments in (("canserver", ["slow0"]), ("udpserver", ["--can", "slow0", "0"])):
        server = serve(*arguments, name=name)
        server.freeze()
        send(bus, BASE + REQUEST_AT, REQUEST)  # no frame of the report leaves before the end
        server.process.terminate()
        server.process.send_signal(signal.SIGCONT)
        assert entries(report_on(bus)) == [bytes(4)] * 64
        assert server.stop()["unsent"] == 0
    run("ip", "link", "del", "slow0")


def test_the_gateway(serve: Callable[..., Program]) -> None:
    """Heartbeats on CAN and a report over UDP, and the other way round."""
    server = serve("--can", "vcan0", "--self", "0", "0", name="udpserver", ready="reports to")
    port = re.findall(r"127\.0\.0\.1:(\d+)", server.wait_for("listening on"))[0]
    over_can, over_udp = client.Agent("can:vcan0"), client.Agent(f"127.0.0.1:{port}")
    cansend("vcan0", "683#0472014AF1034C09")
    wait_until(lambda: over_udp.ask(PATIENCE)[3][1:] == (76, 9), "from CAN to UDP")
    over_udp.beat(4, 5, 6)
    wait_until(lambda: over_can.ask(PATIENCE)[4][1:] == (5, 6), "from UDP to CAN")
    run("ip", "link", "set", "vcan0", "down")
    server.wait_for("vcan0 is down")
    assert over_udp.ask(PATIENCE)[3][1:] == (76, 9)  # UDP still works
    run("ip", "link", "set", "vcan0", "up")
    server.wait_for("vcan0 is back")
    over_can.beat(5, 6, 7)
    wait_until(lambda: over_udp.ask(PATIENCE)[5][1:] == (6, 7), "CAN again")
    assert server.stop()["heartbeats"] == 3


@pytest.fixture
def keyed_options(tmp_path: Path) -> list[str]:
    key = tmp_path / "key"
    key.write_text(bytes(range(16)).hex() + "\n")
    key.chmod(0o600)
    options = ["--key", str(key), "--state", str(tmp_path / "table")]
    run(str(ROOT / "build/canserver"), *options, "--key-is-new", "vcan0")
    return options


def beacon_on(bus: socket.socket, node: keyed.Listener) -> None:
    """Waits for a beacon that the node takes."""
    while True:
        number, _, data = FRAME.unpack(bus.recv(FRAME.size))
        if number == BASE + 97 and node.hear(data):
            return


def test_with_a_key(serve: Callable[..., Program], keyed_options: list[str]) -> None:
    """A node, two readers and one of version 1 on the bus. Nobody asks for the first beacon."""
    keys = keyed.Keys(bytes(range(16)))
    server = serve("vcan0", *lasting(keyed_options, 20))
    node, readers = keyed.Hearer(keys, 3), [keyed.Reader(keys) for _ in range(2)]
    with opened("vcan0") as bus:
        beacon_on(bus, node)
        for at, reader in enumerate(readers):
            assert reader.hear(keys.beacon(keyed.READER_LABEL, node.epoch))
            reader.count = at  # all readers share one last count
            request = reader.request(b"no")
            value = node.heartbeat(76, at)
            assert request and value
            send(bus, BASE + 3, value)
            send(bus, BASE + 98 + 29 * at, request)
            report = report_on(bus, last=8)
            assert reader.check(report) and report[8 + 12:8 + 16][2:] == bytes((76, at))
        send(bus, BASE + 110, keyed.question(keyed.READER_LABEL))
        send(bus, BASE + 3, keyed.question(3))
        send(bus, BASE + REQUEST_AT, REQUEST)
        send(bus, BASE + 3, heartbeat(3, 1, 1))
        send(bus, BASE + 97, keys.beacon(3, 5))  # not for the server
        send(bus, BASE + 96, bytes(8))
        beacon_on(bus, node)  # This is the beacon of the next epoch.
    counters = server.stop()
    assert {name: counters[name] for name in ("packets", "heartbeats", "reports", "beacons",
                                              "magic")} == {
        "packets": 8, "heartbeats": 2, "reports": 2, "beacons": 2, "magic": 2}


def test_a_gateway_with_a_key(serve: Callable[..., Program], keyed_options: list[str]) -> None:
    """One epoch, one table, one count of readers for both; and a node that sends version 1."""
    keys = keyed.Keys(bytes(range(16)))
    server = serve("--can", "vcan0", *lasting(keyed_options), "--also-unkeyed", "5", "0",
                   name="udpserver", ready="with the readers' key")
    port = re.findall(r"127\.0\.0\.1:(\d+)", server.wait_for("listening on"))[0]
    node, reader = keyed.Hearer(keys, 3), keyed.Reader(keys)
    with opened("vcan0") as bus, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(PATIENCE)
        udp.connect(("127.0.0.1", int(port)))
        udp.send(keyed.question(keyed.READER_LABEL))
        assert reader.hear(udp.recv(9))
        beacon_on(bus, node)
        assert node.epoch == reader.epoch
        send(bus, BASE + 3, node.heartbeat(76, 9) or b"")
        wait_until(lambda: server.stats()["heartbeats"] == 1, "the heartbeat is taken")
        udp.send(reader.request(b"no") or b"")
        report = udp.recv(999)
        assert reader.check(report) and report[8 + 12:8 + 16][2:] == b"\x4c\x09"
        send(bus, BASE + 120, reader.request(b"on") or b"")
        assert reader.check(report_on(bus, last=8))
        send(bus, BASE + REQUEST_AT, REQUEST)
        send(bus, BASE + 5, heartbeat(5, 1, 2))
        send(bus, BASE + 3, heartbeat(3, 1, 2))
        send(bus, BASE + 5, keyed.question(5))
        wait_until(lambda: server.stats()["magic"] == 3, "version 1 of 3, version 2 of 5")
        send(bus, BASE + 121, reader.request(b"ja") or b"")
        report = report_on(bus, last=8)
        assert reader.check(report)
        assert (report[8 + 14:8 + 16], report[8 + 22:8 + 24]) == (b"\x4c\x09", b"\1\2")
    counters = server.stop()
    assert (counters["reports"], counters["heartbeats"], counters["magic"]) == (3, 2, 3)
