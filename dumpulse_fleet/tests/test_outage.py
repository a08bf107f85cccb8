"""The whole service while much goes wrong at once: a site that is gone, kill -9, a full disk."""

import collections
import contextlib
import os
import signal
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests.collecting import until
from dumpulse_fleet.tests.serving import Serving, Taking, answering, write

# A command that begins with this has a small disk of its own in the folder that comes next.
MOUNTED = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=3m none "$0" && exec "$@"']


@contextlib.contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address, and what came."""
    came: list[dict[str, Any]] = []

    with answering(type("Handler", (Taking,), {"came": came})) as port:
        yield f"http://127.0.0.1:{port}/", came


def addresses(fake: FakeFleet, first: int, last: int) -> str:
    return f"{fake.address(first).partition(':')[0]}-{fake.address(last)}"


def counts(serving: Serving) -> dict[str, int]:
    """How many agents are in which state, if there are any."""
    summary = serving.ask("/api/v1/summary")["agents"]
    return {state: count for state, count in summary.items() if count}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_site_that_is_gone_at_once_is_one_notification_and_so_is_its_end(
        tmp_path: Path, count: int) -> None:
    """Also if the fleet is killed between both. Each event is there once."""
    others = 20
    with FakeFleet(count + others) as fake, webhook() as (url, came):
        (tmp_path / "fleet.toml").write_text(f"""
[collector]
state = 'state'
grace = '0'
[defaults]
period = '2s'
misses = 2
[[agents]]
addresses = ['{addresses(fake, 0, count - 1)}']
site = 'berlin'
[[agents]]
addresses = ['{addresses(fake, count, count + others - 1)}']
site = 'bern'
[alerts]
wait = '10s'
blind = 100
[[notify]]
webhook = '{url}'
""")
        with Serving(tmp_path) as serving:
            until(lambda: counts(serving) == {"alive": count + others}, lambda: counts(serving))
            fake.tell("die", 0, count - 1)
            until(lambda: came, lambda: counts(serving))
            until(lambda: counts(serving) == {"alive": others, "unreachable": count},
                  lambda: counts(serving))
            serving.end(signal.SIGKILL)
        fake.tell("die", 0, 0)
        with Serving(tmp_path) as serving:
            until(lambda: counts(serving) == {"alive": others, "unreachable": count},
                  lambda: counts(serving))
            fake.tell("live", 0, count - 1)
            until(lambda: came[-1]["kind"] == "resolved", lambda: counts(serving))
            assert counts(serving) == {"alive": count + others}
            assert serving.end() == 0
    # A message that was sent just before the end may come twice, with the same id.
    messages = {each["id"]: each for each in came}.values()
    assert [(each["kind"], each["name"], each["counts"]) for each in messages] == [
        ("problem", "berlin", {"new": count, "resolved": 0, "removed": 0,
                               "open": count, "muted": 0}),
        ("resolved", "berlin", {"new": 0, "resolved": count, "removed": 0,
                                "open": 0, "muted": 0})]
    with contextlib.closing(sqlite3.connect(tmp_path / "state" / "events.sqlite")) as database:
        told = collections.Counter(database.execute(
            "SELECT was, now FROM event WHERE what = 'state' AND variable < 0"))
    assert told == {("pending", "alive"): count + others, ("alive", "unreachable"): count,
                    ("unreachable", "alive"): count}


@pytest.mark.slow
def test_a_full_disk_stops_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """The folder for the state is a small file system of its own, which somebody fills."""
    state = tmp_path / "state"
    state.mkdir()
    with FakeFleet(20) as fake, webhook() as (url, came):
        write(tmp_path, fake, 20, f"[alerts]\nwait = '3s'\nblind = 100\n[[notify]]\n"
              f"webhook = '{url}'\n")
        with Serving(tmp_path, prefix=[*MOUNTED, str(state)]) as serving:
            until(lambda: counts(serving) == {"alive": 20}, lambda: counts(serving))
            full = Path(f"/proc/{serving.process.pid}/root{state}/full")

            def fill() -> None:
                with contextlib.suppress(OSError), full.open("ab", buffering=0) as file:
                    while file.write(bytes(4096)):
                        pass

            fill()
            fake.tell("die", 5, 9)
            until(lambda: came, lambda: serving.said)
            until(lambda: serving.ask("/api/v1/summary")["trouble"], lambda: serving.said)
            assert came[0]["counts"]["new"] == 5 and not list(tmp_path.glob("state/*"))
            full.unlink()
            until(lambda: not serving.ask("/api/v1/summary")["trouble"], lambda: serving.said)
            gone = {each["agent"] for each in serving.ask("/api/v1/events?limit=1000")["events"]
                    if each["now"] == "unreachable"}
            assert gone == {f"a{number}" for number in range(5, 10)}
            fill()
            fake.tell("live", 5, 9)
            until(lambda: len(came) > 1, lambda: serving.said)
            assert came[1]["counts"]["resolved"] == 5
            assert serving.end() == 0


HANGING = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int file)
{
    while (access(getenv("HANGS"), F_OK) == 0)
        usleep(10000);
    return syscall(SYS_fdatasync, file);
}
"""


@pytest.mark.slow
def test_a_disk_that_hangs_is_told_and_loses_nothing(tmp_path: Path) -> None:
    """What is written does not reach the disk while a file is there."""
    hangs, library = tmp_path / "hangs", tmp_path / "hanging.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-xc", "-", "-o", library],
                   input=HANGING, text=True, check=True)
    with FakeFleet(9) as fake, webhook() as (url, came):
        write(tmp_path, fake, 9, f"[alerts]\nwait = '3s'\nblind = 100\n[[notify]]\n"
              f"webhook = '{url}'\n")
        with Serving(tmp_path, LD_PRELOAD=str(library), HANGS=str(hangs)) as serving:
            until(lambda: counts(serving) == {"alive": 9}, lambda: counts(serving))
            ready = f"{serving.address}/-/ready"
            with urllib.request.urlopen(ready) as answer:
                assert answer.status == 200
            hangs.touch()
            fake.tell("die", 5, 7)
            until(lambda: came, lambda: serving.said)
            until(lambda: "events cannot be written: the disk has not answered for" in
                  serving.ask("/api/v1/summary")["trouble"], lambda: serving.said)
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(ready)
            assert counts(serving) == {"alive": 6, "unreachable": 3}
            hangs.unlink()
            until(lambda: not serving.ask("/api/v1/summary")["trouble"], lambda: serving.said)
            until(lambda: sorted(each["agent"] for each in serving.ask("/api/v1/events")["events"]
                                 if each["now"] == "unreachable") == ["a5", "a6", "a7"])
            assert serving.end() == 0
