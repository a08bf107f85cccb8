"""Drives Debian's Chromium through its driver: the few commands of WebDriver that the tests need.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
        "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Tab": "\ue004", "Home": "\ue011",
        "End": "\ue010"}
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--force-device-scale-factor=1", "--no-first-run",
             "--disable-background-networking", "--disable-component-update",
             "--enable-precise-memory-info",
             # One process for all pages: a spare one for each navigation takes its time.
             "--disable-features=SpareRendererForSitePerProcess,IsolateOrigins,"
             "site-per-process,BackForwardCache,WebUIOmniboxPopup,WebUIOmniboxAimPopup",
             "--disable-site-isolation-trials")


class Browser:
    """One window."""

    def __init__(self, port: int, process: int) -> None:
        self._port, self.driver = port, process
        self._session = ""
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": list(ARGUMENTS)},
            "goog:loggingPrefs": {"browser": "ALL"}}}})
        self._session = f"/session/{answer['sessionId']}"

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{path}: {value['error']}: {value['message']}")
        return value

    def command(self, name: str, body: Any) -> Any:
        return self._ask("POST", f"{self._session}{name}", body)

    def close(self) -> None:
        self._ask("DELETE", self._session)

    def open(self, address: str) -> None:
        self.command("/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """The body of a function, in the page."""
        return self.command("/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str) -> Any:
        """It ends when the script calls `done`."""
        return self.command("/execute/async", {
            "script": f"const done = arguments[arguments.length - 1]; {script}", "args": []})

    def cdp(self, name: str, **parameters: Any) -> Any:
        return self.command("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def press(self, *keys: str) -> None:
        actions = [action for key in keys for action in (
            {"type": "keyDown", "value": KEYS.get(key, key)},
            {"type": "keyUp", "value": KEYS.get(key, key)})]
        self.command("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def click(self, selector: str) -> None:
        found = self.command("/element", {"using": "css selector", "value": selector})
        self.command(f"/element/{next(iter(found.values()))}/click", {})

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''",
                            selector))

    def until(self, script: str, what: str = "", seconds: float = 60) -> Any:
        """Waits until an expression is true in the page."""
        return wait(lambda: self.run(f"return ({script})"), what or script, seconds)

    def screen(self, width: int, height: int, dark: bool = True, phone: bool = False) -> None:
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=phone)
        self.cdp("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def cost(self) -> tuple[float, float]:
        """CPU time of all its processes, in s, and the memory of the page's process, in MB."""
        spent, memory = 0.0, 0.0
        family = {self.driver}
        for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) in family or int(folder.name) in family:
                    family.add(int(folder.name))
                    spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                    if b"--type=renderer" in (folder / "cmdline").read_bytes():
                        pages = (folder / "smaps_rollup").read_text().partition("Pss:")[2].split()
                        memory = max(memory, int(pages[0]) / 1000)
        return spent, memory

    def picture(self, path: str) -> None:
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def complaints(self) -> list[str]:
        """What the browser has written into its log."""
        return [entry["message"] for entry in self.command("/se/log", {"type": "browser"})]


def wait(true: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"not in {seconds:g} s: {what}"
        time.sleep(0.15)
    return found


@contextlib.contextmanager
def driver() -> Iterator[Browser]:
    program = shutil.which("chromedriver")
    assert program, "chromedriver is in Debian's package chromium-driver: see tools/packages.txt"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with subprocess.Popen([program, "--port=0"], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "HOME": folder, "TMPDIR": folder}) as process:
            try:
                assert process.stdout
                port = 0
                for line in process.stdout:
                    if "successfully on port" in line:
                        port = int(line.rpartition("port ")[2].strip().rstrip("."))
                        break
                assert port, "chromedriver did not start"
                browser = Browser(port, process.pid)
                try:
                    yield browser
                finally:
                    browser.close()
            finally:
                process.kill()
