"""Runs the command of the lab that lab/command was called as: lab/NAME is lab.joules.NAME.main().

SPDX-License-Identifier: MIT
"""

import sys

# Nothing comes from where the user is, nor from this folder: Python has a `profile`, too.
sys.path[0] = __file__.rpartition("/lab/joules/")[0]

LEAST = (3, 11)


def main() -> None:
    import importlib  # not before the path is right
    import os
    import re
    name = sys.argv.pop(1)
    sys.argv[0] = f"lab/{name}"
    if sys.version_info < LEAST:
        sys.exit(f"lab/{name}: this is Python {sys.version.split()[0]}; it needs "
                 "{}.{} or a later one".format(*LEAST))
    module = f"lab.joules.{name}"
    if not re.fullmatch("[a-z]+", name) or \
            not os.path.exists(os.path.join(sys.path[0], *module.split(".")) + ".py"):
        sys.exit(f"lab/{name}: the lab has no such command")
    try:
        try:
            importlib.import_module(module).main()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells have it
    except BrokenPipeError:  # whoever read the output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ModuleNotFoundError as missing:
        sys.exit(f"lab/{name}: the Python package {missing.name} is missing. "
                 "`make setup` installs all that the lab uses.")


main()
