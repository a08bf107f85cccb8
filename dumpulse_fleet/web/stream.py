"""Server-sent events: which agents have changed, a few times a second, to all who listen. A reader
that comes back says which version it has seen, and gets what has changed since: nothing is kept for
it. A reader that is too slow is dropped."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from dumpulse_fleet.web.view import Marks, View

PAUSE = 1 / 3  # s between two looks at the table
BEAT = 2.0  # s after which a message without changes says that all is well
CLIENTS = 100
BACKLOG = 16  # messages that a reader may be behind
PATIENCE = 10.0  # s that one write may take
PIECE = 1000  # agents of one message


class Hub:
    """One for the server. `view` and `marks` give what they are now."""

    def __init__(self, view: Callable[[], View], marks: Callable[[], Marks],
                 trouble: Callable[[], str]) -> None:
        self._view, self._marks, self._trouble = view, marks, trouble
        self._clients: dict[asyncio.Queue[bytes | None], str] = {}  # and their addresses
        self.dropped = 0
        self._watched: View | None = None
        self._sent_at = 0.0  # time.monotonic() of the last message
        self.version = 0
        self.look()

    @property
    def clients(self) -> int:
        return len(self._clients)

    def look(self) -> None:
        """Sends what has changed since the last look."""
        view, marks = self._view(), self._marks()
        table = view.table
        if view is not self._watched:  # the configuration was read again
            first = self._watched is None
            self._watched, self._seen, self._were = view, table.version, marks
            self.version, self._stamp = 1, np.ones(len(table.agents), np.int64)
            if not first:
                self._send(self._message("reset", [], view))
            return
        with table.lock:
            changed = table.changed > self._seen
            self._seen = table.version
        if marks is not self._were:
            changed |= (marks.muted != self._were.muted) | (marks.known != self._were.known)
            self._were = marks
        rows = np.flatnonzero(changed)
        if len(rows):
            self.version += 1
            self._stamp[rows] = self.version
        if not self._clients:
            return
        if len(rows) or time.monotonic() - self._sent_at >= BEAT:
            for message in self._messages(rows):
                self._send(message)

    def _messages(self, rows: NDArray[np.intp]) -> list[bytes]:
        view = self._view()
        items = view.changing(rows, self._were)
        pieces = [items[begin:begin + PIECE] for begin in range(0, len(items), PIECE)] or [[]]
        return [self._message("agents", piece, view, piece is pieces[-1]) for piece in pieces]

    def _message(self, kind: str, agents: list[dict[str, Any]], view: View,
                 last: bool = True) -> bytes:
        heard = view.table.newest()
        data = json.dumps({"now": round(time.time(), 3), "heard_at": round(heard, 3) or None,
                           "trouble": self._trouble(), "agents": agents},
                          separators=(",", ":"))
        # If a client loses the connection between two pieces, it gets all of them again.
        mark = f"id: {view.epoch}.{self.version}\n" if last else ""
        return f"{mark}event: {kind}\ndata: {data}\n\n".encode()

    def _send(self, message: bytes) -> None:
        self._sent_at = time.monotonic()
        for queue in list(self._clients):
            try:
                queue.put_nowait(message)
            except asyncio.QueueFull:
                self._drop(queue)

    def _drop(self, queue: asyncio.Queue[bytes | None]) -> None:
        self.dropped += 1
        self._clients.pop(queue, None)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(PAUSE)

    def end(self) -> None:
        for queue in list(self._clients):
            self._drop(queue)

    def _missed(self, seen: str) -> list[bytes]:
        view = self._view()
        epoch, _, number = seen.partition(".")
        if not seen:
            return self._messages(np.array([], np.intp))
        if epoch != view.epoch or not number.isdecimal() or len(number) > 18 \
                or int(number) > self.version:
            return [self._message("reset", [], view)]
        return self._messages(np.flatnonzero(self._stamp > int(number)))

    def _make_room(self, address: str) -> None:
        """If there is none, the address that has the most readers loses the oldest of them."""
        counts = Counter(self._clients.values())
        if counts.total() < CLIENTS:
            return
        (most, count), = counts.most_common(1)
        if count <= counts[address] + 1:
            raise web.HTTPServiceUnavailable(text=f"{CLIENTS} readers listen already",
                                             headers={"Retry-After": "30"})
        self._drop(next(queue for queue, each in self._clients.items() if each == most))

    async def serve(self, request: web.Request, seen: str, address: str) -> web.StreamResponse:
        """To one reader, until it goes."""
        self._make_room(address)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(BACKLOG)
        self._clients[queue] = address
        try:
            response = web.StreamResponse(headers={
                "Content-Type": "text/event-stream", "Cache-Control": "no-store",
                "X-Accel-Buffering": "no"})
            self.look()
            missed = self._missed(seen)
            await response.prepare(request)
            async with asyncio.timeout(PATIENCE):
                await response.write(b"retry: 2000\n\n" + b"".join(missed))
            while (message := await queue.get()) is not None:
                async with asyncio.timeout(PATIENCE):
                    await response.write(message)
        except TimeoutError:
            self.dropped += 1
            if request.transport:
                request.transport.abort()
        except ConnectionError:
            pass  # it has gone
        finally:
            self._clients.pop(queue, None)
        return response
