"""Do device, server, client and model judge alike?   SPDX-License-Identifier: MIT"""

import argparse
from pathlib import Path

import client
from spec.watch import ALIVE, STATES
from tests import agree

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


def test_a_heartbeat_that_the_table_forgets_before_the_look(tmp_path: Path) -> None:
    """The clock is set forward by 65,536 ticks meanwhile, and another heartbeat comes."""
    compiled, path, now = agree.Compiled(), tmp_path / "names.ini", 1_700_000_000_000
    path.write_text("[3]\n[4]\n")
    assert compiled.read(path, 1000) == ""
    compiled.begin(now, 0)
    compiled.look(now, 0)
    compiled.record(now + 500, 500, 3, 1, 1)
    compiled.record(now + 600 + 65_536_000, 600, 4, 1, 1)
    compiled.look(now + 1000 + 65_536_000, 1000)
    assert [compiled.code.agree_state(variable) for variable in (3, 4)] == [ALIVE, ALIVE]
