"""The example for nginx, with Debian's real one: TLS, a folder, changes."""

import contextlib
import http.client
import json
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.serving import ROOT, started
from dumpulse_fleet.tests.test_web import (
    AUTHORISED, HASHED, PASSWORD, TOKEN, basic, certificate)
from dumpulse_fleet.tests.wall import LIVE, driver
from dumpulse_fleet.web import server
from dumpulse_fleet.web.access import Access
from tools.programs import free_port

EXAMPLE = ROOT / "dumpulse_fleet" / "examples" / "nginx.conf"
NGINX = """pid {0}/pid; error_log {0}/error; daemon off; master_process off;
events {{}} http {{ access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b;
fastcgi_temp_path {0}/c; uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; {1} }}"""


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


@pytest.mark.slow
def test_the_wall_works_behind_a_proxy(tmp_path: Path) -> None:
    port = free_port()
    certificate(tmp_path, "localhost")
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  alice: {HASHED}\n")
    service = fakes.FakeBackend(fakes.fleet(20))
    access = Access(path=str(tmp_path / "web.yml"), token=TOKEN)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))

    def fetch(path: str, method: str = "GET", body: Any = None, **headers: str) -> int:
        with contextlib.closing(http.client.HTTPSConnection(
                "localhost", port, timeout=20, context=trusting)) as connection:
            connection.request(method, path, body and json.dumps(body),
                               {"Content-Type": "application/json"} | headers)
            return connection.getresponse().status

    with fakes.serving(lambda: server.make_app(service, access)) as own, \
            started(*command(tmp_path, port, own), port=port,
                    env={"HOME": str(tmp_path), "PATH": "/usr/sbin:/usr/bin"}):
        assert fetch("/fleet") == 301
        for path in ("/fleet/", "/fleet/wall.js", "/fleet/log", "/fleet/metrics"):
            assert (fetch(path), fetch(path, **AUTHORISED)) == (401, 200), path
        alice = {**basic("alice", PASSWORD), "X-Dumpulse-Change": "yes"}
        for site, status in (("same-origin", 200), ("cross-site", 403)):
            assert fetch("/fleet/api/v1/mutes", "POST", {"match": {"name": "*"}, "seconds": 60}, **{
                **alice, "Origin": "https://localhost", "Sec-Fetch-Site": site}) == status
        with driver("--ignore-certificate-errors") as browser:
            browser.open(f"https://alice:{PASSWORD}@localhost:{port}/fleet/")
            browser.until(LIVE)
            service.change(3, State.DEAD, 2)
            browser.until("document.querySelector('.tile.dead')")
            browser.open("about:blank")
            assert browser.complaints() == []
