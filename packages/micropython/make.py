"""Makes the module for MicroPython: the file with its version.   SPDX-License-Identifier: MIT"""

from pathlib import Path

from packages import making

MODULE = Path(__file__).resolve().parent / "dumpulse.py"
build = making.with_version(MODULE)
