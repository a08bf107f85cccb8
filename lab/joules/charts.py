"""Charts as SVG for light and for dark pages: points between axes.

Axes reach around all that is drawn, so that nothing can lie outside of them. Lengths are in pixels.
SPDX-License-Identifier: MIT"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isclose, isfinite, log10

INK = "currentColor"  # what is not coloured: dark on a light page, light on a dark one
COLOURS = ("#2f81f7", "#d9822b", "#2da44e", "#a371f7", "#e5534b", "#1b9aaa", "#d6409f", "#8a8500")
# All of them are readable on white and on black. The picture has its own background, so that it is
# readable where the page and the reader's system differ about light and dark.
STYLE = ("<style>svg{color:#59636e}.paper{fill:#fff}@media(prefers-color-scheme:dark)"
         "{svg{color:#9198a1}.paper{fill:#0d1117}}</style>")
WIDTH = 880
LETTER = 8.3  # a digit's width at most: fonts differ


def text(x: float, y: float, words: str, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'


def packed(elements: Iterable[str], most: int = 4000) -> list[str]:
    """Puts as many elements into a line as have room: a picture may have hundreds of points."""
    lines = [""]
    for element in elements:
        if lines[-1] and len(lines[-1]) + len(element) > most:
            lines.append("")
        lines[-1] += element
    return lines


def document(height: float, lines: Iterable[str], width: float = WIDTH) -> str:
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" fill="{INK}">',
        STYLE, '<rect class="paper" width="100%" height="100%"/>', *packed(lines), "</svg>", ""])


@dataclass(frozen=True)
class Series:
    """Points. Without a name they have no place in the legend."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str = COLOURS[0]


@dataclass(frozen=True)
class Axis:
    name: str = ""
    label: Callable[[float], str] = "{:,g}".format
    logarithmic: bool = False
    holds: tuple[float, ...] = ()  # values that it must reach

    def ends_and_ticks(self, values: Iterable[float], most: int) -> tuple[list[float], list[float]]:
        """Round numbers around and between the values, with at most about so many steps."""
        every = [*values, *self.holds]
        if not every or not all(map(isfinite, every)) or (self.logarithmic and min(every) <= 0):
            raise ValueError(f"the axis {self.name!r} cannot show {every or 'nothing'}")
        least, greatest = min(every), max(every)
        if self.logarithmic:
            powers = range(floor(log10(least)) - 1, ceil(log10(greatest)) + 2)
            rounds = [digit * 10.0 ** power for power in powers for digit in (1, 2, 5)]
            ends = [max(at for at in rounds if at <= least),
                    min(at for at in rounds if at >= greatest and at > least)]
            inside = [at for at in rounds if ends[0] <= at <= ends[1]]
            decades = inside if len(inside) <= most else [
                10.0 ** power for power in powers if ends[0] <= 10.0 ** power <= ends[1]]
            return ends, decades[::ceil(len(decades) / most)]
        if isclose(least, greatest, rel_tol=1e-9):  # then it has a length all the same
            least, greatest = least - (abs(least) or 1) / 10, greatest + (abs(greatest) or 1) / 10
        wanted = (greatest - least) / most
        power = 10.0 ** floor(log10(wanted))
        step = next(digit * power for digit in (1, 2, 2.5, 5, 10, 20) if digit * power >= wanted)
        ticks = [at * step for at in range(floor(least / step), ceil(greatest / step) + 1)]
        return [ticks[0], ticks[-1]], ticks

    def place(self, value: float, ends: Sequence[float], start: float, length: float) -> float:
        """The pixel of a value, if the axis begins and is as long as this."""
        at, least, most = (log10(each) if self.logarithmic else each for each in (value, *ends))
        return start + (at - least) / (most - least) * length


def panel(left: float, top: float, width: float, height: float, title: str,
          series: Sequence[Series], x: Axis, y: Axis) -> list[str]:
    """A chart with its title, legend and axes, within a box of this size."""
    lines, at, line = [text(left + 10, top + 20, title, bold=True)], left + 10, top + 40
    for each in series if any(each.name for each in series) else ():
        wide = len(each.name) * LETTER + 36
        if at > left + 10 and at + wide > left + width:
            at, line = left + 10, line + 18
        if each.name:
            lines += [f'<circle cx="{at + 4:.1f}" cy="{line - 4:.1f}" r="4" '
                      f'fill="{each.colour}"/>', text(at + 14, line, each.name)]
            at += wide
    begin, bottom = line + 14, top + height - (44 if x.name else 26)
    high = bottom - begin
    points = [point for each in series for point in each.points]
    y_ends, y_ticks = y.ends_and_ticks([point[1] for point in points], max(2, int(high / 40)))
    start = left + 18 + LETTER * max(len(y.label(tick)) for tick in y_ticks)
    wide = left + width - 24 - start
    x_ends, x_ticks = x.ends_and_ticks([point[0] for point in points], max(2, int(wide / 75)))
    for tick in y_ticks:
        place = y.place(tick, y_ends, bottom, -high)
        lines += [f'<path d="M{start:.1f} {place:.1f}h{wide:.1f}" stroke="{INK}" '
                  'stroke-opacity="0.3"/>', text(start - 8, place + 4, y.label(tick), "end")]
    for tick in x_ticks:
        place = x.place(tick, x_ends, start, wide)
        lines += [f'<path d="M{place:.1f} {bottom:.1f}v5" stroke="{INK}"/>',
                  text(place, bottom + 19, x.label(tick), "middle")]
    if x.name:
        lines.append(text(start + wide / 2, top + height - 8, x.name, "middle"))
    for each in series:
        pixels = [(x.place(one, x_ends, start, wide), y.place(other, y_ends, bottom, -high))
                  for one, other in each.points]
        lines += [f'<circle cx="{one:.1f}" cy="{other:.1f}" r="3" fill="{each.colour}" '
                  f'fill-opacity="0.7"/>' for one, other in pixels]
    return lines
