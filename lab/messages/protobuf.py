"""What nanopb and protobuf-c make of message.proto, in build/lab/protobuf.

Debian 12 has nanopb 0.4.7 and protobuf-c 1.4.1, whose libraries sources.tsv fetches.
SPDX-License-Identifier: MIT"""

import shutil
from pathlib import Path

from lab.messages.machines import once
from tests.support.programs import BUILD, run, scratch

PROTO = Path(__file__).with_name("c") / "protobuf" / "message.proto"
FOLDER = BUILD / "lab" / "protobuf"
# The command of each generator, and the package that has it.
GENERATORS = {("protoc", "--nanopb_out"): "nanopb", ("protoc-c", "--c_out"): "protobuf-c-compiler"}


@once
def generated() -> Path:
    """Makes the files anew in each run of a program, so that none is older than message.proto."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with scratch() as folder:
        for (command, option), package in GENERATORS.items():
            if shutil.which(command) is None:
                raise SystemExit(f"lab: {command} is missing: `make setup` installs {package}")
            run([command, f"{option}={folder}", PROTO.name], cwd=PROTO.parent)
        for file in Path(folder).iterdir():
            file.replace(FOLDER / file.name)  # at once, as another program may read the old one
    return FOLDER
