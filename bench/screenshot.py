"""Draws the live table of `make demo` as a terminal shows it.    make figures ONLY=screenshot

It runs the demonstration on a terminal of 64 by 15, which pyte emulates, until one node is dead
and one is late. Then it draws the screen in client/examples/watch.svg.
SPDX-License-Identifier: MIT"""

import signal
import sys
from html import escape

import pyte

from bench import charts
from tests.support.programs import ROOT, as_program
from tests.support.terminal import Terminal

PICTURE = ROOT / "client" / "examples" / "watch.svg"
COLUMNS, LINES = 64, 15
PATIENCE = 90.0  # seconds; normally it takes about 20
WIDE, HIGH, MARGIN = 8.4, 19, 14  # of a character, and around all of them, in pixels
PAPER, INK = "#1e2127", "#dcdfe4"  # the picture has its own background, for pages of any colour
COLOURS = {"red": "#ff7b72", "brown": "#e3b341"}  # pyte calls yellow brown


def run_demonstration() -> pyte.Screen:
    """Returns the screen of the demonstration when the table shows a dead node and a late one."""
    with Terminal(sys.executable, str(ROOT / "client/examples/demo.py"),
                  str(ROOT / "build/udpserver"), columns=COLUMNS, lines=LINES) as terminal:
        terminal.wait_for(lambda text: all(any(line.endswith(state) for line in text)
                                           for state in (" dead", " late")), PATIENCE)
        terminal.process.send_signal(signal.SIGSTOP)  # nobody draws on it any more
        return terminal.screen


def runs(screen: pyte.Screen, line: int) -> list[tuple[int, str, pyte.screens.Char]]:
    """Divides a line into parts of the same look: column, text and one of its characters."""
    found: list[tuple[int, str, pyte.screens.Char]] = []
    for column in range(screen.columns):
        cell = screen.buffer[line][column]
        look = cell._replace(data="")
        if found and found[-1][2] == look:
            found[-1] = (found[-1][0], found[-1][1] + cell.data, look)
        else:
            found.append((column, cell.data, look))
    return found


def draw(screen: pyte.Screen) -> str:
    width, height = MARGIN * 2 + COLUMNS * WIDE, MARGIN * 2 + LINES * HIGH
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
             f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="the live '
             'table of make demo" '
             'font-family="ui-monospace,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" '
             'font-size="14">',
             f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>']
    for line in range(screen.lines):
        for column, text, look in runs(screen, line):
            x, y = MARGIN + column * WIDE, MARGIN + line * HIGH
            ink, paper = COLOURS.get(look.fg, INK), PAPER
            if look.reverse:
                ink, paper = paper, ink
                lines.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{len(text) * WIDE:.1f}" height="{HIGH}" '
                    f'fill="{paper}"/>')
            if text.strip():
                weight = ' font-weight="bold"' if look.bold else ""
                x += (len(text) - len(text.lstrip())) * WIDE
                text = text.strip()
                lines.append(f'<text x="{x:.1f}" y="{y + 14}" textLength="{len(text) * WIDE:.1f}" '
                             f'xml:space="preserve" fill="{ink}"{weight}>{escape(text)}</text>')
    return "\n".join([*charts.packed(lines), "</svg>", ""])


def main() -> None:
    print("screenshot: running the demonstration until a node is dead and one is late: 30 seconds",
          file=sys.stderr)
    PICTURE.write_text(draw(run_demonstration()), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    as_program(main)
