"""Keeps every event in SQLite, with a number.

One thread writes. It commits what came in BATCH_S seconds at once: an event that can be read
survives kill -9 and a loss of power.

Numbers only grow, also when the file was lost: a number is at least the Unix time in microseconds
at which the event was stored."""

import collections
import concurrent.futures
import contextlib
import fcntl
import fnmatch
import functools
import itertools
import json
import math
import os
import re
import sqlite3
import stat
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional, TypeVar

from dumpulse_fleet.model.agents import Event, Mute

BATCH_S = 0.05  # an event waits at most this long until it is written
BATCH = 2_000  # events in one commit
QUEUE = 200_000  # events that wait in memory, about 60 MB
IDLE_S = 1.0  # between two rounds of upkeep
CHUNK = 1_000  # old events that one round of upkeep deletes: some milliseconds
RETRY_S = 1.0  # between two attempts to write while the disk fails
ASK_S = 5.0  # a question may take this long
TEXT = 500  # characters of a text that are kept
DAY = 86_400
MUTES = 1_000
MADE = ("muted", "acknowledged")  # Words of events for a mute, and for an acknowledgement.
APPLICATION = 0x44706C66  # marks our files: "Dplf"
SCHEMA_VERSION = 6  # It is in `user_version`; a file with another one is rejected.
SCHEMA = """
CREATE TABLE source (id INTEGER PRIMARY KEY, agent TEXT NOT NULL, site TEXT NOT NULL,
                     UNIQUE (agent, site));
CREATE TABLE event (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL,
                    source INTEGER NOT NULL, variable INTEGER NOT NULL, what TEXT NOT NULL,
                    was TEXT NOT NULL, now TEXT NOT NULL, lasted REAL NOT NULL);
CREATE INDEX event_source ON event (source);
CREATE INDEX event_at ON event (at);
CREATE TABLE mute (number INTEGER PRIMARY KEY AUTOINCREMENT, match TEXT NOT NULL,
                   begins REAL NOT NULL, ends REAL NOT NULL, why TEXT NOT NULL, by TEXT NOT NULL,
                   acknowledges INTEGER NOT NULL);
CREATE TABLE kept (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE state (agent TEXT PRIMARY KEY, about TEXT NOT NULL, after INTEGER NOT NULL,
                    data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT NOT NULL,
                     made REAL NOT NULL, body TEXT NOT NULL);
CREATE TABLE seen (began REAL PRIMARY KEY, ended REAL NOT NULL) WITHOUT ROWID;
"""
EVENTS = """SELECT at, agent, variable, what, was, now, lasted, site, number
            FROM event {} JOIN source ON source.id = event.source """
Result = TypeVar("Result")


class Trouble(Exception):
    """The store cannot be used, as one line with what to do."""


class _Job(NamedTuple):
    """Something that the writer does between two batches."""

    work: Callable[[sqlite3.Connection], Any]
    done: concurrent.futures.Future[Any]
    then: Callable[[], object]  # after the commit, still in the writer


class Store:
    """The file of events, and the thread that writes it."""

    def __init__(self, path: str | Path, *, days: float = 90, rows: int = 2_000_000,
                 queue: int = QUEUE, say: Optional[Callable[[str], None]] = None) -> None:
        self.path = Path(path)
        self.trouble = ""  # The error while the disk cannot be written.
        # What happened since the start.
        self.stored = 0  # events that are on the disk
        self.lost = 0  # events that found the queue full
        self.unstored = 0  # events that waited too long for the disk
        self.refused = 0  # events that make no sense
        self.commits = 0
        self.rows = 0  # events in the file
        self._say = say or (lambda text: print(f"dumpulse-fleet: {text}", file=sys.stderr))
        self._keep_s, self._most_rows, self._most_queued = days * DAY, rows, queue
        self._some = threading.Condition()  # guards what follows
        self._queue: collections.deque[Event | _Job] = collections.deque()
        self._closing = False
        self._untold = 0  # lost events that no event reports yet
        # Only the writer uses what follows.
        self._unwritten: collections.deque[Event] = collections.deque()  # numbered
        self._next_try = 0.0
        self._trouble_since = 0.0
        self._next_upkeep = 0.0
        self._sources: dict[tuple[str, str], int] = {}
        self._database: Optional[sqlite3.Connection] = None
        self.last = 0  # the number of the last event; only the writer may use it
        self._turned = time.monotonic()
        self._mutes: tuple[Mute, ...] = ()  # replaced as a whole, so anyone may read it
        self._lock_path = Path(f"{path}.lock")
        self._lock_file = self._lock()
        try:
            self._open()
        except BaseException:
            os.close(self._lock_file)
            raise
        self._writer = threading.Thread(target=self._run, name="store", daemon=True)
        self._writer.start()

    # ---------------------------------------------------------------- for everyone
    def publish(self, events: Sequence[Event]) -> bool:
        """Takes all events, or none if the queue is full. Then it returns False and counts them as
        lost, and an event tells how many. It never waits for the disk."""
        with self._some:
            before = len(self._queue)
            if self._closing or before + len(events) > self._most_queued:
                self.lost += len(events)
                self._untold += len(events)
                return False
            self._queue.extend(events)
            if not before or before < BATCH <= len(self._queue):
                self._some.notify()
            return True

    def write(self, work: Callable[[sqlite3.Connection], Result],
              then: Callable[[], object] = lambda: None) -> concurrent.futures.Future[Result]:
        """Does this in the writer's thread, in a transaction of its own. The future has its result
        when it is on the disk, or the exception: sqlite3.Error if the disk fails."""
        done: concurrent.futures.Future[Result] = concurrent.futures.Future()
        with self._some:
            if self._closing:
                done.set_exception(Trouble("the store is closed"))
            else:
                self._queue.append(_Job(work, done, then))
                self._some.notify()
        return done

    def select(self, *, since: Optional[float] = None, until: Optional[float] = None,
               agent: str = "", site: str = "", variable: Optional[int] = None, what: str = "",
               now: Sequence[str] = (), before: Optional[int] = None, limit: int = 100
               ) -> list[Event]:
        """The newest events first. `agent` and `site` are globs; `now` is words of states. The next
        page begins `before` the last number of this one. Trouble: it took too long, or the file
        cannot be read."""
        tests: dict[str, Any] = {
            "at >= ?": since, "at < ?": until, "variable = ?": variable,
            "what = ?": _text(what) or None, "number < ?": before,
            "now IN (SELECT value FROM json_each(?))": json.dumps([*now]) if now else None}
        few = ""
        with self._reader() as database:
            if agent or site:
                matches = [re.compile(fnmatch.translate(glob or "*")).match
                           for glob in (agent, site)]
                sources = [row for row, *names in database.execute("SELECT * FROM source")
                           if all(match(name) for match, name in zip(matches, names))]
                tests["source IN (SELECT value FROM json_each(?))"] = json.dumps(sources)
                # SQLite does not know how many there are. For many, it reads event by event.
                few = "INDEXED BY event_source" if len(sources) < 100 else ""
            tests = {test: value for test, value in tests.items() if value is not None}
            return _events(database.execute(
                EVENTS.format(few) + "WHERE " + " AND ".join(("true", *tests))
                + " ORDER BY number DESC LIMIT ?",
                (*tests.values(), max(0, min(limit, 100_000)))))

    def ask(self, question: str, *values: Any) -> list[Any]:
        """The rows of any question. Trouble: it took too long, or the file cannot be read."""
        with self._reader() as database:
            rows: list[Any] = database.execute(question, values).fetchall()
            return rows

    @property
    def is_full(self) -> bool:
        """The oldest events are deleted, because there are too many."""
        return self.rows >= self._most_rows

    def hangs(self) -> float:
        """Seconds for which the writer has waited for the disk."""
        return max(0.0, time.monotonic() - self._turned - 2 * IDLE_S)

    def close(self, seconds: float = 10.0) -> None:
        """Writes what waits, and closes the file. Closing twice does no harm."""
        with self._some:
            self._closing = True
            self._some.notify()
        self._writer.join(seconds)

    # ---------------------------------------------------------------- mutes
    def mutes(self) -> tuple[Mute, ...]:
        """Returns those that have not ended, by number."""
        return self._mutes

    def make_mute(self, mute: Mute) -> concurrent.futures.Future[Mute]:
        """The mute with its number. ValueError: it makes no sense."""
        if not (mute.match and len(mute.match) <= 20 and all(
                isinstance(text, str) and text and len(text) <= TEXT
                for pair in mute.match.items() for text in pair)):
            raise ValueError("name what to mute: 1 to 20 names and globs, such as site=berlin*")
        if not (math.isfinite(mute.begins) and math.isfinite(mute.ends)
                and mute.begins < mute.ends > time.time()):
            raise ValueError("a mute must end later than it begins, and later than now")
        if len(self._mutes) >= MUTES:
            raise ValueError(f"there are {MUTES} mutes: end some first")
        created: list[Mute] = []

        def work(database: sqlite3.Connection) -> Mute:
            match = {_text(name): _text(glob) for name, glob in mute.match.items()}
            rest = (mute.begins, mute.ends, _text(mute.why), _text(mute.by))
            number = database.execute(
                "INSERT INTO mute (match, begins, ends, why, by, acknowledges) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (json.dumps(match), *rest, mute.acknowledges)).lastrowid or 0
            created.append(Mute(match, *rest, number, mute.acknowledges))
            return created[0]

        def then() -> None:
            self._mutes += tuple(created)
            self._tell_mute(created[0], "", MADE[created[0].acknowledges])
        return self.write(work, then)

    def end_mute(self, number: int) -> concurrent.futures.Future[bool]:
        """Ends a mute. Returns whether there was one of this number."""
        return self._end_mutes(lambda mute: mute.number == number, "ended")

    def _end_mutes(self, over: Callable[[Mute], bool], word: str
                   ) -> concurrent.futures.Future[bool]:
        gone: list[Mute] = []

        def work(database: sqlite3.Connection) -> bool:
            gone.extend(mute for mute in self._mutes if over(mute))
            database.executemany("DELETE FROM mute WHERE number = ?",
                                 [(mute.number,) for mute in gone])
            return bool(gone)

        def then() -> None:
            self._mutes = tuple(mute for mute in self._mutes if mute not in gone)
            for mute in gone:
                self._tell_mute(mute, MADE[mute.acknowledges], word)
        return self.write(work, then)

    def _tell_mute(self, mute: Mute, was: str, now: str) -> None:
        what = " ".join(f"{name}={glob}" for name, glob in mute.match.items())
        self.publish([Event(time.time(), "", -1, "mute", was,
                            f"{now}: {mute.number}, {what}, {mute.why or 'no reason given'}, "
                            f"by {mute.by or 'unknown'}", -1)])

    # ---------------------------------------------------------------- the file
    def _lock(self) -> int:
        """Makes the folder, for us alone, and the file whose lock goes when the process ends: two
        processes must not number events in one file."""
        folder = str(self.path.parent)
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            if self.path.exists() and not stat.S_ISREG(os.stat(self.path).st_mode):
                raise Trouble(f"{self.path} is not a file: choose another path")
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Trouble(f"cannot use the folder {folder!r}: {error.strerror}: it must be "
                          "writable: or name another one, like state = 'state' in [collector]"
                          ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise Trouble(f"another fleet uses {folder!r}: stop it, or name another folder as "
                          "state in [collector]" if isinstance(error, BlockingIOError) else
                          f"cannot lock {self._lock_path}: {error.strerror}") from error
        return descriptor

    def _open(self) -> None:
        try:
            self._try_open()
        except sqlite3.DatabaseError as error:
            if not _damaged(error):
                raise Trouble(f"cannot open {self.path}: {error}: it and its folder must be "
                              "writable, and the disk must have space") from error
            self._set_aside(str(error))
            self._open()

    def _try_open(self) -> sqlite3.Connection:
        with contextlib.suppress(FileExistsError, OSError):  # only its owner may read it
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        database.text_factory = _readable
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (application,) = database.execute("PRAGMA application_id").fetchone()
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application != APPLICATION and (tables or version or application):
                raise Trouble(f"{self.path} belongs to another program: choose another path")
            if version not in (0, SCHEMA_VERSION):
                raise Trouble(f"{self.path} was written by another version, which has schema "
                              f"{version}, not {SCHEMA_VERSION}: install that version, or choose "
                              "another path")
            # These two write even what is there already, and the disk may be full.
            of_new_file = ("auto_vacuum = INCREMENTAL", f"application_id = {APPLICATION}")
            for pragma in (*(() if version else of_new_file), "journal_mode = WAL",
                           "synchronous = FULL", "journal_size_limit = 16777216"):
                database.execute(f"PRAGMA {pragma}").fetchall()
            if not version:
                database.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = "
                                       f"{SCHEMA_VERSION}; COMMIT;")
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok" or _schema(database) != _schema_here():
                raise _Damaged(verdict if verdict != "ok" else "its schema is another")
            (self.rows,) = database.execute("SELECT count(*) FROM event").fetchone()
            for (last,) in database.execute("SELECT seq FROM sqlite_sequence WHERE name='event'"):
                self.last = max(self.last, last)
            self._mutes = tuple(
                Mute(json.loads(match), *rest) for match, *rest in database.execute(
                    "SELECT match, begins, ends, why, by, number, acknowledges FROM mute "
                    "ORDER BY number"))
        except ValueError as error:  # a mute is no JSON
            database.close()
            raise _Damaged(str(error)) from error
        except BaseException:
            database.close()
            raise
        self._sources.clear()
        self._database = database
        return database

    def _set_aside(self, why: str) -> None:
        """Renames a damaged file. It replaces an older one, so that a failing disk does not fill
        up."""
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{end}", f"{self.path}.damaged{end}")
        self._say(f"{self.path} is damaged ({why}): it is now {self.path}.damaged, and a new one "
                  "begins; mutes that were in it are gone")

    @contextlib.contextmanager
    def _reader(self) -> Any:
        uri = f"file:{urllib.parse.quote(str(self.path))}?mode=ro"
        end = time.monotonic() + ASK_S
        try:
            with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
                database.text_factory = _readable
                database.set_progress_handler(lambda: time.monotonic() > end, 10_000)
                yield database
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise Trouble("this takes too long: request a shorter time") from error
            raise Trouble(f"cannot read {self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise Trouble(f"cannot read {self.path}: {error}") from error

    # ---------------------------------------------------------------- the writer
    def _run(self) -> None:
        closing = False
        while not closing:
            self._turned = time.monotonic()
            events, job, lost, closing = self._take()
            now = time.time()
            if lost:
                events.append(Event(now, "", -1, "store", "", f"{lost} events lost: the queue was "
                                    "full", -1))
            self._unwritten.extend(self._number(events, now))
            if self._unwritten and (closing or time.monotonic() >= self._next_try):
                self._save()
            if job:
                self._do(job)
            if time.monotonic() >= self._next_upkeep:
                self._upkeep()
        if self._unwritten:
            self._say(f"{len(self._unwritten)} events were not written: {self.trouble}")
        if self._database:
            self._database.close()
        os.close(self._lock_file)

    def _take(self) -> tuple[list[Event], Optional[_Job], int, bool]:
        """What is to do now: at most BATCH events, then a job; nothing if nothing came for IDLE_S.
        Also how many events are lost and not told of, and whether this is the end."""
        with self._some:
            if not (self._queue or self._closing):
                self._some.wait(IDLE_S)
            end = time.monotonic() + BATCH_S
            while (0 < len(self._queue) < BATCH and not self._closing
                   and (left := end - time.monotonic()) > 0):
                self._some.wait(left)
            events: list[Event] = []
            job = None
            while self._queue and len(events) < BATCH and job is None:
                entry = self._queue.popleft()
                if isinstance(entry, _Job):
                    job = entry
                else:
                    events.append(entry)
            lost, self._untold = self._untold, 0
            return events, job, lost, self._closing and not self._queue

    def _number(self, events: Sequence[Event], now: float) -> list[Event]:
        """With numbers, and with values that SQLite takes. A bad event must not stop the others."""
        batch = []
        for event in events:
            try:
                unix, agent, variable, what, was, is_now, lasted, site, _ = event
                unix, variable, lasted = float(unix), int(variable), float(lasted)
                if not (math.isfinite(unix) and math.isfinite(lasted) and -1 <= variable < 64):
                    raise ValueError
                number = max(self.last + 1, int(now * 1e6))
                batch.append(Event(unix, _text(agent), variable, _text(what), _text(was),
                                   _text(is_now), lasted, _text(site), number))
                self.last = number
            except (TypeError, ValueError, OverflowError, AttributeError):
                self.refused += 1
        return batch

    def _save(self) -> None:
        """Commits what is not written yet."""
        while self._unwritten:
            batch = list(itertools.islice(self._unwritten, BATCH))
            try:
                self._transaction(functools.partial(self._insert, batch))
            except (sqlite3.Error, Trouble, OSError) as error:
                self._failed(error)
                return
            for _ in batch:
                self._unwritten.popleft()
            self.stored += len(batch)
            self.rows += len(batch)
            self._works()

    def _insert(self, events: Sequence[Event], database: sqlite3.Connection) -> None:
        for key in {(event.agent, event.site) for event in events} - self._sources.keys():
            database.execute("INSERT OR IGNORE INTO source (agent, site) VALUES (?, ?)", key)
            ((self._sources[key],),) = database.execute(
                "SELECT id FROM source WHERE agent = ? AND site = ?", key)
        database.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [
            (number, unix, self._sources[agent, site], variable, what, was, now, lasted)
            for unix, agent, variable, what, was, now, lasted, site, number in events])

    def _transaction(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        database = self._database or self._try_open()
        database.execute("BEGIN IMMEDIATE")
        try:
            result = work(database)
            database.execute("COMMIT")
        except BaseException:
            self._sources.clear()  # they may have been made in this transaction
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise
        self.commits += 1
        return result

    def _failed(self, error: Exception) -> None:
        """Lets events wait that cannot be written, for as long as there is room."""
        if _damaged(error):
            self._forget_file()
            with contextlib.suppress(OSError):
                self._set_aside(str(error))
        elif not self.trouble:
            self._say(f"cannot write {self.path}: {error}: events are kept in memory, and alerts "
                      "go on")
        if not self.trouble:
            self._trouble_since = time.time()
        self.trouble = str(error)
        self._next_try = time.monotonic() + RETRY_S
        while len(self._unwritten) > self._most_queued:
            self._unwritten.popleft()
            self.unstored += 1

    def _forget_file(self) -> None:
        """The next transaction opens it anew."""
        if self._database:
            self._database.close()
        self._database = None

    def _works(self) -> None:
        if self.trouble:
            was, self.trouble = self.trouble, ""
            now = time.time()
            self._say(f"{self.path} can be written again")
            self.publish([Event(now, "", -1, "store", was, "works again",
                                max(0.0, now - self._trouble_since))])

    def _do(self, job: _Job) -> None:
        if not job.done.set_running_or_notify_cancel():
            return  # The caller waits no longer: its connection is closed, or its time is over.
        try:
            result = self._transaction(job.work)
        except Exception as error:  # pylint: disable=broad-except
            if isinstance(error, sqlite3.DatabaseError):
                self._failed(error)
            job.done.set_exception(error)
        else:
            job.then()
            job.done.set_result(result)

    # ---------------------------------------------------------------- upkeep
    def _upkeep(self) -> None:
        """Deletes what is too old or too much, a little at a time, and gives the space back."""
        now = time.time()
        self._next_upkeep = time.monotonic() + IDLE_S
        try:
            if self.trouble:
                return
            gone = self._transaction(lambda database: sum(database.execute(
                f"DELETE FROM event WHERE number IN (SELECT number FROM event {which})",
                (value,)).rowcount for which, value in (
                    (f"WHERE at < ? LIMIT {CHUNK}", now - self._keep_s),
                    ("ORDER BY number LIMIT ?", max(0, min(CHUNK, self.rows - self._most_rows))))))
            self.rows -= gone
            if gone and self._database:
                self._next_upkeep = 0.0  # there may be more
                self._database.execute("PRAGMA incremental_vacuum(200)").fetchall()
            elif any(mute.ends <= now for mute in self._mutes):
                self._end_mutes(lambda mute: mute.ends <= now, "over")
        except (sqlite3.Error, Trouble, OSError) as error:
            self._failed(error)


class _Damaged(sqlite3.DatabaseError):
    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def _schema(database: sqlite3.Connection) -> list[str]:
    return [sql for sql, in database.execute("SELECT sql FROM sqlite_master ORDER BY name")]


@functools.cache
def _schema_here() -> list[str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        return _schema(database)


def _damaged(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _text(text: str) -> str:
    """As SQLite takes it: not too long, and without halves of UTF-16 pairs."""
    return text[:TEXT] if text.isascii() else text[:TEXT].encode("utf-8", "replace").decode()


def _readable(data: bytes) -> str:
    """A text of a file that may be damaged."""
    return data.decode("utf-8", "replace")


def _events(rows: sqlite3.Cursor) -> list[Event]:
    return [Event(*row) for row in rows]
