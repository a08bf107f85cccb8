"""A plugin of pytest for tests/mutants.py. It runs first the tests that are likely to fail soon.

DUMPULSE_ORDER names a file in JSON. It has the `seconds` of each test for the unchanged program,
and the tests that come `first`. The other tests follow, the fastest first. If the file does not
exist, it is written, with the seconds.

A test that fails runs once more. If a test takes ten times as long as for the unchanged program,
and `floor` seconds more, everything ends with status 99. The name of the first test that fails goes
into the file that DUMPULSE_FAILED names."""

import json
import os
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation import LATE_STATUS, SLACK
from tools.tiers import pytest_runtest_setup as pytest_runtest_setup

_order = Path(os.environ["DUMPULSE_ORDER"])
_learning = not _order.exists()
_known: dict[str, Any] = json.loads(_order.read_text()) if not _learning else \
    {"seconds": {}, "first": [], "floor": 300.0}
_taken: dict[str, float] = defaultdict(float)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    first = {test: number for number, test in enumerate(_known["first"])}
    items.sort(key=lambda item: (first.get(item.nodeid, len(first)),
                                 _known["seconds"].get(item.nodeid, 0.0)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """A test counts as failed if it fails twice, because it may fail once on a busy machine."""
    limit = _known["floor"] + SLACK * _known["seconds"].get(item.nodeid, 0.0)
    watchdog = threading.Timer(2 * limit, os._exit, [LATE_STATUS])
    watchdog.daemon = True
    watchdog.start()
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports) and isinstance(item, pytest.Function):
        item._initrequest()  # The fixtures are made again.
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    watchdog.cancel()
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _taken[report.nodeid] += report.duration
    if report.failed and "DUMPULSE_FAILED" in os.environ:
        Path(os.environ["DUMPULSE_FAILED"]).write_text(report.nodeid)


def pytest_sessionfinish(exitstatus: int) -> None:
    if _learning and exitstatus == 0:
        _order.write_text(json.dumps({"seconds": _taken}))
