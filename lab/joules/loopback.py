"""The two processes of lab/run formats: a server of the list, and a client that fetches it.

    python -m lab.joules.loopback serve DESCRIPTOR    aiohttp, on a listening socket
    python -m lab.joules.loopback fetch PORT          http.client, over one connection

Pair starts both, and asks the client for fetches. Each ends when its standard input ends, so that
none is left however their parent ends."""

import asyncio
import contextlib
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from lab.joules.measure import ended
from lab.joules.measuring import Failed
from lab.messages.codecs import CODECS, LIST
from tools.programs import ROOT

HOST = "127.0.0.1"
PATIENCE = 60  # seconds that a single answer may take
LONG = 10.0 ** 6  # seconds: the server keeps the connection through every rest
COMMAND = (sys.executable, "-m", "lab.joules.loopback")


@dataclass(frozen=True)
class Fetched:
    bytes: int  # of all answers, without their HTTP headers
    seconds: float


async def serve(descriptor: int) -> None:
    from aiohttp import web  # the other two processes do without it

    async def answer(request: web.Request) -> web.Response:
        codec = CODECS[request.match_info["format"]]
        return web.Response(body=codec.encode(LIST), content_type="application/octet-stream")

    application = web.Application()
    application.router.add_get(f"/{{format:{'|'.join(CODECS)}}}", answer)
    runner = web.AppRunner(application, keepalive_timeout=LONG)
    await runner.setup()
    await web.SockSite(runner, socket.socket(fileno=descriptor)).start()
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), over.set)  # nothing is written to it
    await over.wait()
    await runner.cleanup()


def fetch(connection: http.client.HTTPConnection, name: str, count: int) -> Fetched:
    """Raises Failed at the first answer that is not the list."""
    codec, received, begun = CODECS[name], 0, time.perf_counter()
    for number in range(count):
        connection.request("GET", f"/{name}")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise Failed(f"the server answered {name} with the status {answer.status}")
        try:
            values = codec.decode(body)
        except Exception as reason:  # every library has its own
            raise Failed(f"answer {number + 1} cannot be read as {name}: {reason}") from None
        if values != LIST:
            raise Failed(f"answer {number + 1} in {name} is not the list that was to be sent")
        received += len(body)
    return Fetched(received, time.perf_counter() - begun)


def ask(port: int) -> None:
    """Does what the lines of its standard input say: NAME COUNT. Prints a line of JSON for each."""
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE)
    connection.connect()
    # Never a second connection: after the server's end, somebody else could have its port, and
    # what pickle reads must come from the server.
    connection.auto_open = 0
    for line in sys.stdin:
        name, count = line.split()
        try:
            fetched = fetch(connection, name, int(count))
            said: dict[str, object] = {"bytes": fetched.bytes, "seconds": fetched.seconds}
        except Failed as reason:
            said = {"failed": str(reason)}
        except (OSError, http.client.HTTPException) as reason:
            said = {"failed": f"the connection broke in the midst of {name} "
                              f"({reason or type(reason).__name__})"}
        print(json.dumps(said), flush=True)


class Child:
    """One of the two, in a session of its own, because Ctrl-C is for the parent alone."""

    def __init__(self, who: str, command: Sequence[str], inherit: tuple[int, ...] = ()) -> None:
        self.who = who
        self.errors = tempfile.TemporaryFile("w+")  # a pipe that nobody reads could fill
        self.process = subprocess.Popen(
            command, cwd=ROOT, text=True, start_new_session=True, pass_fds=inherit,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def line(self) -> str:
        """The next one that it prints; "" if it has ended."""
        assert self.process.stdout
        return self.process.stdout.readline()

    def asked(self, words: str) -> str:
        """The line that it answers; "" if it has ended."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        return self.line()

    def cpu(self) -> float:
        """Seconds of processor time until now. Linux keeps such a clock for every process."""
        try:
            return time.clock_gettime(~self.process.pid << 3 | 2)
        except OSError:
            raise Failed(self.ended() or f"the {self.who} has no clock of its own") from None

    def ended(self) -> str:
        """How it ended; "" if it has not."""
        try:
            status = self.process.wait(1)
        except subprocess.TimeoutExpired:
            return ""
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines()
        return ": ".join([f"the {self.who} {ended(status)}", *said[-1:]])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            with contextlib.suppress(BrokenPipeError):  # of words that it did not read
                assert stream
                stream.close()


class Pair:
    """A server and a client on the loopback interface."""

    def __init__(self, port: int) -> None:
        try:
            listening = socket.create_server((HOST, port))
        except OSError as reason:
            raise Failed(f"port {port} of {HOST} cannot be used: {reason.strerror}. "
                         "Without --port, a free one is taken.") from None
        with listening:  # from here on, only the server has it
            found, descriptor = listening.getsockname()[1], listening.fileno()
            self.server = Child("server", [*COMMAND, "serve", str(descriptor)], (descriptor,))
        try:
            self.client = Child("client", [*COMMAND, "fetch", str(found)])
        except BaseException:
            self.server.end()
            raise

    def fetch(self, name: str, count: int) -> Fetched:
        said = json.loads(self.client.asked(f"{name} {count}") or "{}")
        if "failed" in said or not said:
            raise Failed(self.server.ended() or said.get("failed") or self.client.ended()
                         or "the client does not answer")
        return Fetched(**said)

    def cpu(self) -> tuple[float, float]:
        """Seconds of processor time: the server's, and the client's."""
        return self.server.cpu(), self.client.cpu()

    def end(self) -> None:
        self.client.end()
        self.server.end()


def main() -> None:
    what, number = sys.argv[1:]
    if what == "serve":
        asyncio.run(serve(int(number)))
    else:
        ask(int(number))


if __name__ == "__main__":
    main()
