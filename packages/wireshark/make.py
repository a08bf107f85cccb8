"""Makes the dissector for Wireshark: the script with its version.   SPDX-License-Identifier: MIT"""

from pathlib import Path

from packages import making

SCRIPT = Path(__file__).resolve().parent / "dumpulse.lua"
build = making.with_version(SCRIPT)
