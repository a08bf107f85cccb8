"""Mosquitto, and servers of HTTP, as tests need them.   SPDX-License-Identifier: MIT"""

import contextlib
import http.server
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from dumpulse_fleet.tests.core import until
from tests.support.programs import free_port


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


class Broker:
    """It forgets everything when it ends."""

    def __init__(self, folder: Path, extra: str = "allow_anonymous true") -> None:
        self.port = free_port()
        self._file = folder / "mosquitto.conf"
        self._file.write_text(f"listener {self.port} 127.0.0.1\nuser root\nmax_queued_messages 0\n"
                              f"{extra}\n")
        self.start()

    def start(self) -> None:
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(["mosquitto", "-c", str(self._file)],
                                        stderr=subprocess.DEVNULL)
        until(lambda: listens(self.port))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(20)


class Reader:
    """A client that has read all that is retained, and goes on to read."""

    def __init__(self, port: int, topic: str = "#") -> None:
        self._topics: dict[str, bytes] = {}
        self.all: list[tuple[str, bytes]] = []
        self._ready = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._topic = topic
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = self._on_message
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._ready.wait(20)

    def _on_connect(self, *_: Any) -> None:
        self._client.subscribe(self._topic, qos=1)

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        self.all.append((message.topic, message.payload))
        if message.payload:
            self._topics[message.topic] = message.payload
        else:
            self._topics.pop(message.topic, None)

    @property
    def topics(self) -> dict[str, bytes]:
        return dict(self._topics)

    def close(self) -> None:
        self._client.disconnect()
        with contextlib.suppress(AttributeError):  # its thread, which it waits for, has just ended
            self._client.loop_stop()


@contextlib.contextmanager
def reading(port: int, topic: str = "#") -> Iterator[Reader]:
    reader = Reader(port, topic)
    try:
        yield reader
    finally:
        reader.close()


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
