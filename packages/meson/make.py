"""Writes dumpulse.wrap, which tells Meson where the archive of the C library is, and its sum.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from packages import making
from packages.c import make as library

WRAP = """\
# Put this file into subprojects/. Then dependency('dumpulse') is the library, and
# dependency('dumpulse-keyed') has the source for version 2, with keys.
[wrap-file]
directory = {top}
source_url = {address}
source_filename = {name}
source_hash = {sum}

[provide]
dependency_names = dumpulse, dumpulse-keyed
"""


def build(to: Path) -> list[Path]:
    wrap = to / "dumpulse.wrap"
    with tempfile.TemporaryDirectory() as folder:
        made = library.write_archive(Path(folder))
        wrap.write_text(WRAP.format(top=library.top(), name=made.name, **library.where(made)))
    return [wrap]


if __name__ == "__main__":
    making.main(build)
