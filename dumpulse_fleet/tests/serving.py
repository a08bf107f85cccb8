"""Starts the real command with real agents, and servers of HTTP."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests.collecting import PATIENCE, until

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "dumpulse_fleet"]
NAMES = "[dumpulse]\nnow-from = 0\nwarn = 20s\ncrit = 40s\n[0]\nname = clock\n[1]\nname = engine\n"


def fetch(address: str, token: str, method: str = "GET", **more: Any) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of an answer."""
    request = urllib.request.Request(address, method=method,
                                     headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE, **more) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


class Serving:
    """dumpulse-fleet serve, and all that it says. `prefix` is a command that starts it."""

    def __init__(self, folder: Path, prefix: Sequence[str] = (), **environment: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*prefix, *COMMAND, "serve", "--config.file", str(folder / "fleet.toml")],
            cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        self.said.extend(iter(self.process.stderr.readline, ""))

    def wait_for(self, words: str, count: int = 1) -> str:
        return str(until(lambda: sum(words in line for line in self.said) >= count and next(
            line for line in reversed(self.said) if words in line), lambda: (words, self.said)))

    @property
    def address(self) -> str:
        match = re.search(r"https?://[^/]+", self.wait_for("the page is"))
        assert match
        return match[0]

    def ask(self, path: str, method: str = "GET") -> dict[str, Any]:
        status, answer = fetch(self.address + path, "sesame", method)
        assert status == 200, answer
        return answer

    def agents(self) -> dict[str, str]:
        """Names and states."""
        return {each["name"]: each["state"]
                for each in self.ask("/api/v1/agents?limit=1000")["agents"]}

    def wait_for_agents(self, wanted: dict[str, str]) -> None:
        until(lambda: self.agents() == wanted, lambda: (wanted, self.agents()))

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        status = self.process.wait(PATIENCE)
        self._reader.join()
        return status

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr
        self.process.stderr.close()
        assert "Traceback" not in "".join(self.said), "".join(self.said)


def write(folder: Path, fake: FakeFleet, count: int, more: str = "", web: str = "") -> None:
    """A configuration with the first agents of a fake fleet."""
    (folder / "names.ini").write_text(NAMES)
    (folder / "token").write_text("sesame\n")
    agents = "".join(f"[[agents]]\naddress = '{fake.address(number)}'\nname = 'a{number}'\n"
                     for number in range(count))
    (folder / "fleet.toml").write_text(
        "[collector]\nstate = 'state'\ngrace = '0'\n[defaults]\nnames = 'names.ini'\n"
        f"period = '500ms'\nmisses = 3\n[web]\nlisten = '127.0.0.1:0'\n"
        f"token_file = 'token'\n{web}{agents}{more}")


@contextlib.contextmanager
def notified(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """systemd's end: an address for NOTIFY_SOCKET, and what came."""
    came: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(0.1)
        ending = threading.Event()

        def receive() -> None:
            while not ending.is_set():
                with contextlib.suppress(TimeoutError):
                    came.append(manager.recv(4096).decode())

        receiver = threading.Thread(target=receive)
        receiver.start()
        try:
            yield str(folder / "notify"), came
        finally:
            ending.set()
            receiver.join()


# ---------------------------------------------------------------- others
def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def started(*command: str, port: int, **more: Any) -> Iterator[None]:
    """A program that listens there."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          **more) as process:
        try:
            until(lambda: listens(port), lambda: f"{command[0]} has ended: {process.poll()}", 60)
            yield
        finally:
            process.kill()


class Answering(http.server.BaseHTTPRequestHandler):
    """A handler that says nothing by itself."""

    def answer(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


class Taking(Answering):
    """A webhook: it keeps the JSON of each POST, and {} of each GET."""

    came: list[Any]

    def do_POST(self) -> None:
        self.came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0))
                                    or "{}"))
        self.answer()

    do_GET = do_POST


@contextlib.contextmanager
def answering(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server of HTTP in a thread. Yields its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
