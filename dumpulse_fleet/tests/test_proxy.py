"""The example for nginx, with Debian's real one: TLS, a folder, who asks, changes."""

import contextlib
import http.client
import ipaddress
import json
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.serving import ROOT, started
from dumpulse_fleet.tests.test_web import (
    AUTHORISED, HASHED, PASSWORD, TOKEN, ask, basic, certificate)
from dumpulse_fleet.tests.wall import LIVE, driver
from dumpulse_fleet.web import server
from dumpulse_fleet.web.access import Access
from tools.programs import free_port

pytestmark = pytest.mark.slow
EXAMPLE = ROOT / "dumpulse_fleet" / "examples" / "nginx.conf"
NGINX = """pid {0}/pid; error_log {0}/error; daemon off; master_process off;
events {{}} http {{ access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b;
fastcgi_temp_path {0}/c; uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; {1} }}"""


class Proxied(NamedTuple):
    port: int  # Port of the proxy.
    own: int  # Port of the fleet.
    context: ssl.SSLContext
    certificate: Path
    service: fakes.FakeBackend
    access: Access

    def connect(self, **more: Any) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("localhost", self.port, timeout=20,
                                           context=self.context, **more)

    def ask(self, path: str, method: str = "GET", body: Any = None, headers: Any = {},
            **more: Any) -> tuple[int, bytes]:
        with contextlib.closing(self.connect(**more)) as connection:
            given = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path, body and json.dumps(body), {**given, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()


def command(folder: Path, port: int, own: int) -> list[str]:
    text = EXAMPLE.read_text()
    for old, new in (("443 ssl", f"127.0.0.1:{port} ssl"), ("9061", str(own)),
                     ("fleet.example;", "localhost;"),
                     ("/etc/ssl/fleet.crt", str(folder / "cert.pem")),
                     ("/etc/ssl/fleet.key", str(folder / "key.pem"))):
        text = text.replace(old, new)
    file = folder / "nginx"
    file.write_text(NGINX.format(folder, text))
    return [shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(file), "-p", str(folder)]


@pytest.fixture(name="proxied", scope="module")
def make_proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    folder, port = tmp_path_factory.mktemp("proxy"), free_port()
    certificate(folder, "localhost")
    (folder / "web.yml").write_text(f"basic_auth_users:\n  alice: {HASHED}\n")
    service = fakes.FakeBackend(fakes.fleet(20))
    access = Access(path=str(folder / "web.yml"), token=TOKEN,
                    public=f"https://localhost:{port}/fleet",
                    proxies=[ipaddress.ip_network("127.0.0.1")])
    with fakes.serving(lambda: server.make_app(service, access)) as own:
        trusting = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        with started(*command(folder, port, own), port=port,
                     env={"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin"}):
            yield Proxied(port, own, trusting, folder / "cert.pem", service, access)


def test_pages_and_targets_have_the_public_address(proxied: Proxied) -> None:
    with contextlib.closing(proxied.connect()) as connection:
        connection.request("GET", "/fleet")
        answer = connection.getresponse()
        assert answer.status in (301, 302)
        assert (answer.getheader("Location") or "").endswith("/fleet/")
    for path in ("/fleet/", "/fleet/wall.js", "/fleet/log"):
        assert proxied.ask(path)[0] == 401
        assert proxied.ask(path, headers=AUTHORISED)[0] == 200
    first, second = json.loads(proxied.ask("/fleet/sd", headers=AUTHORISED)[1])
    host = f"localhost:{proxied.port}"
    assert first == {"targets": [host], "labels": {
        "__metrics_path__": "/fleet/metrics", "__scheme__": "https"}}
    assert second["labels"]["__metrics_path__"] == "/fleet/metrics/agents"
    assert b"dumpulse_fleet_agents" in proxied.ask("/fleet/metrics", headers=AUTHORISED)[1]
    direct = ask(proxied.own, "/sd", headers=AUTHORISED).json[0]
    assert direct == {"targets": [f"127.0.0.1:{proxied.own}"], "labels": {
        "__metrics_path__": "/metrics", "__scheme__": "http"}}
    assert json.loads(proxied.ask("/fleet/api/v1/agents", headers=AUTHORISED)[1])["total"] == 20


def test_the_proxy_says_who_asks(proxied: Proxied) -> None:
    """And nobody else does: what a stranger claims does not count."""
    for claim in ({}, {"X-Forwarded-For": "8.8.8.8"}, {"X-Forwarded-For": "8.8.8.8, 127.0.0.1"}):
        proxied.access.failed_from = ""
        wrong = {**basic("bob", "wrong"), **claim}
        assert proxied.ask("/fleet/", headers=wrong, source_address=("127.0.0.2", 0))[0] == 401
        assert proxied.access.failed_from == "127.0.0.2", claim
    elsewhere = http.client.HTTPConnection("127.0.0.1", proxied.own, timeout=20,
                                           source_address=("127.0.0.3", 0))
    with contextlib.closing(elsewhere):  # this one is no proxy of ours
        elsewhere.request("GET", "/", headers={**basic("bob", "wrong"),
                                               "X-Forwarded-For": "8.8.8.8"})
        assert elsewhere.getresponse().status == 401
    assert proxied.access.failed_from == "127.0.0.3"


def test_changes_come_from_our_pages(proxied: Proxied) -> None:
    alice = {**basic("alice", PASSWORD), "X-Dumpulse-Change": "yes"}
    new, path = {"match": {"name": "*"}, "seconds": 60}, "/fleet/api/v1/mutes"
    for origin, status in ((f"https://localhost:{proxied.port}", 200),
                           (f"http://localhost:{proxied.port}", 403),
                           (f"http://127.0.0.1:{proxied.own}", 403), ("https://evil.example", 403)):
        assert proxied.ask(path, "POST", new, {**alice, "Origin": origin})[0] == status, origin
    for forwarded, status in (({}, 421), ({"X-Forwarded-For": "8.8.8.8"}, 421)):
        assert ask(proxied.own, "/", headers={**AUTHORISED, **forwarded,
                                              "Host": "evil.example"}).status == status


def test_the_wall_is_live_behind_it(proxied: Proxied) -> None:
    with driver("--ignore-certificate-errors") as browser:
        browser.open(f"https://alice:{PASSWORD}@localhost:{proxied.port}/fleet/")
        browser.until(LIVE)
        proxied.service.change(3, State.DEAD, 2)
        browser.until("document.querySelector('.tile.dead')")
        proxied.service.change(3, State.ALIVE, 2)
        browser.open("about:blank")
        assert browser.complaints() == []
