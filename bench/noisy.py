"""Says when and where a figure was measured, if it differs from day to day and between machines.
SPDX-License-Identifier: MIT"""

import datetime
import os
import platform
from pathlib import Path


def stamp() -> str:
    found = [line.split(":", 1)[1].strip()
             for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith(("model name", "Model"))]
    load = os.getloadavg()[0]
    return (f"{datetime.date.today()}, {os.cpu_count()} cores of "
            f"{found[0] if found else platform.machine()}, "
            f"Linux {platform.release().split('-')[0]},\nload {load:.1f}. These figures are noisy. "
            "No test depends on them.")
