"""Is the bound on the stack one?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.size import AGENT, HOOKS, bound
from bench.stack import frames
from sim.targets import TARGETS

CHAIN = """
#include <stdint.h>
uint16_t dumpulse_get_timestamp(void);
void dumpulse_send_packet(void *context, const uint8_t *packet, unsigned length);
static int part(int i);
__attribute__((noinline, noclone)) static int leaf(int i) { volatile int a[9]; a[i] = i; return a[0]; }
__attribute__((noinline, noclone)) static int part(int i)
{ volatile int a[5]; a[i] = leaf(%s); return a[1]; }
int dumpulse_process_packet(int i)
{ dumpulse_send_packet(0, 0, 0); return part(i) + dumpulse_get_timestamp(); }
"""


def depth(folder: Path, name: str, inside: str) -> tuple[int, dict[str, int]]:
    target = TARGETS[name]
    source, image = folder / "chain.c", folder / "chain.elf"
    source.write_text(CHAIN % inside)
    target.compile(source, folder / "chain.o", "-fstack-usage")
    target.link([folder / "chain.o"], image, f"-Wl,-e,{AGENT}", "-Wl,-Ttext=0x0",
                *(f"-Wl,--defsym={hook}={at:#x}" for at, hook in HOOKS.items()))
    return bound(target, folder / "chain.o", image), frames(folder / "chain.su")


@pytest.mark.parametrize("name", ["ATmega328P", "Cortex-M0+", "rv32imc", "amd64", "i386"])
def test_frames_add_up_along_calls(tmp_path: Path, name: str) -> None:
    deepest, frame = depth(tmp_path, name, "i")
    assert set(frame) == {AGENT, "part", "leaf"}
    assert deepest == sum(frame.values()) > max(frame.values())


@pytest.mark.parametrize("name", ["ATmega328P", "Cortex-M0+", "rv32imc", "amd64", "i386"])
def test_recursion_has_no_bound(tmp_path: Path, name: str) -> None:
    with pytest.raises(SystemExit, match="calls part calls part"):
        depth(tmp_path, name, "i ? part(i - 1) : 1")
