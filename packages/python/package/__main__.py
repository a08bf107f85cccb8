"""python -m dumpulse is the command.   SPDX-License-Identifier: MIT"""

import sys

from . import main

sys.argv[0] = "dumpulse"  # help and errors begin with this name
main()
