"""The console of lab/joules/board.c: what the board says of itself, and of each measurement."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lab.joules.console import Line, Trouble

AWAKE = 5.0  # seconds from a reset to its first question
MEASURING = 45.0  # seconds of a measurement at most: 10 s and an operation, and what comes before
TESTING = 60.0
ASKS = "[INPUT]"
# What the console is asked for: a letter and the operations whose cycles it then says.
KEM = {"a": ("KeyGen", "Encaps", "Decaps", "Total"), "k": ("KeyGen",), "e": ("Encaps",),
       "d": ("Decaps",)}
SIGNATURE = {"a": ("KeyGen", "Sign", "Verify", "Total"), "k": ("KeyGen",), "s": ("Sign",),
             "v": ("Verify",)}
IDLE, TEST = "z", "t"

NAMED = re.compile(r"(SystemCoreClock|CLOCK_SOURCE|COUNTED|CRYPTO_[A-Z]+) +(\S.*)")
END = re.compile(r"\[END\] (\d{1,9}) milliseconds, n=(\d{1,9}) \((\d{1,9}) errors\)")
RESULT = re.compile(r"\*\*\* ([A-Z][A-Za-z]+) +(\d{1,12}) (\S+)")
# A name that is that of a file, too.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")


class Nonsense(Trouble):
    """What the board said has no sense."""


@dataclass(frozen=True)
class Board:
    """What it says of itself."""

    hertz: int
    name: str  # of the scheme
    secret: int  # bytes
    public: int
    sent: int  # of a ciphertext; 0: it is a signature scheme
    made: int  # of a signature or a shared secret
    counted: str = "cycles"

    @property
    def letters(self) -> dict[str, tuple[str, ...]]:
        return KEM if self.sent else SIGNATURE

    @property
    def sizes(self) -> str:
        rest = f"ct={self.sent}, ss={self.made}" if self.sent else f"sl={self.made}"
        return f"sk={self.secret}, pk={self.public}, {rest}"


@dataclass(frozen=True)
class Measured:
    milliseconds: int
    runs: int
    counts: dict[str, int]  # cycles by operation, or instructions: the mean


def board(lines: Iterable[str]) -> Board:
    """From what it says after a reset."""
    said = {found[1]: found[2] for line in lines if (found := NAMED.match(line))}

    def number(name: str, least: int = 1) -> int:
        text = said.get(name, "")
        if not re.fullmatch(r"\d{1,10}", text) or int(text) < least:
            raise Nonsense(f'the board says "{text[:40]}" for {name}' if text else
                           f"the board says no {name}")
        return int(text)

    name = said.get("CRYPTO_ALGNAME", "")
    if not NAME.fullmatch(name):
        raise Nonsense(f'the board says "{name[:40]}" for CRYPTO_ALGNAME' if name else
                       "the board says no CRYPTO_ALGNAME")
    sent = number("CRYPTO_CIPHERTEXTBYTES") if "CRYPTO_CIPHERTEXTBYTES" in said else 0
    return Board(number("SystemCoreClock", 1_000_000), name, number("CRYPTO_SECRETKEYBYTES"),
                 number("CRYPTO_PUBLICKEYBYTES"), sent, number("CRYPTO_BYTES"),
                 said.get("COUNTED", "cycles"))


def measured(lines: Iterable[str], letter: str, about: Board) -> Measured:
    """From what it says of one measurement."""
    found_end: list[re.Match[str]] = []
    counts: dict[str, int] = {}
    for line in lines:
        if found := END.fullmatch(line):
            found_end.append(found)
        elif found := RESULT.fullmatch(line):
            if found[3] != about.name:
                raise Nonsense(f"the board speaks of {found[3][:40]}, and is {about.name}")
            if found[1] in counts:
                raise Nonsense(f"the board says {found[1]} twice")
            counts[found[1]] = int(found[2])
    if len(found_end) != 1:
        raise Nonsense(f"the board says {len(found_end)} ends of one measurement")
    milliseconds, runs, errors = map(int, found_end[0].groups())
    if errors:
        raise Nonsense(f"the board made {errors} errors")
    wanted = about.letters.get(letter, ())
    if set(counts) != set(wanted):
        raise Nonsense(f"the board gives {', '.join(sorted(counts)) or 'no counts'}, not "
                       f"{', '.join(wanted) or 'none'}")
    if wanted and (not runs or min(counts.values()) == 0):
        raise Nonsense("the board has measured nothing")
    return Measured(milliseconds, runs, counts)


class Target:
    """The board on its line."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def awake(self) -> Board:
        """What it says until its first question, after a reset."""
        return board(self._answer(AWAKE))

    def begin(self, letter: str) -> None:
        self.line.forget()
        self.line.send(letter)

    def end(self, letter: str, about: Board) -> Measured:
        return measured(self._answer(TESTING if letter == TEST else MEASURING), letter, about)

    def _answer(self, seconds: float) -> list[str]:
        lines = self.line.until(lambda text: text.startswith((ASKS, "[FAULT]")), seconds,
                                f'"{ASKS}"')
        if lines[-1].startswith("[FAULT]"):
            raise Trouble("the board's program has failed; a power cycle starts it again")
        return lines
