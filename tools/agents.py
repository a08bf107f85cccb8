"""For tests: agents that do wrong things on purpose, and client.py as a process."""

import itertools
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self, Union

import pytest

import client
from spec import keyed, model
from tools.programs import PATIENCE, ROOT, free_port

COMMAND = [sys.executable, str(ROOT / "client.py")]
VEHICLE = str(ROOT / "examples" / "vehicle.ini")

# A background job of a script ignores these signals. So would all programs that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def report(**heard: tuple[int, int, int]) -> bytes:
    """Makes a report with entries like v3=(timestamp, sender, value)."""
    agent = model.Agent()
    for variable, (timestamp, sender, value) in heard.items():
        assert agent.record(timestamp, int(variable[1:]), sender, value) == model.HEARTBEAT
    assert agent.process(0, model.REQUEST) == model.REPORT
    return agent.table()


GOOD = report(v3=(0x1234, 76, 9))
WRONG_SUM = GOOD[:200] + b"\x01" + GOOD[201:]
STRANGER = b"from elsewhere: "
Answer = Union[list[bytes], Callable[[], list[bytes]]]


def open_socket(host: str) -> socket.socket:
    opened = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    opened.bind((host, 0))
    return opened


class UdpAgent:
    """Answers each packet of a UDP socket, in a thread that ends with the packet `end`."""

    def __init__(self, host: str) -> None:
        self._socket = open_socket(host)
        self.port = self._socket.getsockname()[1]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            packet, asker = self._socket.recvfrom(1000)
            if packet == b"end":
                return
            self._answer(packet, asker)

    def _answer(self, packet: bytes, asker: Any) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(b"end", self._socket.getsockname())
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._socket.close()


class FakeAgent(UdpAgent):
    """Answers the first request with script[0], the next one with script[1], and so on. When the
    script ends, it repeats the last answer.

    An answer is a list of datagrams, or a function that makes one. If STRANGER comes before a
    datagram, this datagram is sent from another port.
    """

    def __init__(self, *script: Answer, host: str = "127.0.0.1") -> None:
        self.asked: list[float] = []  # the times of the requests
        self.askers: list[Any] = []
        self.script = list(script)
        self._stranger = open_socket(host)
        super().__init__(host)

    def _answer(self, packet: bytes, asker: Any) -> None:
        if packet != model.REQUEST:
            return  # a heartbeat: this agent ignores it
        self.asked.append(time.monotonic())
        self.askers.append(asker)
        step = self.script[min(len(self.asked), len(self.script)) - 1]
        for answer in step() if callable(step) else step:
            sender = self._stranger if answer.startswith(STRANGER) else self._socket
            sender.sendto(answer.removeprefix(STRANGER), asker)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._stranger.close()


MASTER = bytes(range(16))
OTHER_MASTER = bytes(range(100, 116))


# The counts of a reader whose requests are refused.
LADDER = [(turn // 2 + 1) * ((turn + 1) // 2 + 1) for turn in range(30)] + [255]


class KeyedFake(UdpAgent):
    """An agent of version 2, the model, over UDP. Each of `hooks` gets a packet and the model's
    answer, and returns what is sent instead; the last one stays for all further packets."""

    def __init__(self, *hooks: Callable[[bytes, bytes], list[bytes]], master: bytes = MASTER,
                 host: str = "127.0.0.1", epoch: int = 0) -> None:
        stored = keyed.Number(epoch // 256)
        self.agent = keyed.Agent(keyed.Keys(master), stored)
        assert self.agent.begin() == keyed.BEGUN
        self.agent.entries[3] = bytes.fromhex("12344c09")
        self.hooks = list(hooks)
        self.heard: list[bytes] = []
        self.answered: list[bytes] = []  # The model's answer to each packet in `heard`.
        self.lock = threading.Lock()
        super().__init__(host)

    def _answer(self, packet: bytes, asker: Any) -> None:
        with self.lock:
            answer = self.agent.process(int(time.time()) & 0xFFFF, packet)[1] or b""
            self.heard.append(packet)
            self.answered.append(answer)
            hook = (self.hooks.pop(0) if len(self.hooks) > 1 else self.hooks[0]) \
                if self.hooks else None
        for datagram in hook(packet, answer) if hook else [answer] if answer else []:
            self._socket.sendto(datagram, asker)

    def tick(self) -> None:
        with self.lock:
            assert self.agent.round()

    @property
    def requests(self) -> list[bytes]:
        """The true ones that came, with a count."""
        return [packet for packet in self.heard if packet[4:5] == b"\xc0" and packet[5]]


def ask_again_after(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client asks again after so long, and not sooner. With PATIENCE a test sees each request
    once, however late the answers are."""
    monkeypatch.setattr(client, "draw_waits", lambda: itertools.repeat(seconds))


def unused_port() -> int:
    return free_port(socket.SOCK_DGRAM)


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs the command as a process of its own."""
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True,
                          timeout=PATIENCE, **more)
