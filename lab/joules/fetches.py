"""The server of lab/run formats, and the benchmark of fetches from it, by pyperf.

    python -m lab.joules.fetches serve HOST PORT RECORDS          aiohttp; PORT 0 is a free one
    python -m lab.joules.fetches HOST:PORT RECORDS FORMAT …       FORMAT, and options of pyperf

The server prints its port, and ends when its standard input ends."""

import asyncio
import http.client
import sys
import time
from argparse import Namespace

from lab.messages.codecs import CODECS, records_of

PATIENCE = 60  # seconds that a single answer may take
LONG = 10.0 ** 6  # seconds: the server keeps the connection through every rest


async def serve(host: str, port: int, records: int) -> None:
    from aiohttp import web  # the client does without it
    sent = records_of(records)

    async def answer(request: web.Request) -> web.Response:
        codec = CODECS[request.match_info["format"]]
        return web.Response(body=codec.encode(sent), content_type="application/octet-stream")

    application = web.Application()
    application.router.add_get(f"/{{format:{'|'.join(CODECS)}}}", answer)
    runner = web.AppRunner(application, keepalive_timeout=LONG)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    print(runner.addresses[0][1], flush=True)
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), over.set)  # nothing is written to it
    await over.wait()
    await runner.cleanup()


def fetch(loops: int, address: str, records: int, name: str) -> float:
    """Seconds of so many fetches over one connection. Ends at the first wrong answer."""
    expected, codec = records_of(records), CODECS[name]
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.connect()
    except OSError as fault:
        raise SystemExit(f"no answer in {name} from {address}: {fault}") from None
    # Never a second connection: after the server's end, another program could have its port, and
    # pickle must read nothing but the server's answers.
    connection.auto_open = 0
    begun = time.perf_counter()
    for _ in range(loops):
        connection.request("GET", f"/{name}")
        answer = connection.getresponse()
        wire = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise SystemExit(f"an answer in {name} has the status {answer.status}")
        try:
            values = codec.decode(wire)
        except Exception as reason:  # every library has its own
            raise SystemExit(f"an answer cannot be read as {name}: {reason}") from None
        if values != expected:
            raise SystemExit(f"an answer in {name} is not the list")
    seconds = time.perf_counter() - begun
    connection.close()
    return seconds


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        host, port, records = sys.argv[2:]
        asyncio.run(serve(host, int(port), int(records)))
        return
    import pyperf

    def add_arguments(command: list[str], options: Namespace) -> None:
        command.extend([options.address, options.records, options.format])

    runner = pyperf.Runner(add_cmdline_args=add_arguments,
                           program_args=("-m", "lab.joules.fetches"))
    for name in ("address", "records", "format"):
        runner.argparser.add_argument(name)
    options = runner.parse_args()
    runner.bench_time_func(options.format, fetch, options.address, int(options.records),
                           options.format)


if __name__ == "__main__":
    main()
