"""Writes dumpulse.wrap, which tells Meson where Dumpulse is.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

from pathlib import Path

from packages import making, project

WRAP = """\
[wrap-git]
url = {url}/dumpulse.git
revision = {revision}

[provide]
dependency_names = dumpulse, dumpulse-keyed
"""


def revision(version: str) -> str:
    """A release has a tag. Before one, the newest state is meant."""
    return "HEAD" if version.endswith("-dev") else f"v{version}\ndepth = 1"


def build(to: Path) -> list[Path]:
    wrap = to / "dumpulse.wrap"
    wrap.write_text(WRAP.format(url=project.URL, revision=revision(project.version())))
    return [wrap]


if __name__ == "__main__":
    making.main(build)
