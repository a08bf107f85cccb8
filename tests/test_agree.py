"""Do device, server, client and model judge alike?   SPDX-License-Identifier: MIT"""

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import client
from spec.watch import ALIVE, STATES
from tests import agree
from tests.support.programs import EXTRAS, ROOT

AT_THE_LIMITS = (
    (1000, "[0X1f]\nVALUE = 0x000000ff..000000255\n[0x0000003F]\nvalue = 0..0xFf\n[000000000]\n"),
    (1000, f"[3]\nname = {'é' * 24}\n[4]\nname = {chr(0x10400) * 24}\n[5]\nname = {'n' * 24}\n"),
    (1000, "[3]\nvalue = 1..9\nvalue-warn = 1..9\n[4]\nvalue = 0..0\n[5]\nvalue = 255..255\n"),
    (1000, "[3]\nEVERY = 100000 h\ncrit = 65470\nwarn = 65470\n[4]\nwarn = 2ms\n"),
    (3600000, "[dumpulse]\ntick = 1h\nWaRN = 1h\ncrit = 65470h\n[3]\nexpect = yes\n"),
    (1, "[dumpulse]\ntick = 1ms\n" + "".join(
        f"[{number}]\nwarn = {time}\n" for number, time in enumerate((
            "2.5ms", "3.5ms", "2.400000ms", "2.500001ms", "2.6ms", "1.4999 ms", "0.000501m",
            "0.000508 min", "000000001ms", "1.999999ms", "1.0005", "1.0015 s", "0.001h")))),
)


def test_numbers_times_and_names_at_their_limits(tmp_path: Path) -> None:
    """client.py understands the same."""
    compiled, path = agree.Compiled(), tmp_path / "names.ini"
    for tick, names in AT_THE_LIMITS:
        path.write_text(names)
        assert compiled.read(path, tick) == ""
        settings = client.make_settings(argparse.Namespace(names=str(path)))
        agree.compare_meaning(compiled, settings, names)
    assert [variable.warn_ms for variable in settings.variables[:6]] == [2, 4, 2, 3, 3, 1]


def another(folder: Path, file: str, before: str, after: str) -> str:
    """Changes a line of the code that tests/agree.py compares. Returns the path of it, compiled, or
    of the new client.py."""
    for source in (*ROOT.glob("*.[ch]"), *EXTRAS.iterdir(), *(ROOT / "server").glob("*.[ch]"),
                   ROOT / "client.py", ROOT / "tests" / "agree.c"):
        to = folder / source.relative_to(ROOT)
        to.parent.mkdir(exist_ok=True)
        shutil.copy(source, to)
    text = (folder / file).read_text()
    assert text.count(before) == 1
    (folder / file).write_text(text.replace(before, after))
    if file == "client.py":
        return str(folder / file)
    sources = ["tests/agree.c", *(f"server/{part}.c" for part in
                                  ("counters", "limits", "log", "names", "options", "table",
                                   "watch")),
               "dumpulse.c", "extras/dumpulse_watch.c"]
    subprocess.run(["gcc", "-std=c99", "-O1", "-w", "-I.", "-Iextras", "-shared", "-fPIC",
                    "-Wl,--wrap=log_say", *sources, "-o", "agree.so"], cwd=folder, check=True)
    return str(folder / "agree.so")


@pytest.mark.parametrize("who, file, before, after", [
    ("nothing", "extras/dumpulse_watch.c", "is = DUMPULSE_DEAD;", "is = DUMPULSE_DEAD;"),
    ("device", "extras/dumpulse_watch.c", "age > DUMPULSE_READ16_(line->dead)",
     "age >= DUMPULSE_READ16_(line->dead)"),
    ("server", "server/watch.c", "age <= now - looked && !was_set ? age : 0", "0"),
    ("server", "server/watch.c", "return timing_ns() / 1000000", "return timing_unix_ms()"),
    ("server", "server/watch.c", "now - looked > within;", "now - looked > WRAPS;"),
    ("server", "server/names.c", "crit / options.tick", "(crit + options.tick - 1) / options.tick"),
    ("client.py", "client.py", "DEAD if age_ms > variable.crit_ms",
     "DEAD if age_ms >= variable.crit_ms"),
])
def test_agree_finds_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, file: str,
                             before: str, after: str) -> None:
    """And its replay finds it again."""
    path = another(tmp_path, file, before, after)
    if file == "client.py":
        spec = importlib.util.spec_from_file_location("another_client", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "another_client", module)
        spec.loader.exec_module(module)
        monkeypatch.setattr(agree, "client", module)
    else:
        monkeypatch.setattr(agree, "built", lambda _: path)
    if before == after:
        agree.compare(seed=1, count=320)
        return
    with pytest.raises(agree.Difference, match=f": {who}") as found:
        agree.compare(seed=1, count=6_400)
    (seed,) = re.findall(r"^--seed (\d+) --count 64 replays this: ", str(found.value))
    with pytest.raises(agree.Difference, match=f": {who}"):
        agree.compare(seed=int(seed), count=64)


def test_server_device_and_client_agree() -> None:
    entered, accepted = agree.compare(seed=1, count=4_000)
    assert all(entered[state] > 50 for state in range(1, len(STATES)))
    assert accepted[True] > 50 and accepted[False] > 50


def test_a_clock_that_is_set_between_a_heartbeat_and_the_look(tmp_path: Path) -> None:
    """The server was stopped for a minute, and has just taken the heartbeat."""
    compiled, path, now = agree.Compiled(), tmp_path / "names.ini", 1_700_000_000_000
    path.write_text("[3]\nwarn = 5s\ncrit = 15s\n")
    assert compiled.read(path, 1000) == ""
    compiled.begin(now, 0)
    compiled.look(now, 0)
    compiled.record(now + 60_000, 60_000, 3, 1, 1)
    compiled.look(now + 90_000, 60_000)
    assert compiled.code.agree_state(3) == ALIVE
