"""What all tests of the fleet share."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from dumpulse_fleet.tests.wall import Browser, driver

# The same examples each time: a run that tests a change must not fail for another reason.
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("default", deadline=None, derandomize=True, database=None,
                          print_blob=True)
settings.register_profile("explore", deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

ENOUGH = 50_000_000  # bytes; two tests at a time use 8 MB


def pytest_configure(config: pytest.Config) -> None:
    # A disk that others keep busy may need seconds for a commit; memory does not. kill -9 cannot
    # tell them apart. A container may have little of it.
    memory = "/dev/shm"
    if os.access(memory, os.W_OK):
        about = os.statvfs(memory)
        if not about.f_flag & os.ST_NOEXEC and about.f_bavail * about.f_frsize >= ENOUGH:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)


# These mostly wait, so they begin first: the workers are busy with the others meanwhile.
WAITING = ("test_collector", "test_web", "test_service", "test_rounds")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in WAITING)


@pytest.fixture(name="browser", scope="module")
def make_browser() -> Iterator[Browser]:
    with driver() as one:
        one.screen(1280, 800)
        yield one
