"""The storm with real processes: udpservers, nodes, a fleet, a broker and Prometheus, in a network
of their own, for real minutes. SPDX-License-Identifier: MIT

    python -m tests.storm.processes [--seconds S] [--seed N]

After each fault, what the fleet, the broker and Prometheus say must become the truth within BOUND.
"""

import argparse
import contextlib
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dumpulse_fleet.tests.brokers import Broker, reading
from dumpulse_fleet.tests.serving import Serving
from dumpulse_fleet.tests.test_prometheus import databases, first
from tests.support.programs import as_program, built, free_port

AGENTS, VARIABLES = 4, 3
BOUND = 60.0  # s, on a machine that has much else to do
BEAT = 0.5  # s
NODE = """import socket, sys, time, client
there, variable, value = ("127.0.0.1", int(sys.argv[1])), int(sys.argv[2]), 0
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as node:
    while True:
        value = (value + 1) % 256
        node.sendto(client.heartbeat(variable, 7, value), there)
        time.sleep(float(sys.argv[3]))"""
NAMES = "[dumpulse]\nwarn = 4s\ncrit = 8s\n" + "".join(f"[{each}]\n" for each in range(VARIABLES))


class Relay(threading.Thread):
    """Between an agent and all others: it loses, doubles and delays packets."""

    def __init__(self, port: int, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.port, self.agent, self.chance = self.front.getsockname()[1], port, chance
        self.lost = self.twice = self.delay = 0.0
        self.behind: dict[tuple[str, int], socket.socket] = {}
        self.start()

    def run(self) -> None:
        while True:
            ready, _, _ = select.select([self.front, *self.behind.values()], [], [])
            for one in ready:
                with contextlib.suppress(OSError):  # the agent does not run
                    packet, source = one.recvfrom(2048)
                    self.carry(one, packet, source)

    def carry(self, one: socket.socket, packet: bytes, source: tuple[str, int]) -> None:
        if one is not self.front:
            to = next(name for name, each in self.behind.items() if each is one)
            self.later(lambda: self.front.sendto(packet, to))
            return
        if source not in self.behind:
            self.behind[source] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.behind[source].connect(("127.0.0.1", self.agent))
        self.later(lambda: self.behind[source].send(packet))

    def later(self, send: Callable[[], object]) -> None:
        if self.chance.random() < self.lost:
            return
        for _ in range(1 + (self.chance.random() < self.twice)):
            if self.delay:
                threading.Timer(self.chance.uniform(0, self.delay), send).start()
            else:
                with contextlib.suppress(OSError):
                    send()


class Agent:
    """A udpserver on a small disk, its nodes, and what is true of them."""

    def __init__(self, number: int, folder: Path, chance: random.Random) -> None:
        self.name, self.disk = f"a{number}", folder / f"disk{number}"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", self.disk], check=True)
        self.names = folder / "names.ini"
        self.port = free_port()
        self.relay = Relay(self.port, chance)
        self.log = (folder / f"{self.name}.log").open("w")
        self.nodes = [self.node(variable) for variable in range(VARIABLES)]
        self.silent: set[int] = set()
        self.begin()

    def begin(self) -> None:
        self.process = subprocess.Popen(
            [built("build/udpserver"), "--state", self.disk / "table", "--watch", self.names,
             str(self.port)], stderr=self.log, stdout=subprocess.DEVNULL)

    def node(self, variable: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", NODE, str(self.relay.port), str(variable),
                                 str(BEAT)])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def truth(self) -> dict[int, str]:
        return {variable: "dead" if variable in self.silent else "alive"
                for variable in range(VARIABLES)}


class Storm:
    def __init__(self, folder: Path, seed: int) -> None:
        self.chance, self.folder = random.Random(seed), folder
        (folder / "names.ini").write_text(NAMES)
        self.agents = [Agent(number, folder, self.chance) for number in range(AGENTS)]
        self.broker = Broker(folder)
        (folder / "fleet.toml").write_text(
            "[collector]\nstate = 'state'\ngrace = '0'\n[defaults]\nnames = 'names.ini'\n"
            f"period = '1s'\nmisses = 3\n[web]\n[mqtt]\nhost = '127.0.0.1'\n"
            f"port = {self.broker.port}\n"
            + "".join(f"[[agents]]\naddress = '127.0.0.1:{agent.relay.port}'\n"
                      f"name = '{agent.name}'\n" for agent in self.agents))
        self.port = free_port()
        self.gone: set[str] = set()  # agents that do not answer
        self.fleet = self.serve()

    def serve(self) -> Serving:
        return Serving(self.folder, "--web.listen-address", f"127.0.0.1:{self.port}")

    def close(self) -> None:
        for agent in self.agents:
            for process in (*agent.nodes, agent.process):
                process.kill()
                process.wait()
            subprocess.run(["umount", agent.disk], check=True)
        with self.fleet:
            self.broker.stop()

    # ---- what must become true
    def truth(self) -> dict[str, dict[int, str]]:
        return {agent.name: {variable: "unknown" for variable in range(VARIABLES)}
                if agent.name in self.gone else agent.truth() for agent in self.agents}

    def fleets(self) -> dict[str, dict[int, str]]:
        return {agent.name: {each["variable"]: each["state"] for each in self.fleet.ask(
            f"/api/v1/agents/{agent.name}")["variables"] if each["expected"]}
            for agent in self.agents}

    def brokers(self) -> dict[str, dict[int, str]]:
        with reading(self.broker.port, "dumpulse/+/state") as reader:
            time.sleep(0.5)
            told = {topic.split("/")[1]: json.loads(text) for topic, text in reader.topics.items()}
        return {name: {int(number): each["state"] for number, each in found["variables"].items()}
                for name, found in told.items()}

    def check(self, metrics: str) -> None:
        end = time.monotonic() + BOUND
        truth, last = self.truth(), ""
        well = sum(set(states.values()) == {"alive"} for states in truth.values())
        while time.monotonic() < end:
            try:
                found = {"fleet": self.fleets(), "broker": self.brokers()}
                counted = first(metrics, "count(dumpulse_agent_state == 1) or vector(0)")
                if all(each == truth for each in found.values()) and counted == well:
                    return
                last = f"{found}, Prometheus counts {counted:.0f} that are alive"
            except (OSError, KeyError) as error:
                last = repr(error)
            time.sleep(0.5)
        sys.exit(f"storm: not true within {BOUND:.0f} s: {truth}\nfound: {last}")

    # ---- what goes wrong; each fault returns what ends it
    def agent_is_killed(self, agent: Agent) -> Callable[[], None]:
        agent.kill()
        self.gone.add(agent.name)
        return agent.begin

    def agent_is_stopped(self, agent: Agent) -> Callable[[], None]:
        agent.process.send_signal(signal.SIGSTOP)
        self.gone.add(agent.name)
        return lambda: agent.process.send_signal(signal.SIGCONT)

    def agent_is_cut_off(self, agent: Agent) -> Callable[[], None]:
        agent.relay.lost = 1.0
        self.gone.add(agent.name)
        return lambda: setattr(agent.relay, "lost", 0.0)

    def packets_are_lost_and_late(self, agent: Agent) -> Callable[[], None]:
        relay = agent.relay
        relay.lost, relay.twice, relay.delay = 0.1, 0.2, 0.3

        def end() -> None:
            relay.lost = relay.twice = relay.delay = 0.0
        return end

    def disk_is_full(self, agent: Agent) -> Callable[[], None]:
        full = agent.disk / "full"
        with contextlib.suppress(OSError), full.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        agent.kill()
        agent.begin()
        return full.unlink

    def node_is_stopped(self, agent: Agent) -> Callable[[], None]:
        variable = self.chance.randrange(VARIABLES)
        agent.nodes[variable].send_signal(signal.SIGSTOP)
        agent.silent.add(variable)
        return lambda: agent.nodes[variable].send_signal(signal.SIGCONT)

    def node_is_replaced(self, agent: Agent) -> Callable[[], None]:
        variable = self.chance.randrange(VARIABLES)
        agent.nodes[variable].kill()
        agent.silent.add(variable)
        return lambda: agent.nodes.__setitem__(variable, agent.node(variable))

    def fleet_is_killed(self, _: Agent) -> Callable[[], None]:
        with self.fleet:
            self.fleet.end(signal.SIGKILL)
        self.fleet = self.serve()
        return lambda: None

    def broker_is_replaced(self, _: Agent) -> Callable[[], None]:
        self.broker.stop()
        self.broker.start()
        return lambda: None

    FAULTS = (agent_is_killed, agent_is_stopped, agent_is_cut_off, packets_are_lost_and_late,
              disk_is_full, node_is_stopped, node_is_replaced, fleet_is_killed, broker_is_replaced)

    def turn(self, metrics: str) -> str:
        """One to three faults at once, at different agents."""
        agents = self.chance.sample(self.agents, self.chance.randrange(1, 4))
        faults = [(self.chance.choice(self.FAULTS), agent) for agent in agents]
        ends = [fault(self, agent) for fault, agent in faults]
        self.check(metrics)
        for end in ends:
            end()
        self.gone.clear()
        for agent in self.agents:
            agent.silent.clear()
        self.check(metrics)
        return ", ".join(f"{fault.__name__.replace('_', ' ')} ({agent.name})"
                         for fault, agent in faults)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if "STORM_INSIDE" not in os.environ:
        inside = ["unshare", "-rnm", "sh", "-c", 'ip link set lo up && exec "$@"', "storm",
                  sys.executable, "-m", "tests.storm.processes", "--seconds", str(options.seconds),
                  "--seed", str(options.seed)]
        built("build/udpserver")
        return subprocess.run(inside, env={**os.environ, "STORM_INSIDE": "1"}).returncode
    assert shutil.which("mosquitto") and shutil.which("prometheus")
    print(f"storm: real processes, --seed {options.seed}", flush=True)
    begun, turns = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        storm = Storm(Path(folder), options.seed)
        stack.callback(storm.close)
        [metrics] = stack.enter_context(databases(Path(folder), [storm.port], "prometheus"))
        storm.check(metrics)
        while time.monotonic() - begun < options.seconds:
            print(f"{time.monotonic() - begun:6.0f} s  {storm.turn(metrics)}", flush=True)
            turns += 1
        for agent in storm.agents:
            said = Path(agent.log.name).read_text()
            if "set aside" in said or "damaged" in said:
                sys.exit(f"storm: {agent.name} found a file that was not whole:\n{said}")
    print(f"storm: real processes: {turns} rounds of faults passed, 0 failed")
    return 0


if __name__ == "__main__":
    as_program(main, ".*")
