"""Reads tables of TOML, and gathers all that is wrong in them, each mistake with its line. A
section is a dataclass, whose fields say what its keys may be."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_type_hints

from pydantic import PlainValidator, TypeAdapter, ValidationError, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from dumpulse_fleet.client import BadUsage
from dumpulse_fleet.config.values import Secret, kind, read_file, secret_in, similar, text
from dumpulse_fleet.model.agents import Profile
from dumpulse_fleet.model.naming import Wrong, hide, shown

LARGEST = 4 << 20  # bytes of a configuration; a file of targets may be longer
HEADING = re.compile(r"\s*(\[\[?)\s*([\w-]+)\s*\]")
KEY = re.compile(r"\s*([\w-]+)\s*[.=]")
Section = TypeVar("Section")
Where = tuple[str | int, ...]  # Keys, and positions in lists: ("agents", 3, "name").


class LineNumbers:
    """The line of each heading and key, which tomllib does not report, if it begins a line. All
    else has the line of what it is in. Only messages use these lines: they are wrong in a file that
    has a heading within a text of several lines."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Where, int] = {(): 1}
        counts: dict[str, int] = {}
        table: Where = ()
        for number, line in enumerate(text.split("\n"), 1):
            if heading := HEADING.match(line):
                name = heading[2]
                self._lines.setdefault((name,), number)
                table = (name,)
                if heading[1] == "[[":
                    counts[name] = counts.get(name, -1) + 1
                    table = (name, counts[name])
                    self._lines[table] = number
            elif key := KEY.match(line):
                self._lines.setdefault((*table, key[1]), number)

    def __getitem__(self, where: Where) -> int:
        while where not in self._lines:
            where = where[:-1]
        return self._lines[where]


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
        self.all = sorted(all_of_them, key=lambda mistake: (mistake.file, mistake.line))
        super().__init__("\n".join(map(str, self.all)))


def told(parse: Callable[[Any, Reader], Any]) -> PlainValidator:
    """What a key may be: `parse` raises Wrong or BadUsage if it is something else."""
    def validate(value: Any, info: ValidationInfo[Reader]) -> Any:
        try:
            return parse(value, info.context)
        except (Wrong, BadUsage) as error:
            raise PydanticCustomError("wrong", "{text}", {"text": hide(str(error))}) from error
    return PlainValidator(validate)


def checked(parse: Callable[..., Any], *limits: Any, **more: Any) -> PlainValidator:
    """The same, for what needs no reader."""
    return told(lambda value, _: parse(value, *limits, **more))


def in_file(parse: Callable[..., Any], *limits: Any) -> PlainValidator:
    """The same, for the first line of a file."""
    return told(lambda value, reader: parse(reader.secret(value), *limits))


PATH = told(lambda value, reader: reader.path_of(value))
READABLE = told(lambda value, reader: reader.readable(value))
SECRET = in_file(Secret)


@functools.cache
def adapter(section: Any) -> tuple[TypeAdapter[Any], list[str]]:
    """How it is read, and its keys for messages: its own come before inherited ones."""
    section.__pydantic_config__ = {"extra": "forbid"}
    fields = sorted(dataclasses.fields(section), key=lambda field: field.name
                    not in section.__annotations__)
    hints = get_type_hints(section, include_extras=True)
    aliases = {name: info.alias for name, hint in hints.items()
               for info in getattr(hint, "__metadata__", ()) if isinstance(info, FieldInfo)}
    return TypeAdapter(section), [aliases.get(field.name) or field.name for field in fields]


def shown_path(path: str) -> str:
    return path if path.isprintable() else shown(path, 200)


class Reader:
    """Reads the tables of one file, and gathers what is wrong in them."""

    def __init__(self, path: str, lines: LineNumbers, data: dict[str, Any]) -> None:
        self.path, self.lines, self.data = path, lines, data
        self.mistakes: list[Mistake] = []
        self.profiles: dict[str, Profile] = {}  # By path of the file of names.

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
        return Secret(secret_in(self.path_of(value)))

    def table(self, where: Where, value: Any, section: type[Section]) -> Section | None:
        """A section. None: it is no table, or something is wrong in it, which is noted."""
        read, keys = adapter(section)  # type: ignore[arg-type]
        try:
            result: Section = read.validate_python(value, context=self)
            return result
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
        place = next((f"{part}: " for part in where[::-1] if isinstance(part, str)), "")
        for detail in details:
            name = str(detail["loc"][0]) if detail["loc"] else ""
            if not name:
                self.wrong(where, f"{place}must be a table, not {kind(value)}")
            elif detail["type"] == "missing":
                self.wrong(where, f"{place}{name!r} is missing")
            elif detail["type"] == "wrong":
                self.wrong((*where, name), f"{place}{name}: {detail['msg']}")
            else:
                self.wrong((*where, name), f"{place}{shown(name)} is unknown"
                           + (similar(name, keys) or f": use {', '.join(keys)}"))
        return None

    def one_of(self, where: Where, keys: Mapping[str, Any], names: Sequence[str]) -> str:
        """Which one of these keys a table has; "" if that is not exactly one, which is noted."""
        present = [name for name in names if name in keys]
        if len(present) != 1:
            self.wrong(where, f"{where[0]}: needs exactly one of {', '.join(names)}"
                       + (f", not {' and '.join(present)}" if present else ""))
            return ""
        return present[0]

    def section(self, name: str, section: type[Section]) -> Section:
        """[name]; the defaults, if something is wrong in it."""
        return self.table((name,), self.data.get(name, {}), section) or section()

    def sections(self, name: str, section: type[Section]
                 ) -> Iterator[tuple[Where, Section, Mapping[str, Any]]]:
        """Each [[name]] that is right: where it is, what it says, what the file has."""
        tables = self.data.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self.wrong((name,), f"{name}: must be tables that begin with [[{name}]], "
                       f"not {kind(tables)}")
            return
        for position, table in enumerate(tables):
            values = self.table((name, position), table, section)
            if values is not None:
                yield (name, position), values, table
