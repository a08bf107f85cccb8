"""Files of names: what the server accepts, client.py must accept with the same meaning."""

import argparse
import ctypes
import random
import subprocess
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

import client
from tools.programs import INCLUDES, ROOT

# Why the server refuses a file that client.py accepts.
STRICTER = ("is indented", "that is expected", "printable UTF-8", "but --tick is",
            "a section is [dumpulse]")


class Names(ctypes.Structure):
    """struct names_variable of server/names.h"""

    _fields_ = [("expected", ctypes.c_bool), ("warn", ctypes.c_uint64), ("crit", ctypes.c_uint64),
                ("low", ctypes.c_uint8), ("high", ctypes.c_uint8), ("boots", ctypes.c_uint8),
                ("name", ctypes.c_char * 97)]


# Reads a file of names. Returns "", or what is wrong with it.
READ_NAMES = """
#include "server/names.h"
#include "server/options.h"
const char *read_names(const char *path, uint64_t tick)
{
    options.wrong[0] = '\\0';
    options.tick = tick;
    (void)names_read(path);
    return options.wrong;
}
"""


class Compiled:
    """The server's code."""

    def __init__(self, folder: Path) -> None:
        sources = [f"server/{part}.c" for part in (
            "counters", "limits", "log", "names", "options", "timing")]
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", *INCLUDES, *sources, "-x", "c", "-",
                        "-o", folder / "names.so"], cwd=ROOT, check=True, input=READ_NAMES,
                       text=True)
        self.code = ctypes.CDLL(str(folder / "names.so"))
        self.code.read_names.restype = ctypes.c_char_p
        self.names = (Names * 64).in_dll(self.code, "names_variables")

    def read(self, path: Path, tick: int) -> str:
        wrong: bytes = self.code.read_names(str(path).encode(), ctypes.c_uint64(tick))
        return wrong.decode()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return Compiled(tmp_path_factory.mktemp("names"))


TOKENS = ("[3]", "[03]", "[0x3]", "[64]", "[dumpulse]", "[DUMPULSE]", "[ 3 ]", "[3", "[3] x", "[]",
          "name", "Warn", "boots", "crit", "value", "value-warn", "expect",
          "authenticated", "tick", "now-from", "=", " = ", "\t", "  ", "\r", "#", ";", "engine",
          "a é", "5s",
          "500ms", "0.0015", "1.5 min", "1 h", "0", "65470s", "65471s", "3s", "yes", "no", "0..80",
          "10 .. 0x20", "80..0", "..", "255..256", "7", "0x3F", "0x", "1e3", "-1", "\0", "\ufeff",
          "100000h", "100001h", "x" * 25, "\x1b", "\u2028")
GOOD_LINES = ("[dumpulse]", "[3]", "[4]", "[0x5]", "warn = 2s", "crit = 9", "warn=1.5s",
              "Crit = 1min", "name = engine", "value = 1..9", "value-warn = 2..8",
              "expect = no", "authenticated = no", "boots = 3", "boots = 0x7", "tick = 1s",
              "now-from = 0", "# text", "",
              "  name = x")


def some_damaged_file(chance: random.Random) -> str:
    lines = ["[3]"] if chance.randrange(2) else []
    for _ in range(chance.randrange(8)):
        lines.append(chance.choice(GOOD_LINES))
        if chance.randrange(8) == 0:
            lines[-1] = "".join(chance.choices(TOKENS, k=chance.randrange(1, 5)))
        if chance.randrange(8) == 0:
            key = lines[-1].partition("=")[0]
            lines[-1] = f"{key}={chance.choice(TOKENS)}"
    return "\n".join(lines)


def compare_files(compiled: Compiled, path: Path, seed: int) -> bool:
    """Returns whether the server accepts this file."""
    text = some_damaged_file(random.Random(seed))
    path.write_bytes(text.encode())
    wrong = compiled.read(path, 1000)
    try:
        settings = client.make_settings(argparse.Namespace(names=str(path)))
    except client.BadUsage as error:
        assert str(error).isprintable()  # So it is one line.
        # Beyond ASCII, the server allows more characters in names.
        if not wrong and ("name must be" not in str(error) or text.isascii()):
            raise AssertionError(f"client.py alone refuses this file: {error}\n{text!r}") from error
        return False
    if wrong and not any(reason in wrong for reason in STRICTER):
        raise AssertionError(f"the server alone refuses this file: {wrong}\n{text!r}")
    if not wrong:
        compare_meaning(compiled, settings, text)
    return not wrong


def compare_meaning(compiled: Compiled, settings: client.Settings, text: str) -> None:
    """The server has read the same file as client.py. Did both understand the same?"""
    for variable, names in zip(settings.variables, compiled.names):
        expected = (variable.name, variable.low, variable.high) if variable.listed else ("", 0, 0)
        times = (variable.warn_ms // settings.tick_ms, variable.crit_ms // settings.tick_ms)
        if names.expected != variable.expected or \
                (names.name.decode(), names.low, names.high) != expected or \
                names.boots != (64 if variable.boots is None else variable.boots) or \
                (variable.listed and (names.warn, names.crit) != times):
            raise AssertionError(f"variable {variable.number} means something else: {text!r}")


AT_THE_LIMITS = (
    (1000, "[3]\nboots = 0x3f\n[4]\nboots = 0\n[0]\nexpect = no\n"),
    (1000, "[0X1f]\nVALUE = 0x000000ff..000000255\n[0x0000003F]\nvalue = 0..0xFf\n[000000000]\n"),
    (1000, f"[3]\nname = {'é' * 24}\n[4]\nname = {chr(0x10400) * 24}\n[5]\nname = {'n' * 24}\n"),
    (1000, "[3]\nvalue = 1..9\nvalue-warn = 1..9\n[4]\nvalue = 0..0\n[5]\nvalue = 255..255\n"),
    (1000, "[3]\nCRIT = 65470\nwarn = 65470\n[4]\nwarn = 2ms\n"),
    (3600000, "[dumpulse]\ntick = 1h\nWaRN = 1h\ncrit = 65470h\n[3]\nexpect = yes\n"),
    (1, "[dumpulse]\ntick = 1ms\n" + "".join(
        f"[{number}]\nwarn = {time}\n" for number, time in enumerate((
            "2.5ms", "3.5ms", "2.400000ms", "2.500001ms", "2.6ms", "1.4999 ms", "0.000501m",
            "0.000508 min", "000000001ms", "1.999999ms", "1.0005", "1.0015 s", "0.001h")))),
)


def test_numbers_times_and_names_at_their_limits(compiled: Compiled, tmp_path: Path) -> None:
    """client.py understands the same."""
    path = tmp_path / "names.ini"
    for tick, names in AT_THE_LIMITS:
        path.write_text(names)
        assert compiled.read(path, tick) == ""
        settings = client.make_settings(argparse.Namespace(names=str(path)))
        compare_meaning(compiled, settings, names)
    assert [variable.warn_ms for variable in settings.variables[:6]] == [2, 4, 2, 3, 3, 1]


def test_damaged_files(compiled: Compiled, tmp_path: Path) -> None:
    """Each seed is a file."""
    path = tmp_path / "names.ini"
    accepted = Counter(compare_files(compiled, path, seed) for seed in range(1000))
    assert accepted[True] > 50 and accepted[False] > 50


def test_names_of_invisible_characters_are_rejected_by_both(compiled: Compiled,
                                                            tmp_path: Path) -> None:
    """Spaces, fillers, and characters of formats but for those of Arabic that show something. What
    client.py accepts in names, the server accepts."""
    shown = [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD]
    fillers = [0x34F, 0x115F, 0x1160, 0x17B4, 0x180B, 0x2800, 0x3164, 0xFE0F, 0xFFA0, 0xE0100]
    invisible = {chr(code) for code in (*fillers, *range(0xA0, 0x110000)) if code not in shown and (
        code in fillers or unicodedata.category(chr(code)) in ("Cf", "Zs", "Zl", "Zp"))}
    assert {"\u200b", "\u200f", "\ufeff", "\u061c", "\u2028"} < invisible and len(invisible) > 150
    path = tmp_path / "names"
    visible = random.Random(1).sample([chr(code) for code in range(0xA1, 0x20000)
                                       if chr(code).isalnum() and chr(code) not in invisible], 300)
    for character in (*invisible, *visible):
        path.write_text(f"[3]\nname = pu{character}mp\n", encoding="utf8")
        wrong = compiled.read(path, 1000)
        assert bool(wrong) == (character in invisible), f"U+{ord(character):04X}: {wrong}"
        if wrong:
            with pytest.raises(client.BadUsage):
                client.make_settings(argparse.Namespace(names=str(path)))
