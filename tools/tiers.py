"""A plugin for pytest: which tests run in which tier, and how long they may take.

`make test` runs tests without a mark. A test with the mark `slow` runs in `make full`, and one
with the mark `long` in a portion of `make full`, and in `make release`. --portion K/N runs each
N-th of the tests that are selected, from the K-th on. A test without a mark fails if it takes more
than LIMIT seconds of processor time, with all programs that it has started and waited for.
TIMES=FILE in the environment appends the time of each test to that file. The fixture `chance` is
random numbers that DUMPULSE_SEED repeats."""

import itertools
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

from tools.programs import portion

T = TypeVar("T")

LIMIT = 3.0  # seconds of processor time: of one that takes 2 when nothing else runs, on a busy day
LOOP = 0.06  # seconds that slowness() counts for on the machine for which LIMIT is
SEED = int(os.environ.get("DUMPULSE_SEED") or random.randrange(10**6))
HOMES, NUMBERS = tempfile.TemporaryDirectory(), itertools.count()


def tiered(cases: Iterable[T], quick: Callable[[T], bool],
           slow: Callable[[T], bool] = lambda _: True) -> list[ParameterSet]:
    """The cases of a test, each a value or a tuple. Those that are neither are `long`."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)),
                         marks=[] if quick(case) else pytest.mark.slow if slow(case)
                         else pytest.mark.long) for case in cases]


@pytest.fixture
def chance() -> random.Random:
    print(f"DUMPULSE_SEED={SEED} replays it")  # pytest shows it when a test fails
    return random.Random(SEED)


def processor_time() -> float:
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    return used


def slowness() -> float:
    """How many times longer this machine takes at this moment: a busy one, too, takes longer."""
    before, x = time.process_time(), 0
    for number in range(2_000_000):
        x = x * 31 + number & 0xFFFF
    return max(1.0, (time.process_time() - before) / LOOP)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: runs in make full")
    config.addinivalue_line("markers", "long: runs in a portion of make full, and in make release")
    config.addinivalue_line("markers", "valgrind: also runs with the server in valgrind")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--portion", default="1/1", metavar="K/N")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = items[portion(config.getoption("--portion"))]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What the client remembers of an agent is for no other test."""
    os.environ["XDG_STATE_HOME"] = f"{HOMES.name}/{next(NUMBERS)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    before = processor_time()
    yield
    used = processor_time() - before
    if file := os.environ.get("TIMES"):
        with open(file, "a", encoding="ascii") as times:
            times.write(f"{used:.2f}\t{item.nodeid.encode('ascii', 'replace').decode()}\n")
    # Only the programs of this project are quick. Under valgrind, for example, nothing is.
    elsewhere = "DUMPULSE_SERVER" in os.environ or "HYPOTHESIS_PROFILE" in os.environ
    marks = {mark.name for mark in item.iter_markers()}
    if used > LIMIT and not elsewhere and not marks & {"slow", "long"} \
            and used > LIMIT * slowness():
        pytest.fail(f"this took {used:.1f} s of processor time: a test that takes more than "
                    f"{LIMIT:.0f} s needs the mark `slow`", pytrace=False)
