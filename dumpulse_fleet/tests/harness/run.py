"""Fleets under faults, judged by what their agents did.

    python -m dumpulse_fleet.tests.harness.run [--faults kill,hang] [--seeds 50] [--from SEED]
        [--agents 1000] [--speed 10] [--pair] [--jobs 2]

A run has one seed and one fault: the real command in a network namespace of its own, with what
world.py surrounds it with. warp.c makes its clocks `speed` times as fast as those of this machine.
All times here are seconds of the fleet's clock since the run began. --pair: two fleets and an
Alertmanager; the fault hits the first one. While /-/ready reports that the machine is too slow,
messages may be later; the line of the run has until when (`busy`), and such a run shows less.
Choose a lower speed then. `lag` is for how long a program of the run waited for a processor at
most: a failure with a long lag may be due to this machine, so that run is repeated, slower."""

import argparse
import collections
import concurrent.futures
import datetime
import fcntl
import json
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from dumpulse_fleet.simulation.fake_fleet import FIRST, FakeFleet, build
from dumpulse_fleet.tests.harness.world import (
    HUB, NAME_SERVERS, Hub, Json, Message, Names, Warp, waited)

ROOT = Path(__file__).parents[3]
WARP = Path(__file__).with_name("warp.c")
FIRST_BEAT = 15.0  # s from a boot to the first heartbeats
PERIOD, MISSES, GRACE, WAIT, CRIT, SITES = 6.0, 3, 10.0, 12.0, 20.0, 10
NOTICED = (MISSES + 2) * PERIOD
DUE = NOTICED + 3 * WAIT  # s from an outage to its message
LATE, UNTOLD = 60.0, 60.0  # a message; /-/ready after the first failure
CALM, LONGEST = 160.0, 500.0  # a run lasts at least, at most
FAULTS = ("none", "kill", "freeze", "reject", "hang", "dns", "nameserver", "cpu", "full", "slow",
          "clock", "inventory", "network")
BUSY, REPEATS = PERIOD / 2, 3  # With more lag, in s, a failed run is repeated so often.
NAMES = "dns", "nameserver"
KILLED = *NAMES, "hang", "reject"  # Half of these runs kill the fleet, too.
STANDSTILLS = "freeze", "cpu", "network"  # the fleet cannot poll
REBOOTED = "rebooted", "clock"  # The second one if the fleet did not run meanwhile.


class Outage(NamedTuple):
    """These agents do not answer, or (variable 1) send no heartbeats."""

    site: str
    agents: range
    variable: int
    begins: float
    ends: float

    def explains(self, agent: int, variable: int, when: float) -> bool:
        """Whether a fleet may report a bad state then."""
        soonest = (MISSES - 1) * PERIOD if self.variable < 0 else CRIT
        return (agent in self.agents and variable == self.variable
                and self.begins + soonest - 2 <= when <= self.ends + PERIOD)


class Run:
    """One run."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder, self.fault = options, folder, options.faults
        self.count, self.chance = options.agents, random.Random(f"{options.seed} {self.fault}")
        self.warp = Warp(folder / "warp", options.speed)
        self.other = Warp(folder / "other", options.speed)  # The clock of the second fleet.
        self.agents = FakeFleet(self.count, options.speed, 1, FIRST_BEAT)
        self.names, self.hub = Names(self.warp), Hub(self.warp)
        self.write_inventory(self.inventory())
        self.found = collections.Counter[str]()
        self.events: dict[int, tuple[Any, ...]] = {}
        self.fleets: list[subprocess.Popen[bytes]] = []
        self.began = self.paged = 0.0  # when all agents had been polled; when events were read
        self.busy = 0.0  # when the fleet reported last that the machine is too slow
        self.lag = 0.0  # s for which a program of this run waited for a processor, at most
        self.up, self.killed = 0.0, 1e9  # when the fleet began to answer; when it was killed first
        self.disturbed: list[tuple[float, float]] = []  # it could not poll from, to
        self.outages: list[Outage] = []
        self.rebooted: set[int] = set()
        self.fault_begins, self.fault_ends = 0.0, 0.0

    # ---- what there is
    def name(self, number: int) -> str:
        if self.fault in NAMES:
            return f"a{number}.test"
        return ".".join(map(str, (FIRST + number).to_bytes(4, "big")))

    def inventory(self) -> list[Json]:
        return [{"targets": [f"{self.name(row)}:{self.agents.port}" for row in self.site(site)],
                 "labels": {"site": f"s{site}"}} for site in range(SITES)]

    def write_inventory(self, targets: list[Json]) -> None:
        (self.folder / "new.json").write_text(json.dumps(targets))
        (self.folder / "new.json").replace(self.folder / "inventory.json")

    def site(self, number: int) -> range:
        return range(number * self.count // SITES, (number + 1) * self.count // SITES)

    def start(self, number: int) -> subprocess.Popen[bytes]:
        folder = self.folder / f"fleet{number}"
        folder.mkdir(exist_ok=True)
        hub = f"http://127.0.0.1:{HUB}"
        receivers = [f'alertmanager = "{hub}"'] if self.options.pair else [
            f'webhook = "{hub}/first"', f'webhook = "{hub}/second"\nfallback = true']
        receivers = receivers[:1 + (self.has_fallback and not self.options.pair)]
        (folder / "names.ini").write_text(
            f"[dumpulse]\nnow-from = 0\nwarn = {CRIT / 2}s\ncrit = {CRIT}s\n[0]\n[1]\n")
        (folder / "fleet.toml").write_text(
            f'[collector]\nstate = "state"\ngrace = "{GRACE:.0f}s"\n[defaults]\n'
            f'period = "{PERIOD:.0f}s"\nmisses = {MISSES}\nnames = "names.ini"\n'
            f'[web]\nlisten = "127.0.0.1:{9061 + number}"\n[alerts]\nwait = "{WAIT:.0f}s"\n'
            f'again = "20s"\n[[agents]]\nfile = "{self.folder}/inventory.json"\n'
            + "".join(f"[[notify]]\n{text}\n" for text in receivers))
        with open(folder / "log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dumpulse_fleet", "serve", "--config.file",
                 folder / "fleet.toml"], cwd=ROOT, stderr=log, env={
                     **os.environ, "WARP": str((self.other if number else self.warp).path),
                     "LD_PRELOAD": str(build(WARP, "-shared", "-fPIC"))})

    @property
    def asked(self) -> int:
        return int(self.options.pair and self.fault == "kill")

    @property
    def has_fallback(self) -> bool:
        return bool(self.fault == "hang" and self.options.seed % 2)

    # ---- what happens
    def make_plan(self) -> list[tuple[float, Any, Any]]:
        """Outages of two sites, a short one, silent variables, reboots; and the fault."""
        chance, began = self.chance, self.began
        whole, last, part, short, rest = chance.sample(range(SITES), 5)
        times = [began + chance.uniform(5, 45) for _ in range(5)]
        back = began + chance.uniform(115, 125)
        some = self.site(part)[:chance.randint(1, max(1, self.count // SITES))]
        self.outages = [Outage(f"s{whole}", self.site(whole), -1, times[0], back),
                        Outage(f"s{last}", self.site(last), -1, times[1], 1e9),
                        Outage(f"s{part}", some, 1, times[2], 1e9),
                        Outage(f"s{short}", self.site(short), -1, times[3],
                               times[3] + chance.uniform(1, PERIOD))]
        self.rebooted = set(chance.sample(self.site(rest), 3))
        plan: list[tuple[float, Any, Any]] = [
            (times[4], self.agents.tell, ("reboot", number, number)) for number in self.rebooted]
        for outage in self.outages:
            ends = "live" if outage.variable < 0 else "go"
            plan += [(at, self.agents.tell, (verb, outage.agents[0], outage.agents[-1]))
                     for at, verb in ((outage.begins, "die" if ends == "live" else "stop"),
                                      (outage.ends, ends))]
        begins = self.fault_begins = began + chance.uniform(2, 30)
        lasts = {"freeze": chance.uniform(5, 60), "hang": 120.0}.get(
            self.fault, chance.uniform(60, 90))
        self.fault_ends = begins + lasts
        plan += [(begins, self.begin, ()), (begins + lasts, self.end, ())]
        kills = chance.randint(1, 3) if self.fault == "kill" else 0
        if self.fault in KILLED and not self.options.pair:
            kills = chance.randint(0, 1) if self.fault != "hang" else int(not self.has_fallback)
        lasts /= 3 if self.fault in NAMES else 1  # the names stay unknown after the restart
        plan += [(chance.uniform(begins, begins + lasts), self.kill, ()) for _ in range(kills)]
        self.hub.rejects = self.rejected = f"s{whole}" if self.fault == "reject" else ""
        self.hub.rejection = chance.choice((400, 503))  # 503: it is retried until the fault ends
        return sorted(plan, key=lambda step: step[0])

    def begin(self) -> None:
        chance, fault, process = self.chance, self.fault, self.fleets[0]
        self.hub.hangs = fault == "hang"
        self.names.delay, self.names.is_dead = 5.0 * (fault == "dns"), fault == "nameserver"
        self.warp.set(full=fault == "full", slow=chance.uniform(1, 4) * (fault == "slow"),
                      ahead=3600.0 * chance.choice((-1, 1)) * (fault == "clock"),
                      cut=fault == "network")
        if fault == "inventory":
            self.write_inventory(chance.choice(([], self.inventory()[:1])))
        elif fault == "freeze":
            process.send_signal(signal.SIGSTOP)
        elif fault == "cpu":
            threading.Thread(target=self.cut, args=(process,)).start()
        if fault in STANDSTILLS:
            self.disturbed.append((self.fault_begins, self.fault_ends))

    def end(self) -> None:
        self.hub.hangs, self.names.delay, self.names.is_dead = False, 0.0, False
        self.write_inventory(self.inventory())
        self.hub.rejects *= self.hub.rejection == 400
        self.warp.set(full=0, slow=0, cut=0, ahead=self.warp.ahead * self.chance.randint(0, 1))
        self.fleets[0].send_signal(signal.SIGCONT)

    def cut(self, process: subprocess.Popen[bytes]) -> None:
        """A tenth of the processor."""
        while self.warp.now() < self.fault_ends:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.09)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.01)

    def kill(self) -> None:
        self.fleets[0].kill()
        self.fleets[0].wait()
        self.killed = min(self.killed, self.warp.now())
        if not self.options.pair:
            self.disturbed.append((self.warp.now(), 1e9))
            self.fleets[0] = self.start(0)

    # ---- what was seen
    def ask(self, path: str, timeout: float = 2.0) -> tuple[int, bytes]:
        """Of the first fleet, or of the second if that is killed. Status 0: there is no answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{9061 + self.asked}{path}",
                                        timeout=timeout) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, b""

    def note(self, result: str, text: str) -> None:
        self.found[result] += 1
        if self.found[result] <= 3:
            print(f"{self.fault} {self.options.seed}: {self.warp.now() - self.began:.0f} s: "
                  f"{result}: {text}", flush=True)

    def look(self) -> int:
        """Compares /-/ready with what must be, and collects events. Returns the status. No answer
        in 2 s, or one that rounds stretch, means that messages may be later."""
        begins = time.monotonic()
        time.sleep(0.1)
        now, fleet = self.warp.now(), self.fleets[self.asked].pid
        late, before = time.monotonic() - begins - 0.1, waited(fleet)
        status, text = self.ask("/-/ready")
        late = max(late, waited(fleet) - before)
        idle, gap = self.agents.tell("idle", 5 * PERIOD)
        self.lag = max(self.lag, gap, late * self.warp.speed)
        if self.disturbed and self.disturbed[-1][1] == 1e9:  # it was killed
            is_up = status and b"is starting" not in text and b"not polled yet" not in text
            self.disturbed[-1] = self.disturbed[-1][0], now if is_up else 1e9
            self.up = now
        elif not status or b"late: this machine" in text or b"not watched" in text:
            self.disturbed.append((now, now))
            self.busy = now
        lately = any(first <= now <= last + 3 * PERIOD for first, last in self.disturbed)
        why = ("nobody has been told" if self.untold(now) else
               f"{idle:.0f} agents are not polled" if idle > self.count / 2 and not lately else
               f"fault: {self.fault}" if self.is_shown(now) else "")
        if status == 200 and why:
            self.note("ready", f"it is green: {why}")
        rounds = 3 if self.fault in NAMES else 10
        if idle > self.count / 2 and now > self.up + rounds * PERIOD and \
                self.fault not in STANDSTILLS:
            self.note("lost", f"{idle:.0f} agents are not polled, and their addresses were known")
        if now - self.paged > self.options.speed:
            self.paged = now
            for event in self.page():
                self.take(event, now)
        moment = datetime.datetime.fromtimestamp(
            self.warp.bases[0] + now, datetime.timezone.utc).isoformat("T", "milliseconds")
        self.hub.look(moment)
        return 503 if why else status

    def is_shown(self, now: float) -> bool:
        """Whether /-/ready must show the fault itself: events came since the disk is full, or the
        inventory was read since it is empty."""
        if not self.fault_begins + 15 < now < self.fault_ends:
            return False
        return self.fault == "inventory" or self.fault == "full" and any(
            self.fault_begins < message.at < now - 5 for message in list(self.hub.messages))

    def untold(self, now: float) -> bool:
        tried, accepted = dict[str, float](), set[str]()
        for message in list(self.hub.messages):
            tried.setdefault(message.body["id"], message.at)
            if message.status == 200:
                accepted.add(message.body["id"])
        since = [at for key, at in tried.items() if key not in accepted]
        since += [self.hub.failing] * (self.hub.failing > 0)
        return bool(since) and now - min(since) > UNTOLD + 15

    def page(self, before: str = "", timeout: float = 2.0) -> list[Json]:
        status, text = self.ask(f"/api/v1/events?limit=1000{before}", timeout)
        if not status and before:  # this machine is busy
            self.lag = max(self.lag, timeout)
        return json.loads(text)["events"] if status == 200 else []

    def take(self, event: Json, now: float) -> None:
        key = event["agent"], event["variable"], event["what"], event["was"], event["now"]
        seen = self.events.setdefault(event["number"], key)
        if seen != key:
            self.note("events", f"event {event['number']} was {seen}, and is {key}")
        elif seen is key and event["agent"]:
            self.judge(event["agent"], event["variable"], event["what"], event["now"],
                       self.when(event["at"], now))

    def when(self, unix: float, seen: float) -> float:
        """The time of an event, by a clock that may be an hour wrong."""
        return min((unix - self.warp.bases[0] - wrong for wrong in (-3600.0, 0.0, 3600.0)),
                   key=lambda at: abs(seen - at))

    def number(self, name: str) -> int:
        return int(name[1:-5]) if name[0] == "a" else int.from_bytes(
            socket.inet_aton(name), "big") - FIRST

    def judge(self, name: str, variable: int | None, what: str, state: str, at: float) -> None:
        """Is this event, or this line of a message, of something that the agents did?"""
        if not name:
            self.note("false", f"the collector is {state}")
            return
        agent = self.number(name)
        if variable is None:  # an agent has the worst state of its variables
            variable = -1 if state in ("unreachable", "damaged") else 1
        is_bad = what == "state" and state not in ("alive", "pending", "unknown", "late")
        if is_bad and not any(each.explains(agent, variable, at) for each in self.outages):
            self.note("false", f"{name} {variable} is {state}")
        if what in REBOOTED and agent not in self.rebooted:
            self.note("false", f"{name} is {what}")

    # ---- the verdict
    def noticed(self, begins: float) -> float:
        """When a message about this is made."""
        due = begins + DUE
        for first, last in sorted(self.disturbed):
            if first <= due and last >= begins - PERIOD:
                due = max(due, last + DUE + GRACE)
        return due

    def due(self, outage: Outage, begins: float) -> float:
        """When it is sent."""
        due = self.noticed(begins) + 40.0 * self.has_fallback
        fails = self.fault == "hang" and not self.has_fallback or (
            outage.site == self.rejected and self.hub.rejection == 503)
        if fails and due > self.fault_begins:
            due = max(due, self.fault_ends + 60)  # the last back-off
        return due

    def expected(self) -> list[tuple[Outage, str, float]]:
        """Messages that must come once, and when they are due. What has ended before it was
        noticed, or before an Alertmanager answered, may remain unknown."""
        hidden = self.fault_ends + LATE if self.options.pair and self.fault == "hang" else 0.0
        return [(outage, kind, self.due(outage, at)) for outage in self.outages
                for bad in [outage.begins + CRIT * (outage.variable > 0)]
                if outage.ends > max(self.noticed(bad), hidden)
                for kind, at in (("new", bad), ("resolved", outage.ends)) if at < 1e9]

    def of(self, outage: Outage, kind: str) -> list[Message]:
        """The messages about it that arrived."""
        return [message for message in list(self.hub.messages) if message.status in (200, 400)
                and message.body["name"] == outage.site and any(
                    self.number(item["name"]) in outage.agents for item in message.body[kind])]

    def check(self, end: float) -> None:
        for outage, kind, due in self.expected():
            came = self.of(outage, kind)
            ids = collections.Counter((message.body["id"], message.to) for message in came)
            what = f"{outage.site}, {kind}: due at {due - self.began:.0f} s, came " + ", ".join(
                f"{message.at - self.began:.0f} {message.status}" for message in came)
            listed = len(came[0].body[kind]) if came else 0
            if not came or listed != min(200, len(outage.agents)):
                self.note("lost", f"{what}: {listed} of {len(outage.agents)}")
            elif came[0].at > due + LATE:
                self.note("late", what)
            again = any(first <= came[-1].at and last >= came[0].at - PERIOD
                        for first, last in self.disturbed) if came else False
            if len({key for key, _ in ids}) > 1 or max(ids.values(), default=0) > 1 + again:
                self.note("twice", what)
        for message in self.hub.messages:
            made = message.at if self.options.pair else self.when(message.body["at"], message.at)
            for item in message.body["new"]:
                self.judge(item["name"], item["variable"], "state", "told", made)
            for item in message.body["resolved"]:
                if not any(item["name"] and self.number(item["name"]) in each.agents
                           and each.ends <= message.at for each in self.outages):
                    self.note("false", f"{item['name']} is resolved")
        self.check_events()

    def check_events(self) -> None:
        """The store has all events that were ever seen, and each begins where the last one of its
        subject ended."""
        stored = dict[int, Json]()
        while page := self.page(f"&before={min(stored, default=10**18 - 1)}", 60.0):
            stored.update((event["number"], event) for event in page)
            for event in page:
                self.take(event, self.warp.now())
        if missing := self.events.keys() - stored.keys():
            self.note("events", f"{len(missing)} are not stored")
        last = dict[Any, str]()
        reboots = collections.Counter[str]()
        for _, (agent, variable, what, was, now) in sorted(self.events.items()):
            if what == "state":
                if last.setdefault((agent, variable), was) != was or was == now:
                    self.note("events", f"{agent} {variable}: from {was} to {now}")
                last[agent, variable] = now
            reboots[agent] += what in REBOOTED
        # What a fleet knows of an agent is written soon after it has started.
        was_kept = self.killed > self.began + 5 * PERIOD
        for agent in self.rebooted:
            if not was_kept <= reboots[self.name(agent)] <= 1:
                self.note("events", f"{reboots[self.name(agent)]} reboots of {self.name(agent)}")

    def run(self) -> None:
        self.fleets = [self.start(number) for number in range(1 + self.options.pair)]
        while self.ask("/-/ready")[0] != 200 or self.agents.tell("idle", 1e6)[0]:
            time.sleep(0.1)
            if self.warp.now() > 10 * LONGEST or self.fleets[0].poll() is not None:
                self.note("lost", f"it does not start: {(self.folder / 'fleet0/log').read_text()}")
                return
        self.began = self.up = self.warp.now()
        self.agents.tell("idle", 0)
        plan, status = self.make_plan(), 0
        while (now := self.warp.now()) < self.began + LONGEST:
            while plan and plan[0][0] <= now:
                _, act, words = plan.pop(0)
                act(*words)
            status = self.look()
            if now > max(self.began + CALM, self.fault_ends + NOTICED) and (
                    status == 200 or self.untold(now)) and all(
                    self.of(outage, kind) or now > due + LATE
                    for outage, kind, due in self.expected()):
                break
        else:
            self.note("ready", f"it does not end: /-/ready is {self.ask('/-/ready')}")
        self.warp.sleep(2 * WAIT + PERIOD)
        self.look()
        self.check(now)
        if (words := (self.folder / "fleet0/log").read_text()).count("Traceback"):
            self.note("events", words)


def inside(options: argparse.Namespace) -> int:
    """A run, in a network namespace of its own."""
    with socket.socket() as any_socket, tempfile.TemporaryDirectory() as folder:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up
        path = Path(folder)
        (path / "resolv.conf").write_text("".join(
            f"nameserver {host}\n" for host in NAME_SERVERS) + "options timeout:1\n")
        subprocess.run(["mount", "--bind", path / "resolv.conf", "/etc/resolv.conf"], check=True)
        run = Run(options, path)
        try:
            run.run()
        finally:
            seconds = round(run.warp.now())
            processes: list[subprocess.Popen[Any]] = [*run.fleets, run.agents.process]
            for process in processes:
                process.kill()
                process.wait()
    used = sum(sum(resource.getrusage(who)[:2])
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({
        "fault": options.faults, "seed": options.seed, "seconds": seconds, "found": run.found,
        "busy": round(run.busy - run.began) if run.busy else 0, "lag": round(run.lag, 1),
        "speed": options.speed, "cpu": round(used, 1)}))
    return 0


def outside(options: argparse.Namespace, fault: str, seed: int) -> tuple[str, Json]:
    """The same in a process of its own. Returns what it printed, and its last line. A failure of a
    run that was late itself is none: it is repeated, slower each time."""
    text = ""
    for repeats in range(REPEATS + 1):
        done = subprocess.run(
            ["unshare", "-rmn", sys.executable, "-m", __spec__.name if __spec__ else "",
             "--inside", "--faults", fault, "--seed", str(seed), "--agents", str(options.agents),
             "--speed", str(options.speed / 2**repeats), *["--pair"] * options.pair], cwd=ROOT,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text += done.stdout
        if done.returncode:
            return text, {"fault": fault, "found": {"crashed": 1}, "repeats": repeats}
        result: Json = json.loads(done.stdout.splitlines()[-1]) | {"repeats": repeats}
        if not result["found"] or result["lag"] < BUSY:
            return text, result
    return text, result | {"found": {"void": 1}}


def table(results: list[Json]) -> str:
    """A line for each fault."""
    lines = ["fault       runs passed failed void repeated  CPU s  failures"]
    for fault in dict.fromkeys(result["fault"] for result in results):
        of = [result for result in results if result["fault"] == fault]
        void = sum("void" in result["found"] for result in of)
        good = sum(not result["found"] for result in of)
        kinds = collections.Counter[str]()
        for result in of:
            kinds.update(result["found"])
        lines.append(
            f"{fault:11}{len(of):5}{good:7}{len(of) - good - void:7}{void:5}"
            f"{sum(result['repeats'] for result in of):9}"
            f"{sum(result.get('cpu', 0) for result in of):7.0f}  "
            + ", ".join(f"{kind} {kinds[kind]}" for kind in sorted(kinds.keys() - {"void"})))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--from", "--seed", type=int, default=1, dest="seed")
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--speed", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pair", action="store_true")
    parser.add_argument("--inside", action="store_true")
    options = parser.parse_args()
    if options.inside:
        return inside(options)
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for run in [pool.submit(outside, options, fault, seed)
                    for seed in range(options.seed, options.seed + options.seeds)
                    for fault in options.faults.split(",")]:
            text, result = run.result()
            results.append(result)
            print(text, end="", flush=True)
    print(table(results))
    return int(any(result["found"].keys() - {"void"} for result in results))


if __name__ == "__main__":
    sys.exit(main())
