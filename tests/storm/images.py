"""Images of firmware/ in the storm: each in its simulator, in a time of its own, from a seed.

    python -m tests.storm.images [--from SEED] [--count N] [--seed N] [--counts]
                                 [--image NAME=ELF]        only stories of NAME, in this build

Each fault is a method, whose name tells what it is."""

import argparse
import contextlib
import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from firmware.simulators import stm32_can
from firmware.simulators.boards import BOARDS, REPORT_AT, REQUEST_AT, frame
from firmware.simulators.bxcan import Frame
from firmware.simulators.watchdog import Misuse
from firmware.tests.test_firmware_keyed import Rig
from spec import keyed, model
from tools.programs import as_program


class Wrong(AssertionError):
    """Something that must be true is not."""


class Claims:
    def __init__(self, *all_claims: str) -> None:
        self.armed = Counter(dict.fromkeys(all_claims, 0))

    def check(self, claim: str, holds: bool, wrong: str) -> None:
        """The claim is armed: it must hold. `wrong` says what is wrong if it does not."""
        if claim not in self.armed:
            raise KeyError(claim)
        self.armed[claim] += 1
        if not holds:
            raise Wrong(wrong)

    def print_counts(self) -> bool:
        """As the storm does. Returns whether a claim was never armed."""
        for claim, count in self.armed.items():
            print(f"{count:12}  {claim}")
        if all(self.armed.values()):
            return False
        print("storm: a claim was never armed")
        return True


ROUNDS, FAULTS, SECOND = 2, 12, 1_000_000  # a second has as many microseconds
Event = tuple[str, int]  # a fault, and the seed of its chance; or "calm"
ASKED, WHOLE, TRUE, OWN = (
    "an image sends a report to each request, and nothing else", "each report is whole",
    "each entry is what was sent, and when", "variable 0 has what the controller lost")
IN_ORDER, GIVEN_UP = ("the frames of a report come in their order, and all of them",
                      "a report that was given up never leaves")
NEW, NO_EPOCH, TAKEN = ("no old heartbeat is taken, and none that nobody made",
                        "no epoch comes again", "after the last fault, each node is heard")
CLAIMS = Claims(ASKED, WHOLE, TRUE, OWN, IN_ORDER, GIVEN_UP, NEW, NO_EPOCH, TAKEN)
check = CLAIMS.check


class Story:
    """An image, and what happens to it."""
    faults: Sequence[str] = ()
    now = booted = 0  # microseconds
    boots = 1
    chance = random.Random()

    def __init__(self) -> None:
        self.notes = list[str]()

    def note(self, *what: object) -> None:
        self.notes.append(f"{self.now / SECOND:12.6f}  {' '.join(map(str, what))}")

    def some(self, most: float) -> int:
        """Microseconds, at most so many seconds: each magnitude is as likely as the others."""
        return int(most * 10 ** self.chance.uniform(2, 6))

    def end(self) -> int:
        """Returns how often the image has begun."""
        raise NotImplementedError


class Stm32(stm32_can.Board):
    """The simulator, in this process."""

    def show(self, frame: Frame) -> None:
        self.sent.append((frame.number, frame.data))

    def do(self, *script: str) -> list[tuple[int, bytes]]:
        self.sent = list[tuple[int, bytes]]()
        for line in script:
            if line.startswith("cut"):
                byte = bytes([int(line[4:], 16)])
                self.engine.mem_write(stm32_can.RAM, byte * stm32_can.RAM_SIZE)
                self.reset()
            else:
                self.play(line)
        return self.sent


class OnBus(Story):
    """An agent without keys on a CAN bus, on an STM32. For each variable, one of some values must
    be in its table."""
    faults = ("heartbeats", "other_frames", "question", "heartbeats_while_a_report_leaves",
              "bus_is_bad", "bus_is_bad", "core_stands_still", "core_is_slow", "power_cut", "pause")
    recovers, may_lose = 3_300_000, False  # microseconds
    OPENING = "wait 20000", "7FF#", "wait 20000"  # it begins to speak, and may lose two frames

    def __init__(self, name: str, image: Path | None) -> None:
        super().__init__()
        self.forget()
        board = BOARDS[name]
        self.base, self.partial, self.sure = board.can_id, b"", True
        self.reports = list[bytes]()
        self.board = Stm32(name[-2:], board.hertz, board.kbits, image or board.image())
        self.lost, self.asked = 0, 0  # losses at the start of the image and before the last request
        self.do(*self.OPENING)

    def forget(self) -> None:
        self.may = [{bytes(2)} for _ in range(64)]
        boots = [bytes([1, value]) for value in range(256)]  # an agent records its own boot
        self.may[63].update(boots)
        self.times: dict[tuple[int, bytes], list[float]] = {(63, boot): [0] for boot in boots}

    def wait(self, microseconds: int) -> None:
        self.now += microseconds
        sent = self.do(f"wait {microseconds}")
        check(ASKED, not sent or self.may_lose, "it sends, and nobody has asked")

    def comes(self, packet: bytes, sure: bool = True) -> None:
        """It comes whole. Perhaps the agent loses it: that is not sure."""
        if model.Agent().process(0, packet) == model.HEARTBEAT:
            variable, value = packet[5], packet[6:]
            self.may[variable] = {value} if sure else self.may[variable] | {value}
            self.times.setdefault((variable, value), []).append((self.now - self.booted) / SECOND)

    def check(self, report: bytes, may: Sequence[set[bytes]]) -> None:
        check(WHOLE, report == model.checksummed(report[4:]), "a report is damaged")
        self.times[0, report[6:8]] = [(self.now - self.booted) / SECOND]  # the agent's own
        check(OWN, report[6:8] in self.own(), f"variable 0 is {report[4:8].hex()}")
        for variable, values in enumerate([{report[6:8]}, *may[1:]]):
            entry = report[4 + 4 * variable:8 + 4 * variable]
            at, times = int.from_bytes(entry[:2], "big"), self.times.get((variable, entry[2:]), [])
            check(TRUE, entry[2:] in values and (not any(entry) or any(
                abs(at - it % 65536) < 2.2 + 0.002 * it for it in times)),
                f"variable {variable} is {entry.hex()}: one of "
                f"{[value.hex() for value in values]} has come at {times}")

    def beats(self, most: int = 40) -> list[bytes]:
        return [model.heartbeat(self.chance.randrange(1, 64), *self.chance.randbytes(2))
                for _ in range(self.chance.randrange(1, most))]

    def heartbeats(self) -> None:
        self.say(self.beats())

    def question(self) -> None:
        (report,) = self.ask()
        self.check(report, self.may)
        self.may = [{report[6 + 4 * at:8 + 4 * at]} for at in range(64)]

    def heartbeats_while_a_report_leaves(self) -> None:
        before, self.may = self.may, [set(values) for values in self.may]
        for report in self.ask(self.beats() + [model.REQUEST] * self.chance.randrange(2)):
            self.check(report, [one | other for one, other in zip(before, self.may, strict=True)])

    def calm(self) -> None:
        self.wait(self.recovers)
        self.question()
        self.say([model.heartbeat(at, *self.chance.randbytes(2)) for at in range(1, 64)])
        self.question()

    def own(self) -> set[bytes]:
        """What variable 0 may be."""
        losses = range(self.asked - self.lost, self.board.can.losses - self.lost + 1)
        return {bytes([1, min(count, 255)]) for count in losses}

    def boot(self) -> None:
        self.boots, self.booted, self.may_lose = self.boots + 1, self.now, False
        self.forget()
        self.lost, self.partial = self.board.can.losses, b""

    def do(self, *script: str) -> bytes:
        sent = self.board.do(*script)
        self.now = self.board.now * SECOND // self.board.hertz
        for number, data in sent:
            at = number - self.base - REPORT_AT
            check(IN_ORDER, at * 8 == len(self.partial) % 260 or not at and self.may_lose,
                  f"frame {at} of a report follows {len(self.partial)} bytes")
            self.partial = (self.partial if at else b"") + data
            self.reports += [self.partial][:len(self.partial) == 260]
        self.note(*script, ">", *(f"{number:x}#{data.hex()}" for number, data in sent))
        return b"".join(data for _, data in sent)

    def say(self, packets: Sequence[bytes]) -> None:
        for packet in packets:
            self.comes(packet, self.sure)
            offset = REQUEST_AT if packet == model.REQUEST else packet[5] % 64
            self.do(frame(self.base + offset, packet), f"wait {self.chance.choice((0, 0, 300))}")

    def ask(self, flood: Sequence[bytes] = ()) -> list[bytes]:
        """Asks, and says this while the report leaves. Returns the reports."""
        self.reports.clear()
        self.asked = self.board.can.losses
        self.say([model.REQUEST, *flood])
        self.do("wait 50000")
        check(ASKED, bool(self.reports), "it sends no report to a request")
        return self.reports

    def other_frames(self) -> None:
        (beat, *_), base = self.beats(), self.base
        self.do(*(self.chance.choice((
            frame(base - 1, beat), frame(base + 64, beat), frame(base + 126, model.REQUEST),
            frame(base, beat, 8), frame(base << 18, beat, 8), frame(base, b""),
            f"{base + self.chance.choice((5, REQUEST_AT)):X}#R8",
            frame(base, model.heartbeat(9, 1, 0)[:7]),
            frame(base, self.chance.randbytes(8)))) for _ in range(40)))
        self.wait(20_000)

    def disturbed(self, begin: str, end: str, most: float) -> None:
        """The agent may lose what comes meanwhile."""
        self.sure, self.may_lose = False, True
        self.do(begin)
        self.wait(self.some(most / 2))
        offs = self.board.can.losses
        if begin != "stuck":
            self.say(self.beats(10) + [model.REQUEST] * self.chance.randrange(2))
        asked = self.now
        long = 3_500_000 if begin == "alone" else 0
        self.wait(self.chance.choice((self.some(most / 2), long)))
        gone = begin != "halt" and self.board.can.losses > offs or \
            begin == "alone" and self.now - asked > 3 * SECOND
        sent = self.do(end, f"wait {self.recovers}")
        if gone:  # it gives a report up when it is off the bus, and after 2 s
            check(GIVEN_UP, not sent, "a report leaves that was given up")
        self.sure, self.may_lose, self.partial = True, False, b""

    def bus_is_bad(self) -> None:
        self.disturbed(self.chance.choice(("alone", "fail", "stuck")), "together", 6)

    def core_stands_still(self) -> None:
        self.disturbed("halt", "go", 1)

    def core_is_slow(self) -> None:
        """So its queue and the controller's buffers are full for a while."""
        self.sure = False
        self.do(f"charge {self.chance.choice((20, 60))}")
        self.say(self.beats(200))
        self.do("charge 2")
        self.wait(20_000)
        self.sure = True

    def power_cut(self) -> None:
        if self.chance.random() < 0.7:
            self.say([*self.beats(3), model.REQUEST])
        self.do(f"wait {self.some(0.02)}", f"cut {self.chance.randrange(256):x}")
        self.partial = b""
        self.boot()
        self.do(*self.OPENING)

    def pause(self) -> None:
        self.wait(self.some(200))

    def end(self) -> int:
        return self.board.boots


NODES, OPENED = range(40, 50), 50  # variables; the attacker has the key of the last one


class Keyed(Story):
    """An agent with keys on a CAN bus, its nodes, and an attacker who records and repeats."""
    faults = ("heartbeats", "bad_bus", "bad_bus", "held_back", "replay", "junk", "opened_node",
              "questions", "check", "nobody_hears_it", "power_cut", "power_cut", "nodes_are_reset",
              "pause")

    def __init__(self, name: str, image: Path | None) -> None:
        super().__init__()
        keys = keyed.Keys(bytes(range(16)))
        self.rig = Rig(keys, 0x122, image)
        self.nodes = [keyed.Hearer(keys, variable) for variable in (*NODES, OPENED)]
        self.rig.hearers += self.nodes
        self.made: list[tuple[int, int]] = []  # variable and time of the heartbeat with a number
        self.record, self.held = list[bytes](), list[bytes]()
        self.last = dict.fromkeys(NODES, 0)  # the last number that was in the table
        self.floor = dict(self.last)  # Lower ones are from before the last start.
        self.now = 20_000
        self.wait(1_150_000)

    def do(self, *script: str) -> None:
        self.rig.do(*script)
        self.note(*script, ">", *self.rig.beacons[-1:], len(self.rig.reports))

    def wait(self, microseconds: int) -> None:
        self.now += microseconds
        self.do(f"until {self.now}")

    def comes(self, *packets: bytes) -> None:
        self.record += packets
        self.rig.send(*packets)
        self.now += 310 * len(packets) + 2100
        self.wait(1000)

    def beat(self, node: keyed.Hearer) -> list[bytes]:
        """Its next heartbeat, twice."""
        self.made.append((node.label, self.now))
        packets = [node.heartbeat(*len(self.made).to_bytes(2)) for _ in range(2)]
        return [packet for packet in packets if packet]

    def check(self) -> list[int]:
        self.wait(SECOND)
        return self.look(self.rig.table())

    def look(self, table: list[bytes]) -> list[int]:
        """Returns the numbers in the table: the nodes have made them, and none is old."""
        numbers = [int.from_bytes(entry[2:]) for entry in table]
        for variable in self.last:
            if not (number := numbers[variable]):
                continue
            check(NEW, number <= len(self.made) and self.made[number - 1][0] == variable,
                  f"variable {variable}: nobody has sent {number}")
            check(NEW, number > self.floor[variable] and number >= self.last[variable],
                  f"variable {variable}: number {number} is old, after "
                  f"{self.last[variable]}, and at the start {self.floor[variable]}")
            self.last[variable] = number
            made = (self.made[number - 1][1] - self.booted) / SECOND
            check(NEW, -2 < int.from_bytes(table[variable][:2]) - made < 12,
                  f"variable {variable}: a heartbeat was taken an epoch late")
        return numbers

    def heartbeats(self) -> None:
        for node in self.chance.sample(self.nodes, 5):
            self.comes(*self.beat(node))

    def bad_bus(self) -> None:
        chance = self.chance
        packets = [packet for node in self.nodes for packet in self.beat(node)]
        chance.shuffle(packets)
        self.record += packets
        self.held += [packet for packet in packets if chance.random() < 0.2]
        self.comes(*(packet[:at] + bytes([packet[at] ^ (chance.random() < 0.1)]) + packet[at + 1:]
                     for packet in packets for _ in range(chance.choice((0, 1, 1, 2)))
                     for at in (chance.randrange(8),)))

    def held_back(self) -> None:
        held, self.held = self.held, []
        self.comes(*held)

    def replay(self) -> None:
        self.comes(*self.chance.sample(self.record, min(60, len(self.record))), *self.record[-30:])

    def junk(self) -> None:
        """Only the tag gives it away."""
        pick = self.chance.randrange
        self.comes(*(self.chance.randbytes(4) +
                     bytes((keyed.IS_HEARTBEAT + pick(64), 255, pick(256), 1))
                     for _ in range(pick(20, 150))))

    def opened_node(self) -> None:
        """Who has its key says much, also in the name of others."""
        for _ in range(10):
            self.comes(*self.beat(self.nodes[-1]))
        other = self.chance.choice(NODES) - OPENED
        self.comes(*(packet[:4] + bytes([packet[4] + other]) + packet[5:]
                     for packet in self.beat(self.nodes[-1])))

    def questions(self) -> None:
        self.comes(*(keyed.question(self.chance.randrange(65)) for _ in range(60)))

    def nobody_hears_it(self) -> None:
        self.wait(50_000)
        self.do("alone")
        self.heartbeats()
        self.wait(self.some(5))
        self.do("together")
        self.wait(100_000)

    def power_cut(self) -> None:
        """Any time, or while a block of epochs is stored."""
        stores = self.chance.random() < 0.5
        self.wait(self.chance.randrange(2000) if stores else self.some(12))
        for at in range(1 + stores):
            if at:
                self.do(f"writing {self.chance.randrange(1, 7)}",
                        f"wait {self.chance.randrange(3400)}")
                self.now += SECOND + 8 * 3400  # The write may end earlier.
            used = max(epoch for epoch, _ in self.rig.beacons)
            self.rig.cut(self.chance.choice((0, 0xFF, self.chance.randrange(256))))
            self.boots, self.booted = self.boots + 1, self.now
        self.floor = dict.fromkeys(NODES, len(self.made))
        self.rig.beacons.clear()
        self.wait(1_150_000)
        check(NO_EPOCH, min(epoch for epoch, _ in self.rig.beacons) > used,
              f"epoch {used} comes again")
        self.replay()
        self.check()

    def nodes_are_reset(self) -> None:
        for node in self.chance.sample(self.nodes, 2):
            node.forget()
            self.comes(keyed.question(node.label))

    def pause(self) -> None:
        self.wait(self.some(100))

    def calm(self) -> None:
        """An epoch and a half later, all are heard. A node asks if it knows no epoch."""
        self.wait(15 * SECOND)
        fresh = {}
        for node in self.nodes[:-1]:  # the last one is the attacker's
            if not node.epoch:
                self.comes(keyed.question(node.label))
            epoch = node.epoch
            self.comes(*self.beat(node))
            self.wait(30_000)
            if node.epoch != epoch:  # it ended on the way
                self.comes(*self.beat(node))
            fresh[self.made[-1][0]] = len(self.made)
        numbers = self.check()
        for variable, number in fresh.items():
            check(TAKEN, numbers[variable] == number,
                  f"variable {variable} has {numbers[variable]}, and sent {number}")

    def end(self) -> int:
        return self.rig.bus.end()["boots"]


IMAGES: dict[str, type[OnBus | Keyed]] = {"can_stm32-f4": OnBus, "can_avr-keyed": Keyed}


def tell(name: str, events: Sequence[Event], image: Path | None) -> tuple[Story, str]:
    """Returns the story, and what is wrong."""
    story, wrong = IMAGES[name](name, image), ""
    try:
        for what, seed in events:
            story.chance = random.Random(seed)
            story.note(f"--- {what.replace('_', ' ')}")
            getattr(story, what)()
        if (boots := story.end()) != story.boots:
            wrong = f"it has begun {boots} times, and its power was switched on {story.boots} times"
    except (AssertionError, ValueError, EOFError, Misuse) as problem:
        wrong = str(problem) or repr(problem)
        with contextlib.suppress(Exception):
            story.end()
    return story, wrong


def plan(name: str, seed: int) -> list[Event]:
    chance, faults = random.Random(seed), IMAGES[name].faults
    return [(what, chance.randrange(1 << 32)) for _ in range(ROUNDS)
            for what in (*chance.choices(faults, k=FAULTS), "calm")]


def smallest(name: str, events: list[Event], image: Path | None) -> list[Event]:
    """Leaves out whatever is not needed."""
    for size in (8, 4, 2, 1):
        for at in range(len(events) - size, -1, -size):
            fewer = events[:at] + events[at + size:]
            if tell(name, fewer, image)[1]:
                events = fewer
    return events


def main() -> int:
    parser = argparse.ArgumentParser()
    for option, number in (("--from", 1), ("--count", 100_000), ("--seed", 0)):
        parser.add_argument(option, type=int, default=number)
    parser.add_argument("--image", default="")
    parser.add_argument("--counts", action="store_true")
    options = vars(parser.parse_args())
    only, _, path = options["image"].partition("=")
    image = Path(path) if path else None
    names = [only] if only else list(IMAGES)
    first, count = options["seed"] or options["from"], 1 if options["seed"] else options["count"]
    told, faults, hours, whole = 0, 0, 0.0, hashlib.sha256()
    for seed in range(first, first + count):
        name = names[seed % len(names)]
        story, wrong = tell(name, events := plan(name, seed), image)
        whole.update("\n".join(story.notes).encode())
        if options["seed"]:
            print(*story.notes, sep="\n")
        if wrong:
            events = smallest(name, events, image)
            print(f"seed {seed}, {name}: {wrong}\nThe smallest story in which something is wrong, "
                  f"{tell(name, events, image)[1]}:",
                  *(f"    {what.replace('_', ' ')}" for what, _ in events), sep="\n")
        told, faults, hours = told + 1, faults + len(events), hours + story.now / SECOND / 3600
        if wrong:
            break
    print(f"storm: {told} stories from seed {first}: {told - bool(wrong)} passed, {bool(wrong):d} "
          f"failed; trace {whole.hexdigest()[:16]}\nstorm: {hours:.0f} simulated hours of images, "
          f"{faults} faults")
    return options["counts"] and CLAIMS.print_counts() or bool(wrong)


if __name__ == "__main__":
    as_program(main, ".*")
