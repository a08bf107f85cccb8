"""The pictures of the manual, which show the wall on each kind of screen.

    python -m dumpulse_fleet.tests.pictures     # or: make figures ONLY=fleet-pictures

takes them anew."""

from __future__ import annotations

import base64
import contextlib
import io
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.wall import IN_FULL, LIVE, STALE, Browser, driver, leave, running
from tools.programs import as_program

if TYPE_CHECKING:  # `make test` has no pillow
    from PIL import Image

FOLDER = Path(__file__).parents[1] / "pictures"
SITES = {"harbour": 14, "hill": 9, "mill": 12, "north field": 18, "south field": 11}
TROUBLE = {3: (State.DEAD, 2, 754), 17: (State.LATE, 6, 42), 25: (State.UNREACHABLE, -1, 5000),
           31: (State.OUT_OF_RANGE, 3, 9000), 36: (State.DEAD, 1, 70)}  # variable, s ago
COLOURS = 64  # of a file


class Picture(NamedTuple):
    width: int
    height: int
    scale: float
    dark: bool = True
    query: str = ""
    until: str = LIVE


PICTURES = {
    "wall": Picture(1920, 1080, 0.5),
    "phone": Picture(390, 844, 0.7, False),
    "agent": Picture(1920, 1080, 0.5, False, "?agent=harbour-03&whole=yes", IN_FULL),
    "lost": Picture(1280, 720, 0.6, until=STALE),
}


def fleet() -> fakes.FakeBackend:
    cars = fakes.profile()
    agents = [Agent(f"{site.replace(' ', '-')}-{number:02}", f"10.0.{row}.{number + 1}:9060", cars,
                    site) for row, (site, count) in enumerate(SITES.items())
              for number in range(count)]
    service = fakes.FakeBackend(fakes.filled(agents))
    service.fixed, now = [], time.time()
    for row, (state, variable, ago) in TROUBLE.items():
        service.change(row, state, variable)
        service.table.agent_since[row] = service.table.since[row, variable] = now - ago
    service.table.heard_at[:] = now + 60  # nobody answers meanwhile
    return service


def taken(browser: Browser, name: str, service: fakes.FakeBackend) -> Image.Image:
    """The wall as it is."""
    from PIL import Image
    each = PICTURES[name]
    browser.screen(each.width, each.height, each.dark, each.width < 640)
    with contextlib.ExitStack() as server:
        server.enter_context(running(browser, service)).open(each.query)
        browser.until(LIVE)
        if each.until == STALE:
            server.close()
        browser.until(each.until)
        time.sleep(1)  # nothing is marked as fresh
        shot: str = browser.cdp("Page.captureScreenshot")["data"]
    leave(browser)
    size = int(each.width * each.scale), int(each.height * each.scale)
    return Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB").resize(
        size, Image.Resampling.LANCZOS)


def main() -> None:
    from PIL import Image
    with driver() as browser:
        for name in PICTURES:
            path = FOLDER / f"{name}.png"
            taken(browser, name, fleet()).quantize(
                COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
                    path, optimize=True)
            print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    as_program(main)
