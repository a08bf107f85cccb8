"""A plugin of pytest, for tests/mutants.py: the tests that may soon tell something come first.

DUMPULSE_ORDER names a file, in JSON: `seconds` of each test, without any change to the program,
and the tests that come `first` of all. The rest follows, the fastest first. What fails is run once
more. A test that takes ten times as long, and `floor` seconds more, ends everything with status 99.
If the file is not there yet, it is written, with the seconds. What fails first is written to the
file DUMPULSE_FAILED.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation import LATE_STATUS, SLACK

_order = Path(os.environ["DUMPULSE_ORDER"])
_learning = not _order.exists()
_known: dict[str, Any] = {"seconds": {}, "first": [],
                          "floor": 300.0} if _learning else json.loads(_order.read_text())
_taken: dict[str, float] = defaultdict(float)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    first = {test: number for number, test in enumerate(_known["first"])}
    items.sort(key=lambda item: (first.get(item.nodeid, len(first)),
                                 _known["seconds"].get(item.nodeid, 0.0)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """A test has failed when it has failed twice: on a busy machine it may once."""
    limit = _known["floor"] + SLACK * _known["seconds"].get(item.nodeid, 0.0)
    watchdog = threading.Timer(2 * limit, os._exit, [LATE_STATUS])
    watchdog.daemon = True
    watchdog.start()
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports) and isinstance(item, pytest.Function):
        item._initrequest()  # its fixtures are made again
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
