"""The image can_stm32-f4 of firmware/ in the storm: in its simulator, in a time of its own, from a
seed.

    python -m tests.storm.images [--from SEED] [--count N] [--seed N] [--counts] [--image ELF]

Each fault is a method, whose name tells what it is."""

import argparse
import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from firmware.simulators import stm32_can
from firmware.simulators.boards import BOARDS, REPORT_AT, REQUEST_AT, frame
from firmware.simulators.bxcan import Frame
from firmware.simulators.watchdog import Misuse
from spec import model
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
CLAIMS = Claims(ASKED, WHOLE, TRUE, OWN, IN_ORDER, GIVEN_UP)
check = CLAIMS.check


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


class Story:
    """An agent without keys on a CAN bus, on an STM32, and what happens to it. For each variable,
    one of some values must be in its table."""
    faults = ("heartbeats", "other_frames", "question", "heartbeats_while_a_report_leaves",
              "bus_is_bad", "bus_is_bad", "core_stands_still", "core_is_slow", "power_cut", "pause")
    now, booted, recovers = 0, 0, 3_300_000  # microseconds
    boots, may_lose, chance = 1, False, random.Random()
    OPENING = "wait 20000", "7FF#", "wait 20000"  # it begins to speak, and may lose two frames

    def __init__(self, image: Path | None) -> None:
        self.notes = list[str]()
        self.forget()
        board = BOARDS["can_stm32-f4"]
        self.base, self.partial, self.sure = board.can_id, b"", True
        self.reports = list[bytes]()
        self.board = Stm32("f4", board.hertz, board.kbits, image or board.image())
        self.lost, self.asked = 0, 0  # losses at the start of the image and before the last request
        self.do(*self.OPENING)

    def note(self, *what: object) -> None:
        self.notes.append(f"{self.now / SECOND:12.6f}  {' '.join(map(str, what))}")

    def some(self, most: float) -> int:
        """Microseconds, at most so many seconds: each magnitude is as likely as the others."""
        return int(most * 10 ** self.chance.uniform(2, 6))

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


def tell(events: Sequence[Event], image: Path | None) -> tuple[Story, str]:
    """Returns the story, and what is wrong."""
    story, wrong = Story(image), ""
    try:
        for what, seed in events:
            story.chance = random.Random(seed)
            story.note(f"--- {what.replace('_', ' ')}")
            getattr(story, what)()
        if (boots := story.board.boots) != story.boots:
            wrong = f"it has begun {boots} times, and its power was switched on {story.boots} times"
    except (AssertionError, ValueError, EOFError, Misuse) as problem:
        wrong = str(problem) or repr(problem)
    return story, wrong


def plan(seed: int) -> list[Event]:
    chance = random.Random(seed)
    return [(what, chance.randrange(1 << 32)) for _ in range(ROUNDS)
            for what in (*chance.choices(Story.faults, k=FAULTS), "calm")]


def smallest(events: list[Event], image: Path | None) -> list[Event]:
    """Leaves out whatever is not needed."""
    for size in (8, 4, 2, 1):
        for at in range(len(events) - size, -1, -size):
            fewer = events[:at] + events[at + size:]
            if tell(fewer, image)[1]:
                events = fewer
    return events


def main() -> int:
    parser = argparse.ArgumentParser()
    for option, number in (("--from", 1), ("--count", 100_000), ("--seed", 0)):
        parser.add_argument(option, type=int, default=number)
    parser.add_argument("--image", type=Path)
    parser.add_argument("--counts", action="store_true")
    options = vars(parser.parse_args())
    image = options["image"]
    first, count = options["seed"] or options["from"], 1 if options["seed"] else options["count"]
    told, faults, hours, whole = 0, 0, 0.0, hashlib.sha256()
    for seed in range(first, first + count):
        story, wrong = tell(events := plan(seed), image)
        whole.update("\n".join(story.notes).encode())
        if options["seed"]:
            print(*story.notes, sep="\n")
        if wrong:
            events = smallest(events, image)
            print(f"seed {seed}: {wrong}\nThe smallest story in which something is wrong, "
                  f"{tell(events, image)[1]}:",
                  *(f"    {what.replace('_', ' ')}" for what, _ in events), sep="\n")
        told, faults, hours = told + 1, faults + len(events), hours + story.now / SECOND / 3600
        if wrong:
            break
    print(f"storm: {told} stories from seed {first}: {told - bool(wrong)} passed, {bool(wrong):d} "
          f"failed; trace {whole.hexdigest()[:16]}\nstorm: {hours:.0f} simulated hours and "
          f"{faults} faults of an image")
    return options["counts"] and CLAIMS.print_counts() or bool(wrong)


if __name__ == "__main__":
    as_program(main, ".*")
