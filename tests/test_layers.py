"""Does every import go down to a lower layer, and does CONTRIBUTING.md show the right layers?

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sim.targets import ROOT
from tests import layers


def test_the_list_of_targets_fits_80_columns() -> None:
    for target in "help", "help-all":
        text = subprocess.run(["make", "-s", "--no-print-directory", target], cwd=ROOT, check=True,
                              capture_output=True, text=True).stdout.splitlines()
        assert len(text) > 30 and [line for line in text if len(line) > 80] == []


def test_every_import_goes_downwards() -> None:
    assert layers.faults() == []
    used = layers.python_imports()
    assert ("tests", "bench") in used and ("bench", "proof") in used and ("proof", "sim") in used
    assert ("udpserver.c canserver.c", "agent") in layers.c_includes()


def test_the_page_shows_the_layers() -> None:
    assert f"$ make layers\n{layers.picture()}" in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize(("file", "text", "complaint"), [
    ("sim/low.py", "from bench import cost\n", "sim/low.py: sim must not use bench"),
    ("proof/low.py", "def late():\n    import tests.model\n",
     "proof/low.py: proof must not use tests"),
    ("client.py", "from sim.model import heartbeat\n", "client.py: client must not use sim"),
    ("lost/low.py", "", "lost: it has no layer"),
    ("fleet/low.py", "from sim import model\n",
     "fleet/low.py: fleet must not use sim: only its tests may"),
    ("dumpulse.c", '#include "agent/log.h"\n',
     "dumpulse.c: dumpulse.c dumpulse.h must not use agent"),
    ("agent/low.c", '#include "../udpserver.c"\n',
     "agent/low.c: agent must not use udpserver.c canserver.c"),
])
def test_an_import_that_goes_upwards_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                file: str,
                                                text: str, complaint: str) -> None:
    for name in (file, "agent/log.h", "udpserver.c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / file).write_text(text)
    monkeypatch.setattr(layers, "ROOT", tmp_path.resolve())
    assert layers.faults() == [complaint]
