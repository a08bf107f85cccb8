"""YAML from anybody: small, without tricks.   SPDX-License-Identifier: MIT"""

from typing import Any

import yaml

from dumpulse_fleet.model.naming import Wrong

DEPTH_MAX = 10  # of lists and tables
SAFE = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
TEXTS = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read(content: bytes, as_texts: bool = False) -> Any:
    """Lists, tables and simple values; or instead of these only texts, as they are written: then
    7 and on are "7" and "on". Wrong: it is something else."""
    try:
        text = content.decode()
        _refuse_tricks(text)
        return yaml.load(text, TEXTS if as_texts else SAFE)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)  # its text may repeat a secret of the file
        raise Wrong(f"is not YAML{f': see line {mark.line + 1}' if mark else ''}") from error


def _refuse_tricks(text: str) -> None:
    """A few aliases of aliases stand for more than fits into memory. Deep nesting takes long."""
    depth = 0
    for event in yaml.parse(text, SAFE):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > DEPTH_MAX:
            raise Wrong("has an alias (*) or too many brackets: write it without them")
