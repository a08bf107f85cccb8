"""Tests everything over CAN: in a virtual machine whose kernel has CAN, and here, if the test needs
no CAN."""

import re
import subprocess

import pytest

import client
from tools import vm
from tools.programs import PATIENCE, ROOT, built

# Python is slow in an emulated machine, so pytest runs without plugins and rewritten assertions.
GUEST = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 build/venv/bin/python -m pytest -q -p no:cacheprovider "
         "--assert=plain --color=no --tb=short --durations=8 server/tests/vm_can.py")


@pytest.mark.slow
def test_in_a_machine_with_can() -> None:
    for program in ("canserver", "udpserver"):
        built(f"build/{program}")
    status, output = vm.run_in_vm(GUEST)
    print(output)
    assert status == 0, output
    passed = re.findall(r"^(\d+) passed in ", output, re.M)  # no test may be skipped
    assert passed and int(passed[0]) >= 14, output


def test_help_fits_the_terminal_and_the_manual_has_every_option() -> None:
    help_text = subprocess.run([built("build/canserver"), "--help"], check=True,
                               capture_output=True, text=True).stdout
    assert max(map(len, help_text.splitlines())) < 80 and len(help_text.splitlines()) < 32
    manual = (ROOT / "server" / "canserver.8").read_text().replace("\\-", "-")
    options = re.findall(r"^  (--[a-z-]+)", help_text, re.M)
    assert len(options) == 20 and all(option in manual for option in options)


def canserver(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Runs canserver. `before` is shell code that may change its descriptors."""
    return subprocess.run(["bash", "-c", f'{before} "$@"', "bash", built("build/canserver"),
                           *arguments], capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("arguments, why", [
    ([], "which CAN interface? Like: canserver can0"),
    (["can0", "can1"], "one CAN interface is enough: 'can1' is too many"),
    (["x" * 16], "a CAN interface has a name like can0, not 'xxxxxxxxxxxxxxxx'"),
    ([""], "a CAN interface has a name like can0, not ''"),
    (["--can-id"], "--can-id needs a value: ID"),
    *[(["--can-id", wrong, "can0"], f"not '{wrong}'") for wrong in (
        "681", "880", "20000000", "0x680", "0680", "68g", " 680", "+680", "", "000000680",
        "680:", ":680", "680:701", "680:700:780")],
    *[(["--rate", wrong, "can0"], f"--rate must be a number from 1 to 1000, not '{wrong}'")
      for wrong in ("0", "1001", "-1", "1.5", "ten", "")],
    (["--bind", "::", "can0"], "there is no option '--bind': --help lists them"),
    (["can0", "-x"], "there is no option '-x': --help lists them")])
def test_wrong_arguments(arguments: list[str], why: str) -> None:
    done = canserver(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(f"canserver: .*{re.escape(why)}.*\n", done.stderr), done.stderr


def test_help_and_version() -> None:
    """Neither needs an interface. Both fail if they cannot write their text."""
    assert canserver("--version").stdout == subprocess.run(
        [built("build/udpserver"), "--version"], capture_output=True,
        text=True).stdout.replace("udp", "can")
    for option, begins in (("--help", "usage: canserver "), ("--version", "canserver 1.")):
        done = canserver(option)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(begins)
        done = canserver(option, before=">/dev/full")
        assert (done.returncode, done.stderr) == (
            1, "canserver: cannot write to the standard output\n")


def test_without_can_it_says_so() -> None:
    done = canserver("nocan0")
    assert done.returncode == 1
    assert re.fullmatch(
        "canserver: cannot use nocan0: (this kernel has no CAN; modprobe can-raw may load "
                        "it|there is no such CAN interface; ip link lists them)\n", done.stderr)


@pytest.mark.parametrize("address, why", [
    ("can:", "'can:' is not a CAN interface: write it like can:can0"),
    ("can:a/b", "'can:a/b' is not a CAN interface"), ("can:" + "x" * 16, "is not a CAN interface"),
    ("can:" + "é" * 8, "is not a CAN interface"),  # 16 bytes
    ("can:" + "\udcff" * 16, "is not a CAN interface"),  # bytes that are no UTF-8 arrive like this
    ("can:can0:", "'' is not a CAN identifier: it has 3 hexadecimal digits, or 8"),
    ("can:can0:0x680", "'0x680' is not a CAN identifier"),
    ("can:can0:1680", "is not a CAN identifier"),
    ("can:can0:681", "it must be a multiple of 80 hexadecimal, like 680"),
    ("can:can0:880", "'880' cannot be the first of 128 identifiers"),
    ("can:can0:800", "'800' cannot be the first of 128 identifiers"),
    ("can:can0:20000000", "cannot be the first"),
    ("can:can0:680:1", "cannot be the identifier of this reader: it must be 6E2 to 6FF")])
def test_addresses_that_cannot_be(address: str, why: str) -> None:
    with pytest.raises(client.BadUsage, match=re.escape(why)):
        client.Agent(address)


@pytest.mark.parametrize("address, interface, base", [
    ("can:can0", "can0", 0x680), ("can:" + "x" * 15, "x" * 15, 0x680), ("can:can0:000", "can0", 0),
    ("can:can0:780", "can0", 0x780), ("can:can0:00000680", "can0", 0x80000680),
    ("can:can0:1FFFFF80", "can0", 0x9FFFFF80), ("can:can0:1fffff80", "can0", 0x9FFFFF80)])
def test_addresses_that_can_be(address: str, interface: str, base: int) -> None:
    assert client.parse_can(address) == (interface, base, 127)
