"""Tests with the mark `long` need what packages/setup installs. `make packages` runs all tests,
and `make test` those without the mark.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: needs packages/setup, and takes its time")
