"""Stand-ins for meters, into which a test puts a known number of joules, and a clock that it sets.

They prove parsing and arithmetic; they measure nothing. SPDX-License-Identifier: MIT"""

import contextlib
import http.server
import json
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lab.joules.meters import Clock
from tests.support.programs import free_port, wait_until

PATIENCE = 30.0  # seconds that a test waits for something real, such as a broker


class SimulatedClock(Clock):
    """Time passes only in sleep(). What was asked for with every() happens at its moments, after
    each of `worlds` was told the time."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.worlds: list[Callable[[float], None]] = []
        self._calls: list[tuple[list[float], float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        while True:
            due = min((entry for entry in self._calls if entry[0][0] <= end),
                      key=lambda entry: entry[0][0], default=None)
            self._set(end if due is None else due[0][0])
            if due is None:
                return
            due[0][0] += due[1]
            due[2]()

    def _set(self, time: float) -> None:
        self.time = time
        for world in self.worlds:
            world(time)

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        entry = [self.time + seconds], seconds, call
        self._calls.append(entry)
        return lambda: self._calls.remove(entry)


def write(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


class Counter:
    """A domain of RAPL that takes so many watts, from where its counter stands."""

    def __init__(self, sys: Path, folder: str, name: str, watts: float, *, at: int = 0,
                 span: int = 262_143_328_850) -> None:
        self.folder = sys / "class" / "powercap" / folder
        self.watts, self.at, self.span, self.time = watts, float(at), span, 1000.0
        write(self.folder / "name", name)
        write(self.folder / "max_energy_range_uj", span)
        self(self.time)

    def __call__(self, time: float) -> None:
        self.at += self.watts * (time - self.time) * 1e6
        self.time = time
        write(self.folder / "energy_uj", round(self.at) % self.span)


@contextlib.contextmanager
def moving(sys: Path, watts: float) -> Iterator[Path]:
    """A tree of files whose counter moves with the real time."""
    counter = Counter(sys, "intel-rapl:0", "package-0", watts)
    file, over, began = counter.folder / "energy_uj", threading.Event(), time.monotonic()

    def move() -> None:
        while not over.wait(0.002):
            write(file.with_name("next"), round((time.monotonic() - began) * watts * 1e6))
            file.with_name("next").replace(file)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield sys
    finally:
        over.set()
        thread.join()


class Cell:
    """A battery that gives so many watts. Its gauge shows whole steps, rounded down, of µWh or µAh,
    and looks anew every `period` seconds."""

    def __init__(self, sys: Path, name: str, now: float, *, watts: float = 0.0, step: int = 10_000,
                 form: str = "energy", volts: float = 12.0, status: str = "Discharging",
                 period: float = 0.0) -> None:
        self.folder = sys / "class" / "power_supply" / name
        self.now, self.watts, self.step, self.form, self.volts = now, watts, step, form, volts
        self.period, self.time, self.looked, self.shown = period, 1000.0, -1e9, (-1, -1)
        write(self.folder / "type", "Battery")
        write(self.folder / "status", status)
        write(self.folder / f"{form}_full", 60_000_000 // step * step)
        self(self.time)

    def __call__(self, time: float) -> None:
        unit = 3600e-6 * (self.volts if self.form == "charge" else 1)  # joules of a µWh or µAh
        self.now -= self.watts * (time - self.time) / unit
        self.time = time
        if time - self.looked >= self.period and self.folder.exists():
            self.looked = time
            shown = int(self.now) // self.step * self.step, round(self.volts * 1e6)
            if shown != self.shown:
                self.shown = shown
                write(self.folder / f"{self.form}_now", shown[0])
                write(self.folder / "voltage_now", shown[1])


def hear_ctrl_c() -> None:
    """In a new process: as from a terminal. What nohup or & has started does not hear it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Broker:
    """A real MQTT broker on loopback, which can be stopped and started again."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as settings:
            settings.write(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n"
                           "persistence false\n")
            settings.flush()
            Path(settings.name).chmod(0o644)  # it gives up root before it reads that
            self.process = subprocess.Popen(["/usr/sbin/mosquitto", "-c", settings.name],
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(self.answers, "a broker that answers")

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Plug:
    """A smart plug of either generation, or 0: one with Tasmota, that says over MQTT what it is
    told to."""

    def __init__(self, broker: Broker, prefix: str, generation: int) -> None:
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion
        self.prefix, self.generation = prefix, generation
        client: Any = mqtt.Client(CallbackAPIVersion.VERSION2)
        self.client = client
        self.client.reconnect_delay_set(1, 1)
        self.asked: list[tuple[str, bytes]] = []
        self.answer: tuple[float, float] | None = None  # watts and joules, when it is asked
        self.hears = threading.Event()  # what it is asked before is lost
        self.client.on_connect = lambda *_: self.client.subscribe(
            [(f"{prefix}/command/#", 0), (f"cmnd/{prefix}/#", 0)])
        self.client.on_subscribe = lambda *_: self.hears.set()
        self.client.on_disconnect = lambda *_: self.hears.clear()
        self.client.on_message = self._message
        self.client.connect("127.0.0.1", broker.port)
        self.client.loop_start()
        wait_until(self.hears.is_set, "a plug at its broker")

    def _message(self, client: object, data: object, said: Any) -> None:
        self.asked.append((said.topic, said.payload))
        if self.answer is not None:
            self.say(*self.answer, wait=False)

    def publish(self, topic: str, payload: bytes | str, retain: bool = False, *,
                wait: bool = True) -> None:
        place = self.prefix if not topic.isupper() else f"tele/{self.prefix}"
        said = self.client.publish(f"{place}/{topic}", payload, retain=retain)
        if wait:
            said.wait_for_publish(PATIENCE)

    def say(self, watts: float, joules: float, *, wait: bool = True) -> None:
        if self.generation == 1:
            self.publish("relay/0/energy", f"{int(joules // 60)}", wait=wait)
            self.publish("relay/0/power", f"{watts:.2f}", wait=wait)
        elif self.generation == 0:
            self.publish("SENSOR", json.dumps({"ENERGY": {
                "Power": round(watts, 1), "Total": round(joules / 3.6e6, 3)}}), wait=wait)
        else:
            self.publish("status/switch:0", json.dumps(
                {"id": 0, "apower": round(watts, 1), "aenergy": {"total": round(joules / 3600, 3)}}
            ), wait=wait)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class WebPlug:
    """The same over HTTP. `answers` has what it says to each path, as bytes."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.wanted: list[str] = []
        plug = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                plug.wanted.append(self.path)
                said = plug.answers.get(self.path)
                self.send_response(200 if said is not None else 404)
                self.send_header("Content-Length", str(len(said or b"")))
                self.end_headers()
                self.wfile.write(said or b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.at = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def say(self, generation: int, watts: float, joules: float) -> None:
        if generation == 1:
            self.answers["/meter/0"] = json.dumps(
                {"power": watts, "is_valid": True, "total": int(joules // 60)}).encode()
        else:
            self.answers["/rpc/Switch.GetStatus?id=0"] = json.dumps(
                {"id": 0, "apower": round(watts, 1),
                 "aenergy": {"total": round(joules / 3600, 3)}}).encode()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
