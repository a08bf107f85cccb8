"""The PowerShield (X-NUCLEO-LPM01A): it feeds a board, and measures the joules that it takes.

    shield = PowerShield(Line("/dev/ttyACM0", "meter"))
    shield.take_control()
    shield.set_up(seconds=10)
    shield.arm("d7")                 # waits for a pin of the board, then samples for 10 s
    joules = shield.collect().joules

It speaks text over USB. A command is a line; the answer has `ack` and the command in it. Samples
come one a line, as `5017-06` for 5017·10⁻⁶ joules."""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from glob import glob
from pathlib import Path
from typing import TypeVar

from lab.joules.console import MOST, Gone, Line, Trouble
from lab.joules.meters import Absent, Energy, Lost, Meter

DEVICES = "/dev/serial/by-id/*PowerShield*"
HERTZ = 10  # of the samples
ANSWER = 2.0  # seconds until a command is sent again
PAUSE = 0.5  # seconds after a refusal, and for an answer that may not come
TRIES = 5
PATIENT = 40  # tries until its status must be ok, and until it must have taken its trigger
START = 5.0  # seconds after a trigger until the first sample must have come
VOLTS = Fraction(3)  # what study 2 fed its board with
VOLTS_OFF = Fraction(1, 100)  # how far it may be off
# It gives at most 50 mA, and sees no less than 100 nA. A value outside of this is no measurement.
LEAST_WATTS, MOST_WATTS = Fraction(1, 10**9), Fraction(1)
FINISHED, COUNT = "Acquisition completed", "Number of samples"

# At most 7 digits and an exponent of 2: nobody can make numbers of a million digits from them.
SAMPLE = re.compile(r"(\d{1,7})([+-]\d{1,2})")
# Of the summary: "Acquisition time: 10000-03", or the like with a point and a unit.
SAID = re.compile(r"(Acquisition time|Number of samples): *(\d{1,9}(?:\.\d{1,9})?)([+-]\d{1,2})?"
                  r" *(s|ms|us)?")
UNITS = {"": 0, "s": 0, "ms": -3, "us": -6}


Result = TypeVar("Result")


def scaled(digits: int, exponent: int) -> Fraction:
    return Fraction(digits * 10**exponent) if exponent > 0 else Fraction(digits, 10**-exponent)


def sample(text: str) -> Fraction | None:
    """The joules of a sample, if it is one."""
    found = SAMPLE.fullmatch(text)
    return scaled(int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Acquisition:
    samples: tuple[Fraction, ...]  # joules
    seconds: Fraction

    @property
    def joules(self) -> Fraction:
        return sum(self.samples, Fraction(0))

    @property
    def watts(self) -> Fraction:
        return self.joules / self.seconds


class NoAcquisition(Trouble):
    """What the meter said is no whole acquisition."""


def acquisition(lines: Iterable[str]) -> Acquisition:
    """What the meter said from its TimeStamp to its "Acquisition completed"."""
    samples: list[Fraction] = []
    said: dict[str, Fraction] = {}
    begun = ended = finished = False
    at = ""  # the TimeStamp
    width = 0  # of each sample, in characters
    for line in lines:
        if line.startswith("TimeStamp"):
            # The same one may come twice, before the samples. A later one says how far they are.
            # Any other is of a second acquisition.
            stamp = line.partition(",")[0]
            if ended or (begun and (stamp < at or (stamp == at and samples))):
                raise NoAcquisition("a second TimeStamp comes before the end of the first")
            begun, at = True, stamp
        elif FINISHED in line:
            finished = True
        elif found := SAID.search(line):
            exponent = int(found[3] or 0) + UNITS[found[4] or ""]
            said[found[1]] = Fraction(found[2]) * scaled(1, exponent)
        elif not begun or "PowerShield >" in line:
            continue
        elif line == "end":
            ended = True
        elif not ended:
            if (joules := sample(line)) is None:
                raise NoAcquisition(f'"{line[:40]}" is no sample')
            width = width or len(line)
            if len(line) != width:
                raise NoAcquisition(f'"{line[:40]}" is as long as no other sample: it may be cut')
            samples.append(joules)
    if not begun:
        raise NoAcquisition("it has no TimeStamp: no trigger came")
    if not ended or not finished:
        raise NoAcquisition(f"it breaks off after {len(samples)} samples")
    seconds, count = said.get("Acquisition time"), said.get("Number of samples")
    if seconds is None or count is None:
        raise NoAcquisition("its summary lacks the time or the number of samples")
    if seconds <= 0:
        raise NoAcquisition("its time is 0 s")
    if count != len(samples):
        raise NoAcquisition(f"it has {len(samples)} samples, and says {float(count):g}")
    seen = Acquisition(tuple(samples), seconds)
    if not LEAST_WATTS <= seen.watts <= MOST_WATTS:
        raise NoAcquisition(f"it makes {float(seen.watts):.3g} W, which no board takes")
    return seen


class PowerShield:
    def __init__(self, line: Line) -> None:
        self.line = line
        self.seconds = 0  # of an acquisition; 0: until it is stopped
        self.heard: list[str] = []  # of the acquisition that goes on
        self.armed = ""  # the trigger that it waits for
        # Each rise of D7 begins an acquisition, once it has been started: so public drivers have
        # it. By its manual, each wants a start of its own. Which of them is true shows itself.
        self.start_each = False

    def ask(self, command: str, answer: str = "", *, tries: int = TRIES) -> str:
        """Sends the command until it is acknowledged."""
        wanted = answer or "ack " + command.partition(' "')[0]
        trouble = ""
        for _ in range(tries):
            self.line.forget()
            self.line.send(f"{command}\n")
            try:
                said = self.line.until(lambda text: "ack" in text or "error" in text, ANSWER,
                                       f'answer to "{command}"')[-1]
            except Gone:
                raise
            except Trouble as error:
                trouble = str(error)
                continue
            if wanted in said:
                return said
            trouble = f'{self.line.name}: it answers "{command}" with "{said[:60]}"'
            time.sleep(PAUSE)
        raise Trouble(f"{trouble}; tried {tries} times")

    def hush(self) -> None:
        """Ends what it does. While it does nothing, it may refuse that, or say nothing at all; and
        an acquisition that ends may be all that it answers."""
        self.armed = ""
        self.line.forget()
        self.line.send("stop\n")
        try:
            self.line.until(lambda text: "ack" in text or "error" in text or FINISHED in text,
                            PAUSE, 'answer to "stop"')
        except Gone:
            raise
        except Trouble:
            pass

    def take_control(self) -> None:
        """From its own buttons; then it is quiet."""
        self.ask("status", "status ok", tries=PATIENT)
        self.ask("htc")
        self.hush()
        self.ask("trigsrc sw")
        self.ask("temp degc")

    def volts(self) -> Fraction:
        """What it feeds the board with."""
        answer = self.ask("volt get")
        found = SAMPLE.search(answer)
        if found is None:
            raise Trouble(f'{self.line.name}: "{answer[:60]}" names no voltage')
        return scaled(int(found[1]), int(found[2]))

    def feed(self, volts: Fraction = VOLTS) -> None:
        if abs(self.volts() - volts) > VOLTS_OFF:
            self.ask(f"volt {round(volts * 1000)}m", "ack volt")
            if abs((got := self.volts()) - volts) > VOLTS_OFF:
                raise Trouble(f"{self.line.name}: it feeds {float(got):g} V instead of "
                              f"{float(volts):g} V")

    def restart_board(self) -> None:
        """Takes the board's power for a second."""
        self.ask("targrst 1")

    def show(self, first: str, second: str) -> None:
        """Two lines of 16 characters on its display."""
        for number, text in enumerate((first, second), start=1):
            clean = text.replace('"', "")[:16]
            self.ask(f'lcd {number} "{clean:<16}"')

    def set_up(self, seconds: int) -> None:
        """How long it samples; 0: until it is stopped."""
        self.seconds = seconds
        for command in ("output energy", "format ascii_dec", f"freq {HERTZ}",
                        f"acqtime {seconds or 'inf'}", "acqmode dyn"):
            self.ask(command)

    def arm(self, trigger: str) -> None:
        """From now on it waits for the trigger: `d7`, a pin of the board, or `sw`, which is now."""
        self.heard = []
        if trigger == self.armed and not self.start_each:
            self.line.forget()
            return
        self.ask(f"trigsrc {trigger}", tries=PATIENT)
        self.line.forget()
        self.line.send("start\n")
        self.line.until(lambda text: "ack start" in text, ANSWER, '"ack start"')
        self.armed = trigger if trigger != "sw" else ""

    def collect(self) -> Acquisition:
        """What it samples, to the end of its time."""
        try:
            said = self._finished(START + self.seconds)
        except Trouble:
            self.start_each = True  # perhaps that was missing
            raise
        return acquisition(said)

    def listen(self) -> None:
        """Takes what has come: the line keeps the samples of about 40 s, and loses more."""
        for _ in range(MOST):
            if (text := self.line.line(time.monotonic())) is None:
                return
            self.heard.append(text)

    def stop(self) -> Acquisition:
        """Ends an acquisition that has no time of its own."""
        self.line.send("stop\n")
        return acquisition(self.heard + self._finished(START))

    def _finished(self, seconds: float) -> list[str]:
        """What comes until the acquisition is over; its summary may come before or after that."""
        said = self.line.until(lambda text: FINISHED in text, seconds, f'"{FINISHED}"')
        if not any(COUNT in text for text in said):
            said += self.line.until(lambda text: COUNT in text, ANSWER, f'"{COUNT}"')
        return said

    def rest(self) -> None:
        """Whatever it does, it ends it, and waits for no pin."""
        self.hush()
        self.ask("trigsrc sw")


class PowerShieldMeter(Meter):
    """What a board takes that a PowerShield feeds, from start() to stop()."""

    name = "powershield"
    reads = 5.0  # the line keeps the samples of about 40 s
    shield: PowerShield | None = None

    def open(self) -> None:
        found = [self.at] if self.at else sorted(glob(DEVICES))
        wrong = "" if not self.at or Path(self.at).is_char_device() else \
            f"{self.at} is no serial line; "
        if wrong or not found:
            raise Absent(f"{wrong}connect it, or say where it is: --meter powershield --at "
                         "/dev/ttyACM0.")
        if len(found) > 1:
            raise Absent(f"there are several: {', '.join(found)}; --at says which.")
        try:
            self.shield = PowerShield(Line(found[0], "PowerShield"))
            self.shield.take_control()
            self.shield.set_up(seconds=0)
            self.volts = float(self.shield.volts())
        except Trouble as trouble:
            raise Absent(f"{trouble}.") from None

    def what(self) -> str:
        return f"powershield, {self.volts:g} V"

    def release(self) -> None:
        if self.shield is not None:
            try:
                self.shield.rest()
            except Trouble:
                pass  # it is gone, or hears nothing
            self.shield.line.close()
            self.shield = None

    def begin(self) -> None:
        self._try(lambda shield: shield.arm("sw"))

    def read(self) -> None:
        self._try(PowerShield.listen)

    def end(self) -> Energy:
        """It is off by what it took in a sample at each end at most, and by its own accuracy."""
        seen = self._try(PowerShield.stop)
        joules = [float(sample) for sample in seen.samples]
        return Energy(float(seen.joules), float(seen.seconds), 2 * max(joules, default=0.0),
                      len(joules), (),
                      readings=tuple((float(seen.seconds) * number / len(joules),
                                      sample * len(joules) / float(seen.seconds))
                                     for number, sample in enumerate(joules, start=1)))

    def _try(self, ask: Callable[[PowerShield], Result]) -> Result:
        if self.shield is None:
            raise Lost("the PowerShield is closed")
        try:
            return ask(self.shield)
        except Trouble as trouble:
            raise Lost(str(trouble)) from None
