"""`make check`: do the server and the client work on this machine?

It needs only Python 3.9, while `make test` needs Debian and its packages. Everything happens on
loopback, at a free port. SERVER in the environment names the server's program."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = os.environ.get("SERVER", str(ROOT / "build" / "udpserver"))
PATIENCE = 20.0  # seconds after which something has failed; machines may be busy
REQUEST = b"AreyouOK"
# The worked heartbeat of SPEC.md: variable 3, sender 76, value 9.
HEARTBEAT = bytes.fromhex("0472014af1034c09")


class Server:
    """Starts a udpserver, and has a socket that talks to it."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen([SERVER, *options, "0"], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        self.said = ""
        while "reports to" not in self.said:  # the last line that it prints at its start
            line = self.process.stderr.readline()
            assert line, f"the server did not start: {self.said}"
            self.said += line
        found = re.search(r"listening on 127\.0\.0\.1:(\d+)", self.said)
        assert found, self.said
        self.port = int(found[1])
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", self.port))

    def ask(self) -> bytes:
        self.socket.send(REQUEST)
        return self.socket.recv(1000)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, self.process.returncode

    def close(self) -> None:
        self.socket.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def client(*words: str, status: int = 0) -> str:
    """Returns what client.py prints to stdout and stderr."""
    done = subprocess.run([sys.executable, str(ROOT / "client.py"), *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
    assert done.returncode == status, f"{words}: exit status {done.returncode}: {done.stdout}"
    return done.stdout


class Check(unittest.TestCase):
    def serve(self, *options: str) -> Server:
        server = Server(*options)
        self.addCleanup(server.close)
        return server

    def test_a_report_has_what_was_sent(self) -> None:
        server = self.serve()
        before = int(time.time()) % 65536
        server.socket.send(HEARTBEAT)
        report = server.ask()
        self.assertEqual(len(report), 260)
        self.assertEqual(int.from_bytes(report[:4], "big"), zlib.adler32(report[4:]))
        stamp, sender, value = struct.unpack_from(">HBB", report, 4 + 4 * 3)
        self.assertLess((stamp - before) % 65536, 60)
        self.assertEqual((sender, value), (76, 9))
        self.assertEqual(report[4:16] + report[20:], bytes(252))

    def test_the_table_survives_a_restart(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            state = os.path.join(folder, "table")
            server = self.serve("--state", state)
            server.socket.send(HEARTBEAT)
            entry = server.ask()[16:20]
            server.stop()
            os.utime(state, (2.2e9, 2.2e9))  # after 2038: too large for 32 bits
            self.assertEqual(self.serve("--state", state).ask()[16:20], entry)

    def test_the_client(self) -> None:
        server = self.serve()
        address = f"127.0.0.1:{server.port}"
        client("set", address, "7", "230", "--sender", "12")
        self.assertRegex(client(address), r"\n7 +230 +12 +\d")
        [variable] = json.loads(client("get", address, "--json"))["variables"]
        self.assertEqual((variable["variable"], variable["value"]), (7, 230))
        patient = ("-w", "1000", "-c", "2000")  # seconds: a busy machine may be slow
        self.assertIn("DUMPULSE OK", client("check", address, "--expect", "7", *patient))
        self.assertIn("8 never received", client("check", address, "--expect", "7-8", status=2))
        client("set", address, "64", "0", status=2)
        server.stop()
        self.assertIn("no answer", client("get", address, "--timeout", "500ms", status=3))


if __name__ == "__main__":
    unittest.main()
