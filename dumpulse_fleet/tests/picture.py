"""The picture of the wall for the manual.

    python -m dumpulse_fleet.tests.picture     # or: make figures ONLY=fleet-picture

takes it anew."""

from __future__ import annotations

import base64
import io
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.wall import LIVE, Browser, driver, leave, running
from tools.programs import as_program

if TYPE_CHECKING:  # `make test` has no pillow
    from PIL import Image

FILE = Path(__file__).parents[1] / "pictures" / "wall.png"
SITES = {"harbour": 14, "hill": 9, "mill": 12, "north field": 18, "south field": 11}
TROUBLE = {3: (State.DEAD, 2, 754), 17: (State.LATE, 6, 42), 36: (State.DEAD, 1, 70),
           41: (State.OUT_OF_RANGE, 3, 9000),
           **dict.fromkeys(range(23, 35), (State.UNREACHABLE, -1, 5000))}  # variable, s ago
COLOURS = 64  # Colours of the file.
WIDTH, HEIGHT = 1920, 1080  # Pixels of the screen; the file has half of them.


def fleet() -> fakes.FakeBackend:
    cars = fakes.profile()
    agents = [Agent(f"{site}-{f'{number:02}' if number else 'gateway'}",
                    f"10.0.{row}.{number + 1}:9060", cars, site,
                    parent=f"{site}-gateway" if number else "")
              for row, (site, count) in enumerate(SITES.items()) for number in range(count)]
    service = fakes.FakeBackend(fakes.filled(agents))
    service.store.made, now = [], time.time()
    for row, (state, variable, ago) in TROUBLE.items():
        service.change(row, state, variable)
        service.table.agent_since[row] = service.table.since[row, variable] = now - ago
    service.table.heard_at[:] = now + 60  # nobody answers meanwhile
    return service


def taken(browser: Browser, service: fakes.FakeBackend) -> Image.Image:
    """The wall as it is."""
    from PIL import Image
    browser.screen(WIDTH, HEIGHT, True, False)
    with running(browser, service) as server:
        server.open("")
        browser.until(LIVE)
        time.sleep(1)  # nothing is marked as fresh
        shot: str = browser.cdp("Page.captureScreenshot")["data"]
    leave(browser)
    return Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB").resize(
        (WIDTH // 2, HEIGHT // 2), Image.Resampling.LANCZOS)


def main() -> None:
    from PIL import Image
    with driver() as browser:
        taken(browser, fleet()).quantize(
            COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(FILE, optimize=True)
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    as_program(main)
