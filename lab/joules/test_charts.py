"""The pictures: what is drawn lies within them, and between their axes.
SPDX-License-Identifier: MIT"""

import re
from math import inf, nan
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.joules.charts import STYLE, Axis, Series, document, panel
from tests.support.programs import ROOT

PICTURES = sorted((ROOT / "lab").rglob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def marks(picture: str) -> list[tuple[float, float]]:
    """The places of all points, ends of boxes, and texts."""
    found: list[tuple[float, float]] = []
    for each in ElementTree.fromstring(picture).iter():
        at = each.attrib
        if each.tag == f"{SVG}circle":
            found.append((float(at["cx"]), float(at["cy"])))
        elif each.tag == f"{SVG}text":
            found.append((float(at["x"]), float(at["y"])))
        elif each.tag == f"{SVG}rect" and "x" in at:
            found.append((float(at["x"]) + float(at["width"]), float(at["y"])))
    return found


def between_axes(picture: str) -> bool:
    """The first and the last line across are the ends of the vertical axis."""
    lines = [tuple(map(float, found)) for found in
             re.findall(r'<path d="M([\d.]+) ([\d.]+)h([\d.]+)"', picture)]
    left, right = lines[0][0], lines[0][0] + lines[0][2]
    low, high = (max(y for _, y, _ in lines), min(y for _, y, _ in lines))
    # 0.11: each place is rounded to a tenth of a pixel
    return all(left - 0.11 <= x <= right + 0.11 and high - 0.11 <= y <= low + 0.11
               for x, y in re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)" r="3"', picture)
               for x, y in [(float(x), float(y))])


def chart(points: list[tuple[float, float]], x: Axis, y: Axis) -> str:
    return document(300, panel(0, 0, 500, 300, "a title", [Series("a name", points)], x, y), 500)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: str(path.relative_to(ROOT)))
def test_all_of_a_picture_can_be_seen(picture: Path) -> None:
    text = picture.read_text()
    assert STYLE in text
    head = ElementTree.fromstring(text).attrib
    assert len(marks(text)) > 10
    for x, y in marks(text):
        assert 0 <= x <= float(head["width"]) and 0 <= y <= float(head["height"]), (x, y)


LENGTHS = st.floats(-1e12, 1e12).map(lambda value: round(value, 6))


@settings(deadline=None)
@given(st.lists(st.tuples(LENGTHS, LENGTHS), min_size=1, max_size=20))
def test_points_lie_between_their_axes(points: list[tuple[float, float]]) -> None:
    picture = chart(points, Axis("x"), Axis("y"))
    assert picture.count('r="3"') == len(points) and between_axes(picture)


def test_a_value_lies_where_its_tick_is() -> None:
    for axis, values in ((Axis(), [0.0, 50.0, 100.0]),
                         (Axis(logarithmic=True), [1.0, 10.0, 100.0])):
        ends, ticks = axis.ends_and_ticks(values, 3)
        assert (ends, ticks) == ([values[0], values[-1]], values)
        assert [axis.place(value, ends, 10, 200) for value in values] == [10, 110, 210]


@pytest.mark.parametrize("values, logarithmic", [
    ([], False), ([nan], False), ([1, inf], False), ([0], True), ([1, -1], True)])
def test_what_has_no_place_is_refused(values: list[float], logarithmic: bool) -> None:
    with pytest.raises(ValueError, match="the axis 'joules' cannot show"):
        chart([(1, value) for value in values], Axis("x"), Axis("joules", logarithmic=logarithmic))
