"""The HTTP client of the commands: sends requests to a running fleet, and checks all that comes
back, because another server may answer, or a broken one."""

import base64
import http.client
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from dumpulse_fleet import client
from dumpulse_fleet.config import values
from dumpulse_fleet.config.values import WEB_PORT, shown_url
from dumpulse_fleet.model.naming import Wrong

ADDRESS = f"http://127.0.0.1:{WEB_PORT}"
LARGEST = 64 << 20  # bytes of an answer
ADDRESS_ENV = "DUMPULSE_FLEET"  # Environment variable.
TOKEN_ENV = "DUMPULSE_FLEET_TOKEN_FILE"
NOT_OURS = "what answers is not a fleet: is the address right?"


class NotFound(client.BadUsage):
    """The fleet has nothing with this name."""


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the token would go there, too."""

    def redirect_request(self, *_: Any) -> None:
        return None


def secret_in(path: str) -> str:
    """Returns the first line of a file."""
    try:
        secret = values.secret_in(path)
    except Wrong as error:
        raise client.BadUsage(str(error)) from error
    if not secret.isascii():
        raise client.BadUsage(f"{path!r} must have the token or password in its first line")
    return secret


class FleetClient:
    """The address of a running fleet, and what authorises us there."""

    def __init__(self, address: str = "", token_file: str = "", user: str = "",
                 password_file: str = "", ca_file: str = "", timeout: float = 10.0) -> None:
        address = (address or os.environ.get(ADDRESS_ENV, "") or ADDRESS).rstrip("/")
        if "://" not in address:
            address = f"http://{address}"
        try:
            if not values.address(address).isascii():
                raise Wrong("")
        except Wrong as error:
            raise client.BadUsage("the address of the fleet must be like http://127.0.0.1:9061, "
                                  "without a password") from error
        self.address, self._timeout = address, timeout
        self._headers = {"Accept": "application/json", "User-Agent": "dumpulse-fleet"}
        token_file = token_file or os.environ.get(TOKEN_ENV, "")
        if user and not password_file:
            raise client.BadUsage("--user needs --password-file")
        if user:
            pair = f"{user}:{secret_in(password_file)}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
            self._headers["X-Dumpulse-Change"] = "yes"
        elif token_file:
            self._headers["Authorization"] = f"Bearer {secret_in(token_file)}"
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _Stay()]
        if address.startswith("https:"):
            try:
                handlers.append(urllib.request.HTTPSHandler(
                    context=ssl.create_default_context(cafile=ca_file or None)))
            except OSError as error:  # Also ssl.SSLError.
                raise client.BadUsage(f"cannot use the certificates of {ca_file!r}: "
                                      f"{error.strerror or error}") from error
        self._opener = urllib.request.build_opener(*handlers)

    def request(self, path: str, query: Mapping[str, Any] | None = None, method: str = "GET",
                body: Any = None) -> dict[str, Any]:
        """Returns the JSON object of the answer. NoAnswer; BadReport: not a fleet; BadUsage: the
        fleet rejects the request."""
        text = urllib.parse.urlencode(
            {key: value for key, value in (query or {}).items() if value not in (None, "", [])},
            doseq=True)
        request = urllib.request.Request(
            f"{self.address}{path}{f'?{text}' if text else ''}", method=method,
            headers=self._headers, data=None if body is None else json.dumps(body).encode())
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return self._object(response.read(LARGEST + 1))
        except urllib.error.HTTPError as error:
            with error:
                raise self._rejected(error) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            raise client.NoAnswer(f"no answer from {shown_url(self.address)}: {printable(why)}: "
                                  "does dumpulse-fleet serve run there?") from error

    def _object(self, content: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(content) if len(content) <= LARGEST else None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise client.BadReport("answer", NOT_OURS)
        return answer

    def _rejected(self, error: urllib.error.HTTPError) -> client.Error:
        try:
            reason = self._object(error.read(65536)).get("error")
        except (client.BadReport, OSError, http.client.HTTPException):
            reason = None
        if not isinstance(reason, str):
            return client.BadReport("answer", f"{NOT_OURS} (status {error.code})")
        reason = printable(reason.replace("\n", "; "))
        if error.code == 404:
            return NotFound(reason)
        if error.code == 401:
            reason += ": name a token with --token-file, or a user with --user and --password-file"
        return client.BadUsage(reason) if error.code < 500 else client.NoAnswer(reason)


def printable(text: Any) -> str:
    """Returns a text from the network without control characters, for a terminal."""
    return "".join(character if character.isprintable() else "?" for character in str(text))
