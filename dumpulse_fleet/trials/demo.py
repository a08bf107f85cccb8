"""Runs a fleet of 50 simulated agents and dumpulse-fleet, until Ctrl-C: `make fleet-demo`.

    python3 -m dumpulse_fleet.trials.demo [--agents N] [--port N] [--seed N]

Some agents die, reboot, lie and come back. Nothing is left when it ends.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import heapq
import random
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
VARIABLES, REQUEST = 64, b"AreyouOK"
NODES = range(1, 9)  # variables of client/examples/vehicle.ini; 0 is the agent's own clock
SITES = ("harbour", "hill", "mill", "north field", "south field")
# What may happen to an agent, how often of a hundred times, and for how many seconds.
TROUBLES = {"silent": (20, (25, 60)), "a node dies": (30, (15, 60)), "rebooted": (20, (1, 1)),
            "a bad value": (15, (10, 40)), "damaged reports": (15, (20, 40))}
CALM = (20, 240)  # seconds from one trouble of an agent to its next one
OUTAGE = (60, 120)  # seconds until a whole site is silent, gateway and all
OUTAGE_LASTS = 45  # s
FIRST_TROUBLE = 12  # s in which all is well


@dataclasses.dataclass
class Life:
    """An agent as udpserver is one, with eight nodes that beat."""

    name: str
    site: str
    where: socket.socket
    chance: random.Random
    booted: float
    trouble: str = ""
    silent_site: bool = False
    dead_node: int = 0
    beats: dict[int, tuple[float, int, int]] = dataclasses.field(default_factory=dict)

    def stamp(self, moment: float) -> int:
        """Ticks of a second since the agent was started. It has no other clock."""
        return int(moment - self.booted) % 65536

    def beat(self, node: int, now: float) -> None:
        if node != self.dead_node:
            value = 3 if self.trouble == "a bad value" and node == 3 else \
                115 if node == 3 else 40 + self.chance.randrange(20)
            self.beats[node] = now, node + 10, value

    def report(self, now: float) -> bytes:
        """What the agent answers, with its own heartbeat as variable 0."""
        entries = [(0, 0, 0)] * VARIABLES
        for node, (at, sender, value) in {**self.beats, 0: (now, 1, 0)}.items():
            entries[node] = self.stamp(at), sender, value
        body = b"".join(struct.pack(">HBB", *entry) for entry in entries)
        wrong = self.trouble == "damaged reports" and self.chance.random() < 0.9
        return struct.pack(">L", zlib.adler32(body) ^ wrong) + body

    def begin(self, trouble: str, now: float) -> None:
        self.trouble = trouble
        if trouble == "rebooted":
            self.booted, self.beats = now, {}
        self.dead_node = self.chance.choice(NODES) if trouble == "a node dies" else 0

    @property
    def answers(self) -> bool:
        return self.trouble != "silent" and not self.silent_site


class World:
    """All agents, in one thread."""

    def __init__(self, count: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._ending = threading.Event()
        self._ready = selectors.DefaultSelector()
        self.lives: list[Life] = []
        now = time.time()
        for number in range(count):
            site = SITES[number % len(SITES)]
            where = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            where.setblocking(False)
            where.bind(("127.0.0.1", 0))
            row = number // len(SITES)
            self.lives.append(Life(
                f"{site.replace(' ', '-')}-{f'{row:02}' if row else 'gateway'}", site, where,
                random.Random(f"{seed} {number}"), now - self._chance.uniform(100, 60000)))
            self._ready.register(where, selectors.EVENT_READ, self.lives[-1])
        self._thread = threading.Thread(target=self._run, name="agents")
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()
        self._ready.close()
        for life in self.lives:
            life.where.close()

    def _run(self) -> None:
        begun = time.time()
        turns: list[tuple[float, int, int, str]] = []  # when, of which agent, node, what
        for number, life in enumerate(self.lives):
            turns += [(begun, number, node, "beat") for node in NODES]
            turns.append((begun + FIRST_TROUBLE + life.chance.uniform(0, CALM[1]), number, 0,
                          "trouble"))
        turns.append((begun + self._chance.uniform(*OUTAGE), 0, 0, "outage"))
        heapq.heapify(turns)
        while not self._ending.is_set():
            for key, _ in self._ready.select(min(0.1, max(0.0, turns[0][0] - time.time()))):
                self._answer(key.data)
            while turns[0][0] <= time.time():
                due, number, node, what = heapq.heappop(turns)
                heapq.heappush(turns, self._turn(due, number, node, what))

    def _answer(self, life: Life) -> None:
        with contextlib.suppress(OSError):
            while True:
                packet, sender = life.where.recvfrom(2048)
                if packet == REQUEST and life.answers:
                    life.where.sendto(life.report(time.time()), sender)

    def _turn(self, due: float, number: int, node: int, what: str) -> tuple[float, int, int, str]:
        """Does what is due, and says when what comes next."""
        life, now = self.lives[number], time.time()
        if what == "beat":
            life.beat(node, now)
            return due + life.chance.uniform(0.9, 1.1), number, node, what
        if what == "outage":  # `node` says of which site, from 1; 0: none
            site = "" if node else self._chance.choice(SITES)
            for each in self.lives:
                each.silent_site = each.site == site
            pause = OUTAGE_LASTS if site else self._chance.uniform(*OUTAGE)
            return now + pause, 0, int(bool(site)), what
        if life.trouble:
            life.begin("", now)
            return now + life.chance.uniform(*CALM), number, 0, what
        trouble = life.chance.choices(list(TROUBLES), [often for often, _ in TROUBLES.values()])[0]
        life.begin(trouble, now)
        return now + life.chance.uniform(*TROUBLES[trouble][1]), number, 0, what


# ---------------------------------------------------------------- the fleet
def names() -> str:
    """With a tick of a second and a beat each second, 1.5 s of silence are usual."""
    text = (ROOT / "client" / "examples" / "vehicle.ini").read_text()
    return text.replace("warn = 1500ms\ncrit = 3s", "warn = 3s\ncrit = 8s")


def configuration(lives: Sequence[Life], port: int) -> str:
    text = ["[collector]", 'state = "state"', 'grace = "10s"', "[defaults]", 'period = "1s"',
            "misses = 5", 'names = "vehicle.ini"', "[web]", f'listen = "127.0.0.1:{port}"',
            'token_file = "token"']
    for life in lives:
        gateway = f"{life.name.rpartition('-')[0]}-gateway"
        text += ["[[agents]]", f'name = "{life.name}"', f'site = "{life.site}"',
                 'address = "127.0.0.1:{}"'.format(life.where.getsockname()[1]),
                 'labels = {{ role = "{}" }}'.format(
                     "gateway" if life.name == gateway else "vehicle")]
        text += [f'parent = "{gateway}"'] * (life.name != gateway)
    for site in sorted({life.site for life in lives}):
        count = sum(life.site == site for life in lives)
        text += ["[[groups]]", f'name = "{site}"', f'match = {{ site = "{site}" }}',
                 f"at_least = {max(1, count * 3 // 4)}"]
    return "\n".join(text) + "\n"


def free_port(wanted: int) -> int:
    """This one, or if somebody has it, another one."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", wanted))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def end(*_: object) -> NoReturn:
    """Once: a second Ctrl-C does not disturb what tidies up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(prog="dumpulse_fleet.trials.demo", description=(
        "Starts simulated agents and dumpulse-fleet. Ctrl-C ends both."))
    parser.add_argument("--agents", type=int, default=50, metavar="N", help="how many (50)")
    parser.add_argument("--port", type=int, default=9061, metavar="N", help="of the page (9061)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another story (1)")
    options = parser.parse_args()
    if not (1 <= options.agents <= 500 and 1 <= options.port <= 65535):
        parser.error("--agents is 1 to 500, --port is 1 to 65535")
    if sys.version_info < (3, 11):
        sys.exit("fleet-demo: this needs Python 3.11 or later")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        sys.exit(run(options))
    except KeyboardInterrupt:
        print("\nended")


def run(options: argparse.Namespace) -> int:
    """Until Ctrl-C, or until the fleet ends: its exit status."""
    with contextlib.ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="dumpulse-fleet-")))
        world = World(options.agents, options.seed)
        parts.callback(world.end)
        port = free_port(options.port)
        (folder / "vehicle.ini").write_text(names())
        (folder / "token").write_text("demo\n")
        (folder / "fleet.toml").write_text(configuration(world.lives, port))
        # In a group of its own, so that Ctrl-C does not reach it before we end it.
        service = parts.enter_context(subprocess.Popen(
            [sys.executable, "-m", "dumpulse_fleet", "serve",
             "--config.file", str(folder / "fleet.toml")],
            cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True))
        parts.callback(service.terminate)
        assert service.stderr
        for line in service.stderr:
            if "the page is" in line:
                print(tell(len(world.lives), port, folder), flush=True)
            else:
                print(line, end="", flush=True)
        return service.wait()


def tell(count: int, port: int, folder: Path) -> str:
    python = sys.executable
    with contextlib.suppress(ValueError):  # it is elsewhere
        python = str(Path(python).relative_to(ROOT))
    return f"""
{count} agents live here, and dumpulse-fleet asks each of them every second.
Open this page:  http://127.0.0.1:{port}/

Soon some agents will die, reboot, lie and come back. Ask on another terminal,
in this folder:
  export DUMPULSE_FLEET=127.0.0.1:{port}
  export DUMPULSE_FLEET_TOKEN_FILE={folder}/token
  {python} -m dumpulse_fleet ls
  {python} -m dumpulse_fleet events --since 5min
  {python} -m dumpulse_fleet mute site=harbour --for 10min --why "we know"
Ctrl-C ends all of it.
"""


if __name__ == "__main__":
    main()
