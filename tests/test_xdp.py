"""Tests udpserver --xdp in network namespaces of their own. They need root.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.model import REQUEST, heartbeat
from sim.network import ETHERNET_IPV6, Cable, frame, ipv4, ipv6
from sim.programs import PATIENCE, built, wait_until
from tests.servers import Server
from tests.xdp_differential import FAST, OPTIONS, PORT, Way, compare, run

HERE = ("--bind", "10.77.0.1", "--bind", "fd77::1", "--allow", "10.77.0.0/24")
XDP = ("--xdp", "veth1")


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
    packets = {bytes.fromhex(cell) for line in Path("tests/vectors.tsv").read_text().splitlines()
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
    """Each stamp is the time of the heartbeat, and up to a jiffy of 10 ms before it."""
    with serve(cable, *XDP, *FAST, "--tick", f"{tick}", "--self", "9:3") as server:
        for number in range(20):
            before = time.time_ns() // 1_000_000
            beat(cable, server, heartbeat(number, 7, 1))
            counted(server, number + 1)
            entries = ask(cable, server.port)
            after = time.time_ns() // 1_000_000
            if number != 9:
                stamp = int.from_bytes(entries[number][:2], "big")
                early = 10 if tick >= 100 else 0
                possible = range((before - early) // tick, after // tick + 1)
                assert stamp in [time % 65536 for time in possible]
            assert entries[9][2:] == b"\3\0"
            time.sleep(0.01)
        assert cable.agent.received() == 20  # the requests


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


# ---- Load ------------------------------------------------------------------------------------

def flood(cable: Cable, server: Server, amount: int, core: int = 0) -> subprocess.Popen[str]:
    """Sends as fast as one core can, for ms, or -N packets. They are for variable 7; their sender
    and their value are the same."""
    with cable.node.entered():
        sender = subprocess.Popen([built("build/flood"), f"{server.port}", f"{amount}",
                                   "10.77.0.1", "7"], stdout=subprocess.PIPE,
                                  text=True)
    os.sched_setaffinity(sender.pid, {core})
    return sender


def test_no_heartbeat_is_lost_and_no_entry_torn_on_several_cores() -> None:
    """All cores send, for the same variable. A reader checks each report."""
    cores = sorted(os.sched_getaffinity(0))
    with Cable(queues=len(cores)) as cable, serve(cable, *XDP, *FAST) as server, \
            cable.node.udp() as asker:
        asker.settimeout(PATIENCE)
        asker.connect(("10.77.0.1", server.port))
        cable.node.make_checksums()
        senders = [flood(cable, server, -200_000, core) for core in cores]
        reports = 0
        while any(sender.poll() is None for sender in senders):
            for _ in range(20):
                asker.send(REQUEST)
            for _ in range(20):
                entry = checked(asker.recv(1000))[7]
                assert entry[2] == entry[3]
            reports += 20
        assert [sender.communicate()[0] for sender in senders] == ["200000\n"] * len(cores)
        counted(server, 200_000 * len(cores) - cable.node.dropped())
        counters = server.stop()
        assert (counters["reports"], counters["drops"]) == (reports, 0) and reports >= 20


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
            server.kill()
            killed = time.monotonic()
            with cable.agent.udp() as other:
                other.bind(("10.77.0.1", server.port))
                other.settimeout(1)
                sender.kill()  # it may have learned that nobody listened
                sender.wait(PATIENCE)
                sender = flood(cable, server, 2_000)
                assert len(other.recv(100)) == 8
                assert time.monotonic() - killed < 1
            assert "xdp" not in cable.agent.run("ip link show veth1")
        finally:
            sender.kill()
            sender.wait(PATIENCE)
            assert sender.stdout is not None
            sender.stdout.close()


# ---- Interfaces ------------------------------------------------------------------------------

def test_an_interface_that_goes_and_comes_back(cable: Cable) -> None:
    with serve(cable, *XDP) as server:
        assert kernel_takes(cable, server)
        cable.cut()
        wait_until(lambda: "veth1 is gone: waiting for it" in server.stderr.lines[-1], "it is gone")
        cable.connect()
        wait_until(lambda: "veth1 is back" in server.stderr.lines[-1], "it is back")
        wait_until(lambda: kernel_takes(cable, server), "the kernel takes heartbeats again")
        assert ask(cable, server.port)[63][2:] == b"\7\1"


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
        time.sleep(0.6)
        count = server.stats()["heartbeats"]
        frames.send(frame(ipv4(heartbeat(9, 7, 1), server.port, to="10.77.0.5")))
        assert kernel_takes(cable, server)
        assert server.stats()["heartbeats"] == count + 1
        assert ask(cable, server.port)[9] == bytes(4)


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
        "CAP_BPF and CAP_NET_ADMIN")
    assert "xdp" not in cable.agent.run("ip link show veth1")
    with cable.agent.entered():
        optional = Server(*HERE, *XDP, "--xdp-optional", wrap=rights)
        with optional:
            beat(cable, optional, heartbeat(3, 7, 1))
            counted(optional, 1)


def test_an_interface_without_a_driver_and_without_an_address(cable: Cable) -> None:
    with serve(cable, "--xdp", "lo") as server:
        said = "\n".join(server.stderr.lines)
        assert "in the kernel on lo, generically: its driver has no XDP" in said
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


def test_a_server_that_was_built_without_it_says_so() -> None:
    program = built("build/udpserver-sanitized")
    done = subprocess.run([program, "--xdp", "lo", "0"], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 1 and done.stderr == (
        "udpserver: cannot use --xdp lo: this udpserver was built without it: it needs clang, "
        "bpftool and libbpf-dev\n")
    help_text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert "(this udpserver was built without it)" in help_text.stdout
