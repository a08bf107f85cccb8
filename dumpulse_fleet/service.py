"""The whole fleet in one process: puts its parts together, reads the configuration again, looks at
the sources of agents, and ends. The loop's thread has the web and the alerts. The collector and the
store have threads of their own."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import os
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, cast

from dumpulse_fleet import client
from dumpulse_fleet.alert.deliver import Alerts
from dumpulse_fleet.alert.message import Receiver
from dumpulse_fleet.collect.collector import STARTING, Collector
from dumpulse_fleet.collect.discovery import Discovery
from dumpulse_fleet.config.file import Config, load
from dumpulse_fleet.config.outputs import Web
from dumpulse_fleet.config.toml_reader import Mistakes
from dumpulse_fleet.config.values import Secret, page_of
from dumpulse_fleet.model.agents import Agent, Mute, Part, State
from dumpulse_fleet.model.naming import matches
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.snapshot import Snapshot
from dumpulse_fleet.record.store import Store, Trouble
from dumpulse_fleet.record.uptime import Days, Uptime
from dumpulse_fleet.web.access import Access
from dumpulse_fleet.web.server import READS, Backend, Listening, listen, make_app

STOP_S = 5.0  # s from SIGTERM to the end, at most
QUIET_S = 60.0  # s between two lines of the log that say the same
FILES, FEWEST = 65_536, 64  # Descriptors that we ask for, and without which nothing works.
LOOK_S = 1.0  # s between two looks whether a source is due
THREADS = READS + 16  # Slow calls must not block the others.
SAMPLE_S = 60.0  # s between two looks for the status page
HANGS_S = 10.0  # s that the disk may take
WELL_S = 60.0  # s for which all must be well until what was acknowledged ends
Result = TypeVar("Result")


class CannotStart(Exception):
    """The fleet cannot start now, but may start later. One line says what to do."""


def say(text: str) -> None:
    """To the log, which the service manager keeps."""
    client.complain(text, "dumpulse-fleet")


def raise_limit() -> None:
    """Takes as many descriptors as the system gives: the usual soft limit is for older programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES)), hard))
    if hard < FEWEST:
        raise CannotStart(f"{hard} descriptors are too few: {FEWEST} are needed (ulimit -n, or "
                       "LimitNOFILE= of systemd)")


def notify(text: str) -> None:
    """Tells systemd, if it waits for that."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with contextlib.suppress(OSError), \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.setblocking(False)
            manager.sendto(text.encode(), address.replace("@", "\0", 1)
                           if address.startswith("@") else address)


def access_of(web: Web) -> Access:
    """BadUsage: its file is wrong."""
    return Access(web.listen[0], web.config_file, web.token)


# What a running fleet cannot change, and how messages call it.
FIXED: Mapping[str, Callable[[Config], object]] = {
    "state in [collector]": lambda config: config.state,
    # What its files say may change: passwords, certificates and the token.
    "[web]": lambda config: dataclasses.replace(config.web, token=Secret())}


def shape(text: str) -> str:
    """Without what changes all the time."""
    return re.sub(r"[0-9][0-9.,]*", "", text)


def well_again(mutes: Sequence[Mute], table: Table, now: float) -> list[Mute]:
    """Mutes that acknowledge trouble that is over. Trouble that comes later is not known yet."""
    well = (table.agent_state == State.ALIVE) & (table.agent_since < now - WELL_S)
    return [mute for mute in mutes if mute.acknowledges and all(
        well[row] for row, agent in enumerate(table.agents) if matches(mute.match, agent))]


class Service:
    """The parts of a fleet that runs. Only the loop's thread uses it."""

    # Made by _start; a reload or a change of the sources makes others of some.
    access: Access
    discovery: Discovery
    table: Table
    parts: Sequence[Part] = ()
    store: Store
    uptime: Uptime
    days: Days
    collector: Collector
    alerts: Alerts
    failure = ""  # Why it ended without a signal.

    def __init__(self, config: Config) -> None:
        self.config = config
        self._running = False
        self._changing = asyncio.Lock()  # Held by a reload or a change of the sources.
        self._ending = asyncio.Event()
        self._reloaded, self._reloaded_at = True, time.time()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stops: list[Callable[[], Awaitable[object]]] = []  # Called at the same time.
        self._stopper = threading.Timer(STOP_S, self._give_up)
        self._coming: Sequence[Agent] | None = None  # A list that is not in force yet.
        self._told: list[str] = []  # Logged troubles of the sources.
        self._failed, self._failed_at = 0, -QUIET_S  # Failed logins that were logged, and when.
        self._odd_until: dict[str, float] = {}  # Errors of the loop, and until when none is logged.
        self._logged = ""  # The collector's last logged trouble.

    # ---------------------------------------------------------------- for the web server
    def troubles(self) -> dict[str, str]:
        """What is wrong with each part; empty: nothing."""
        why = self.store.trouble
        if self.store.hangs() > HANGS_S:
            why = f"the disk has not answered for {self.store.hangs():.0f} s"
        return {
            "collector": self.collector.trouble() if self._running else "the fleet is starting",
            "store": why and f"events cannot be written: {why}",
            "configuration": "" if self._reloaded else
            "the configuration is wrong, and the old one stays",
            "alerts": self.alerts.trouble,
            "receivers": self.alerts.untold,
            "sources": self.discovery.missing or (self._told[0] if self._told else "")}

    @property
    def trouble(self) -> str:
        """What is wrong with the fleet itself; empty: nothing."""
        return "; ".join(filter(None, self.troubles().values()))

    @property
    def alertmanager(self) -> str:
        """The address of its page, without a password."""
        return next((page_of(receiver.url) for receiver in self.config.alerts.notify
                     if receiver.kind == "alertmanager"), "")

    @property
    def sees(self) -> bool:
        """Requests left, answers came or their lack was judged, and events are written."""
        if not (self._running and self.collector.running):
            return False
        now = self.troubles()
        return not (now["collector"] or now["store"])

    @property
    def ready(self) -> bool:
        """The fleet sees, people can be told, and the inventory is whole."""
        return self.sees and not (self.alerts.untold or self.discovery.missing)

    def _log_troubles(self) -> None:
        """What the collector does not see, and who could not log in. Other parts log theirs."""
        text = self.collector.trouble()
        if text != STARTING and shape(text) != shape(self._logged):
            say(text or "all agents are watched again")
            self._logged = text
        self._log_logins()

    def _log_logins(self) -> None:
        if self.access.failed > self._failed and time.monotonic() >= self._failed_at + QUIET_S:
            say(f"{self.access.failed - self._failed:,} wrong passwords or tokens, the last one "
                f"from {self.access.failed_from}")
            self._failed, self._failed_at = self.access.failed, time.monotonic()

    def numbers(self) -> Mapping[str, float]:
        return {**vars(self.collector.figures), **self.alerts.numbers(),
                "events": self.store.stored, "events_lost": self.store.lost + self.store.unstored,
                "sources_failed": self.discovery.failures, "logins_failed": self.access.failed,
                "reloaded": self._reloaded, "reloaded_at": self._reloaded_at}

    # ---------------------------------------------------------------- changes
    async def _read_again(self) -> None:
        async with self._changing:
            problems = await self._reload()
        self._reloaded = not problems
        for problem in problems:
            say(problem)
        if problems:
            say("the configuration is wrong, and the old one stays")
        else:
            self._reloaded_at = time.time()
            say(f"the configuration was read again: {len(self.table.agents):,} agents")

    async def _reload(self) -> Sequence[str]:
        """Returns what is wrong with the configuration; empty: it is in force. Does first what may
        fail, and changes nothing until all of that is right."""
        try:
            config = await asyncio.to_thread(load, self.config.path)
        except Mistakes as error:
            return [str(mistake) for mistake in error.all]
        mistakes = [f"{name} changes only with a restart" for name, part in FIXED.items()
                 if part(config) != part(self.config)]
        if mistakes:
            return mistakes
        discovery = Discovery(config)
        agents = await discovery.look() or ()
        if discovery.failures:
            return discovery.problems
        try:
            self.alerts.check(config.alerts)
            may = await asyncio.to_thread(self.access.look)  # Passwords and certificates.
        except (Trouble, client.BadUsage) as error:
            return [str(error)]
        self.config, self.discovery = config, discovery
        self.access.take(may, config.web.token)
        await self._change(agents)
        return ()

    async def _look(self) -> None:
        """Reads files again when they are due."""
        async with self._changing:
            agents = await self.discovery.look()
            self._coming = self._coming if agents is None else agents
            if self._coming is not None:  # If it fails, the next look tries again.
                await self._change(self._coming)
            else:
                self._tell()

    def _tell(self) -> None:
        """Logs what is newly wrong with the sources."""
        problems = self.discovery.problems
        for problem in problems:
            if problem not in self._told:
                say(problem)
        self._told = problems

    async def _change(self, agents: Sequence[Agent]) -> None:
        """Asks these from now on."""
        table = Table(agents)
        await asyncio.to_thread(self.collector.replace, table)
        self.table, self._coming = table, None
        self.parts = self.config.status
        self.alerts.configure(self.config.alerts, self.config.grace, table)
        self._tell()

    # ---------------------------------------------------------------- from start to end
    async def run(self) -> int:
        """Runs until SIGTERM or SIGINT. Returns the exit status. CannotStart, client.BadUsage: it
        cannot start."""
        raise_limit()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._odd)
        loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(THREADS))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._do(self._read_again()))
        async with contextlib.AsyncExitStack() as parts:
            try:
                async with self._changing:  # SIGHUP has to wait
                    self.access = access_of(self.config.web)
                    await self._start(parts)
            except Trouble as error:
                raise CannotStart(str(error)) from error
            except OSError as error:
                raise CannotStart(f"cannot start: {error.strerror or error}") from error
            await self._ending.wait()
            self._running = False
            notify("STOPPING=1")
        if self.failure:
            say(f"the collector has failed: {self.failure}")
        return 1 if self.failure else 0

    async def _start(self, parts: contextlib.AsyncExitStack) -> None:
        """Starts the parts. They end in the opposite order."""
        config = self.config
        self.store = await asyncio.to_thread(
            Store, os.path.join(config.state, "events.sqlite"), say=say)
        parts.push_async_callback(asyncio.to_thread, self.store.close, STOP_S / 2)
        self.discovery = Discovery(config)
        agents = await self.discovery.look() or ()
        self.table = Table(agents)
        self._tell()
        self.parts = config.status
        self.uptime, self.days = Uptime(self.store), Days(self.store)
        await asyncio.to_thread(self.days.load)
        parts.callback(self.uptime.save)
        parts.push_async_callback(self._stop)
        self.alerts = Alerts(self.store, say)
        self.alerts.configure(config.alerts, config.grace, self.table)
        self.collector = Collector(self.table, self.store.publish, Snapshot(self.store), say,
                                   config.grace)
        listening = await self._listen()
        self._stops.append(listening.end)
        await asyncio.to_thread(self.collector.start)
        self._stops.append(lambda: asyncio.to_thread(self.collector.stop))
        # The dead man's ping says the same as /-/ready.
        self._do(self._every(LOOK_S, lambda: self.alerts.run(self.store.mutes, lambda: self.ready)))
        self._do(self._every(LOOK_S, self._look))
        self._do(self._every(WELL_S / 10, self._end_acknowledged))
        self._do(self._every(SAMPLE_S, self._sample))
        self._do(self._every(LOOK_S, self._look_at_time))
        self._do(self._watch())
        self._running = True
        say(f"polls {len(agents):,} agent{'s' * (len(agents) != 1)}; {self._where(listening)}")

    async def _end_acknowledged(self) -> None:
        for mute in well_again(self.store.mutes(), self.table, time.time()):
            await asyncio.wrap_future(self.store.end_mute(mute.number))

    async def _sample(self) -> None:
        if self.parts:
            self.days.add(self.table, self.parts, time.time())
            self.days.save()

    async def _look_at_time(self) -> None:
        now, sees = time.time(), self.collector.running and not self.collector.is_blind
        self.uptime.look(now, sees)
        self.table.count_time(now, sees)

    async def _watch(self) -> None:
        """Tells systemd that all is well. Without a collector, there is nothing to serve: the
        service manager starts us again."""
        notify(f"READY=1\nMAINPID={os.getpid()}")
        pause = min(1.0, int(os.environ.get("WATCHDOG_USEC", "") or 10**9) / 3e6)
        while self.collector.running:
            notify("WATCHDOG=1")
            self._log_troubles()
            await asyncio.sleep(pause)
        self.failure = self.collector.failure
        self._end()

    async def _listen(self) -> Listening:
        host, port = self.config.web.listen
        try:
            return await listen(make_app(cast(Backend, self), self.access), host, port)
        except OSError as error:
            number = error.errno or 0  # < 0: of the name service; asyncio's own texts are long
            reason = os.strerror(number) if number > 0 else error.strerror or str(error)
            raise CannotStart(
                f"cannot listen at {host or '*'}:{port}: {reason}: choose another address "
                "as listen in [web]") from error

    def _where(self, listening: Listening) -> str:
        host = self.config.web.listen[0]
        host = f"[{host}]" if ":" in host else host
        return (f"the page is http{'s' if self.access.ssl else ''}://{host or 'localhost'}:"
                f"{listening.port}/")

    def _do(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            say(f"this should not happen: {task.exception()!r}")

    def _odd(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What no task handles. There may be thousands of the same."""
        text = f"{context['message']}: {context.get('exception')!r}"[:500]
        now = time.monotonic()
        self._odd_until = {message: end for message, end in self._odd_until.items() if end > now}
        if text not in self._odd_until:
            self._odd_until[text] = now + QUIET_S
            say(text)

    async def _every(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """One failure does not end it: the next round may work."""
        while True:
            try:
                await work()
            except Exception as error:  # pylint: disable=broad-except
                say(f"{getattr(work, '__name__', 'a task')} failed: {error!r}")
            await asyncio.sleep(seconds)

    async def _stop(self) -> None:
        """Ends all at the same time: one that hangs must not hold up the others."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(
                *tasks, *(stop() for stop in self._stops), return_exceptions=True):
            if isinstance(result, Exception):
                say(f"this should not happen: {result!r}")

    def _end(self) -> None:
        """Ends the service, also while it starts, which may wait for files."""
        if not self._ending.is_set():
            self._ending.set()
            self._stopper.daemon = True
            self._stopper.start()

    def ended(self) -> None:
        """Call it when the loop has ended, too: that waits for threads, which may hang."""
        self._stopper.cancel()

    @staticmethod
    def _give_up() -> NoReturn:
        """Leaves because something hangs: a device, a disk, the name service."""
        say(f"something has not ended in {STOP_S:g} s: leaving without it")
        os._exit(0)


def check(config: Config) -> int:
    """Says what is wrong with what the configuration names: the web server's file, and files of
    targets."""
    problems = []
    try:
        access_of(config.web)
    except client.BadUsage as error:
        problems.append(str(error))
    try:
        for number, receiver in enumerate(config.alerts.notify, 1):
            Receiver(receiver, number)
    except Trouble as error:
        problems.append(str(error))
    discovery = Discovery(config)
    agents = asyncio.run(discovery.look()) or ()
    for problem in (*problems, *discovery.problems):
        say(problem)
    if problems or discovery.problems:
        return client.BadUsage.STATUS
    if not agents:
        say("there are no agents to poll: see [[agents]], and its files")
    print(f"{config.path} is right: {len(agents):,} agent{'s' * (len(agents) != 1)}")
    return 0


def run(config: Config) -> int:
    """The exit status."""
    service = Service(config)
    try:
        return asyncio.run(service.run())
    except CannotStart as error:
        say(str(error))
        return 1
    finally:
        service.ended()
