"""What surrounds the fleets of a run: name servers and receivers."""

import collections
import http.server
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dumpulse_fleet.simulation.fake_fleet import FIRST

HUB = 8080
CLOCKS = time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME
NAME_SERVERS = "127.0.0.53", "127.0.0.54"
GROUP_S = 10.0  # Alertmanager's group_wait
Json = dict[str, Any]
Labels = tuple[tuple[str, str], ...]


class Message(NamedTuple):
    at: float
    to: str
    status: int
    body: Json


class Warp:
    """What warp.c reads: the clocks and the disk of a program."""

    def __init__(self, path: Path, speed: float) -> None:
        self.path, self.speed = path, speed
        self.ahead = self.full = self.slow = self.cut = 0.0
        self.bases = [time.clock_gettime(clock) if clock in CLOCKS else 0.0 for clock in range(8)]
        self.set()

    def set(self, **values: float) -> None:
        vars(self).update(values)
        with open(self.path, "r+b" if self.path.exists() else "wb", 0) as file:
            file.write(struct.pack(
                "13d", *self.bases, self.speed, self.ahead, self.full, self.slow, self.cut))

    def now(self) -> float:
        """Seconds of the fleets' clocks since the run began."""
        return (time.monotonic() - self.bases[1]) * self.speed

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / self.speed)


def waited(process: int) -> float:
    """Seconds for which the main thread of a process has waited for a processor."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):  # it has ended
        return 0.0


class Manager:
    """An Alertmanager, as far as fleets need it: it keeps alerts by their labels until they end,
    and makes one message of what has changed at a site."""

    def __init__(self) -> None:
        self.ends: dict[Labels, str] = {}
        self._told: set[Labels] = set()
        self._changed: dict[str, float] = {}  # sites

    def take(self, alerts: list[Json]) -> None:
        self.ends.update((tuple(sorted(each["labels"].items())), each["endsAt"]) for each in alerts)

    def messages(self, now: float, moment: str) -> list[Json]:
        firing = {labels for labels, end in dict(self.ends).items() if end > moment}
        sites = collections.defaultdict[str, set[Labels]](set)
        for labels in firing ^ self._told:
            sites[dict(labels).get("site", "")].add(labels)
        self._changed = {site: self._changed.get(site, now) for site in sites}
        due = [site for site in sites if now - self._changed[site] >= GROUP_S]
        made = [{"id": f"{site} {now}", "name": site, **{kind: [
            {"name": name["agent"], "variable": int(name.get("variable", -1))}
            for name in map(dict, sites[site] & which)] for kind, which in (
                ("new", firing), ("resolved", self._told))}} for site in due]
        for site in due:
            self._told ^= sites[site]
        return made


class Hub:
    """A webhook, a second one, and an Alertmanager, and what came."""

    def __init__(self, warp: Warp) -> None:
        self.warp, self.manager = warp, Manager()
        self.messages: list[Message] = []
        self.failing = 0.0  # When the Alertmanager stopped answering; 0: it answers.
        self.rejects, self.rejection, self.hangs = "", 400, False  # a site, with this status
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self, status: int, body: bytes = b"") -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                at, status = warp.now(), hub.take(self.path, body)
                if status:
                    self.reply(status)
                if isinstance(body, dict):
                    hub.messages.append(Message(at, self.path, status, body))

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", HUB), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, path: str, body: Any) -> int:
        """The status of the answer; 0: there is none."""
        if self.hangs and path != "/second":
            self.failing = self.failing or self.warp.now() * (path == "/api/v2/alerts")
            while self.hangs:
                time.sleep(0.05)
            return 0
        if path == "/api/v2/alerts":
            self.failing = 0.0
            self.manager.take(body)
            return 200
        return self.rejection if path == "/first" and body["name"] == self.rejects else 200

    def look(self, moment: str) -> None:
        """Makes the messages of the Alertmanager that are due."""
        self.messages += [Message(self.warp.now(), "manager", 200, body)
                          for body in self.manager.messages(self.warp.now(), moment)]


class Names:
    """Two name servers. The first may be slow, or dead."""

    def __init__(self, warp: Warp) -> None:
        self.delay, self.is_dead = 0.0, False
        for host in NAME_SERVERS:
            where = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            where.bind((host, 53))
            threading.Thread(target=self._serve, daemon=True, args=(
                where, warp, host == NAME_SERVERS[0])).start()

    def _serve(self, where: socket.socket, warp: Warp, is_first: bool) -> None:
        while True:
            query, asker = where.recvfrom(512)
            if is_first and self.is_dead:
                continue
            number = int(query[14:13 + query[12]])
            end = query.index(0, 12) + 5
            answer: bytes = query[:2] + b"\x81\x80\0\1\0\0\0\0\0\0" + query[12:end]
            if query[end - 3] == 1:  # type A
                answer = answer[:7] + b"\1" + answer[8:] + struct.pack(
                    ">HHHIHI", 0xC00C, 1, 1, 60, 4, FIRST + number)
            send: Callable[..., object] = where.sendto
            if self.delay:
                threading.Timer(self.delay / warp.speed, send, (answer, asker)).start()
            else:
                send(answer, asker)
