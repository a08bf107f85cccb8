"""Says on which line of a TOML file each key is, because tomllib does not: tree-sitter does, whose
parser does not stop at mistakes.   SPDX-License-Identifier: MIT"""

import re
import tomllib

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

Where = tuple[str | int, ...]  # keys, and positions in lists: ("agents", 3, "name")

DEEPEST = 16  # keys of a dotted key, and lists within lists: tomllib takes ever longer for more
PARSER = Parser(Language(tree_sitter_toml.language()))
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"' r"|'[^']*'")
# How what is too deep begins where the file is wrong, and has no structure: a.a.a. or {a={a={a=.
TOO_DEEP = re.compile(r"(?<![\w-])(?:(?:[\w-]++[ \t]*+\.[ \t]*+){%d}"
                      r"|(?:(?:[\w-]++\s*+=\s*+)?[\[{]\s*+){%d})" % (DEEPEST + 1, DEEPEST + 1))


class TooDeep(Exception):
    """The file has lists within lists within lists. It says in which line."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class Lines:
    """The line of each key, table and item of a list, in a text that has no \\r\\n. TooDeep."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Where, int] = {(): 1}
        self._counts: dict[Where, int] = {}  # tables in each array of tables
        document = PARSER.parse(text.encode("utf-8", "replace")).root_node
        self._rest: Node | None = None  # what is read if somebody asks: few want lines of mistakes
        if not document.has_error:
            self._read(document)
        elif deep := TOO_DEEP.search(text):
            raise TooDeep(text.count("\n", 0, deep.start()) + 1)
        else:
            self._rest = document

    def _read(self, document: Node) -> None:
        for node in document.named_children:
            if node.type == "pair":
                self._pair(node, (), 1)
            elif node.type in ("table", "table_array_element"):
                self._table(node)

    def __getitem__(self, where: Where) -> int:
        """The line, or if something has none, the line of what it is in."""
        if self._rest:
            document, self._rest = self._rest, None
            self._read(document)
        while where not in self._lines:
            where = where[:-1]
        return self._lines[where]

    def _note(self, where: Where, node: Node) -> None:
        """The first line counts."""
        self._lines.setdefault(where, node.start_point[0] + 1)

    def _table(self, node: Node) -> None:
        """A heading, and what is below it. In an array of tables, it is about the last one."""
        where: Where = ()
        head, *rest = node.named_children
        keys = keys_of(head)
        for position, key in enumerate(keys):
            where += (key,)
            if node.type == "table_array_element" and position == len(keys) - 1:
                self._note(where, node)
                self._counts[where] = self._counts.get(where, 0) + 1
            if where in self._counts:
                where += (self._counts[where] - 1,)
        self._note(where, node)
        for pair in rest:
            if pair.type == "pair":
                self._pair(pair, where, 1)

    def _pair(self, node: Node, table: Where, depth: int) -> None:
        head, *values = [each for each in node.named_children if each.type != "comment"]
        keys = keys_of(head)
        for length in range(1, len(keys) + 1):
            self._note((*table, *keys[:length]), head)
        for value in values:
            self._value(value, (*table, *keys), depth)

    def _value(self, node: Node, where: Where, depth: int) -> None:
        if depth > DEEPEST:
            raise TooDeep(node.start_point[0] + 1)
        items = [each for each in node.named_children if each.type not in ("comment", "ERROR")] \
            if node.type in ("array", "inline_table") else ()
        for position, item in enumerate(items):
            if item.type == "pair":
                self._pair(item, where, depth + 1)
                continue
            if item.start_point[0] + 1 != self[where]:  # few lists need an entry for each item
                self._note((*where, position), item)
            self._value(item, (*where, position), depth + 1)


def keys_of(node: Node) -> list[str]:
    """The parts of a key; none if it is wrong."""
    text = (node.text or b"").decode()
    if BARE_KEY.fullmatch(text):
        return [text]
    if STRING.sub("", text).count(".") >= DEEPEST:
        raise TooDeep(node.start_point[0] + 1)
    keys: list[str] = []
    try:
        found = tomllib.loads(f"{text} = 0")
        while isinstance(found, dict):
            ((key, found),) = found.items()
            keys.append(key)
    except ValueError:  # also of tomllib
        return []
    return keys
