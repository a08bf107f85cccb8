"""Reads tables of TOML, and gathers all that is wrong in them, each mistake with its line.

A section says what its keys may be: a mapping of names to Key. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dumpulse_fleet import client
from dumpulse_fleet.config.toml_lines import Lines, Where
from dumpulse_fleet.config.values import Secret, kind, text
from dumpulse_fleet.model.naming import Wrong, shown

LARGEST = 4 << 20  # bytes of a configuration; file_sd and http_sd take more agents than this
LARGEST_SECRET = 65536  # bytes of a file with a password, a token or an address
MOST_MISTAKES = 1_000  # that are told
MOST_SUGGESTIONS = 2_000  # a similar name is looked for among so many at most: it takes long


class Mistake(NamedTuple):
    file: str  # "" if the text names it
    line: int  # 0: it is about the whole file
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.text}" if place else self.text


class Mistakes(Exception):
    """The configuration cannot be used. It says everything that is wrong, in the file's order."""

    def __init__(self, all_of_them: Iterable[Mistake]) -> None:
        found = sorted(all_of_them, key=lambda each: (each.file, each.line))
        self.all = found[:MOST_MISTAKES]
        if len(found) > MOST_MISTAKES:
            self.all.append(self.all[-1]._replace(
                text=f"and {len(found) - MOST_MISTAKES} more mistakes"))
        super().__init__("\n".join(map(str, self.all)))


class Key(NamedTuple):
    """What a key of a table may be."""

    parse: Callable[[Any], Any]  # raises Wrong
    default: Any = None


Keys = Mapping[str, Key]
NEEDED = object()  # the default of a key that has none


def similar(word: str, words: Collection[str]) -> str:
    near = difflib.get_close_matches(word[:100], words, 1) if len(words) <= MOST_SUGGESTIONS else []
    return f": do you mean {near[0]!r}?" if near else ""


def read_file(path: str, most: int) -> bytes:
    """At most so many bytes; Wrong otherwise."""
    def read_start() -> bytes:
        with open(path, "rb") as file:
            return file.read(most + 1)

    try:
        content = client.within(client.TIMEOUT, read_start)  # a pipe may wait for a writer
    except (OSError, ValueError) as error:
        raise Wrong(f"cannot read {shown(path, 200)}: "
                    f"{getattr(error, 'strerror', None) or error}") from error
    if content is None:
        raise Wrong(f"cannot read {shown(path, 200)}: nothing comes from it")
    if len(content) > most:
        raise Wrong(f"{shown(path, 200)} is longer than {most:,} bytes")
    return content


def shown_path(path: str) -> str:
    return path if path.isprintable() else shown(path, 200)


class Reader:
    """Reads the tables of one file, and gathers what is wrong in them."""

    def __init__(self, path: str, lines: Lines, data: dict[str, Any]) -> None:
        self.path, self.lines, self.data = path, lines, data
        self.mistakes: list[Mistake] = []

    def wrong(self, where: Where, message: str) -> None:
        self.mistakes.append(Mistake(shown_path(self.path), self.lines[where], message))

    def path_of(self, value: Any) -> str:
        """Paths are relative to the folder of the configuration."""
        return os.path.join(os.path.dirname(os.path.abspath(self.path)), text(value, 1000))

    def readable(self, value: Any) -> str:
        path = self.path_of(value)
        read_file(path, LARGEST)
        return path

    def secret(self, value: Any) -> Secret:
        """The first line of a file."""
        path = self.path_of(value)
        try:
            lines = read_file(path, LARGEST_SECRET).decode().splitlines()
        except UnicodeDecodeError as error:
            raise Wrong(f"{shown(path, 200)} is not UTF-8") from error
        if not lines or not lines[0].strip() or not lines[0].strip().isprintable():
            raise Wrong(f"{shown(path, 200)} must have the secret in its first line")
        return Secret(lines[0].strip())

    def table(self, where: Where, value: Any, keys: Keys) -> dict[str, Any] | None:
        """The values of a table, with defaults for those that are missing. None: it is no table,
        or something is wrong in it, which is noted."""
        before = len(self.mistakes)
        if not isinstance(value, dict):
            self.wrong(where, f"{where[0]}: must be a table, not {kind(value)}")
            return None
        found = {name: key.default for name, key in keys.items()}
        place = next((f"{part}: " for part in where[::-1] if isinstance(part, str)), "")
        for name, own in value.items():
            if name not in keys:
                self.wrong((*where, name), f"{place}{shown(name)} is not known here"
                           + (similar(name, keys) or f": use {', '.join(keys)}"))
                continue
            try:
                found[name] = keys[name].parse(own)
            except Wrong as error:
                self.wrong((*where, name), f"{place}{name}: {error}")
        for name in keys:
            if found[name] is NEEDED and name not in value:
                self.wrong(where, f"{place}{name!r} is missing")
        return found if len(self.mistakes) == before else None

    def tables(self, where: Where, value: Any, keys: Keys
               ) -> Iterator[tuple[Where, dict[str, Any], Mapping[str, Any]]]:
        """The tables of a list that are right: where they are, their values, what the file has."""
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.wrong(where, f"{where[-1]}: must be tables that begin with [[{where[-1]}]], "
                       f"not {kind(value)}")
            return
        for position, each in enumerate(value):
            found = self.table((*where, position), each, keys)
            if found is not None:
                yield (*where, position), found, each

    def one_of(self, where: Where, own: Mapping[str, Any], names: Sequence[str]) -> str:
        """Which one of these keys a table has; "" if that is not exactly one, which is noted."""
        given = [name for name in names if name in own]
        if len(given) != 1:
            self.wrong(where, f"{where[0]}: needs exactly one of {', '.join(names)}"
                       + (f", not {' and '.join(given)}" if given else ""))
            return ""
        return given[0]

    def section(self, name: str, keys: Keys) -> dict[str, Any]:
        """The values of [name]; the defaults, if something is wrong in it."""
        return self.table((name,), self.data.get(name, {}), keys) \
            or {key: each.default for key, each in keys.items()}

    def sections(self, name: str, keys: Keys
                 ) -> Iterator[tuple[Where, dict[str, Any], Mapping[str, Any]]]:
        """The values of each [[name]] that is right."""
        return self.tables((name,), self.data.get(name, []), keys)
