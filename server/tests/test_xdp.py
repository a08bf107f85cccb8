"""Tests udpserver --xdp in network namespaces of their own. They need root.
SPDX-License-Identifier: MIT"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tests import vm
from server.tests.xdp_differential import FAST, OPTIONS, PORT, Way, compare, run
from spec.model import REQUEST, heartbeat
from tests.support.network import ETHERNET_IPV4, ETHERNET_IPV6, Cable, frame, ipv4, ipv6
from tests.support.programs import PATIENCE, built, vectors, wait_until
from tests.support.servers import Server

pytestmark = pytest.mark.slow

HERE = ("--bind", "10.77.0.1", "--bind", "fd77::1", "--allow", "10.77.0.0/24")
XDP = ("--xdp", "veth1")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


@pytest.fixture
def cable() -> Iterator[Cable]:
    with Cable() as cable:
        yield cable


def serve(cable: Cable, *options: str, **more: object) -> Server:
    with cable.agent.entered():
        return Server(*HERE, *options, **more)  # type: ignore[arg-type]


def beat(cable: Cable, server: Server, *packets: bytes) -> None:
    with cable.node.raw() as frames:
        for packet in packets:
            frames.send(frame(ipv4(packet, server.port)))


def ask(cable: Cable, port: int) -> list[bytes]:
    """Asks for a report, checks it, and returns its entries."""
    with cable.node.udp() as asker:
        asker.settimeout(PATIENCE)
        asker.sendto(REQUEST, ("10.77.0.1", port))
        return checked(asker.recv(1000))


def checked(report: bytes) -> list[bytes]:
    assert len(report) == 260 and zlib.adler32(report[4:]) == int.from_bytes(report[:4], "big")
    return [report[at:at + 4] for at in range(4, 260, 4)]


def counted(server: Server, heartbeats: int) -> None:
    server.wait_for(lambda now: now["heartbeats"] >= heartbeats, f"{heartbeats} heartbeats")
    assert server.stats()["heartbeats"] == heartbeats


def refused(cable: Cable, *options: str, wrap: tuple[str, ...] = ()) -> str:
    """Runs a server that must not start. Returns its one line."""
    with cable.agent.entered():
        done = subprocess.run([*wrap, built("build/udpserver"), *HERE, *options, "0"],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done
    (line,) = done.stderr.splitlines()
    assert line.isprintable() and len(line) < 200
    return line


# ---- Both ways do the same ------------------------------------------------------------------

def test_frames_of_every_kind_make_no_difference() -> None:
    done = run(20_000, seed=1)
    # The test is worth something only if there is enough of everything.
    assert done["in the kernel"] > 2000 and done["heartbeats"] - done["in the kernel"] > 100
    assert all(done[name] > 20 for name in ("reports", "length", "magic", "checksum", "variable",
                                            "not_allowed"))


def test_the_vectors_make_no_difference() -> None:
    lines = vectors("vectors.tsv", long=True).read_text().splitlines()
    packets = {bytes.fromhex(cell) for line in lines
               if not line.startswith("#") for cell in line.split("\t")
               if re.fullmatch(r"([0-9a-f]{2}){1,400}", cell)}
    assert len(packets) > 1000
    ways = Way(*OPTIONS["some"]), Way(*OPTIONS["some"], *XDP)
    try:
        # All of these heartbeats are taken in the kernel, so none overtakes another.
        batches = [sorted(packets)[at:at + 200] for at in range(0, len(packets), 200)]
        for batch in batches:
            compare(*ways, [each for packet in batch for each in (
                frame(ipv4(packet, PORT)), frame(ipv6(packet, PORT), ETHERNET_IPV6))])
        assert ways[0].cable.agent.received() - ways[1].cable.agent.received() > 100
    finally:
        for way in ways:
            way.close()


def test_what_is_taken_in_the_kernel(cable: Cable) -> None:
    """A server that is stopped takes nothing from its socket. Its program takes heartbeats."""
    with serve(cable, *XDP) as server, cable.node.raw() as frames:
        assert "heartbeats are taken in the kernel on veth1" in "\n".join(server.stderr.lines)
        server.process.send_signal(signal.SIGSTOP)
        port = server.port
        taken = [frame(ipv4(heartbeat(1, 7, 1), port)),
                 frame(ipv4(heartbeat(2, 7, 2), port, udp_checksum=0)),
                 frame(ipv4(heartbeat(3, 7, 3), port), pad=18),
                 frame(ipv6(heartbeat(4, 7, 4), port), ETHERNET_IPV6)]
        for one in taken:
            frames.send(one)
        server.process.send_signal(signal.SIGCONT)
        counted(server, len(taken))
        assert cable.agent.received() == 0
        entries = ask(cable, port)
        assert [entry[2:] for entry in entries[:6]] == [
            b"\0\0", b"\7\1", b"\7\2", b"\7\3", b"\7\4", b"\0\0"]
        frames.send(frame(ipv4(heartbeat(5, 7, 5), port), vlan=0))
        frames.send(frame(ipv4(heartbeat(6, 7, 6), port, options=b"\1" * 4)))
        counted(server, len(taken) + 2)
        assert cable.agent.received() == 3  # with the request


@pytest.mark.parametrize("tick", [1, 10, 100, 1000])
def test_stamps(cable: Cable, tick: int) -> None:
    """Each stamp is the time of the heartbeat. With long ticks, it may be that of an earlier one in
    the same jiffy, of 10 ms at most: so there is an earlier one."""
    with serve(cable, *XDP, *FAST, "--tick", f"{tick}", "--self", "9:3") as server, \
            cable.node.raw() as frames:
        for number in range(20):
            first, second = (frame(ipv4(heartbeat(one, 7, 1), server.port)) for one in (63, number))
            frames.send(first)
            begun = time.time_ns()
            while time.time_ns() < begun + 1_500_000:
                pass
            before = time.time_ns() // 1_000_000
            frames.send(second)
            counted(server, 2 * number + 2)
            entries = ask(cable, server.port)
            after = time.time_ns() // 1_000_000
            if number != 9:
                stamp = int.from_bytes(entries[number][:2], "big")
                early = 10 if tick >= 100 else 0
                possible = range((before - early) // tick, after // tick + 1)
                assert stamp in [time % 65536 for time in possible]
            assert entries[9][2:] == b"\3\0"
            time.sleep(0.01)
        up = cable.agent.received() - 20  # without the requests
        # With ticks of a millisecond, a server that gets no core for 60 ms is late: see below.
        assert up == 0 or (tick == 1 and up < 20)


def test_the_table_survives_a_restart(cable: Cable, tmp_path: Path) -> None:
    """What the kernel took is saved, at the end and meanwhile. What was saved is there again."""
    state = tmp_path / "table"
    options = (*XDP, "--state", str(state), "--state-every", "1")
    with serve(cable, *options) as server:
        beat(cable, server, heartbeat(3, 76, 9))
        wait_until(lambda: state.read_bytes()[24 + 14:24 + 16] == b"\x4c\x09", "the state is saved")
        beat(cable, server, heartbeat(4, 77, 10))
        assert server.stop()["heartbeats"] == 2
    with serve(cable, *options) as server:
        entries = ask(cable, server.port)
        assert entries[3][2:] == b"\x4c\x09" and entries[4][2:] == b"\x4d\x0a"
        beat(cable, server, heartbeat(5, 78, 11))
        assert ask(cable, server.port)[3:6] == [*entries[3:5], ask(cable, server.port)[5]]


def test_a_server_that_hangs_takes_nothing(cable: Cable) -> None:
    """With ticks of a millisecond, the ages have to be checked each 240 ms. When nobody does, the
    heartbeats wait in the socket."""
    with serve(cable, *XDP, "--tick", "1") as server:
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.4)
        beat(cable, server, heartbeat(3, 7, 1))
        server.process.send_signal(signal.SIGCONT)
        counted(server, 1)
        assert cable.agent.received() == 1
        wait_until(lambda: kernel_takes(cable, server), "the kernel takes heartbeats again")


def kernel_takes(cable: Cable, server: Server) -> bool:
    """Sends a heartbeat, and returns whether it did not go up."""
    before, heartbeats = cable.agent.received(), server.stats()["heartbeats"]
    beat(cable, server, heartbeat(63, 7, 1))
    counted(server, heartbeats + 1)
    return cable.agent.received() == before


def test_counters_on_a_socket(cable: Cable, tmp_path: Path) -> None:
    path = str(tmp_path / "stats")
    with serve(cable, *XDP, "--stats", path) as server:
        beat(cable, server, *[heartbeat(3, 7, 1)] * 5, b"\0" * 8)
        server.wait_for(lambda now: now["packets"] == 6, "all packets")
        with socket.socket(socket.AF_UNIX) as reader:
            reader.connect(path)
            line = reader.makefile().read()
        assert '"variables":1,"packets":6,"heartbeats":5,' in line and '"magic":1,' in line


def test_heartbeats_are_not_late_for_the_check_of_ages(cable: Cable) -> None:
    """With ticks of 20 ms, the ages are checked each 4.8 s. That must be before the program stops,
    so it never does."""
    with serve(cable, *XDP, "--tick", "20") as server, cable.node.raw() as frames:
        one = frame(ipv4(heartbeat(3, 7, 1), server.port))
        end, sent = time.monotonic() + 5.2, 0
        while time.monotonic() < end:
            frames.send(one)
            sent += 1
            time.sleep(0.005)
        counted(server, sent)
        assert cable.agent.received() == 0


def test_after_a_hang_the_newest_heartbeat_counts(cable: Cable) -> None:
    """The server hangs, and a heartbeat waits behind thousands of requests. Then it goes on. What
    comes now must not be overtaken by what has waited."""
    with serve(cable, *XDP, *FAST, "--tick", "1") as server, cable.node.udp() as asker:
        asker.connect(("10.77.0.1", server.port))
        for number in range(3):
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            before = cable.agent.received()
            for _ in range(8700):
                asker.send(REQUEST)
            beat(cable, server, heartbeat(3, 1, number))
            server.process.send_signal(signal.SIGCONT)
            # It takes twice 4096 packets before it looks at anything else.
            wait_until(lambda: cable.agent.received() >= before + 8192, "requests are taken")
            server.process.send_signal(signal.SIGSTOP)
            beat(cable, server, heartbeat(3, 2, number))
            server.process.send_signal(signal.SIGCONT)
            counted(server, 2 * number + 2)
            assert ask(cable, server.port)[3][2:] == bytes((2, number))


def test_watching_and_the_watchdog(cable: Cable, tmp_path: Path) -> None:
    """What the kernel takes makes a node alive, and the service manager learns that all is well."""
    (tmp_path / "names").write_text("[dumpulse]\ntick = 50ms\nwarn = 1s\ncrit = 60s\n"
                                    "[3]\nname = engine\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"),
                       "WATCHDOG_USEC": "200000"}
        environment.pop("WATCHDOG_PID", None)
        with serve(cable, *XDP, "--tick", "50", "--watch", str(tmp_path / "names"),
                   env=environment) as server:
            beat(cable, server, heartbeat(3, 7, 1))
            for change in ("alive, was ", "late, was alive"):
                wait_until(lambda now=change: any(  # type: ignore[misc]
                    f"variable 3 engine: {now}" in line for line in server.stderr.lines), change)
            assert cable.agent.received() == 0
            messages = [manager.recv(100) for _ in range(5)]
            assert messages.count(b"WATCHDOG=1") >= 3 and b"READY=1" in messages


@pytest.mark.slow
def test_in_a_machine_with_linux_6_1() -> None:
    """There, the clock may be set. And an older verifier accepts the program."""
    built("build/udpserver")
    status, output = vm.run_in_vm(
        "DUMPULSE_SERVER=build/udpserver build/venv/bin/python -m server.tests.vm_xdp")
    assert status == 0 and "vm_xdp: passed" in output.splitlines(), output


# ---- Load ------------------------------------------------------------------------------------

def flood(cable: Cable, server: Server, amount: int,
          core: int | None = None) -> subprocess.Popen[str]:
    """Sends as fast as one core can, for ms, or -N packets. They are for variable 7; their sender
    and their value are the same."""
    with cable.node.entered():
        sender = subprocess.Popen([built("build/flood"), f"{server.port}", f"{amount}", "10.77.0.1",
                                   "7"], stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(sender.pid, {min(os.sched_getaffinity(0)) if core is None else core})
    return sender


@pytest.mark.slow
def test_no_heartbeat_is_lost_and_no_entry_torn_on_several_cores() -> None:
    """All cores send, for the same variable. A reader checks each report."""
    cores = sorted(os.sched_getaffinity(0))
    with Cable(queues=len(cores)) as cable, serve(cable, *XDP, *FAST) as server, \
            cable.node.udp() as asker:
        asker.settimeout(0.1)
        asker.connect(("10.77.0.1", server.port))
        cable.node.make_checksums()
        senders = [flood(cable, server, -200_000, core) for core in cores]
        requests = answers = 0
        while any(sender.poll() is None for sender in senders):
            for _ in range(20):
                asker.send(REQUEST)
            requests += 20
            with contextlib.suppress(TimeoutError):  # the full cable loses requests, too
                for _ in range(20):
                    entry = checked(asker.recv(1000))[7]
                    assert entry[2] == entry[3]
                    answers += 1
        assert [sender.communicate()[0] for sender in senders] == ["200000\n"] * len(cores)
        arrived = 200_000 * len(cores) + requests - cable.node.dropped()
        server.wait_for(lambda now: now["packets"] >= arrived, "all that arrived is taken")
        counters = server.stop()
        assert counters["heartbeats"] + counters["reports"] == counters["packets"] == arrived
        assert 20 <= answers <= counters["reports"] <= requests and counters["drops"] == 0


def test_an_entry_is_one_store() -> None:
    """Half of an entry is seen too seldom for a test. So this looks at the code: there is one
    instruction that writes to the entries, and it writes four bytes."""
    code = subprocess.run(["llvm-objdump", "-dr", "--no-show-raw-insn",
                           built("build/xdp_program.o")], capture_output=True, text=True,
                          check=True).stdout
    (found,) = re.findall(r"(r\d) = 0 ll\n[^\n]*R_BPF_64_64\s+entries\n(.*)", code, re.S)
    stores = re.findall(r"\*\((u\d+) \*\)\((r\d+) \+ \w+\) = ", found[1])
    assert stores[0] == ("u32", found[0]) and found[0] not in [base for _, base in stores[1:2]]


def test_after_a_kill_at_full_load_the_socket_has_the_traffic(cable: Cable) -> None:
    with serve(cable, *XDP) as server:
        cable.node.make_checksums()
        sender = flood(cable, server, 20_000)
        try:
            server.wait_for(lambda now: now["heartbeats"] > 1000, "heartbeats are taken")
            assert "xdp" in cable.agent.run("ip link show veth1")
            with cable.agent.udp() as other, cable.node.raw() as node:
                other.settimeout(0.05)
                server.kill()
                killed = time.monotonic()
                other.bind(("10.77.0.1", server.port))
                came = b""
                while not came:
                    node.send(frame(ipv4(heartbeat(7, 1, 1), server.port)))
                    with contextlib.suppress(TimeoutError):
                        came = other.recv(100)
                    assert time.monotonic() - killed < 5
                assert len(came) == 8
            assert "xdp" not in cable.agent.run("ip link show veth1")
        finally:
            sender.kill()
            sender.wait(PATIENCE)
            assert sender.stdout is not None
            sender.stdout.close()


def test_a_restart_while_packets_flow(cable: Cable, tmp_path: Path) -> None:
    """Each server takes over the table of the last one. No entry is torn, and no heartbeat is
    counted twice."""
    options = (*XDP, *FAST, "--state", str(tmp_path / "table"))
    frames = [frame(ipv4(heartbeat(7, number, number), PORT)) for number in range(256)]
    ending = threading.Event()
    sent = 0

    def send() -> None:
        nonlocal sent
        with cable.node.raw() as node:
            while not ending.is_set():
                for one in frames:
                    with contextlib.suppress(OSError):  # a full cable has dropped it
                        node.send(one)
                sent += len(frames)

    sender = threading.Thread(target=send)
    total = 0
    try:
        for turn in range(4):
            with serve(cable, *options, port=PORT) as server:
                if turn == 0:
                    beat(cable, server, heartbeat(3, 76, 9))
                    counted(server, 1)
                    sender.start()
                server.wait_for(lambda now: now["heartbeats"] > 1000, "heartbeats are taken")
                entries = ask(cable, PORT)
                assert entries[3][2:] == b"\x4c\x09" and entries[7][2] == entries[7][3]
                if turn == 3:
                    ending.set()
                    sender.join(PATIENCE)
                total += server.stop()["heartbeats"]
            assert "xdp" not in cable.agent.run("ip link show veth1")
    finally:
        ending.set()
        sender.join(PATIENCE)
    # Nobody listened, or a socket was full, perhaps while its server was ending already.
    lost = re.findall(r"^Udp(?:NoPorts|RcvbufErrors) +(\d+)", cable.agent.run("nstat -asz"), re.M)
    known = total - 1 + sum(map(int, lost)) + cable.node.dropped()
    # Some heartbeats were in the sockets when these were closed.
    assert sent - 4 * 10_000 < known <= sent


# ---- Interfaces ----

# Commands on the server's side; options; the frame; heartbeats counted, and of these in the kernel.
CASES: dict[str, tuple[list[str], tuple[str, ...], dict[str, str], int, int]] = {
    "nothing else": ([], XDP, {}, 1, 1),
    "from an address of lo": (["ip address add 10.99.0.9/32 dev lo",
                               "ip address add 10.77.0.6/24 dev veth1"], XDP,
                              {"source": "10.99.0.9"}, 0, 0),
    "to an address of lo": (["ip address add 10.99.0.1/32 dev lo"], XDP, {"to": "10.99.0.1"}, 1, 0),
    "from a broadcast address": ([], XDP, {"source": "10.77.0.255"}, 1, 1),
    "an address with a label": (["ip address add 10.77.0.6/24 dev veth1 label veth1:6"], XDP,
                                {"to": "10.77.0.6"}, 1, 1),
    "the other one of two": (["ip address add 10.66.0.0/31 dev veth1"], XDP,
                             {"to": "10.66.0.0", "source": "10.66.0.1"}, 1, 1),
    "another name": (["ip link property add dev veth1 altname cable0"],
                     ("--xdp", "cable0"), {}, 1, 1),
    "a large MTU": (["ip link set veth1 mtu 9000"], XDP, {}, 1, 1),
    "many addresses": ([f"ip address add 10.55.{i}.1/24 dev veth1" for i in range(100)], XDP,
                       {"to": "10.55.99.1"}, 1, 1),
    "too many addresses": ([f"ip address add 10.55.{i}.1/24 dev veth1" for i in range(130)], XDP,
                           {}, 1, 0),
    "from an allowed network": ([], (*XDP, "--allow-heartbeats", "2001:db8::/32",
                                     "--allow-heartbeats", "10.77.0.0/30"), {}, 1, 1),
    "a port of a bridge": (["ip link add br0 type bridge", "ip link set br0 up",
                            "ip link set veth1 master br0"], XDP, {}, 1, 1),
    "a bridge": (["ip link add br0 type bridge", "ip link set br0 address 02:00:00:00:00:01 up",
                  "ip link set veth1 master br0", "ip address flush dev veth1",
                  "ip address add 10.77.0.1/24 dev br0"], ("--xdp", "br0"), {}, 1, 1),
    "another hardware address": (["ip link set veth1 address 02:00:00:00:00:07"], XDP, {}, 0, 0),
    "another interface": (["ip link add veth3 type veth peer name veth4", "ip link set veth3 up",
                           "ip link set veth4 up", "ip address add 10.78.0.1/24 dev veth3",
                           "ip link set veth3 address 02:00:00:00:00:01"],
                          (*XDP, "--xdp", "veth3"), {"to": "10.78.0.1"}, 1, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_socket_would_do_the_same(cable: Cable, case: str) -> None:
    commands, options, more, heartbeats, in_the_kernel = CASES[case]
    if case == "a large MTU":  # a driver looks at the MTU of both sides
        cable.node.run("ip link set veth2 mtu 9000")
    for command in commands:
        cable.agent.run(command)
    for way in ((), options):
        with cable.agent.entered():
            server = Server("--bind", "0.0.0.0", "--allow", "10.77.0.0/24", *way, port=PORT)
        with server, cable.node.raw() as frames:
            before = cable.agent.received()
            frames.send(frame(ipv4(heartbeat(3, 7, 1), PORT, **more)))  # type: ignore[arg-type]
            frames.send(frame(ipv4(REQUEST, PORT)))
            if case == "another hardware address":
                time.sleep(0.1)
            else:
                server.wait_for(lambda now: now["reports"] == 1, "the request is answered")
            assert server.stats()["heartbeats"] == heartbeats
            up = cable.agent.received() - before - server.stats()["reports"]
            assert up == (heartbeats - in_the_kernel if way else heartbeats)
            said = "\n".join(server.stderr.lines)
            assert ("too many addresses" in said) == bool(way and case == "too many addresses")
            assert ("generically" in said) == bool(way and case == "a bridge")


def test_the_route_of_the_sender_is_not_checked(cable: Cable) -> None:
    """This is a difference to the socket, of which the manual warns."""
    cable.agent.run("sysctl -q net.ipv4.conf.all.rp_filter=1")
    for way, heartbeats in (((), 0), (XDP, 1)):
        with serve(cable, *way) as server, cable.node.raw() as frames:
            frames.send(frame(ipv4(heartbeat(3, 7, 1), server.port, source="192.0.2.9")))
            frames.send(frame(ipv4(REQUEST, server.port)))
            server.wait_for(lambda now: now["reports"] == 1, "the request is answered")
            assert server.stats()["heartbeats"] == heartbeats


def test_an_address_that_another_machine_has(cable: Cable) -> None:
    """Both sides have the same IPv6 address. The server's asks first, and then must not use it."""
    cable.node.run("ip address add fd77::5/64 dev veth2 nodad")
    cable.agent.run("sysctl -q net.ipv6.conf.veth1.accept_dad=1")
    cable.agent.run("ip address add fd77::5/64 dev veth1")
    with cable.agent.entered():
        server = Server("--bind", "::", "--allow", "10.77.0.0/24", *XDP)
    with server, cable.node.raw() as frames:
        wait_until(lambda: "dadfailed" in cable.agent.run("ip address show dev veth1"),
                   "the other side has answered")
        time.sleep(2)
        frames.send(frame(ipv6(heartbeat(5, 7, 1), server.port, to="fd77::5"), ETHERNET_IPV6))
        frames.send(frame(ipv6(heartbeat(6, 7, 1), server.port), ETHERNET_IPV6))
        counted(server, 1)
        entries = ask(cable, server.port)
        assert entries[5] == bytes(4) and entries[6][2:] == b"\7\1"


def test_a_checksum_that_happens_to_be_zero(cable: Cable) -> None:
    """It is sent as ffff, because 0 means that there is none. IPv6 does not allow that."""
    with serve(cable, *XDP) as server, cable.node.raw() as frames:
        for number, make, kind, zero in ((1, ipv4, ETHERNET_IPV4, 1), (2, ipv6, ETHERNET_IPV6, 0)):
            before = server.stats()["heartbeats"]
            good = heartbeat(number, 7, 1)
            (rest,) = struct.unpack("!H", make(good, server.port, from_port=0)[-10:-8])
            whole = make(good, server.port, from_port=rest)
            assert whole[-10:-8] == b"\xff\xff"
            frames.send(frame(whole, kind))
            counted(server, before + 1)
            frames.send(frame(make(good, server.port, from_port=rest, udp_checksum=0), kind))
            frames.send(frame(ipv4(heartbeat(3, 7, 1), server.port)))
            counted(server, before + 2 + zero)
            assert cable.agent.received() == 0


def test_packets_without_checksums_go_up(cable: Cable) -> None:
    """A veth leaves checksums to hardware that does not exist. The socket takes such packets."""
    with serve(cable, *XDP) as server, cable.node.udp() as node:
        for number, up in ((1, 1), (2, 1)):
            node.sendto(heartbeat(number, 7, 1), ("10.77.0.1", server.port))
            counted(server, number)
            assert cable.agent.received() == up
            cable.node.make_checksums()


def test_an_interface_that_is_renamed(cable: Cable) -> None:
    with serve(cable, *XDP) as server:
        assert kernel_takes(cable, server)
        for before, name, said in (("veth1", "other", "gone"), ("other", "veth1", "back")):
            cable.agent.run(f"ip link set {before} down")
            cable.agent.run(f"ip link set {before} name {name} up")
            wait_until(lambda now=f"veth1 is {said}":  # type: ignore[misc]
                       now in server.stderr.lines[-1], said)
            assert kernel_takes(cable, server) == (name == "veth1")


def test_a_program_that_somebody_removes(cable: Cable) -> None:
    with serve(cable, *XDP) as server:
        (shown,) = json.loads(cable.agent.run("ip -json link show veth1"))
        (link,) = [one["id"] for one in json.loads(cable.agent.run("bpftool --json link show"))
                   if one.get("prog_id") == shown["xdp"]["prog"]["id"]]
        cable.agent.run(f"bpftool link detach id {link}")
        wait_until(lambda: "veth1 is back" in server.stderr.lines[-1], "it is attached again")
        assert kernel_takes(cable, server)


def test_an_interface_without_ethernet(cable: Cable) -> None:
    """What looks like an Ethernet header there is something else."""
    with cable.agent.entered():
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI))
    try:
        cable.agent.run("ip address add 10.78.0.1/24 dev tun0")
        cable.agent.run("ip link set tun0 up")
        with cable.agent.entered():
            server = Server("--bind", "0.0.0.0", "--xdp", "tun0")
        with server:
            assert "--xdp tun0 takes nothing: it is no Ethernet" in "\n".join(server.stderr.lines)
            os.write(tun, ipv4(heartbeat(3, 7, 1), server.port, source="10.78.0.2", to="10.78.0.1"))
            counted(server, 1)
    finally:
        os.close(tun)


def test_vlan_tags_that_the_interface_takes_off_are_told(cable: Cable) -> None:
    """A veth does that, until it is told otherwise."""
    for told in (True, False):
        with serve(cable, *XDP) as server:
            assert told == any("heartbeats of other VLANs count, too" in line
                               for line in server.stderr.lines)
        cable.agent.keep_vlan_tags()


def test_the_rights_in_the_manual_are_enough(cable: Cable) -> None:
    """The service has no others, and most of /proc is hidden from it."""
    manual = Path("server/udpserver.8").read_text()
    rights = re.findall(r"^AmbientCapabilities=(.+)$", manual, re.M)[0].lower().split()
    assert all(one.upper() in manual.replace("AmbientCapabilities", "") for one in rights)
    some = "-all," + ",".join(f"+{one.removeprefix('cap_')}" for one in rights)
    wrap = ("unshare", "--mount", "sh", "-c", 'mount -t proc -o subset=pid proc /proc && exec "$@"',
            "sh", "setpriv", f"--bounding-set={some}", f"--inh-caps={some}",
            f"--ambient-caps={some}", "--reuid=65534", "--regid=65534", "--clear-groups",
            "--no-new-privs")
    # A user without rights must reach the program.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(built("build/udpserver"), folder)
        with serve(cable, *XDP, wrap=wrap, program=[program]) as server, cable.node.raw() as frames:
            frames.send(frame(ipv4(heartbeat(3, 7, 1), server.port)))
            frames.send(frame(ipv6(heartbeat(4, 7, 1), server.port), ETHERNET_IPV6))
            counted(server, 2)
            assert cable.agent.received() == 0

def test_an_interface_that_goes_and_comes_back(cable: Cable) -> None:
    with serve(cable, *XDP) as server:
        assert kernel_takes(cable, server)
        cable.cut()
        wait_until(lambda: "veth1 is gone: waiting for it" in server.stderr.lines[-1], "it is gone")
        cable.connect()
        wait_until(lambda: "veth1 is back" in server.stderr.lines[-1], "it is back")
        wait_until(lambda: kernel_takes(cable, server), "the kernel takes heartbeats again")
        assert ask(cable, server.port)[63][2:] == b"\7\1"


@pytest.mark.parametrize("more", [(), XDP])
def test_a_link_local_address_after_its_interface_came_back(cable: Cable,
                                                            more: tuple[str, ...]) -> None:
    """The interface has another number then, and later the first one again. The old socket hears
    nothing."""
    wait_until(lambda: re.search(r"fe80::ff:fe00:1(?!.*tentative)", cable.agent.run(
        "ip -6 -oneline address show dev veth1")), "the address can be used")
    with cable.agent.entered():
        first = socket.if_nametoindex("veth1")
        server = Server("--bind", "10.77.0.1", "--bind", "fe80::ff:fe00:1%veth1", "--allow", "::/0",
                        *more)
    with server:
        for turn, number in enumerate(("", f"index {first}", "")):
            with cable.node.entered():
                scope = socket.if_nametoindex("veth2")

            def is_heard() -> bool:
                before = server.stats()["heartbeats"]
                with cable.node.udp(socket.AF_INET6) as node:
                    with contextlib.suppress(OSError):  # the address may not be ready yet
                        node.sendto(heartbeat(3, 7, turn),  # noqa: B023
                                    ("fe80::ff:fe00:1", server.port, 0, scope))  # noqa: B023
                return server.stats()["heartbeats"] > before

            wait_until(is_heard, "it is heard")
            cable.cut()
            cable.connect(number)
        wait_until(lambda: any("listening on [fe80::ff:fe00:1%veth1]" in line and "again" in line
                               for line in server.stderr.lines), "it says so")


def test_who_may_send_is_read_again(cable: Cable, tmp_path: Path) -> None:
    senders = tmp_path / "senders"
    senders.write_text("10.77.0.0/24")
    with serve(cable, *XDP, "--allow-heartbeats", f"@{senders}") as server:
        for allowed in (True, False, True):
            senders.write_text("10.77.0.0/24" if allowed else "192.0.2.0/24")
            server.process.send_signal(signal.SIGHUP)
            before = server.stats()  # after the other signal, or with it
            beat(cable, server, heartbeat(3, 7, 1))
            after = server.wait_for(lambda now: now["packets"] > before["packets"],
                                    "it is counted")
            assert (after["heartbeats"] > before["heartbeats"]) == allowed


def test_an_address_that_comes_and_goes(cable: Cable) -> None:
    """An address that the machine does not have is not served."""
    with cable.agent.entered():
        server = Server("--bind", "0.0.0.0", "--allow", "10.77.0.0/24", *XDP)
    with server, cable.node.raw() as frames:
        cable.agent.run("ip address add 10.77.0.5/24 dev veth1")

        def taken(number: int) -> bool:
            before = cable.agent.received(), server.stats()["heartbeats"]
            frames.send(frame(ipv4(heartbeat(number, 7, 1), server.port, to="10.77.0.5")))
            counted(server, before[1] + 1)
            return cable.agent.received() == before[0]

        wait_until(lambda: taken(8), "the kernel takes them")
        cable.agent.run("ip address delete 10.77.0.5/24 dev veth1")
        time.sleep(2)
        count = server.stats()["heartbeats"]
        frames.send(frame(ipv4(heartbeat(9, 7, 1), server.port, to="10.77.0.5")))
        assert kernel_takes(cable, server)
        assert server.stats()["heartbeats"] == count + 1
        assert ask(cable, server.port)[9] == bytes(4)


def test_an_ipv6_address_that_comes(cable: Cable) -> None:
    with cable.agent.entered():
        server = Server("--bind", "::", "--allow", "10.77.0.0/24", *XDP)
    with server, cable.node.raw() as frames:
        cable.agent.run("ip address add fd77::5/64 dev veth1 nodad")
        # Until then, the socket would not get a packet for it, either.
        wait_until(lambda: "fd77::5" in cable.agent.run("ip -6 route show table local"),
                   "the kernel has the address")

        def taken() -> bool:
            before = cable.agent.received(), server.stats()["heartbeats"]
            frames.send(frame(ipv6(heartbeat(3, 7, 1), server.port, to="fd77::5"), ETHERNET_IPV6))
            counted(server, before[1] + 1)
            return cable.agent.received() == before[0]

        wait_until(taken, "the kernel takes them")


def test_a_hardware_address_that_changes(cable: Cable) -> None:
    new = bytes((2, 0, 0, 0, 0, 7))
    with serve(cable, *XDP) as server, cable.node.raw() as frames:
        packet = ipv4(heartbeat(3, 7, 1), server.port)
        cable.agent.run(f"ip link set veth1 address {new.hex(':')}")

        def taken() -> bool:
            before = cable.agent.received(), server.stats()["heartbeats"]
            frames.send(frame(packet, to=new))
            counted(server, before[1] + 1)
            return cable.agent.received() == before[0]

        wait_until(taken, "the kernel takes them")
        count = server.stats()["heartbeats"]
        frames.send(frame(packet))  # as before; the kernel refuses it now
        frames.send(frame(packet, to=new))
        counted(server, count + 1)


def test_a_second_server_is_refused(cable: Cable) -> None:
    with serve(cable, *XDP) as server:
        assert refused(cable, *XDP) == (
            "udpserver: cannot use --xdp veth1: another program, perhaps of another server, takes "
            "its packets; ip link shows it")
        with cable.agent.entered():
            optional = Server("--bind", "10.77.0.1", "--allow", "10.77.0.0/24", *XDP,
                              "--xdp-optional")
        with optional:
            assert "; serving without it" in optional.stderr.lines[0]
            beat(cable, optional, heartbeat(3, 7, 1))
            counted(optional, 1)
        assert kernel_takes(cable, server)


def test_what_cannot_be_used_is_said(cable: Cable) -> None:
    assert "--xdp nosuch0: there is no such interface" in refused(cable, "--xdp", "nosuch0")
    rights = ("setpriv", "--bounding-set=-bpf,-net_admin,-sys_admin,-perfmon",
              "--inh-caps=-bpf,-net_admin,-sys_admin,-perfmon")
    assert refused(cable, *XDP, wrap=rights) == (
        "udpserver: cannot use --xdp veth1: the kernel does not allow it: it needs root, or "
        "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON")
    assert "xdp" not in cable.agent.run("ip link show veth1")
    # Without it on one interface is without it on all.
    for more, wrap in (((), rights), (("--xdp", "nosuch0"), ())):
        with serve(cable, *XDP, *more, "--xdp-optional", wrap=wrap) as optional:
            beat(cable, optional, heartbeat(3, 7, 1))
            counted(optional, 1)
            assert "xdp" not in cable.agent.run("ip link show veth1")


def test_an_interface_without_a_driver_and_without_an_address(cable: Cable) -> None:
    with serve(cable, "--xdp", "lo") as server:
        said = "\n".join(server.stderr.lines)
        assert "in the kernel on lo, generically: its driver does not take the program" in said
        assert "--xdp lo takes nothing: it has no address that is served" in said


@pytest.mark.parametrize("arguments, mention", [
    (["--xdp-optional"], "--xdp-optional is for --xdp"),
    (["--xdp", "lo", "--log", "changes"], "leave out --log changes"),
    (["--xdp", "lo", "--xdp", "lo"], "--xdp lo is there twice"),
    ([f"--xdp=eth{number}" for number in range(9)], "8 times at most"),
])
def test_wrong_arguments(arguments: list[str], mention: str) -> None:
    done = subprocess.run([built("build/udpserver"), *arguments], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "") and mention in line


@pytest.mark.parametrize("settings, wanted", [
    ([], "yes"), (["XDP=no"], "no"), (["LDFLAGS=-static -s"], "no"),
    (["CC=i686-linux-gnu-gcc"], "no"), (["CC=clang"], "yes")])
def test_where_it_is_built(settings: list[str], wanted: str) -> None:
    """A cross compiler has no libbpf, and a static program cannot have it."""
    done = subprocess.run(["make", "-s", "--eval=say-xdp: ; @echo $(XDP)", "say-xdp", *settings],
                          capture_output=True, text=True, check=True,
                          env={"PATH": os.environ["PATH"]})
    assert done.stdout == f"{wanted}\n"


def test_a_server_that_was_built_without_it_says_so() -> None:
    program = built("build/udpserver-calls")
    done = subprocess.run([program, "--xdp", "lo", "0"], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 1 and done.stderr == (
        "udpserver: cannot use --xdp lo: this udpserver was built without it: it needs clang, "
        "bpftool and libbpf-dev\n")
    help_text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert "(this udpserver was built without it)" in help_text.stdout
