"""Tests the real udpserver over real sockets on loopback.

DUMPULSE_SERVER names another command to test: a sanitized build, or valgrind."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spec.model import REQUEST, heartbeat
from tools.programs import (PATIENCE, ROOT, built, free_port, open_files, started,
                                    wait_until)
from tools.servers import Counters, Namespace, Server, Talker, command

UNSET = bytes(4)
GOOD = heartbeat(3, 76, 9)
EVERY_CAUSE = [  # packets, and why each is refused
    (b"", "length"), (b"\xf1", "length"), (GOOD[:7], "length"),
    (GOOD + b"\0", "length"), (GOOD * 2, "length"),
    (REQUEST + b"!", "length"), (GOOD + bytes(492), "length"),
    (bytes(65507), "length"),
    (b"AreyouOk", "magic"), (bytes(8), "magic"), (heartbeat(3, 76, 9, magic=0xF0), "magic"),
    (heartbeat(64, 76, 9, magic=0xF0), "magic"), (b"areyouOK", "magic"),
    (REQUEST[:4] + GOOD[4:], "checksum"),
    *[(GOOD[:at] + bytes((GOOD[at] ^ 1,)) + GOOD[at + 1:], "checksum")
      for at in (0, 1, 2, 3, 5, 6, 7)],
    (bytes(4) + heartbeat(64, 76, 9)[4:], "checksum"), (bytes(4) + GOOD[4:], "checksum"),
    (heartbeat(64, 76, 9), "variable"), (heartbeat(255, 0, 0), "variable"),
]


class Peer(Talker):
    """Asks for reports."""

    def answer(self) -> bytes:
        """Returns the next report. It must be complete and right."""
        report = super().answer()
        assert len(report) == 260 and zlib.adler32(report[4:]) == int.from_bytes(report[:4], "big")
        return report

    def ask(self) -> list[bytes]:
        """Asks for a report, and returns its entries."""
        self.send(REQUEST)
        report = self.answer()
        return [report[at:at + 4] for at in range(4, 260, 4)]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def peer(server: Server) -> Iterator[Peer]:
    with Peer(server) as peer:
        yield peer


def settled(server: Server, packets: int) -> Counters:
    return server.wait_for(lambda now: now["packets"] + now["drops"] >= packets,
                           f"{packets} packets are counted")


def run(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [*command(), *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False,
        **more)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Returns the server's own lines on stderr, without those of valgrind."""
    return [line for line in done.stderr.splitlines() if line.startswith("udpserver: ")]


def unix_stamp(tick_ms: int) -> int:
    return int(time.time() * 1000) // tick_ms % 65536


# ---- Arguments ----------------------------------------------------------------------------

@pytest.mark.parametrize("arguments, mention", [
    (["65536"], "PORT"), (["-1"], "no option '-1'"), ([""], "PORT"), (["0x10"], "PORT"),
    (["9060", "9061"], "too many"), (["99999999999999999999999"], "PORT"), (["-"], "no option"),
    (["--bnid", "::"], "no option '--bnid'"), (["--bind"], "needs a value"), (["--bind="], "-bind"),
    (["--bind", "1.2.3"], "--bind"), (["--bind", "fe80::1%nosuch0"], "interface"),
    (["--bind", "fe80::1"], "--bind fe80::1: a link-local address needs its interface, like fe80"),
    (["--bind", "febf::1"], "needs its interface"),
    (["--bind", "::%lo"], "--bind ::%lo: this address is every interface"),
    (["--bind", "0.0.0.0%lo"], "this address is every interface"),
    *((["--state", f"table{end}"], f"a name with {end} at its end is one of the server's")
      for end in (".lock", ".new", ".numbers", ".damaged", ".changed", ".retired")),
    (["--bind", "9" * 5000], "--bind"),
    ([f"--bind=127.0.0.{number}" for number in range(17)], "16 times"),
    (["--bind", "0.0.0.0", "--bind", "::"], "--bind ::"),
    (["--bind", "::", "--bind", "::1"], "--bind ::1"),
    (["--bind", "127.0.0.1", "--bind", "0.0.0.0"], "--bind 0.0.0.0"),
    (["--bind=::1", "--bind=::1"], "give it alone"),
    *(pytest.param(["--allow", network], mention, marks=pytest.mark.valgrind)
      for network, mention in (
          ("1.2.3.4/33", "number from 0 to 32 after the slash of an IPv4 network"),
          ("::ffff:0:0/96", "of an IPv4 network"),
          ("::/129", "number from 0 to 128 after the slash of an IPv6 network"),
          ("1.2.3.4/8", "beyond"), ("/8", "--allow"), ("x", "--allow"))),
    (["--allow-heartbeats", "1.2.3.4/8"],
     "--allow-heartbeats 1.2.3.4/8: it has bits set beyond"),
    (["--allow-heartbeats=::"] * 65, "--allow-heartbeats may be given 64 times"),
    (["--burst", "0"], "--burst must be a number from 1 to 1000000"),
    (["--burst", "1000001"], "--burst"),
    (["--allow", "::1/"], "--allow"), (["--allow", "1.2.3.4/ 8"], "--allow"),
    (["--allow=::"] * 65, "64 times"), (["--rate", "0"], "1 to 1000000"),
    (["--rate-total", "x"], "--rate-total"), (["--self", "64"], "0 to 63"),
    (["--self", "1:0"], "1 to 255"), (["--self", "1:"], "--self"), (["--self", ":1"], "--self"),
    (["--tick", "0"], "--tick"), (["--tick", "3600001"], "--tick"), (["--state", ""], "--state"),
    (["--state", "x" * 5000], "--state"), (["--state-every", "0"], "--state-every"),
    (["--bind", "a\nb\x1b[2J"], "--bind"), (["--keep-old=1"], "no value"),
    (["--help=me"], "no value"),
    (["--state-every", "5"], "--state FILE"), (["-help"], "no option"),
    (["--stats", ""], "107 bytes at most"), (["--stats", "x" * 108], "107 bytes at most"),
    (["--stats"], "needs a value"), (["--reload"], "give that, too"),
    (["--can-id", "680"], "--can INTERFACE"), (["--can", "vcan0", "--can-id", "681"], "not '681'"),
])
def test_wrong_arguments_get_one_line_and_status_2(arguments: list[str], mention: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = said(done)
    assert len(done.stderr.splitlines()) == 1 or "DUMPULSE_SERVER" in os.environ
    assert mention in line and line.isprintable() and len(line) < 200


@pytest.mark.parametrize("given, said_of_it", [
    ("\u00e9\u20ac\U0001f600\u00a0", None), ("\x80\x9b31m", "????31m"),
    ("\u2028\u202e\u2069", "?" * 9), ("\ud800", "???"),
    *[(os.fsdecode(raw), "?" * len(raw)) for raw in (
        b"\x80", b"\x9b", b"\xc2", b"\xc1\x81", b"\xe0\x82\x81", b"\xe2\x82", b"\xf0\x82\x82\xac",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80", b"\xff\xfe", b"\x7f\x1b\t")]])
def test_no_control_character_is_said(given: str, said_of_it: str | None) -> None:
    """It prints only UTF-8 without control characters (C0 and C1), and without characters that turn
    the direction of writing."""
    # A surrogate alone is 3 bytes here; the other surrogates stand for single bytes.
    raw = given.encode("utf-8", "surrogatepass") if given == "\ud800" else os.fsencode(given)
    done = subprocess.run([*command(), b"--bind", raw], capture_output=True, timeout=PATIENCE,
                          check=False)
    assert done.returncode == 2 and f"and not '{said_of_it or given}'\n".encode() in done.stderr


def test_help_fits_the_terminal_and_the_manual_has_every_option() -> None:
    done = run("--help")
    assert done.returncode == 0 and not said(done) and run("-h").stdout == done.stdout
    assert max(map(len, done.stdout.splitlines())) < 80 and len(done.stdout.splitlines()) < 40
    options = re.findall(r"^  (--[a-z-]+)", done.stdout, re.M)
    assert len(options) == 26
    manual = (ROOT / "server" / "udpserver.8").read_text().replace("\\-", "-")
    assert set(options) == set(re.findall(r"^\.BI? (--[a-z-]+)", manual, re.M))
    burst, rate, total = (int(re.findall(rf"^  {option} .*\((\d+)\)", done.stdout, re.M)[0])
                          for option in ("--burst N", "--rate N", "--rate-total N"))
    # The manual's sums must follow from the defaults.
    text = " ".join(re.sub(r"^\.BR? |\\f.", "", manual, flags=re.M).split())
    most = burst + rate
    assert f"at most {most} reports within any second, {most * 288:,} bytes" in text
    assert f"at most {2 * total} within any second, {2 * total * 288:,} bytes" in text
    tests = "".join(path.read_text() for path in (
        *Path(__file__).parent.glob("test_*.py"), ROOT / "tools" / "servers.py"))
    assert all(f'"{option}"' in tests for option in options)
    version, keys = (re.findall(r'^#define DUMPULSE\w*_VERSION "(.*?)"', (ROOT / name).read_text(),
                                re.M)[0] for name in ("dumpulse.h", "extras/dumpulse_keyed.h"))
    assert run("--version").stdout == f"udpserver {version}, keys {keys} (experimental)\n"


def test_a_gateway_needs_a_can_interface() -> None:
    """The machine that test_can.py starts tests what it does with one."""
    done = run("--can", "nocan0", "--can-id", "18FF5080", "0")
    assert done.returncode == 1 and re.search("this kernel has no CAN|no such CAN interface",
                                              done.stderr)


def test_a_port_in_use_is_said(server: Server) -> None:
    done = run(str(server.port))
    assert done.returncode == 1
    (line,) = said(done)
    assert f"127.0.0.1:{server.port}: the port is in use" in line
    done = run("--bind", "192.0.2.77", "0")  # this machine does not have this address
    assert done.returncode == 1 and "cannot listen on 192.0.2.77:0" in said(done)[0]


@pytest.mark.parametrize("descriptors", [4, 5])
def test_it_does_not_begin_without_what_it_needs(descriptors: int) -> None:
    """The fourth is the socket; the next ones wait for it, and listen at ::1."""
    done = subprocess.run(["prlimit", f"--nofile={descriptors}", built("build/udpserver"), "0"],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1 and "Too many open files" in done.stderr, done.stderr


def test_an_interface_goes_with_an_address() -> None:
    """A link-local address means nothing without an interface. If the address cannot be used, the
    message has the interface, too."""
    with Server("--bind", "::1%lo") as server, Peer(server, "::1") as peer:
        peer.ask()
    done = run("--bind", "fe80::1%lo", "0")  # loopback has no such address
    assert done.returncode == 1 and "cannot listen on [fe80::1%lo]:0: " in said(done)[0]


def test_what_is_taken_for_granted_is_said(server: Server) -> None:
    listening = server.stderr.lines[0].split(" on ")[1].split()
    assert listening[0] == f"127.0.0.1:{server.port}"
    assert listening[1:] in ([f"[::1]:{server.port}"], [])
    assert server.stderr.lines[-1] == (
        "udpserver: reports to 127.0.0.0/8 ::1; for each 128 at once and 10 a second, "
        "for all 1000 a second; --allow CIDR names others")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(number: int) -> None:
    """Packets that came before the signal are still taken, even if they need many rounds."""
    with Server(preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as server, \
            Peer(server) as peer:
        server.process.send_signal(signal.SIGSTOP)
        for _ in range(100):
            peer.send(*[heartbeat(1, 2, 3)] * 90)
        server.process.send_signal(number)
        server.process.send_signal(signal.SIGCONT)
        counters = server.ended()
        assert counters["heartbeats"] + counters["drops"] == 9000


def test_nohup() -> None:
    """The signal that it must ignore has arrived when it still answers."""
    with Server(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as server, \
            Peer(server) as peer:
        server.process.send_signal(signal.SIGHUP)
        for _ in range(3):  # each time the loop makes a round
            peer.ask()
        server.stop()
        assert not any("again" in line for line in server.stderr.all())


def test_sighup_reads_files_again_all_or_nothing(tmp_path: Path) -> None:
    """A mistake changes nothing: test_udpserver_keyed.py has those in a key beside right names."""
    names, calm = tmp_path / "names", "[dumpulse]\nwarn = 1h\n"
    names.write_text(f"{calm}[3]\nname = engine\nvalue = 0..9\n")
    with Server("--watch", f"{names}") as server, Peer(server) as peer:
        def reload(text: str, said: str) -> None:
            names.write_text(text)
            server.process.send_signal(signal.SIGHUP)
            server.says(said)

        peer.send(heartbeat(3, 1, 5))
        server.says("udpserver: variable 3 engine: alive, was waiting")
        reload(f"{calm}[3]\nname = motor\n[4]\n[", "; nothing has changed")
        peer.send(heartbeat(3, 1, 10))
        server.says("udpserver: variable 3 engine: out-of-range, was alive")
        reload(f"{calm}[3]\nname = motor\nvalue = 0..50\n", "udpserver: has read its files again")
        server.says("udpserver: variable 3 motor: alive, was out-of-range")
        server.stop()


def test_a_reload_is_notified_and_checked(manager: socket.socket, tmp_path: Path) -> None:
    """systemctl reload runs --reload: it prints all mistakes, and its status is that of the unit.
    Wrong files do not reach the server; test_udpserver_keyed.py has those that only it rejects."""
    names, right = tmp_path / "names", "[3]\n"
    wrong = "[3]\nname = a\n[4]\nfoo = 1\nwarn = x\n[5\n"
    options = ["--stats", f"{tmp_path}/stats", "--watch", f"{names}", "0"]
    names.write_text(right)
    assert run("--reload", *options).returncode == 1  # no server is there
    with Server(*options[:-1]) as server:
        assert manager.recv(100) == b"READY=1\nSTATUS=serving"
        for text, status in ((wrong, 2), (right, 0)):
            names.write_text(text)
            for option in ("--check", "--reload"):
                before = time.monotonic_ns() // 1000
                done = run(option, *options)
                assert done.returncode == status
                assert re.findall(r"names, line (\d+): ", done.stderr) == ["4", "5", "6"] * (
                    status == 2)
        reloading, usec = manager.recv(100).split(b"\nMONOTONIC_USEC=")
        assert reloading == b"RELOADING=1" and before <= int(usec) <= time.monotonic_ns() // 1000
        assert manager.recv(100) == b"READY=1\nSTATUS=it has read its files again"
        names.write_text("[")
        server.process.send_signal(signal.SIGHUP)
        server.says("names, line 1: a section is")
        assert manager.recv(100).startswith(b"RELOADING=1") and manager.recv(100) == \
            b"READY=1\nSTATUS=its files were wrong at the last reload: see the log"
        assert server.stop()["reloads"] == 1
    names.write_text(right)
    with Server(*options[:-1], preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
                ) as server:
        for number, said in ((signal.SIGCONT, "has not read its files: its log has why"),
                             (signal.SIGSTOP, "does not answer within 5 s: is it stopped?")):
            server.process.send_signal(number)
            done = run("--reload", *options)
            assert done.returncode == 1 and said in done.stderr
        server.process.send_signal(signal.SIGCONT)


def test_a_reload_between_two_answers(tmp_path: Path) -> None:
    """--reload sends SIGHUP, and then reads the count. It may do so while the server answers."""
    path = tmp_path / "stats"
    with Server("--stats", f"{path}", program=[built("build/udpserver-calls")],
                env=os.environ | {"BEFORE": "accept4 kill -HUP $PPID"}), \
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as reader:
        reader.settimeout(PATIENCE)
        reader.connect(f"{path}")
        assert b'"reloads":1,' in reader.recv(4096)


def test_signals_that_its_parent_has_blocked() -> None:
    def block() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])

    with Server(preexec_fn=block) as server:
        server.stats()
        server.stop()


def test_one_port_is_found_for_all_addresses() -> None:
    """The first port that is free at one address is in use at the next. No socket stays there."""
    options = ("--bind", "127.0.0.1", "--bind", "127.0.0.2")
    with Noting(*options, IN_USE="2") as server, Noting(*options) as other:
        assert re.search(r"listening on 127\.0\.0\.1:(\d+) 127\.0\.0\.2:\1$",
                         server.stderr.lines[0])
        assert open_files(server.process.pid) == open_files(other.process.pid)


# ---- Packets ------------------------------------------------------------------------------

@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.valgrind
def test_every_refusal_changes_nothing_and_is_counted(server: Server, host: str) -> None:
    with Peer(server, host) as peer:
        peer.send(heartbeat(3, 1, 2))
        before = peer.ask()
        expected = dict.fromkeys(("length", "magic", "checksum", "variable"), 0)
        for number, (packet, cause) in enumerate(EVERY_CAUSE, 3):
            expected[cause] += 1
            peer.send(packet)
            counters = settled(server, number)
            assert {name: counters[name] for name in expected} == expected, packet[:20]
        assert peer.ask() == before and not peer.has_answer()
        counters = server.stop()
    assert (counters["heartbeats"], counters["reports"]) == (1, 2)
    assert counters["packets"] == len(EVERY_CAUSE) + 3


@pytest.mark.parametrize("wildcard, hosts", [
    ("0.0.0.0", ["127.0.0.1", "127.0.0.2", "127.5.6.7"]),
    ("::", ["127.0.0.1", "127.0.0.2", "::1"]),
])
def test_a_report_leaves_from_the_address_that_was_asked(wildcard: str, hosts: list[str]) -> None:
    with Server("--bind", wildcard) as server:
        for host in hosts:
            with Peer(server, host) as peer:
                peer.send(heartbeat(1, 1, 1))
                assert peer.ask()[1][2:] == b"\1\1"
        assert server.stop()["reports"] == len(hosts)


@pytest.mark.valgrind
def test_the_address_that_was_asked_on_the_second_socket() -> None:
    """The address that a packet was sent to is known, even after a batch from another socket."""
    with Server("--bind", "::1", "--bind", "0.0.0.0") as server, Peer(server, "127.0.0.2") as peer:
        with Peer(server, "::1") as other:
            other.ask()
        server.process.send_signal(signal.SIGSTOP)
        peer.send(heartbeat(1, 1, 1), REQUEST)
        server.process.send_signal(signal.SIGCONT)
        peer.answer()


def answers(peer: socket.socket) -> bool:
    with contextlib.suppress(ConnectionRefusedError):
        peer.send(REQUEST)
        return len(peer.recv(512)) == 260
    return False


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_asked_by_broadcast(wildcard: str) -> None:
    """A report cannot leave from that address."""
    with Server("--bind", wildcard) as server, Peer(server, "127.255.255.255") as peer:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        peer.send(heartbeat(1, 2, 3), REQUEST)
        peer.there = ("127.0.0.1", server.port)
        peer.answer()
        assert server.stop()["reports"] == 1


@pytest.mark.parametrize("why, unsent", [(errno.EAGAIN, 1), (errno.EINVAL, 0)])
def test_an_answer_that_the_kernel_does_not_take(why: int, unsent: int) -> None:
    """A full buffer loses the answer: it must not leave from another address. If the kernel refuses
    the address, it chooses one."""
    with Noting("--bind", "0.0.0.0", UNSENT=f"{why}") as server, Peer(server) as peer:
        peer.send(REQUEST)
        counters = settled(server, 1)
        assert (counters["unsent"], counters["reports"]) == (unsent, 1 - unsent)
        assert peer.has_answer() == (not unsent)
        server.stop()


@pytest.mark.slow
def test_a_link_local_address_after_its_interface_came_back() -> None:
    """The interface has another number then, and later the first one again. The old socket hears
    nothing. It needs root."""
    address = "fe80::ff:fe00:1"  # the kernel makes it from the hardware address

    def connect(network: Namespace, number: int) -> None:
        network.run(f"ip link add veth1 index {number} address 02:00:00:00:00:01 type veth "
                    "peer name veth2")
        network.run("ip link set veth2 up")
        network.run("ip link set veth1 up")

    def beats(server: Server, scope: int, value: int) -> bool:
        before = server.stats()["heartbeats"]
        with network.entered(), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as node, \
                contextlib.suppress(OSError):  # the address may not be ready yet
            node.sendto(heartbeat(3, 7, value), (address, server.port, 0, scope))
        return server.stats()["heartbeats"] > before

    def can_be_bound() -> bool:
        with network.entered(), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe, \
                contextlib.suppress(OSError):
            probe.bind((address, 0, 0, 10))
            return True
        return False

    with Namespace() as network:
        connect(network, 10)
        wait_until(can_be_bound, "the address can be used")
        with network.entered():
            server = Server("--bind", "127.0.0.1", "--bind", f"{address}%veth1")
        with server:
            for number, then in ((10, 20), (20, 10), (10, None)):
                wait_until(lambda: beats(server, number, number), "it is heard")  # noqa: B023
                if then is not None:
                    network.run("ip link delete veth1")
                    connect(network, then)
            wait_until(lambda: sum(f"listening on [{address}%veth1]" in line and "again" in line
                                   for line in server.stderr.lines) == 2, "it says so")


# ---- Who gets a report --------------------------------------------------------------------

@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])  # IPv4 comes to :: in mapped addresses.
@pytest.mark.valgrind
def test_who_may_ask(wildcard: str) -> None:
    with Server("--bind", wildcard, "--allow", "127.1.2.0/23", "--allow", "127.9.9.9",
                "--allow=127.128.0.0/9") as server:
        answered = ["127.1.2.0", "127.1.3.255", "127.9.9.9", "127.128.0.1", "127.255.0.1"]
        refused = ["127.1.1.255", "127.1.4.0", "127.9.9.8", "127.127.255.254", "127.0.0.1"]
        for source in answered:
            with Peer(server, source=source) as peer:
                peer.ask()
        for number, source in enumerate(refused, 1):
            with Peer(server, source=source) as peer:
                peer.send(REQUEST)
                server.wait_for(lambda now, n=number: now["not_allowed"] == n,  # type: ignore[misc]
                                source)
                assert not peer.has_answer()
                peer.send(heartbeat(1, 2, 3))  # heartbeats are taken from anybody
        server.wait_for(lambda now: now["heartbeats"] == len(refused), "heartbeats")
        assert server.stop()["reports"] == len(answered)


def test_who_may_not_ask_uses_up_nothing() -> None:
    with Server("--allow", "127.0.0.1", "--rate-total", "1", "--burst", "1") as server, \
            Peer(server) as peer, Peer(server, source="127.0.0.2") as other:
        other.send(*[REQUEST] * 100)
        settled(server, 100)
        peer.ask()
        server.stop()


def test_who_has_got_reports_gets_none_while_others_wait() -> None:
    """As soon as more ask than --rate-total allows. 50 ms later, five more reports are allowed."""
    with Server("--rate-total", "100", "--burst", "100000") as server, \
            Peer(server, source="127.0.0.2") as greedy, Peer(server, source="127.0.0.3") as other:
        def waits() -> bool:
            before = server.stats()["packets"]
            greedy.send(*[REQUEST] * 150)
            refused = settled(server, before + 150)["rate"]
            time.sleep(0.05)
            greedy.send(REQUEST)
            return settled(server, before + 151)["rate"] > refused > 0
        wait_until(waits, "it has to wait")
        other.ask()


@pytest.mark.parametrize("rule, taken, refused", [
    ("127.1.2.0/24", "127.1.2.3", "127.1.3.3"), ("::/0", "::1", "127.0.0.1"),
    ("0.0.0.0/0", "127.0.0.1", "::1")])
@pytest.mark.valgrind
def test_who_may_send_heartbeats(rule: str, taken: str, refused: str) -> None:
    with Server("--bind", "::", "--allow-heartbeats", "192.0.2.7", "--allow-heartbeats", rule,
                "--allow", "0.0.0.0/0", "--allow", "::/0") as server:
        assert any(line.endswith(f"heartbeats from 192.0.2.7 {rule}")
                   for line in server.stderr.lines)
        for number, source in enumerate((taken, refused)):
            with Peer(server, "::1" if ":" in source else "127.0.0.1", source=source) as peer:
                peer.send(heartbeat(number + 1, 2, 3), GOOD[:7])
                peer.ask()
        with Peer(server, "::1") as peer:
            entries = peer.ask()
        assert entries[1][2:] == b"\2\3" and entries[2] == UNSET
        counters = server.stop()
        assert (counters["heartbeats"], counters["not_allowed"], counters["length"]) == (1, 1, 2)


# ---- Time ---------------------------------------------------------------------------------

@pytest.mark.parametrize("tick", [1, 7, 250, 1000, 60000])
@pytest.mark.valgrind
def test_the_tick_and_the_agents_own_variable(tick: int) -> None:
    with Server("--tick", str(tick), "--self", "63:200") as server, Peer(server) as peer:
        before = unix_stamp(tick)
        peer.send(heartbeat(5, 6, 7), heartbeat(63, 1, 1))
        entries = peer.ask()
        after = unix_stamp(tick)
        for variable, rest in ((5, b"\6\7"), (63, b"\xc8\0")):
            assert entries[variable][2:] == rest
            stamp = int.from_bytes(entries[variable][:2], "big")
            assert (stamp - before) % 65536 <= (after - before) % 65536
        time.sleep(0.01)
        again = peer.ask()
        assert again[5] == entries[5]
        if tick == 1:  # the server's own stamp is new for each report
            assert again[63] != entries[63]


# ---- Counters -----------------------------------------------------------------------------

@pytest.mark.valgrind
def test_counters_can_be_read_by_people() -> None:
    with started(*command(), "0", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None and process.stdout is not None
        while "reports to" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGUSR1)
        line = process.stdout.readline()
        assert line == (
            "packets 0: heartbeats 0, reports 0; refused for length 0, magic 0, checksum 0, "
            "variable 0, not allowed 0, rate 0; reports unsent 0; dropped by the kernel 0; "
            "failed saves 0, lost lines 0, reloads 0\n")
        process.terminate()
        assert process.communicate(timeout=PATIENCE)[0] == line and process.returncode == 0


def connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(path))  # without a time limit: with one, it fails if too many wait
    connection.settimeout(PATIENCE)
    return connection


def read_stats(path: Path) -> dict[str, Any]:
    """Reads the line that a connection gets. Nothing comes after it."""
    with connect(path) as reader, reader.makefile() as lines:
        (line,) = lines.readlines()
    stats: dict[str, Any] = json.loads(line)
    return stats


@pytest.mark.valgrind
def test_the_counters_on_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "sta\1\x7fts"
    before = int(time.time())
    with Server("--stats", str(path)) as server, Peer(server) as peer:
        assert path.stat().st_mode == 0o140666
        peer.send(heartbeat(1, 2, 3), heartbeat(1, 2, 4), heartbeat(63, 2, 4), b"")
        counters = settled(server, 4)
        stats = read_stats(path)
        assert list(stats)[:5] == ["program", "version", "started", "uptime", "variables"]
        assert (stats.pop("program"), stats.pop("variables")) == ("udpserver", 2)
        assert run("--version").stdout.startswith(f"udpserver {stats.pop('version')}, keys ")
        assert before <= stats.pop("started") <= time.time() \
            and 0 <= stats.pop("uptime") <= time.time() - before
        table = stats.pop("table")
        assert (stats.pop("tick_ms"), stats.pop("arguments")) == (
            1000, ["--stats", f"{tmp_path}/sta??ts", "0"])
        assert stats == counters and list(stats) == list(counters)
        assert [row["variable"] for row in table] == list(range(64))
        assert 0 <= table[1].pop("age_ms") <= 5000
        assert table[1] == {"variable": 1, "name": "", "state": None, "number": None, "sender": 2,
                            "value": 4}
        assert table[2]["age_ms"] is table[2]["sender"] is table[2]["value"] is None
        with connect(path) as early:  # one that closes at once, one that sends like a browser
            early.close()
        with connect(path) as talker:
            with contextlib.suppress(BrokenPipeError):  # the server may have answered already
                talker.sendall(bytes(1000))
            assert talker.recv(2000).startswith(b'{"program":"udpserver"')
        assert peer.ask()[63] != UNSET
        server.stop()
    assert not path.exists()


def test_nobody_who_connects_stops_the_server(tmp_path: Path) -> None:
    """Neither clients that do not read nor more clients than it has descriptors for stop it."""
    path = tmp_path / "stats"
    with Server("--stats", str(path), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                            (40, 40))) as server, \
            Peer(server) as peer, contextlib.ExitStack() as opened:
        server.process.send_signal(signal.SIGSTOP)
        waiting = [opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                   for _ in range(300)]
        for one in waiting:
            one.setblocking(False)
        accepted = [one for one in waiting if not one.connect_ex(str(path))]
        assert 100 <= len(accepted) < 300
        peer.send(heartbeat(1, 2, 3))
        server.process.send_signal(signal.SIGCONT)
        peer.ask()
        for one in accepted:
            one.settimeout(PATIENCE)
            assert one.recv(65536).endswith(b"}\n") and one.recv(1) == b""
        late = [opened.enter_context(connect(path)) for _ in range(200)]  # they stay open here
        assert all(one.recv(65536).endswith(b"}\n") for one in late)
        assert open_files(server.process.pid) < 30
        assert read_stats(path)["heartbeats"] == 1


@pytest.mark.valgrind
def test_a_socket_that_a_killed_server_has_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "stats"
    with Server("--stats", str(path)) as server:
        server.kill()
    assert path.is_socket()
    with Server("--stats", str(path)) as server:
        assert read_stats(path)["packets"] == 0
        done = run("--stats", str(path), "0")
        assert done.returncode == 1 and "another program listens there" in said(done)[-1]
        assert read_stats(path)["packets"] == 0
        path.unlink()
        path.write_bytes(b"another's")  # The server removes only its own socket.
        server.stop()
    assert path.read_bytes() == b"another's"


def test_a_socket_that_cannot_be_tried_stays(tmp_path: Path) -> None:
    """The server must not have the right to use every file, which it may have as root."""
    path, drop_from_bounding_set, override = tmp_path / "stats", 24, 1
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as live:
        live.bind(str(path))
        path.chmod(0)
        done = run("--stats", str(path), "0", preexec_fn=lambda: ctypes.CDLL(None).prctl(
            drop_from_bounding_set, override, 0, 0, 0))
        why = f"udpserver: cannot use --stats {path}: Permission denied"
        assert (done.returncode, said(done)[-1], path.is_socket()) == (1, why, True)


def test_what_is_no_socket_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "link-to-left").symlink_to(tmp_path / "directory" / "left")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(tmp_path / "directory" / "left"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as held:
        held.bind(str(tmp_path / "socket"))
        held.listen()
        (tmp_path / "link-to-socket").symlink_to(tmp_path / "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other_kind:
            other_kind.bind(str(tmp_path / "datagrams"))
            before = sorted(os.listdir(tmp_path))
            for name in (*before, "no/directory"):
                done = run("--stats", str(tmp_path / name), "0")
                assert done.returncode == 1 \
                    and f"cannot use --stats {tmp_path / name}: " in said(done)[-1], name
    assert sorted(os.listdir(tmp_path)) == before


def test_who_waits_for_a_descriptor_is_answered(tmp_path: Path) -> None:
    with Server("--stats", f"{tmp_path}/stats") as server:
        pid, few = server.process.pid, open_files(server.process.pid)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, 1024))
        with connect(tmp_path / "stats") as reader:
            reader.settimeout(0.2)
            with pytest.raises(TimeoutError):
                reader.recv(1)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, 1024))
            reader.settimeout(PATIENCE)
            assert reader.recv(1) == b"{"


def test_too_few_descriptors_are_called_so(tmp_path: Path) -> None:
    """For --stats, for a look at an old socket, for the manager. It would go on with bad ones."""
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, enough))

    with Server() as server:
        enough = open_files(server.process.pid)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(tmp_path / "left"))
    for path in (tmp_path / "new", tmp_path / "left"):
        done = run("--stats", str(path), "0", preexec_fn=limit)
        why = f"udpserver: cannot use --stats {path}: Too many open files"
        assert (done.returncode, said(done)[-1]) == (1, why)
    notify = str(tmp_path / "notify")
    with Server(preexec_fn=limit, env={**os.environ, "NOTIFY_SOCKET": notify}) as server:
        said_so = f"udpserver: cannot notify NOTIFY_SOCKET={notify}: Too many open files"
        server.says(said_so)
        server.kill()  # a sanitizer looks for leaks at the end, and needs a descriptor


def test_the_kernels_drops_are_counted(server: Server, peer: Peer) -> None:
    """The server is stopped for a while, and its buffer overflows. Every packet is counted."""
    server.process.send_signal(signal.SIGSTOP)
    sent = 20000  # the buffer holds about 11,000
    for _ in range(sent // 100):
        peer.send(*[heartbeat(1, 2, 3)] * 100)
    server.process.send_signal(signal.SIGCONT)
    counters = settled(server, sent)
    assert counters["heartbeats"] + counters["drops"] == sent and counters["drops"] > 1000
    assert server.stats() == counters  # they are not counted again
    room = re.findall(r"buffers (\d+) packets only", "\n".join(server.stderr.lines)) or ["10000"]
    # The manual, or the server, says how many packets the buffer holds.
    assert counters["heartbeats"] >= 0.9 * int(room[0])


class Noting(Server):
    """The server in calls.c, which writes down its calls."""

    def __init__(self, *options: str, **environment: str) -> None:
        super().__init__(*options, env={**os.environ, **environment},
                         program=[built("build/udpserver-calls")])


def test_a_nap_after_many_packets(tmp_path: Path) -> None:
    """After 16 or more packets in one round, it sleeps for a millisecond, and packets do not wake
    it. After fewer, it waits for its sockets. After at least a quarter of the buffer's packets, the
    next round follows at once."""
    noted = tmp_path / "calls"
    noted.touch()
    with Noting("--bind", "127.0.0.1", CALLS=str(noted)) as server, Peer(server) as peer:
        room = int((re.findall(r"buffers (\d+) packets only", "\n".join(server.stderr.lines))
                    or ["10922"])[0])
        for packets, waits in ((1, [0, 0]), (15, [0, 0]), (16, [1, 0]), (17, [1, 0]), (60, [1, 0]),
                               (room // 4 - 1, [1, 0]), (room // 4, [0, 1])):
            count = server.stats()["packets"]
            server.process.send_signal(signal.SIGSTOP)
            before = noted.read_text()
            peer.send(*[heartbeat(1, 2, 3)] * packets)
            server.process.send_signal(signal.SIGCONT)
            settled(server, count + packets)
            since = noted.read_text().removeprefix(before).splitlines()
            assert [since.count(f"ppoll 0 {wait}")
                    for wait in ("0.001000000", "0.000000000")] == waits, packets


def test_a_signal_that_comes_when_it_lets_signals_in(tmp_path: Path) -> None:
    """It does so each 1024 turns. A signal is handled then, too, though no packet follows it."""
    came = tmp_path / "came"
    with Noting("--bind", "127.0.0.1", "--burst", "2000",
                BEFORE=f"ppoll 0 0.000000000 touch {came}; kill -TERM $PPID") as server, \
            Peer(server) as peer:
        for turn in range(1024):
            peer.ask()
            if turn > 1000:  # From now on, each packet is the last one.
                time.sleep(0.05)
            if came.exists():
                break
        assert server.process.wait(timeout=10) == 0


def test_a_socket_that_always_has_more_does_not_hold_up_the_others() -> None:
    """It does not hold up a signal, either: then only as many packets are taken as a buffer holds.
    Only the first socket was ready when the server last looked. The second is read, too."""
    with Noting("--bind", "127.0.0.1", "--bind", "127.0.0.2", ENDLESS="64") as server, \
            Peer(server) as first, Peer(server, "127.0.0.2") as peer:
        first.send(b"")
        server.wait_for(lambda counters: counters["length"] > 0,
                        "the first socket has packets without end")
        peer.send(heartbeat(1, 2, 3))
        assert peer.ask()[1][2:] == b"\2\3"
        assert server.stop()["length"] > 0


@pytest.mark.parametrize("output", ["terminal", "full pipe", "closed pipe"])
def test_an_output_that_nobody_reads_stops_nothing(output: str) -> None:
    """A terminal has room for a part of a line, and then the rest of the line is lost."""
    reading, writing = os.openpty() if output == "terminal" else os.pipe()
    if output == "full pipe":
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, bytes(65536))
        os.set_blocking(writing, True)
    port = free_port(socket.SOCK_DGRAM)
    with started(*command(), port, stdout=writing, stdin=subprocess.DEVNULL,
                 stderr=writing) as process, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        os.close(writing)
        if output == "closed pipe":
            os.close(reading)
        peer.settimeout(PATIENCE)
        peer.connect(("127.0.0.1", port))
        wait_until(lambda: process.poll() is not None or answers(peer), "it listens")
        for number in range(1000):
            process.send_signal(signal.SIGUSR1)
            if number % 20 == 0:
                peer.send(REQUEST)
                assert len(peer.recv(512)) == 260
        process.terminate()
        assert process.wait(PATIENCE) == 0
    if output != "closed pipe":
        os.close(reading)


# ---- The state file -----------------------------------------------------------------------

def state_bytes(entries: bytes, tick: int = 1000, written_ms: int | None = None,
                version: int = 2) -> bytes:
    """Makes a state file, as server/snapshot.h describes it."""
    written = int(time.time() * 1000) if written_ms is None else written_ms
    body = struct.pack(">8sLLQ256s512x", b"Dumpulse", version, tick, written, entries)
    return body + struct.pack(">L", zlib.crc32(body))


def fives(tick: int = 1000) -> bytes:
    """Makes entries of sender 5 and value 5, stamped now: the server forgets those that are too
    old, so any other stamp is forgotten at some time of the day."""
    return struct.pack(">HBB", time.time_ns() // (tick * 1_000_000) % 65536, 5, 5) * 64


FIVES = fives()


def stamped(ages: dict[int, int], now: int) -> bytes:
    entries = bytearray(256)
    for variable, age in ages.items():
        struct.pack_into(">HBB", entries, 4 * variable, (now - age) % 65536, 7, variable)
    return bytes(entries)


@pytest.mark.parametrize("damage", [
    b"", b"D", b"Dumpuls", bytes(7), bytes(796), bytes(1024), b"Dumpulse" + b"\n" * 1016,
    state_bytes(bytes(256))[:-1], state_bytes(bytes(256)) + b"\0",
    state_bytes(bytes(256), version=1), *[
        pytest.param(bytes(byte ^ (0x40 if changed == at else 0)
                           for changed, byte in enumerate(state_bytes(FIVES))),
                     marks=pytest.mark.valgrind)
        for at in (8, 12, 20, 24, 100, 279, 791, 792, 795)]])
def test_a_damaged_file_is_set_aside_and_never_served(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "table"
    aside = tmp_path / "table.damaged"
    for round_number in range(2):
        file.write_bytes(damage)
        with Server("--state", str(file)) as server, Peer(server) as peer:
            assert peer.ask() == [UNSET] * 64
            (line,) = (line for line in server.stderr.lines if "set aside" in line)
            assert str(aside) in line and ("older one" in line) == bool(round_number)
        assert aside.read_bytes() == damage


def test_another_tick_is_no_damage(tmp_path: Path) -> None:
    file = tmp_path / "table"
    content = state_bytes(fives(500), tick=500)
    file.write_bytes(content)
    done = run("--state", str(file), "0")
    assert done.returncode == 1 and "--tick 500" in said(done)[0]
    assert file.read_bytes() == content and sorted(os.listdir(tmp_path)) == ["table", "table.lock"]
    with Server("--state", str(file), "--tick", "500") as server, Peer(server) as peer:
        assert peer.ask()[0][2:] == b"\5\5"


@pytest.mark.valgrind
def test_entries_that_grew_too_old_meanwhile_are_forgotten(tmp_path: Path) -> None:
    """An age of more than 16 bits would wrap, and a dead node would look alive."""
    file = tmp_path / "table"
    now_ms = int(time.time() * 1000)
    hour = 3600
    written_ms = now_ms - 10 * hour * 1000
    entries = stamped({1: 0, 2: 7 * hour, 3: 29200, 4: 9 * hour, 5: 18 * hour}, written_ms // 1000)
    file.write_bytes(state_bytes(entries, written_ms=written_ms))
    with Server("--state", str(file)) as server, Peer(server) as peer:
        report = peer.ask()
        assert f"udpserver: forgot 3 variables of {file}: older than a timestamp can show" in \
            server.stderr.lines
    kept = [entries[at:at + 4] for at in range(0, 256, 4)]
    assert report == [*kept[:3], *[UNSET] * 61]
    file.write_bytes(state_bytes(entries, written_ms=written_ms))
    with Server("--state", str(file), "--keep-old") as server, Peer(server) as peer:
        assert peer.ask() == [*kept[:4], *[UNSET] * 60]
    # The clock was set back.
    kept[3] = UNSET
    file.write_bytes(state_bytes(b"".join(kept), written_ms=now_ms + hour * 1000))
    with Server("--state", str(file)) as server, Peer(server) as peer:
        assert peer.ask() == kept


def test_what_cannot_be_the_state(tmp_path: Path) -> None:
    """It stays as it is: FILE, or what has the new file's name, may be anybody's file."""
    content = state_bytes(FIVES)
    (tmp_path / "precious").write_bytes(content)
    (tmp_path / "directory").mkdir()
    for name in ("fifo", "plain.new"):
        os.mkfifo(tmp_path / name)
    os.link(tmp_path / "precious", tmp_path / "several.new")
    for name, target in (("link", "precious"), ("dangling", "nothing"), ("table.new", "precious"),
                         ("other.new", "nothing")):
        (tmp_path / name).symlink_to(tmp_path / target)
    for name, why in (("directory", "not a regular file"), ("fifo", "not a regular file"),
                      ("plain", "not a regular file"), ("no/such/directory", "No such file"),
                      ("fifo/x", "Not a directory"), ("several", "several names: remove it"),
                      ("link", "it is a symbolic link"), ("dangling", "it is a symbolic link"),
                      ("table", "it is a symbolic link"), ("other", "it is a symbolic link")):
        done = run("--state", str(tmp_path / name), "--stats", f"{tmp_path}/stats", "0")
        assert done.returncode == 1 and str(tmp_path / name) in said(done)[-1], name
        assert not (tmp_path / "stats").exists()
        assert why in "".join(said(done)), name
    assert (tmp_path / "precious").read_bytes() == content and not (tmp_path / "nothing").exists()


def test_nothing_is_said_into_the_state_file(tmp_path: Path) -> None:
    """The standard descriptors may be closed when it is started."""
    file = tmp_path / "table"
    with started("bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", built("build/udpserver"),
                 "--state", file, "--state-every", "1", "0") as process:
        wait_until(file.exists, "it has started")
        process.send_signal(signal.SIGUSR1)
        standard = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
        assert standard == ["/dev/null"] * 3
        process.terminate()
        assert process.wait(PATIENCE) == 0 and len(file.read_bytes()) == 796
        assert file.read_bytes().startswith(b"Dumpulse\0\0\0\2")  # the version of the file


def test_who_may_read_and_write_the_file(tmp_path: Path) -> None:
    """The server's user may write it, and everybody may read it, with any umask."""
    for umask, mode in ((0, 0o644), (0o77, 0o600)):
        file = tmp_path / f"table{umask}"
        with Server("--state", str(file), "--stats", str(tmp_path / "stats"),
                    preexec_fn=lambda mask=umask: os.umask(mask)) as server:
            assert file.stat().st_mode & 0o7777 == mode
            assert (tmp_path / "stats").stat().st_mode & 0o7777 == 0o666
            server.stop()
        assert file.stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize("room, why", [(100, "Input/output error"), (0, "File too large")])
def test_a_file_that_is_written_in_part_is_none(tmp_path: Path, room: int, why: str) -> None:
    """The old file stays, and the server goes on: a full disk may have room again later. Nor does
    the kernel's signal end it, which tells of a limit."""
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    file, content = tmp_path / "table", state_bytes(FIVES)
    file.write_bytes(content)
    with Server("--state", str(file), preexec_fn=limit) as server:
        assert server.stderr.lines[:2] == [
            f"udpserver: cannot write state: {file}.new: {why}",
            "udpserver: serving without it; the state is written as soon as that is possible"]
        server.stop(status=1)
    assert file.read_bytes() == content


def test_no_program_would_inherit_its_descriptors(tmp_path: Path) -> None:
    with Server("--bind", "127.0.0.1", "--bind", "::1", "--state",
                str(tmp_path / "table")) as server:
        descriptors = Path(f"/proc/{server.process.pid}/fdinfo")
        flags = {file.name: int(re.findall(r"^flags:\s*(\d+)", file.read_text(), re.M)[0], 8)
                 for file in descriptors.iterdir() if int(file.name) > 2}
        assert len(flags) == 4 and all(flag & os.O_CLOEXEC for flag in flags.values())


def calls(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Runs the server in calls.c, and ends it when it listens. Returns its status and its lines."""
    lines = []
    with subprocess.Popen([built("build/udpserver-calls"), *arguments, "0"], text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          env={**os.environ, **environment}) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if "reports to " in line:
                process.terminate()
    return process.returncode, lines


def test_the_table_is_on_the_disk_before_and_after_it_is_renamed(tmp_path: Path) -> None:
    status, _ = calls("--state", str(tmp_path / "table"), CALLS=str(tmp_path / "calls"))
    lines = (tmp_path / "calls").read_text().splitlines()
    order = [line for line in lines if re.match("write-file|fsync|rename", line)]
    assert status == 0 and len(order) >= 4
    assert order == ["write-file", "fsync-file", "rename", "fsync-directory"] * (len(order) // 4)


@pytest.mark.parametrize("reason", ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EFBIG", "EACCES"])
def test_the_server_starts_if_the_disk_may_work_again(tmp_path: Path, reason: str) -> None:
    """Only an error that stays until somebody mends it stops it."""
    status, lines = calls("--state", str(tmp_path / "table"), FULL=str(tmp_path),
                          REASON=str(getattr(errno, reason)))
    assert status == 1 and os.strerror(getattr(errno, reason)) in "".join(lines)
    assert any("reports to" in line for line in lines) == (reason != "EACCES")


@pytest.mark.parametrize("moment, first", [("table", True), ("table.lock", True), ("flock", True),
                                           ("table.new", False),
                                           ("write-file", False), ("fsync-file", False),
                                           ("rename", False)])
@pytest.mark.parametrize("content", [None, state_bytes(FIVES), bytes(9)])
def test_two_servers_that_start_at_once(tmp_path: Path, content: bytes | None, moment: str,
                                        first: bool) -> None:
    """Before some step of the first one, another is started. If that is before the first has
    locked, the other one serves."""
    file, log = tmp_path / "table", tmp_path / "log"
    if content is not None:
        file.write_bytes(content)
    other = f"{built('build/udpserver')} --self 5 --state {file} 0 >{log} 2>&1 & " \
            f"echo $! >{tmp_path / 'pid'}"
    status, lines = calls("--state", str(file),
                          BEFORE=f"{moment} {other}; until grep -Eq 'reports to|another server' "
                                 f"{log}; do sleep 0.01; done")
    with contextlib.suppress(ProcessLookupError):  # it may have refused to start
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
    assert status == int(first) \
        and ("another server uses it: give each server its own" in lines[-1]) == first
    assert ("another server uses it" in log.read_text()) != first
    wait_until(lambda: "packets 0" in log.read_text() or not first, "the other has ended")
    assert file.read_bytes()[24:280] == (FIVES if content and content[0] else bytes(256))


def test_a_lock_that_somebody_removes_is_made_again(tmp_path: Path) -> None:
    """If another server has made it meanwhile, that server's file is not overwritten."""
    file, locks = tmp_path / "table", tmp_path / "table.lock"
    with Server("--state", str(file), "--state-every", "1") as server, Peer(server) as peer:
        locks.unlink()
        peer.send(heartbeat(1, 2, 3))
        wait_until(lambda: file.read_bytes()[30:32] == b"\2\3", "it has saved")
        assert locks.exists()
        assert "another server uses it" in said(run("--state", str(file), "0"))[0]
        locks.unlink()
        with Server("--state", str(file)) as other:
            peer.send(heartbeat(1, 2, 4))
            server.wait_for(lambda now: now["failed_saves"] >= 1, "it does not save")
            assert not (tmp_path / "table.new").exists()
            server.process.send_signal(signal.SIGSTOP)  # it tries again each second
            other.stop()
        assert file.read_bytes()[30:32] == b"\2\3"
        server.process.send_signal(signal.SIGCONT)
        server.wait_for(lambda now: file.read_bytes()[30:32] == b"\2\4", "it saves again")
        server.stop()


def test_whoever_may_read_the_state_cannot_stop_the_server(tmp_path: Path) -> None:
    file = tmp_path / "table"
    with Server("--state", str(file)):
        pass
    (tmp_path / "table.new").write_bytes(b"")
    with file.open("rb") as reading, (tmp_path / "table.new").open("rb") as unfinished:
        for held in (reading, unfinished):
            fcntl.flock(held, fcntl.LOCK_SH)
        with Server("--state", str(file)) as server:
            server.stop()
    assert (tmp_path / "table.lock").stat().st_mode == 0o100600
    (tmp_path / "table.lock").chmod(0o666)
    with Server("--state", str(file)):
        assert (tmp_path / "table.lock").stat().st_mode == 0o100600


FOREIGN = [b"127.0.0.1 localhost\n", b"x", b"\0\0\1", b"dumpulse", bytes(1025),
           state_bytes(bytes(256)) + bytes(1000)]


@pytest.mark.parametrize("content", FOREIGN)
@pytest.mark.parametrize("suffix", ["", ".new", ".lock", ".damaged"])
def test_what_is_somebody_elses_stays(tmp_path: Path, suffix: str, content: bytes) -> None:
    """FILE may be a typing error, so other people's files are left alone."""
    (tmp_path / "table").write_bytes(b"Dumpulse, damaged")
    file = tmp_path / f"table{suffix}"
    file.write_bytes(content)
    before = file.stat()
    done = run("--state", str(tmp_path / "table"), "0")
    assert done.returncode == 1 \
        and f"{file}: it belongs to another program, and is not a state" in said(done)[-1]
    assert "localhost" not in done.stderr
    assert file.read_bytes() == content and file.stat().st_mode == before.st_mode
    if not suffix:
        assert os.listdir(tmp_path) == ["table"]


SECRET = "f0e1d2c3b4a5968778695a4b3c2d1e0f"


@pytest.mark.parametrize("content", [f"{SECRET}\n", f"readers {SECRET}\n", f"[{SECRET}]",
                                     f"[3]\n{SECRET}=1", f"[3]\n{SECRET}", f"[3]\nname={SECRET}",
                                     f"[3]\nwarn={SECRET}", f"[dumpulse]\nnow-from={SECRET}",
                                     f"[3]\nexpect={SECRET}", f"{SECRET}\x00", f"{SECRET}0"])
def test_a_key_in_the_place_of_another_file_is_not_printed(tmp_path: Path, content: str) -> None:
    """Whatever file a user names by mistake, the log shows nothing of it."""
    path = tmp_path / "secret"
    for suffix in ("", ".new", ".lock", ".numbers"):
        (tmp_path / f"secret{suffix}").write_text(content)
    path.chmod(0o600)
    (tmp_path / "key").write_text("0" * 32)
    (tmp_path / "key").chmod(0o600)
    for number, options in enumerate((
            ("--state", f"{path}"), ("--watch", f"{path}"),
            ("--key", f"{path}", "--state", f"{tmp_path}/other"),
            ("--key", f"{tmp_path}/key", "--state", f"{tmp_path}/secret"))):
        if (number, content) == (2, f"{SECRET}\n"):
            continue  # it is in its place there
        done = run(*options, "0")
        assert done.returncode in (1, 2) and f"{path}" in done.stderr
        assert not any(SECRET[at:at + 4] in done.stdout + done.stderr for at in range(28)), done


@pytest.mark.parametrize("unfinished", [b"", b"Dump", b"Dump" + bytes(9), bytes(796), bytes(1024),
                                        state_bytes(b"\1" * 256)[:100],
                                        state_bytes(b"\1" * 256)], ids=len)
def test_what_a_crash_has_left_is_written_over(tmp_path: Path, unfinished: bytes) -> None:
    file = tmp_path / "table"
    file.write_bytes(state_bytes(FIVES))
    (tmp_path / "table.new").write_bytes(unfinished)
    with Server("--state", str(file)) as server, Peer(server) as peer:
        assert peer.ask()[0][2:] == b"\5\5" and file.stat().st_size == 796
        server.stop()
    assert sorted(os.listdir(tmp_path)) == ["table", "table.lock"]


def changed_to(file: Path) -> bytes:
    """Returns sender and value of variable 0, or nothing while the file is being renamed."""
    with contextlib.suppress(FileNotFoundError):
        return file.read_bytes()[26:28]
    return b""


def test_it_saves_soon_after_its_start_and_without_a_thread(tmp_path: Path) -> None:
    """A thread's stack would be larger than what a process can have."""
    file = tmp_path / "table"
    with Server("--state", str(file), "--state-every", "86400", preexec_fn=lambda: (
            resource.setrlimit(resource.RLIMIT_STACK, (1 << 50, -1)))) as server, \
            Peer(server) as peer:
        peer.send(heartbeat(0, 1, 2))
        wait_until(lambda: changed_to(file) == b"\1\2", "it saves")
        assert len(os.listdir(f"/proc/{server.process.pid}/task")) == 1
        server.stop()


def test_an_unchanged_table_is_not_saved(tmp_path: Path) -> None:
    file = tmp_path / "table"
    with Server("--state", str(file), "--state-every", "1") as server, Peer(server) as peer:
        peer.send(heartbeat(0, 1, 2))
        wait_until(lambda: changed_to(file) == b"\1\2", "it saves")
        saved_at = file.stat().st_mtime_ns
        time.sleep(2.5)
        assert file.stat().st_mtime_ns == saved_at
        server.stop()


@pytest.mark.parametrize("program", ["cp", "mv"])
@pytest.mark.valgrind
def test_a_state_that_is_restored_while_it_runs(tmp_path: Path, program: str) -> None:
    """It is not read, and not lost. No message speaks of another server."""
    file, backup, changed = tmp_path / "table", tmp_path / "backup", tmp_path / "table.changed"
    with Server("--state", str(file), "--state-every", "1") as server, Peer(server) as peer:
        for value in range(2):
            restored = state_bytes(bytes((7, value)) * 128)
            backup.write_bytes(restored)
            subprocess.run([program, backup, file], check=True)
            peer.send(heartbeat(0, 1, value))
            wait_until(lambda v=value: changed_to(file) == bytes((1, v)),  # type: ignore[misc]
                       "it saves")
            assert changed.read_bytes() == restored
        file.write_bytes(b"somebody else's")
        peer.send(heartbeat(0, 1, 9))
        server.wait_for(lambda now: now["failed_saves"] >= 2, "two failed saves")
        assert file.read_bytes() == b"somebody else's"
        file.unlink()
        wait_until(file.exists, "it saves again")
        assert file.read_bytes()[26:28] == b"\1\11"
        assert server.stop()["failed_saves"] >= 2
        lines = server.stderr.all()
    assert sum("stop the server first" in line and str(changed) in line for line in lines) == 2
    assert sum("cannot write state" in line and "another program" in line for line in lines) == 1
    assert not any("another server" in line for line in lines)


@pytest.mark.slow
def test_threads_use_nothing_at_once(tmp_path: Path) -> None:
    """Under ThreadSanitizer, which makes the status another one than 0. It sees most of the times
    at which the thread that saves and the loop use the same thing: so there are several saves."""
    (tmp_path / "names").write_text("[1]")
    with Server("--state", str(tmp_path / "table"), "--state-every", "1",
                "--watch", str(tmp_path / "names"), program=[built("build/udpserver-threads")],
                env={**os.environ, "SLOW": "100"}) as server, Peer(server) as peer:
        for value in range(40):
            peer.send(heartbeat(1, 2, value))
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.2)
        server.stop()


# ---- The service manager ------------------------------------------------------------------

@pytest.fixture(params=[False])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
            ) -> Iterator[socket.socket]:
    """A service manager whose socket servers find in their environment. True: an abstract one."""
    name = f"@dumpulse-{os.getpid()}" if request.param else str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if request.param else name)
        manager.settimeout(PATIENCE)
        yield manager


@pytest.mark.parametrize("manager", [False, True], indirect=True)
@pytest.mark.valgrind
def test_readiness_and_watchdog(manager: socket.socket) -> None:
    with Server(env={**os.environ, "WATCHDOG_USEC": "600000"}) as server:
        messages, times = zip(*[(manager.recv(100), time.monotonic()) for _ in range(5)])
        server.stop()
    assert messages == (b"READY=1\nSTATUS=serving", *[b"WATCHDOG=1"] * 4)
    assert min(later - sooner for sooner, later in zip(times[1:], times[2:])) < 0.45
    last = b""
    while last != b"STOPPING=1":
        last = manager.recv(100)
        assert last in (b"WATCHDOG=1", b"STOPPING=1")


@pytest.mark.valgrind
def test_a_manager_that_is_busy_is_told_later(manager: socket.socket) -> None:
    """Its queue is full when the server is ready, and again when it ends. No message is lost."""
    def fill() -> None:
        with contextlib.suppress(BlockingIOError), \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as others:
            others.setblocking(False)
            while True:
                others.sendto(b"others", manager.getsockname())

    def next_message() -> bytes:
        while (message := manager.recv(100)) == b"others":
            pass
        return message

    fill()
    with Server() as server, Peer(server) as peer:
        peer.ask()  # the server answers meanwhile
        assert next_message() == b"READY=1\nSTATUS=serving"
        fill()
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0  # it does not wait without end
    with Server() as server:
        assert next_message() == b"READY=1\nSTATUS=serving"
        fill()
        server.process.terminate()
        assert next_message() == b"STOPPING=1"


@pytest.mark.parametrize("watchdog", [{"WATCHDOG_USEC": "50000", "WATCHDOG_PID": "1"},
                                      {"WATCHDOG_USEC": "0"},
                                      {"WATCHDOG_USEC": "-5"}, {"WATCHDOG_USEC": "9" * 30}])
def test_a_watchdog_for_others_or_of_nonsense_gets_nothing(manager: socket.socket,
                                                           watchdog: dict[str, str]) -> None:
    with Server(env={**os.environ, **watchdog}) as server:
        assert manager.recv(100) == b"READY=1\nSTATUS=serving"
        time.sleep(0.1)
        server.stop()
    assert manager.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("name", ["relative", "/nowhere/at/all", "@" + "x" * 200, ""])
def test_a_manager_that_is_not_there_stops_nothing(name: str) -> None:
    environment = {**os.environ, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000"}
    with Server(env=environment) as server, Peer(server) as peer:
        peer.ask()
        server.stop()
        assert sum("notify" in line.lower() for line in server.stderr.all()) == 1


def test_a_manager_that_does_not_read_is_not_waited_for(manager: socket.socket) -> None:
    """Its socket takes only a few signs of life."""
    with Server(env={**os.environ, "WATCHDOG_USEC": "1000"}) as server, Peer(server) as peer:
        server.says("cannot notify")
        peer.ask()
        server.stop()


class Activated(Server):
    """A server that gets its sockets as from systemd."""

    def __init__(self, *sockets: socket.socket, pid: str = "$$", port: int | None = None,
                 options: tuple[str, ...] = ()) -> None:
        passing = " ".join(f"{3 + number}<&{held.fileno() + 100}"
                           for number, held in enumerate(sockets))
        for held in sockets:
            os.dup2(held.fileno(), held.fileno() + 100)
        try:
            passed = [held.fileno() + 100 for held in sockets]
            super().__init__(*options, port=port, pass_fds=passed, wrap=[
                "bash", "-c", f'LISTEN_PID={pid} LISTEN_FDS={len(sockets)} exec "$@" {passing}',
                "bash"])
        finally:
            for held in sockets:
                os.close(held.fileno() + 100)


@pytest.mark.valgrind
def test_socket_activation() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, \
            socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        one.bind(("0.0.0.0", 0))
        other.bind(("::1", 0))
        with Activated(one, other) as server:
            with Peer(server, "127.0.0.5") as peer:
                peer.ask()
            with Peer(server, "::1") as peer:
                peer.there = ("::1", other.getsockname()[1])
                peer.ask()
            assert server.stop()["reports"] == 2
        with Activated(one, pid="1", port=0) as server:  # they are for another process
            assert server.port != one.getsockname()[1]


# What the kernel may write before the address that a packet was sent to: times of all kinds, drops,
# and others. 37 is SO_TIMESTAMPING.
OPTIONS = ((socket.SOL_SOCKET, 29), (socket.SOL_SOCKET, 37), (socket.SOL_SOCKET, 40),
           (socket.SOL_SOCKET, 75), (socket.SOL_SOCKET, 41),
           (socket.IPPROTO_IP, socket.IP_RECVTOS), (socket.IPPROTO_IP, 12),
           (socket.IPPROTO_UDP, 104))


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
@pytest.mark.valgrind
def test_a_passed_socket_with_options_answers_from_the_address_that_was_asked(wildcard: str
                                                                              ) -> None:
    with socket.socket(socket.AF_INET6 if ":" in wildcard else socket.AF_INET,
                       socket.SOCK_DGRAM) as passed:
        if ":" in wildcard:
            passed.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        passed.bind((wildcard, 0))
        for level, number in OPTIONS:
            with contextlib.suppress(OSError):  # an older kernel may not have this option
                passed.setsockopt(level, number, 0b1111111 if number == 37 else 1)
        with Activated(passed) as server, Peer(server, "127.0.0.5") as peer:
            peer.send(heartbeat(1, 2, 3))
            assert peer.ask()[1][2:] == b"\2\3"
            assert server.stop()["reports"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may send such options")
def test_a_request_whose_options_have_no_room_is_counted() -> None:
    """They leave none for the address that was asked."""
    hop_by_hop = bytes([0, 63]) + (bytes([0x1E, 252]) + bytes(252)) * 2 + bytes([1, 0])
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as passed:
        passed.bind(("::1", 0))
        passed.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPOPTS, 1)
        with Activated(passed) as server, Peer(server, "::1") as peer:
            peer.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, hop_by_hop)
            peer.send(REQUEST, REQUEST)
            assert settled(server, 2)["unsent"] == 2


def test_a_report_that_cannot_be_sent_is_counted_and_not_waited_for() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        with contextlib.suppress(OSError):  # it says "not connected", and does it
            deaf.shutdown(socket.SHUT_WR)
        with Activated(deaf) as server, Peer(server) as peer:
            peer.send(REQUEST, heartbeat(1, 2, 3), REQUEST)
            counters = settled(server, 3)
            assert (counters["unsent"], counters["reports"], counters["heartbeats"]) == (2, 0, 1)
            assert not peer.has_answer()


@pytest.mark.parametrize("shut", [True, False])
def test_a_passed_socket_that_is_always_ready_wastes_no_processor(shut: bool) -> None:
    """It is shut down, or it has an error in a queue that nobody empties."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as passed:
        passed.bind(("127.0.0.1", 0))
        if shut:
            with contextlib.suppress(OSError):  # it says "not connected", and does it
                passed.shutdown(socket.SHUT_RD)
        passed.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
        with Activated(passed) as server:
            # Stopped until the peer is gone, so that its port refuses the answer.
            server.process.send_signal(signal.SIGSTOP)
            with Peer(server, source="127.0.0.1") as peer:
                peer.send(REQUEST)
            server.process.send_signal(signal.SIGCONT)
            wait_until(lambda: bool(select.select([passed], [], [], 0)[0]) or shut,
                       "the answer is refused")

            def naps() -> int:
                status = Path(f"/proc/{server.process.pid}/status").read_text()
                return int(re.findall(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[0])

            before = naps()
            wait_until(lambda: naps() > before + 100, "it sleeps after each look")


@pytest.mark.parametrize("family, kind, port, said", [
    (socket.AF_INET, socket.SOCK_DGRAM, 0, "neither PORT"),
    (socket.AF_INET, socket.SOCK_STREAM, None, "not a UDP"),
    (socket.AF_UNIX, socket.SOCK_DGRAM, None, "not a UDP"),
])
def test_sockets_that_cannot_be_used(family: int, kind: int, port: int | None, said: str) -> None:
    with socket.socket(family, kind) as held, pytest.raises(AssertionError, match=said), \
            Activated(held, port=port):
        pass  # it has started, and is ended


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_socket_that_is_not_bound_is_refused(family: int) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as held, \
            pytest.raises(AssertionError,
                          match="descriptor 3, .* has no address and port: it has "
                                "to be bound first"), \
            Activated(held):
        pass


def test_the_unit_reads_options_from_a_file(tmp_path: Path) -> None:
    """Like systemd: ${X} is one word, $X may be several, and a missing file is no error."""
    unit = (ROOT / "server" / "units" / "dumpulse.service").read_text()
    assert re.findall("^EnvironmentFile=(.*)", unit, re.M) == ["-/etc/default/dumpulse"]
    for each in (ROOT / "server" / "units").glob("*.service"):
        start, reload = re.findall("^Exec[A-Z].*=(/\\S+ )(.*)", each.read_text(), re.M)
        assert reload == (start[0], f"--reload {start[1]}")
    (line,) = re.findall("^ExecStart=(.*)", unit, re.M)
    variables = {"DUMPULSE_OPTIONS": "--tick 7 --allow-heartbeats 192.0.2.0/24",
                 "STATE_DIRECTORY": str(tmp_path),
                 "RUNTIME_DIRECTORY": str(tmp_path)}
    program, *words = line.split()
    for number, word in enumerate(words):
        words[number:number + 1] = variables[word[1:]].split() if re.fullmatch(r"\$\w+",
                                                                               word) else [
            re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], word)]
    assert program == "/usr/local/sbin/udpserver"
    with Server(*words) as server, Peer(server) as peer:
        server.says("heartbeats from 192.0.2.0/24")
        peer.ask()
    content = (tmp_path / "table").read_bytes()
    assert int.from_bytes(content[12:16], "big") == 7


@pytest.mark.slow
def test_install_units_and_uninstall(tmp_path: Path) -> None:
    """All files are installed below DESTDIR and PREFIX, systemd accepts the units, and make
    uninstall removes all files."""
    def make(target: str, prefix: Path, destination: str = "") -> None:
        subprocess.run(["make", "-s", "-C", ROOT, target, f"PREFIX={prefix}",
                        f"DESTDIR={destination}"], check=True)

    def files(folder: Path) -> list[str]:
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    def lib_python(names: list[str]) -> list[str]:
        """Replaces the folder of the system's Python modules, which differs on each system."""
        return [re.sub(r"^(local/)?lib/python[^/]*/[a-z]+-packages/", "lib/PYTHON/", name)
                for name in names]

    expected = ["bin/dumpulse", "include/dumpulse.h", "include/dumpulse_keyed.h",
                "include/dumpulse_serial.h", "include/dumpulse_watch.h",
                "lib/PYTHON/dumpulse/__init__.py",
                "lib/PYTHON/dumpulse/py.typed", "lib/libdumpulse.a", "lib/pkgconfig/dumpulse.pc",
                "lib/systemd/system/dumpulse-can@.service", "lib/systemd/system/dumpulse.service",
                "lib/systemd/system/dumpulse.socket", "sbin/canserver", "sbin/udpserver",
                "share/doc/dumpulse/examples/icinga2.conf",
                "share/doc/dumpulse/examples/nagios.cfg", "share/doc/dumpulse/examples/vehicle.ini",
                "share/man/man1/dumpulse.1",
                "share/man/man8/canserver.8", "share/man/man8/udpserver-keys.8",
                "share/man/man8/udpserver.8"]
    make("install", Path("/opt/x"), str(tmp_path / "stage"))
    assert sorted(lib_python(files(tmp_path / "stage" / "opt" / "x"))) == expected
    client = tmp_path / "stage" / "opt" / "x" / expected[0]
    assert subprocess.run([client, "--version"], check=True,
                          capture_output=True).stdout.startswith(b"dumpulse ")
    for unit, server in zip((name for name in expected if name.endswith(".service")),
                            ("canserver", "udpserver"), strict=True):
        service = (tmp_path / "stage" / "opt" / "x" / unit).read_text()
        assert f"ExecStart=/opt/x/sbin/{server}" in service and "/usr/local" not in service
        # systemd never gives up starting it again.
        for setting in ("StartLimitIntervalSec=0", "RestartSec=5", "RestartPreventExitStatus=2"):
            assert f"\n{setting}\n" in service
        assert " --stats ${RUNTIME_DIRECTORY}/stats " in service
    make("uninstall", Path("/opt/x"), str(tmp_path / "stage"))
    assert files(tmp_path / "stage") == []

    prefix = tmp_path / "prefix"
    make("install", prefix)
    units = [str(prefix / name) for name in expected if "systemd" in name]
    subprocess.run(["systemd-analyze", "verify", "--man=no", *units], check=True,
                   capture_output=True)
    for unit in units[:2]:
        rated = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=15",
                                unit], check=False, capture_output=True, text=True)
        assert rated.returncode == 0, rated.stdout[-300:]  # an exposure of at most 1.5 in 10
    manual = "".join((ROOT / "server" / page).read_text().replace("\\", "")
                     for page in ("udpserver.8", "udpserver-keys.8"))
    drop_ins = re.findall(r"^\[Service\]\n(?:\w+=.*\n)+", manual, re.M)
    assert len(drop_ins) == 2  # for programs, and for a key
    for text in drop_ins:
        drop_in = Path(f"{units[1]}.d") / "manual.conf"
        drop_in.parent.mkdir(exist_ok=True)
        drop_in.write_text(text)
        checked = subprocess.run(["systemd-analyze", "verify", "--man=no", units[1]], check=True,
                                 capture_output=True, text=True)
        assert checked.stderr == "", text
    shutil.rmtree(drop_in.parent)
    make("uninstall", prefix)
    assert files(prefix) == []
