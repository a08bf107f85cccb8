"""Says on which line of a TOML file each key is, because tomllib does not.

It is no second parser. tomllib says whether the file is right; this finds its way through a file
that is right, and stops where it is not.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import bisect
import itertools
import re
import tomllib

Where = tuple[str | int, ...]  # keys, and positions in lists: ("agents", 3, "name")

DEEPEST = 16  # keys of a dotted key, and lists within lists: tomllib takes ever longer for more

BLANK = re.compile(r"(?:[ \t\n]++|#[^\n]*+)*")  # also what may be between the items of a list
SPACE = re.compile(r"[ \t]*+")
# No two alternatives begin alike, and nothing is tried twice: the time grows with the length only.
# No group is possessive: until 3.11.5, Python went on at a wrong place after some of them.
STRING = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*"{3,5}' r"|'''(?:[^']++|'(?!''))*'{3,5}"
    r'|"(?!"")(?:[^"\\\n]++|\\[^\n])*"' r"|'(?!'')[^'\n]*+'", re.DOTALL)
BARE_KEY = re.compile(r"[A-Za-z0-9_-]++")
SCALAR = re.compile(r"[^\s,\[\]{}#\"'=]++(?: [0-9][^\s,\[\]{}#\"'=]*+)?")  # 1979-05-27 07:32:00


class TooDeep(Exception):
    """The file has lists within lists within lists. It says in which line."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Stop(Exception):
    """This is not TOML. tomllib says it better."""



class Lines:
    """The line of each key, table and item of a list, in a text that has no \\r\\n. TooDeep."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._starts = [match.end() for match in re.finditer("\n", text)]
        self._lines: dict[Where, int] = {(): 1}
        self._counts: dict[Where, int] = {}  # tables in each array of tables
        try:
            self._read()
        except _Stop:
            pass

    def __getitem__(self, where: Where) -> int:
        """The line, or if something has none, the line of what it is in."""
        while where not in self._lines:
            where = where[:-1]
        return self._lines[where]

    def _line(self) -> int:
        return bisect.bisect_right(self._starts, self._at) + 1

    def _note(self, where: Where) -> None:
        """The first line counts."""
        self._lines.setdefault(where, self._line())

    def _skip(self, pattern: re.Pattern[str]) -> str:
        """What matches here, and goes behind it. Stops if nothing does."""
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _Stop
        self._at = match.end()
        return match[0]

    def _take(self, wanted: str) -> bool:
        """Goes behind these characters, if they are here."""
        found = self._text.startswith(wanted, self._at)
        self._at += len(wanted) * found
        return found

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            raise _Stop

    def _read(self) -> None:
        table: Where = ()
        while True:
            self._skip(BLANK)
            if self._at == len(self._text):
                return
            array = self._take("[[")
            if array or self._take("["):
                start = self._at
                table = self._table(self._key(), array)
                self._at, end = start, self._at
                self._note(table)
                self._at = end
                self._need("]]" if array else "]")
            else:
                self._pair(table, 1)

    def _table(self, keys: list[str], array: bool) -> Where:
        """Which table a heading begins. In an array of tables, it is about the last one so far."""
        where: Where = ()
        for position, key in enumerate(keys):
            where += (key,)
            if array and position == len(keys) - 1:
                self._note(where)
                self._counts[where] = self._counts.get(where, 0) + 1
            if where in self._counts:
                where += (self._counts[where] - 1,)
        return where

    def _key(self) -> list[str]:
        keys: list[str] = []
        while not keys or self._take("."):
            self._skip(SPACE)
            if self._text[self._at:self._at + 1] in ('"', "'"):
                string = self._skip(STRING)
                try:
                    keys.append(str(tomllib.loads(f"key = {string}")["key"]))
                except tomllib.TOMLDecodeError:
                    raise _Stop from None
            else:
                keys.append(self._skip(BARE_KEY))
            if len(keys) > DEEPEST:
                raise TooDeep(self._line())
            self._skip(SPACE)
        return keys

    def _pair(self, table: Where, depth: int) -> None:
        start = self._at
        keys = self._key()
        end, self._at = self._at, start
        for length in range(1, len(keys) + 1):
            self._note((*table, *keys[:length]))
        self._at = end
        self._need("=")
        self._skip(SPACE)
        self._value((*table, *keys), depth)

    def _value(self, where: Where, depth: int) -> None:
        if depth > DEEPEST:
            raise TooDeep(self._line())
        if self._take("["):
            for position in itertools.count():
                self._skip(BLANK)
                if self._take("]"):
                    return
                if self._line() != self[where]:  # few lists need an entry for each item
                    self._note((*where, position))
                self._value((*where, position), depth + 1)
                self._skip(BLANK)
                if not self._take(","):
                    return self._need("]")
        elif self._take("{"):
            self._skip(BLANK)
            while not self._take("}"):
                self._pair(where, depth + 1)
                self._skip(BLANK)
                if self._take(","):
                    self._skip(BLANK)
                elif not self._text.startswith("}", self._at):
                    raise _Stop
        elif self._text[self._at:self._at + 1] in ('"', "'"):
            self._skip(STRING)
        else:
            self._skip(SCALAR)
