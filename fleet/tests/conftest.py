"""`make test` runs the tests without the mark `long`.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # A disk that others keep busy may need seconds for a commit; memory does not. kill -9 cannot
    # tell them apart.
    memory = "/dev/shm"
    if os.access(memory, os.W_OK) and not os.statvfs(memory).f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)
    config.addinivalue_line("markers", "long: takes more than half a minute")
