"""The web server: the wall, the JSON interface, and what Prometheus reads. ROUTES is
the list of all that can be asked."""

import asyncio
import contextlib
import json
import logging
import os
import re
import resource
import sqlite3
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, get_origin

import numpy as np
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import (
    AfterValidator, BaseModel, Field, PlainValidator, ValidationError, create_model)

from dumpulse_fleet.model.agents import Mute, Part, State
from dumpulse_fleet.model.naming import matches
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.uptime import Days, Uptime
from dumpulse_fleet.record.store import Store, Trouble
from dumpulse_fleet.web.access import HEADERS, Access, Handler, first_wrong, in_thread
from dumpulse_fleet.web import metrics, status, view
from dumpulse_fleet.web.view import Marks, View

BODY_MAX = 16384  # bytes
STORE_TIME = 10.0  # s for the disk
BODY_TIME = 10.0  # s for a body to come
CONNECTIONS = 1000  # Maximum number, if there are descriptors for them.
OURS = 320  # descriptors for other things: sockets of the collector, files, brokers, and 128
# connections that the loop takes at once, before anybody counts them
FIRST_REQUEST = 15.0  # s after which a connection that has asked nothing is closed
NEXT_REQUEST = 75.0  # s for taking an answer and asking again; Prometheus asks each 15 or 60 s
SCRAPE_TIME = 60.0  # s for taking the metrics
SWEEP = 0.1  # s between two looks at connections that wait for too long
READS = 8  # Simultaneous reads of the disk, which may hang.
Result = TypeVar("Result")
WHO = web.RequestKey("who", str)
GIVEN: web.RequestKey[dict[str, Any]] = web.RequestKey("given", dict)
WALL = os.path.join(os.path.dirname(__file__), "wall")
PAGES = {"index.html": "/", "log.html": "/log"}  # The others have the names of their files.
FILES = {PAGES.get(name, f"/{name}"): name for name in os.listdir(WALL)}


# ---------------------------------------------------------------- what requests may say
Json = dict[str, Any]
LONGEST = 500  # Characters of a parameter.
STATES = [state.words for state in State]


def state_of(text: str) -> State:
    name = re.sub("[ _-]", "_", text).upper()
    if name not in State.__members__:
        raise ValueError(f"must be one of: {', '.join(STATES)}")
    return State[name]


def printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be in one line")
    return text


def number(low: int, high: int) -> Any:
    return Annotated[int, Field(ge=low, le=high)]


def many(kind: Any) -> Any:
    return list[kind], Field([], max_length=20)


TEXT = Annotated[str, Field(max_length=LONGEST)]
WORD = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printable)]
TIME = Annotated[float, Field(ge=0, le=999_999_999_999, allow_inf_nan=False)]
ONE_STATE = Annotated[State, PlainValidator(state_of)]


# Each with its default. With `...`, it must be given.
PARAMETERS: Mapping[str, Any] = {
    "q": (TEXT, ""),  # Words, all of which are in the name, site, address or labels.
    "state": many(ONE_STATE),  # States of agents; for events, the new state.
    "site": many(TEXT),
    "sort": (Literal["worst", "name"], "worst"),
    "offset": (number(0, 10_000_000), 0),
    "limit": (number(1, 1000), 100),
    "agent": (TEXT, ""),  # For events, it may be a glob.
    "variable": (number(0, 63), None),
    "what": (TEXT, ""),  # The kind of events: state, rebooted, clock, …
    "since": (TIME, None),
    "until": (TIME, None),
    "before": (number(1, 10 ** 18 - 1), None),  # The lowest number of the page of events before.
    "name": (TEXT, ...),
    "number": (number(1, 10 ** 18 - 1), ...),
    "seen": (TEXT, ""),  # The version of the last answer with agents.
    "shard": (number(0, 4095), 0),
    "of": (number(1, 4096), 1)}


class NewMute(BaseModel):
    """What a request for a mute says."""

    model_config = {"extra": "forbid", "strict": True}
    match: Annotated[dict[WORD, WORD], Field(min_length=1, max_length=20)]
    seconds: Annotated[float, Field(ge=1, le=366 * 86400, allow_inf_nan=False)]
    why: TEXT = ""
    begins: TIME = Field(default_factory=time.time)
    by: TEXT = ""  # For those who share a token; a user is who asks.
    acknowledges: bool = False


# ---------------------------------------------------------------- the site
class Backend(Protocol):
    """What this module needs to know and to do. Only the loop's thread asks it."""

    table: Table  # A reload makes another one, also of what follows.
    parts: Sequence[Part]  # Parts of the public page.
    uptime: Uptime
    days: Days
    store: Store
    sees: bool  # It polls the agents, and stores events.
    ready: bool  # It sees, alerts get out, and the inventory is whole.
    trouble: str  # Trouble of the fleet itself, or empty.
    alertmanager: str  # Address of its page, or empty.

    def troubles(self) -> Mapping[str, str]:
        """What is wrong with each part."""

    def numbers(self) -> Mapping[str, float]:
        """Its own, by the words of OWN in metrics.py."""


class Route(NamedTuple):
    method: str
    path: str
    handler: str  # A method of Site.
    parameters: Sequence[str] = ()  # Keys of PARAMETERS.

    def model(self) -> type[BaseModel]:
        """Of its parameters."""
        fields = {name: PARAMETERS[name] for name in self.parameters}
        return create_model(self.handler, __config__={"extra": "forbid"}, **fields)


ROUTES = (  # README.md has the same ones of the JSON interface
    Route("GET", "/api/v1/summary", "summary"),
    Route("GET", "/api/v1/agents", "agents",
          ("q", "state", "site", "sort", "offset", "limit")),
    Route("GET", "/api/v1/agents/{name}", "agent", ("name",)),
    Route("GET", "/api/v1/agents/{name}/uptime", "uptime", ("name",)),
    Route("GET", "/api/v1/changes", "changes", ("seen",)),
    Route("GET", "/api/v1/events", "events", (
        "agent", "site", "variable", "what", "state", "since", "until", "before", "limit")),
    Route("GET", "/api/v1/mutes", "mutes", ("agent",)),
    Route("POST", "/api/v1/mutes", "add_mute"),
    Route("DELETE", "/api/v1/mutes/{number}", "end_mute", ("number",)),
    Route("GET", "/metrics", "own_metrics"),
    Route("GET", "/metrics/agents", "agent_metrics", ("shard", "of")),
    Route("GET", "/sd", "targets"),
    Route("GET", "/status", "status"),
    Route("GET", "/-/healthy", "healthy"),
    Route("GET", "/-/ready", "ready"),
)


class Site:
    """Answers. Each method that ROUTES names is about one of them."""

    def __init__(self, service: Backend, access: Access) -> None:
        self.service, self.access = service, access
        self._view = View(service.table, service.parts)
        self._reads = asyncio.Semaphore(READS)

    def view(self) -> View:
        if self._view.table is not self.service.table:
            self._view = View(self.service.table, self.service.parts)
        return self._view

    def marks(self) -> Marks:
        return self.view().marks(self.service.store.mutes(), time.time())

    # ---- the fleet
    async def summary(self, request: web.Request) -> Json:
        who = request[WHO]
        return {"now": round(time.time(), 3), **self.view().summary(),
                "trouble": self.service.trouble, "alertmanager": self.service.alertmanager,
                "muted": int(np.count_nonzero(self.marks().muted)),
                "you": {"name": who, "may_change": bool(who)}}

    async def agents(self, request: web.Request) -> Json:
        query, shown, marks = request[GIVEN], self.view(), self.marks()
        version = shown.version  # Changes after this line are sent again.

        def find() -> Json:
            rows = shown.chosen(query["q"], query["state"], query["site"],
                                query["sort"] == "worst")
            part = rows[query["offset"]:query["offset"] + query["limit"]]
            return {"version": version, "total": len(rows), "agents": shown.agents(part, marks)}

        return await asyncio.to_thread(find)

    def _row(self, request: web.Request) -> int:
        name = request[GIVEN]["name"]
        row = self.view().table.row.get(name)
        if row is None:
            raise web.HTTPNotFound(text="there is no agent of this name")
        return row

    async def agent(self, request: web.Request) -> Json:
        row = self._row(request)
        return self.view().agent(row, self.marks())

    async def uptime(self, request: web.Request) -> Json:
        row = self._row(request)
        now = time.time()
        return {"cells": view.uptime(await stored(in_thread(
            self._reads, self.service.uptime.of, self.view().table, row, now)), now)}

    async def events(self, request: web.Request) -> Json:
        query: dict[str, Any] = request[GIVEN].copy()
        if len(query["site"]) > 1:
            raise web.HTTPBadRequest(text="site: only one can be chosen here")
        query["site"] = "".join(query["site"])
        query["now"] = [state.words for state in query.pop("state")]
        events = await stored(in_thread(
            self._reads, lambda: self.service.store.select(**query)))
        return {"events": [view.event(event, self.view().table) for event in events]}

    async def changes(self, request: web.Request) -> Json:
        shown, marks = self.view(), self.marks()
        version = shown.version
        rows = shown.changed_since(request[GIVEN]["seen"])
        agents = [] if rows is None else await asyncio.to_thread(shown.changing, rows, marks)
        return {"version": version, "now": round(time.time(), 3),
                "heard_at": view.when(shown.table.newest()), "trouble": self.service.trouble,
                "reset": rows is None, "agents": agents}

    # ---- mutes
    async def mutes(self, request: web.Request) -> Json:
        table, name = self.view().table, request[GIVEN]["agent"]
        return {"mutes": [view.mute(mute) for mute in self.service.store.mutes() if not name
                          or name in table.row
                          and matches(mute.match, table.agents[table.row[name]])]}

    async def add_mute(self, request: web.Request) -> Json:
        new = await new_mute(request)
        table = self.view().table
        if new.acknowledges and not any(
                state > State.ALIVE and matches(new.match, agent)
                for agent, state in zip(table.agents, table.agent_state.tolist())):
            raise web.HTTPBadRequest(text="match: no agent that fits is in trouble")

        async def make() -> Mute:
            return await asyncio.wrap_future(self.service.store.make_mute(new))

        return view.mute(await stored(make()))

    async def end_mute(self, request: web.Request) -> Json:
        number = request[GIVEN]["number"]
        if not await stored(asyncio.wrap_future(self.service.store.end_mute(number))):
            raise web.HTTPNotFound(text="there is no mute with this number")
        return {"done": f"mute {number} has ended"}

    # ---- Prometheus
    async def own_metrics(self, request: web.Request) -> web.StreamResponse:
        def blocks() -> Iterator[bytes]:
            yield from metrics.of_fleet(self.view().table)
            yield from metrics.of_collector(self.service.numbers())
            yield metrics.text(metrics.TROUBLE, [({"about": part}, bool(text)) for part, text
                                                 in self.service.troubles().items()])
            yield from metrics.of_process()

        return await send_metrics(request, blocks())

    async def agent_metrics(self, request: web.Request) -> web.StreamResponse:
        query = request[GIVEN]
        if query["shard"] >= query["of"]:
            raise web.HTTPBadRequest(text=f"shard: must be 0 to {query['of'] - 1}")
        writer = self.view().metrics
        return await send_metrics(request, writer.write(writer.rows(query["shard"],
                                                                    query["of"])))

    async def targets(self, request: web.Request) -> web.Response:
        """The label `shard` keeps the series `up` of the shards apart."""
        count = self.view().metrics.shards
        scheme, _, host = self.access.origin(request).partition("://")
        whole = {"targets": [host], "labels": {"__metrics_path__": "/metrics",
                                               "__scheme__": scheme}}
        return web.json_response([whole, *({"targets": [host], "labels": {
            "__metrics_path__": "/metrics/agents", "__scheme__": scheme,
            "__param_shard": str(shard), "__param_of": str(count),
            "shard": f"{shard}/{count}"}} for shard in range(count))])

    # ---- for everybody
    async def status(self, request: web.Request) -> web.Response:
        if not self.view().parts:
            raise web.HTTPNotFound(text="the configuration has no [[status]]")
        return web.Response(text=status.page(self.view(), self.service.days.parts, self.marks(),
                                             self.service.sees), content_type="text/html")

    # ---- its own state
    async def healthy(self, request: web.Request) -> web.Response:
        return web.Response(text="healthy\n")

    async def ready(self, request: web.Request) -> web.Response:
        if not self.service.ready:
            raise web.HTTPServiceUnavailable(text=f"not ready: {self.service.trouble}")
        return web.Response(text="ready\n")


# ---------------------------------------------------------------- parts of answers
async def send_metrics(request: web.Request, blocks: Iterator[bytes]) -> web.StreamResponse:
    """Each block is made in a thread, so that nobody else has to wait."""
    zipped = "gzip" in request.headers.get("Accept-Encoding", "")
    response = web.StreamResponse(headers={"Content-Type": metrics.CONTENT_TYPE,
                                           "Vary": "Accept-Encoding"})
    if zipped:
        response.headers["Content-Encoding"] = "gzip"
        blocks = metrics.gzipped(blocks)
    try:
        await response.prepare(request)
        if request.method == "HEAD":
            return response  # aiohttp would send a body
        async with asyncio.timeout(SCRAPE_TIME):
            while (block := await asyncio.to_thread(next, blocks, None)) is not None:
                if block:
                    await response.write(block)
            await response.write_eof()
    except TimeoutError:  # A part must not look like the whole.
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:  # The client has disconnected.
        pass
    return response


async def stored(work: Awaitable[Result]) -> Result:
    """What the store says, in time."""
    try:
        async with asyncio.timeout(STORE_TIME):
            return await work
    except ValueError as error:  # The mute is impossible.
        raise web.HTTPBadRequest(text=str(error)) from error
    except TimeoutError as error:
        raise web.HTTPServiceUnavailable(text="the disk is busy: try again") from error
    except (Trouble, sqlite3.Error) as error:
        raise web.HTTPServiceUnavailable(text=str(error)) from error


def wrong(error: ValidationError) -> web.HTTPBadRequest:
    json_is_wrong = error.errors(include_url=False)[0]["type"] == "json_invalid"
    return web.HTTPBadRequest(
        text="the body is not JSON" if json_is_wrong else first_wrong(error))


async def new_mute(request: web.Request) -> Mute:
    """From the body of a request."""
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="the body must be application/json")
    try:
        async with asyncio.timeout(BODY_TIME):
            new = NewMute.model_validate_json(await request.read())
    except TimeoutError as error:
        raise web.HTTPBadRequest(text="the body did not come in time") from error
    except ValidationError as error:
        raise wrong(error) from error
    who = request[WHO]  # Many people may use one token, but a user is one.
    return Mute(new.match, new.begins, new.begins + new.seconds, new.why,
                new.by if who == "token" and new.by else who, acknowledges=new.acknowledges)


def parameters_of(request: web.Request, model: type[BaseModel]) -> dict[str, Any]:
    """All parameters that the route knows. HTTPBadRequest: one is not known, or wrong."""
    arguments: dict[str, Any] = {}
    for name, text in [*request.query.items(), *request.match_info.items()]:
        arguments.setdefault(name, []).append(text)
    for name, texts in arguments.items():
        field = model.model_fields.get(name)
        if len(texts) == 1 and not (field and get_origin(field.annotation) is list):
            arguments[name] = texts[0]
    try:
        return vars(model.model_validate(arguments))
    except ValidationError as error:
        raise wrong(error) from error


# ---------------------------------------------------------------- the application
def json_error(error: web.HTTPException) -> web.Response:
    headers = {name: text for name, text in error.headers.items()
               if name in ("WWW-Authenticate", "Retry-After", "Allow")}
    return web.json_response({"error": error.text or error.reason}, status=error.status,
                             headers=headers)


SITE = web.AppKey("site", Site)
# By connection that asks nothing now: when it is closed, on the loop's clock; whether it is new.
Waiting = dict[Any, tuple[float, bool]]
WAITING: web.AppKey[Waiting] = web.AppKey("waiting", dict)


def answer(site: Site, route: Route) -> Handler:
    method, model = getattr(site, route.handler), route.model()

    async def handle(request: web.Request) -> web.StreamResponse:
        request[GIVEN] = parameters_of(request, model)
        result = await method(request)
        if isinstance(result, web.StreamResponse):
            return result
        response = web.Response(body=json.dumps(result, separators=(",", ":")).encode(),
                                content_type="application/json")
        if len(response.body or b"") > 4096:  # type: ignore[arg-type]
            response.enable_compression()
        return response

    return handle


def file(name: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.FileResponse(os.path.join(WALL, name), headers={"Cache-Control": "no-cache"})
        # aiohttp writes the end of what it compresses even if the answer must not have a body.
        conditions = "If-None-Match", "If-Modified-Since"
        if request.method == "GET" and not any(header in request.headers for header in conditions):
            response.enable_compression()
        return response

    return handle


def share() -> int:
    """How many connections there may be."""
    return min(CONNECTIONS, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - OURS))


def most_of_one() -> int:
    """How many of them one address may keep idle, and how many it may use."""
    return max(4, share() // 4)


async def close_slow(waiting: Waiting) -> None:
    """Closes connections of those who ask slowly, or read slowly, or have too many."""
    while True:
        await asyncio.sleep(SWEEP)
        now = asyncio.get_running_loop().time()
        idle: dict[str, list[Any]] = {}  # Connections by address.
        for connection, (end, first) in list(waiting.items()):
            transport = connection.transport  # A new one has none for a moment.
            if end <= now or (transport is None and not first):
                del waiting[connection]
                if transport is not None:
                    transport.abort()
            elif transport is not None:
                idle.setdefault((transport.get_extra_info("peername") or ("",))[0], []).append(
                    (not first, end, connection))
        for address, some in idle.items():  # Those that have never asked anything go first.
            some.sort(key=lambda entry: entry[:2])
            for _, _, connection in some[:max(0, len(some) - most_of_one())]:
                del waiting[connection]
                connection.transport.abort()


def make_app(service: Backend, access: Access | None = None) -> web.Application:
    site = Site(service, access or Access())
    waiting: Waiting = {}
    used: Counter[str] = Counter()  # Connections, by address.

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        waiting.pop(request.protocol, None)
        address = request.remote or ""
        used[address] += 1
        try:
            if used[address] > most_of_one():
                raise web.HTTPServiceUnavailable(text="too many requests of this address at once",
                                                 headers={"Retry-After": "2"})
            request[WHO] = await site.access.allow(request, status.FREE * bool(site.view().parts))
            return await handler(request)
        except web.HTTPException as error:
            return json_error(error)
        finally:
            used[address] -= 1
            if not used[address]:
                del used[address]
            end = asyncio.get_running_loop().time() + NEXT_REQUEST
            waiting[request.protocol] = end, False

    async def prepare(request: web.Request, response: web.StreamResponse) -> None:
        for name, text in HEADERS.items():
            response.headers.setdefault(name, text)
        if site.access.origin(request).startswith("https:"):
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        response.headers.pop("Server", None)
        response.headers.setdefault("Cache-Control", "no-store")

    async def background(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(close_slow(waiting))
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    app = web.Application(middlewares=[guard], client_max_size=BODY_MAX)
    app[SITE], app[WAITING] = site, waiting
    for route in ROUTES:
        handle = answer(site, route)
        app.router.add_route(route.method, route.path, handle)
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, handle)
    for path, name in FILES.items():
        app.router.add_get(path, file(name))
    app.on_response_prepare.append(prepare)
    app.cleanup_ctx.append(background)
    return app


def not_by_a_reader(record: logging.LogRecord) -> bool:
    """Keeps requests that are not HTTP out of the log, which they would fill."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


class RejectedConnection(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class Handshake(asyncio.Protocol):
    """A connection until TLS is agreed on. So close_slow knows from which address it comes."""

    def __init__(self, handler: Any, context: ssl.SSLContext, waiting: Waiting) -> None:
        self._handler, self._context, self._waiting = handler, context, waiting
        self.transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()  # TLS reads the bytes that follow.
        self._task = asyncio.create_task(self._agree(transport))

    async def _agree(self, transport: asyncio.Transport) -> None:
        secure = None
        with contextlib.suppress(OSError):  # The other side has gone, or speaks no TLS.
            secure = await asyncio.get_running_loop().start_tls(
                transport, self._handler, self._context, server_side=True,
                ssl_handshake_timeout=FIRST_REQUEST)
        until = self._waiting.pop(self, None)
        if secure and until:
            self._waiting[self._handler] = until
            self._handler.connection_made(secure)
        else:
            transport.abort()


class Listening(NamedTuple):
    runner: web.AppRunner
    server: asyncio.Server

    @property
    def port(self) -> int:
        return int(self.server.sockets[0].getsockname()[1])

    async def end(self) -> None:
        self.server.close()
        await self.runner.cleanup()


async def listen(app: web.Application, host: str, port: int) -> Listening:
    """OSError: it cannot listen there."""
    log = logging.getLogger("dumpulse.fleet.web")
    log.addFilter(not_by_a_reader)
    runner = web.AppRunner(app, access_log=None, logger=log, handler_cancellation=True,
                           max_line_size=8190, max_field_size=8190, shutdown_timeout=2.0)
    await runner.setup()
    loop, waiting, context = asyncio.get_running_loop(), app[WAITING], app[SITE].access.ssl
    assert runner.server is not None
    make, limit = runner.server, share()

    def connection() -> asyncio.Protocol:
        if len({*make.connections, *waiting}) >= limit:  # Some have no transport yet.
            return RejectedConnection()
        new = make() if context is None else Handshake(make(), context, waiting)
        waiting[new] = loop.time() + FIRST_REQUEST, True
        return new

    try:
        server = await loop.create_server(connection, host or None, port, backlog=128)
    except BaseException:
        await runner.cleanup()
        raise
    return Listening(runner, server)
