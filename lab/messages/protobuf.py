"""What nanopb makes of message.proto, in build/lab/protobuf.

Debian 12 has nanopb 0.4.7, whose library sources.tsv fetches.   SPDX-License-Identifier: MIT"""

import shutil
from pathlib import Path

from lab.messages.machines import once
from tests.support.programs import BUILD, run, scratch

PROTO = Path(__file__).with_name("c") / "protobuf" / "message.proto"
FOLDER = BUILD / "lab" / "protobuf"


@once
def generated() -> Path:
    """Makes the files anew in each run of a program, so that none is older than message.proto."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if shutil.which("protoc") is None:
        raise SystemExit("lab: protoc is missing: `make setup` installs nanopb")
    with scratch() as folder:
        run(["protoc", f"--nanopb_out={folder}", PROTO.name], cwd=PROTO.parent)
        for file in Path(folder).iterdir():
            file.replace(FOLDER / file.name)  # at once, as another program may read the old one
    return FOLDER
