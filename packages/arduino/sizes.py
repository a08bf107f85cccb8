"""How large the examples are on an Arduino Uno, beside sketches without Dumpulse.

    python3 -m packages.arduino.sizes    prints the table that README.md shows

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from packages import project
from packages.arduino import builder, make

# Sketches without Dumpulse, and the examples that need no library but the core. The others would
# be compiled against stand-ins, so their sizes would mean nothing.
WITHOUT = {
    "empty": "void setup() {}\nvoid loop() {}\n",
    "echo": """void setup() { Serial.begin(115200); }
void loop() { if (Serial.available() > 0) Serial.write(Serial.read()); }
""",
}
EXAMPLES = ("SerialNode", "SerialAgent", "SilentNodeLed")


def sizes(folder: Path) -> dict[str, builder.Compiled]:
    """Compiles the sketches, with the library as it is in the zip file."""
    (library,) = make.build(folder)
    with zipfile.ZipFile(library) as packed:
        packed.extractall(folder / "libraries")
    sketches = [folder / "libraries" / project.NAME / "examples" / name / f"{name}.ino"
                for name in EXAMPLES]
    for name, text in WITHOUT.items():
        (folder / name).mkdir()
        (folder / name / f"{name}.ino").write_text(text)
    return {sketch.stem: builder.build(sketch, "uno", [folder / "libraries"], folder / "build")
            for sketch in [*(folder / name / f"{name}.ino" for name in WITHOUT), *sketches]}


def table() -> str:
    with tempfile.TemporaryDirectory() as folder:
        found = sizes(Path(folder))
    empty = found["empty"]
    lines = [f"Bytes on an Arduino Uno, by avr-gcc {builder.gcc_version()}:", "",
             "sketch          flash   RAM   more than empty: flash   RAM"]
    lines += [f"{name:14}  {size.flash:5}  {size.ram:4}  {size.flash - empty.flash:23}"
              f"  {size.ram - empty.ram:4}" for name, size in found.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
