"""Who may read and who may change: the web server's file, passwords, tokens, other sites.

The server never sets a cookie, but a browser sends a password by itself. So a change by password
must come from our own page, and with a header that no other site can send."""

import asyncio
import base64
import binascii
import collections
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import bcrypt
import yaml
from aiohttp import web
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from dumpulse_fleet import client
from dumpulse_fleet.config import values
from dumpulse_fleet.model.naming import Wrong, hide

FILE_MAX = 65536  # bytes of the file
COST_MAX = 14  # Cost of bcrypt: about 1 s a password; with 31, it would take a day.
CHECKS = 2  # Passwords that are checked at the same time.
WAITING = 16  # Passwords that wait to be checked; more are told to come again.
REMEMBERED = 256  # Passwords that were right; a scrape each second must not cost bcrypt each time.
HASH = re.compile(r"\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}")
NOBODY = "$2b$10$" + "." * 53  # Hash for the passwords of unknown users.
CHANGE_HEADER = "X-Dumpulse-Change"  # Its value is "yes".
READING = ("GET", "HEAD")
HEADERS = {
    "Content-Security-Policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin"}

Result = TypeVar("Result")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def user_of(name: str) -> str:
    if not name or ":" in name or not name.isprintable():
        raise ValueError("cannot be the name of a user")
    return name


def hash_of(text: str) -> str:
    match = HASH.fullmatch(text)
    if not match:
        raise ValueError("the password is not one of bcrypt: make it with htpasswd -nBC 12 NAME")
    if not 4 <= int(match[1]) <= COST_MAX:
        raise ValueError(f"the password has the cost {match[1]}: use 10 to {COST_MAX}")
    return text


class Tls(BaseModel):
    model_config = {"extra": "forbid"}
    cert_file: Annotated[str, Field(min_length=1)]
    key_file: Annotated[str, Field(min_length=1)]


class WebFile(BaseModel):
    """What the file says: users, and their passwords as bcrypt has them; no TLS, or its files."""

    model_config = {"extra": "forbid"}
    basic_auth_users: dict[Annotated[str, AfterValidator(user_of)],
                           Annotated[str, AfterValidator(hash_of)]] | None = None
    tls_server_config: Tls | None = None


OWN_WORDS = {"dict_type": "must have keys and values", "model_type": "must have keys and values",
             "string_type": "must be text"}


def first_wrong(error: ValidationError) -> str:
    """The first thing that is wrong, without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    parts = [hide(str(part))[:60] for part in first["loc"] if part != "[key]"]
    unknown = f"{parts.pop()!r} is unknown" if first["type"] == "extra_forbidden" else ""
    # pydantic's "Input should be ..." becomes "must be ...".
    about = unknown or OWN_WORDS.get(first["type"]) or re.sub(
        r"^Value error, |^\w+ should(?= )", lambda match: "must" * match[0].endswith("should"),
        first["msg"])
    return ": ".join([*parts, about]) if parts or unknown else f"it {about}"


def read_file(path: str) -> WebFile:
    """BadUsage: one line that says what is wrong."""
    try:
        content = values.read_file(path, FILE_MAX)
    except Wrong as error:
        raise client.BadUsage(str(error)) from error
    try:
        data = yaml.safe_load(content.decode())
        file = WebFile.model_validate({} if data is None else data)
    except ValidationError as error:
        raise client.BadUsage(f"{path!r}: {first_wrong(error)}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)  # Its text may repeat a secret of the file.
        raise client.BadUsage(f"{path!r} is not YAML"
                              + (f": see line {mark.line + 1}" if mark else "")) from None
    folder, tls = os.path.dirname(os.path.abspath(path)), file.tls_server_config
    for key in ("cert_file", "key_file") if tls else ():
        setattr(tls, key, os.path.join(folder, getattr(tls, key)))
    return file


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"


class Found(NamedTuple):
    """All that can be read again: see Access.look."""

    users: Mapping[str, str]
    context: ssl.SSLContext | None


class Access:
    """The rules, and what is remembered of passwords.

    `host` is what the server listens at. BadUsage: everybody on the network could read.
    """

    def __init__(self, host: str = "127.0.0.1", path: str = "", token: str = "") -> None:
        self.local = is_loopback(host)
        self.path = path
        self._host = host
        self._pepper = secrets.token_bytes(32)
        # Digests of passwords that were right, oldest first, and their hashes in the file.
        self._right: dict[bytes, str] = {}
        self.failed = 0  # Wrong passwords and tokens.
        self.failed_from = ""  # The address of the last one.
        self._checks = asyncio.Semaphore(CHECKS)
        self._waiting: collections.Counter[str] = collections.Counter()  # Checks by address.
        self._now = self._look()
        self.ssl = self._now.context  # _choose gives each connection the newest one.
        if self.ssl:
            self.ssl.sni_callback = self._choose
        self.take(self._now, token)

    @property
    def users(self) -> Mapping[str, str]:
        return self._now.users

    def look(self) -> Found:
        """Reads the file and the certificates again, and changes nothing. BadUsage: they are wrong,
        or what they say needs a restart."""
        new, now = self._look(), self._now
        if (new.context is None) != (now.context is None):
            raise client.BadUsage(f"{self.path!r}: TLS comes or goes only with a restart")
        return new

    def take(self, new: Found, token: str) -> None:
        """From now on, these users and certificates, and this token. For the loop's thread."""
        self._now = new
        self._token = hashlib.sha256(token.encode()).digest() if token else b""

    def _look(self) -> Found:
        file = read_file(self.path) if self.path else WebFile()
        users, tls = file.basic_auth_users or {}, file.tls_server_config
        if not (self.local or users):
            raise client.BadUsage(
                f"{self._host or 'every address'} can be reached from other machines, and nobody "
                "would need a password: listen at 127.0.0.1, or name basic_auth_users in "
                "config_file of [web]")
        return Found(users, self._context(tls) if tls else None)

    def _context(self, tls: Tls) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(tls.cert_file, tls.key_file, lambda: b"")
        except (OSError, ssl.SSLError) as error:
            raise client.BadUsage(f"{self.path!r}: cannot use {tls.cert_file!r} and "
                                  f"{tls.key_file!r}: {error}") from error
        return context

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, *_: object) -> None:
        """Called at the begin of each connection, whatever name it asks for."""
        assert self._now.context
        connection.context = self._now.context

    # ---- who asks
    async def identify(self, request: web.Request) -> str:
        """The user's name, "token", or "" for somebody unknown. A wrong password is an error."""
        header = request.headers.get("Authorization", "")
        if not header:
            return ""
        kind, _, rest = header.partition(" ")
        if kind.lower() == "bearer":
            digest = hashlib.sha256(rest.strip().encode("utf-8", "surrogateescape")).digest()
            if self._token and hmac.compare_digest(digest, self._token):
                return "token"
        elif kind.lower() == "basic" and self.users:
            try:
                name, colon, password = base64.b64decode(
                    rest.strip(), validate=True).decode().partition(":")
            except (binascii.Error, ValueError):
                name, colon, password = "", "", ""
            if colon and await self._right_password(name, password, request.remote or ""):
                return name
        elif kind.lower() == "basic":
            return ""  # Without users, a password authenticates nobody.
        self.failed, self.failed_from = self.failed + 1, request.remote or ""
        raise self._unauthorized("the password or the token is wrong")

    async def _right_password(self, name: str, password: str, address: str) -> bool:
        digest = hmac.digest(self._pepper, f"{name}\0{password}".encode(), "sha256")
        hashed = self.users.get(name)
        if hashed and self._right.get(digest) == hashed:
            return True
        if self._waiting.total() >= WAITING or \
                self._waiting[address] >= max(CHECKS, WAITING // 4):
            raise web.HTTPServiceUnavailable(text="too many passwords to check: try again",
                                             headers={"Retry-After": "2"})
        self._waiting[address] += 1  # Now: what others ask may come before the task begins.
        matches = await to_its_end(self._compare(password, hashed or NOBODY, address))
        if not matches or hashed is None or self.users.get(name) != hashed:
            return False
        while len(self._right) >= REMEMBERED:
            del self._right[next(iter(self._right))]
        self._right[digest] = hashed
        return True

    async def _compare(self, password: str, hashed: str, address: str) -> bool:
        try:
            async with self._checks:
                return await asyncio.to_thread(compare, password, hashed)
        finally:
            self._waiting[address] -= 1
            self._waiting += collections.Counter()  # Forgets those that are 0.

    def _unauthorized(self, text: str) -> web.HTTPUnauthorized:
        kind = 'Basic realm="Dumpulse", charset="UTF-8"' if self.users else \
            'Bearer realm="Dumpulse"'
        return web.HTTPUnauthorized(text=text, headers={"WWW-Authenticate": kind})

    def origin(self, request: web.Request) -> str:
        """Where this request has found us: scheme and host."""
        return f"{'https' if self.ssl else 'http'}://{request.headers.get('Host', '')}"

    # ---- what they may do
    async def allow(self, request: web.Request, free: Sequence[str] = ()) -> str:
        """Who asks, if they may. It raises what the answer is if they may not. `free` are paths
        that everybody may read."""
        self._check_host(request)
        if request.path in free and request.method in READING:
            return ""
        who = await self.identify(request)
        if self.users and not who:
            raise self._unauthorized("a password is needed")
        if request.method not in READING:
            self._check_change(request, who)
        return who

    def _check_host(self, request: web.Request) -> None:
        """A page of another site may have a name that points to this machine. Its requests would
        look as if they came from here, but they have its name."""
        host = host_of(request.headers.get("Host", "")).lower()
        if self.local and not is_loopback(host):
            raise web.HTTPMisdirectedRequest(
                text="this server listens at this machine only: use the name localhost")

    def _check_change(self, request: web.Request, who: str) -> None:
        """Browsers say which site a request comes from. Behind a proxy, our pages have another
        origin than we know, so it counts only if a browser does not."""
        site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
        if site not in ("same-origin", "none") if site else origin not in (
                None, self.origin(request)):
            raise web.HTTPForbidden(text="a change must not come from a page of another site")
        if not who:
            raise self._unauthorized("a change needs a token or a password") \
                if self.users or self._token else web.HTTPForbidden(
                    text="nobody may change anything here: the fleet has neither token_file in "
                         "[web] nor users")
        if who != "token" and request.headers.get(CHANGE_HEADER) != "yes":
            raise web.HTTPForbidden(
                text=f"a change by password needs the header {CHANGE_HEADER}: yes")


async def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Also when whoever asked for it closes the connection, which cancels what waits for it here.
    Half a change is none; and a thread goes on in any case, so it must go on being counted."""
    task = asyncio.create_task(work)
    _at_work.add(task)
    task.add_done_callback(_at_work.discard)
    return await asyncio.shield(task)


async def in_thread(room: asyncio.Semaphore, work: Callable[..., Result],
                    *arguments: Any) -> Result:
    """In a thread, which takes room until its end. Others must not wait for threads that hang."""
    await room.acquire()

    async def run() -> Result:
        try:
            return await asyncio.to_thread(work, *arguments)
        finally:
            room.release()

    return await to_its_end(run())


_at_work: set[asyncio.Task[Any]] = set()  # The loop alone would forget them.


def compare(password: str, hashed: str) -> bool:
    encoded = password.encode()
    # bcrypt sees 72 bytes at most, and none after a zero.
    fits = len(encoded) <= 72 and b"\0" not in encoded
    return bcrypt.checkpw(encoded if fits else b"-", hashed.encode()) and fits


def host_of(header: str) -> str:
    """Without the port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if header.count(":") == 1 else header
