"""The pictures of the manual, which show the wall on each kind of screen.

    python -m dumpulse_fleet.tests.pictures     # or: make figures ONLY=fleet-pictures

takes them anew. A test compares what they show with the wall as it is, by patches of colour: other
fonts and another time of day do not matter, but what is elsewhere, or has another colour, does.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import base64
import contextlib
import struct
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.tests import standins
from dumpulse_fleet.tests.wall import IN_FULL, LIVE, STALE, Browser, driver, leave, running

FOLDER = Path(__file__).parent / "pictures"
SITES = {"harbour": 14, "hill": 9, "mill": 12, "north field": 18, "south field": 11}
TROUBLE = {3: (State.DEAD, 2, 754), 17: (State.LATE, 6, 42), 25: (State.UNREACHABLE, -1, 5000),
           31: (State.OUT_OF_RANGE, 3, 9000), 36: (State.DEAD, 1, 70)}  # variable, s ago
PATCH = 16  # pixels of a file in each direction
SAME = 16  # of 255, by which the colours of a patch may differ
FEW = 20  # patches of some 1,500 that may have another colour
COLOURS = 80  # of a file: those that most of its pixels have


class Picture(NamedTuple):
    width: int
    height: int
    scale: float
    dark: bool = True
    query: str = ""
    until: str = LIVE


PICTURES = {
    "wall": Picture(1920, 1080, 0.5),
    "tv": Picture(3840, 2160, 0.2),
    "phone": Picture(390, 844, 0.7, False),
    "zoom": Picture(960, 540, 0.7, False),  # 1920 × 1080 at 200 %
    "agent": Picture(1920, 1080, 0.5, False, "?agent=harbour-03&whole=yes", IN_FULL),
    "lost": Picture(1280, 720, 0.6, until=STALE),
}


def fleet() -> standins.Service:
    cars = standins.profile()
    agents = [Agent(f"{site.replace(' ', '-')}-{number:02}", f"10.0.{row}.{number + 1}:9060", cars,
                    site) for row, (site, count) in enumerate(SITES.items())
              for number in range(count)]
    service = standins.Service(standins.filled(agents))
    service.fixed, now = [], time.time()
    for row, (state, variable, ago) in TROUBLE.items():
        service.change(row, state, variable)
        service.table.agent_since[row] = service.table.since[row, variable] = now - ago
    service.table.heard_at[:] = now + 60  # nobody answers meanwhile
    return service


def pixels(browser: Browser, name: str, png: bytes) -> NDArray[np.uint8]:
    """In the size of the file."""
    each = PICTURES[name]
    width, height = int(each.width * each.scale), int(each.height * each.scale)
    browser.open("about:blank")
    coded = browser.run_async(f"""
        const image = new Image();
        image.onload = () => {{
            const canvas = new OffscreenCanvas({width}, {height}).getContext('2d');
            canvas.imageSmoothingQuality = 'high';
            canvas.drawImage(image, 0, 0, {width}, {height});
            const {{data}} = canvas.getImageData(0, 0, {width}, {height});
            let text = '';
            for (const each of data) text += String.fromCharCode(each);
            done(btoa(text));
        }};
        image.src = 'data:image/png;base64,{base64.b64encode(png).decode()}';""")
    return np.frombuffer(base64.b64decode(coded), np.uint8).reshape(height, width, 4)[..., :3]


def patches(browser: Browser, name: str, png: bytes) -> NDArray[np.float64]:
    """Their colours."""
    found = pixels(browser, name, png)
    rows, columns = (length // PATCH for length in found.shape[:2])
    return found[:rows * PATCH, :columns * PATCH].reshape(
        rows, PATCH, columns, PATCH, 3).mean(axis=(1, 3))


def differences(browser: Browser, name: str, png: bytes) -> int:
    """How many patches have another colour than in the file."""
    kept = patches(browser, name, (FOLDER / f"{name}.png").read_bytes())
    return int((np.abs(kept - patches(browser, name, png)).max(axis=2) > SAME).sum())


def small(picture: NDArray[np.uint8]) -> bytes:
    """A PNG with few colours. Each pixel gets the nearest one."""
    found, which, counts = np.unique(picture.reshape(-1, 3), axis=0, return_inverse=True,
                                     return_counts=True)
    palette = found[np.argsort(-counts)[:COLOURS]]
    far = np.abs(found[:, None].astype(int) - palette[None]).sum(axis=2)
    height, width, _ = picture.shape
    rows = np.zeros((height, 1 + width), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = far.argmin(axis=1)[which].reshape(height, width)
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
              (b"PLTE", palette.tobytes()), (b"IDAT", zlib.compress(rows.tobytes(), 9)),
              (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks)


def taken(browser: Browser, name: str, service: standins.Service) -> bytes:
    """A PNG of the wall as it is."""
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
    return base64.b64decode(shot)


def main() -> None:
    with driver() as browser:
        for name in PICTURES:
            path = FOLDER / f"{name}.png"
            length = path.write_bytes(small(pixels(browser, name, taken(browser, name, fleet()))))
            print(f"{path.name}: {length:,} bytes")


if __name__ == "__main__":
    main()
