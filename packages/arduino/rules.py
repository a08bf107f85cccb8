"""The rules for a library of the Arduino IDE and of its Library Manager.

Arduino has a program for this, arduino-lint, which is in no package registry. So the rules are
written down here, from Arduino's library specification and the list of that program's rules, as
far as they concern a library like this one. What that program warns of is a fault here, too.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

CATEGORIES = ("Display", "Communication", "Signal Input/Output", "Sensors", "Device Control",
              "Timing", "Data Storage", "Data Processing", "Other")
NUMBER = r"(?:0|[1-9]\d*)"
SOME_TEXT = r"\S(?:.*\S)?"

# The fields that library.properties must have, and then those that it may have. Each value must
# match its pattern as a whole. Names that begin with "Arduino" are Arduino's own. Without an
# address at the end, nobody can reach the maintainer.
NEEDED = {
    "name": r"(?!(?i:arduino|.*library))[A-Za-z0-9][A-Za-z0-9_.-]{0,15}",
    "version": rf"{NUMBER}\.{NUMBER}\.{NUMBER}(?:-[0-9A-Za-z.-]+)?",
    "author": rf"(?!(?i:arduino)){SOME_TEXT}",
    "maintainer": rf"(?!(?i:arduino)){SOME_TEXT} <[^@ <>]+@[^@ <>]+>",
    "sentence": rf"{SOME_TEXT}\.",
    "paragraph": SOME_TEXT,
    "category": "|".join(map(re.escape, CATEGORIES)),
    "url": r"https?://[^/\s]+(?:/\S*)?",
    "architectures": r"\*|[a-z0-9_]+(?:,[a-z0-9_]+)*",
}
ALLOWED = {
    "includes": r"[\w.]+\.h(?:,[\w.]+\.h)*",
    "license": r"[A-Za-z0-9.+-]+",
    "depends": r"[\w .-]+(?:,[\w .-]+)*",
    "dot_a_linkage": "true|false",
    "ldflags": SOME_TEXT,
    "precompiled": "true|full|false",
}
FILES = ("library.properties", "keywords.txt", "README.md", "LICENSE")
KEYWORD = re.compile(r"(\w+)\t(?:KEYWORD[123]|LITERAL1)")
FOLDER_OR_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def fields_of(text: str) -> tuple[dict[str, str], list[str]]:
    """Returns the fields of library.properties, and the lines that are wrong."""
    fields: dict[str, str] = {}
    wrong = []
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if not equals or name in fields:
            wrong.append(f"library.properties: a line that is no new field: {line}")
        fields[name] = value
    return fields, wrong


def faults_of_properties(text: str, headers: set[str]) -> list[str]:
    fields, wrong = fields_of(text)
    wrong += [f"library.properties: {name} is missing" for name in NEEDED if name not in fields]
    for name, value in fields.items():
        pattern = {**NEEDED, **ALLOWED}.get(name)
        if pattern is None:
            wrong.append(f"library.properties: there is no field {name}")
        elif not re.fullmatch(pattern, value):
            wrong.append(f"library.properties: {name} cannot be {value!r}")
    if fields.get("sentence", "") in fields.get("paragraph", ""):
        wrong.append("library.properties: the paragraph repeats the sentence, which comes before")
    needed = {*fields.get("includes", "").split(","), f"{fields.get('name')}.h"}
    return wrong + [f"library.properties: src/ has no {header}"
                    for header in sorted(needed - headers)]


def faults_of_keywords(text: str) -> list[str]:
    wrong = [f"keywords.txt: not a name, a tab and a kind: {line!r}"
             for line in text.splitlines() if not KEYWORD.fullmatch(line)]
    names = [line.partition("\t")[0] for line in text.splitlines()]
    return wrong + [f"keywords.txt: {name} is there twice"
                    for name in sorted({name for name in names if names.count(name) > 1})]


def faults_of_places(names: list[str]) -> list[str]:
    """Checks where the files are, and what they are called."""
    wrong = [f"{name} is missing" for name in FILES if name not in names]
    for name in names:
        *folders, file = name.split("/")
        if not all(FOLDER_OR_FILE.fullmatch(part) for part in (*folders, file)):
            wrong.append(f"{name}: a name that not every system takes")
        if folders and folders[0] not in ("src", "examples", "extras"):
            wrong.append(f"{name}: a library has no such folder")
        if re.search(r"\.(?:c|cc|cpp|h|hpp|S)$", file) and folders[:1] != ["src"]:
            wrong.append(f"{name}: sources belong into src/")
        if file.endswith(".ino") and name != f"examples/{file[:-4]}/{file}":
            wrong.append(f"{name}: a sketch must be in a folder of its own name")
        if file.endswith(".exe") or folders[:2] == ["src", "utility"]:
            wrong.append(f"{name}: the Library Manager refuses it")
    return wrong


def faults(files: Mapping[str, Path]) -> list[str]:
    """Returns a line for each rule that a library breaks. Its files are given by their names in
    it."""
    wrong = faults_of_places(list(files))
    wrong += [f"{name}: a symbolic link" for name, path in files.items() if path.is_symlink()]
    headers = {name[4:] for name in files if re.fullmatch(r"src/[^/]+\.h", name)}
    if "library.properties" in files:
        wrong += faults_of_properties(files["library.properties"].read_text(), headers)
    if "keywords.txt" in files:
        wrong += faults_of_keywords(files["keywords.txt"].read_text())
    return wrong
