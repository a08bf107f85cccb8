"""Runs a command of the lab for lab/run."""

import sys

# Nothing comes from where the user is, nor from this folder: Python has a `profile`, too.
sys.path[0] = __file__.rpartition("/lab/")[0]

VERSION = "0.1.0"
LEAST = (3, 11)
# The module of each command, whose main() it is.
MODULES = {"formats": "lab.joules.formats", "groups": "lab.joules.jvm",
           "measure": "lab.joules.measure", "profile": "lab.joules.profile",
           "sandwich": "lab.joules.sandwich",
           "tables": "lab.joules.tables"}


def main() -> None:
    import importlib  # not before the path is right
    import os
    if sys.version_info < LEAST:
        sys.exit(f"lab/run: this is Python {sys.version.split()[0]}; it needs "
                 "{}.{} or a later one".format(*LEAST))
    if sys.argv[1:] == ["--version"]:
        print(f"lab {VERSION} (experimental)")
        return
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(f"usage: lab/run COMMAND [OPTION …]\n\nCommands: {', '.join(MODULES)}.\n"
              "Each has --help; lab/README.md is their page.")
        return
    if len(sys.argv) < 2 or sys.argv[1] not in MODULES:
        sys.stderr.write(f"lab/run needs a command of the lab: {', '.join(MODULES)}\n")
        sys.exit(2)
    name = sys.argv.pop(1)
    sys.argv[0] = f"lab/run {name}"
    if sys.stdout is None:  # it was closed
        sys.stdout = open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # A command's name may be no text at all.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from tools.programs import as_program
    try:
        as_program(importlib.import_module(MODULES[name]).main, ".*")
    except KeyboardInterrupt:
        sys.exit(130)  # The status that shells use.
    except OSError as fault:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"lab/run {name}: {fault}")


main()
