"""Are the bounds on the stack any?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import firmware
from bench.size import AGENT, HOOKS, bound
from bench.stack import frames
from sim.targets import TARGETS, run

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


IMAGE = """
#include <avr/interrupt.h>
#include <string.h>
static volatile char from[300], to[300];
static void (*volatile pointer)(void);
static void nothing(void) { }
__attribute__((noinline, noclone)) static char deep(char i) { volatile char a[20]; a[i] = %s; return a[0]; }
ISR(INT0_vect) { volatile char a[10]; a[to[0]] = 1; }
ISR(INT1_vect%s) { volatile char a[7]; a[to[0]] = 1; }
EMPTY_INTERRUPT(TIMER1_COMPA_vect)
int main(void)
{
    memcpy((char *)to, (const char *)from, sizeof to);
    for (pointer = nothing;;) {
        %s;
        to[1] = deep(to[0]);
    }
}
"""


def image_bound(folder: Path, value: str = "1", kind: str = "", loop: str = "sei()") -> int:
    """Of an AVR's image: main calls deep and memcpy, which has no report, and has three interrupts."""
    source = folder / "image.c"
    source.write_text(IMAGE % (value, kind, loop))
    compiler = ["avr-gcc", "-mmcu=atmega328p", "-std=c11", "-Os", "-w", "-fstack-usage"]
    run([*compiler, "-c", source, "-o", folder / "image.o"])
    run([*compiler, folder / "image.o", "-o", folder / "image.elf"])
    return firmware.bound(folder / "image.elf", folder / "image.su")


def test_the_stack_of_an_image(tmp_path: Path) -> None:
    deepest = image_bound(tmp_path)
    frame = frames(tmp_path / "image.su")
    assert 20 < frame["deep"] < 30 and frame["__vector_1"] > frame["__vector_2"] > 7
    assert deepest == frame["main"] + frame["deep"] + frame["__vector_1"]


@pytest.mark.parametrize(("what", "why"), [
    ({"value": "i ? deep(i - 1) : 1"}, "main calls deep calls deep"),
    ({"loop": "pointer()"}, "main calls by a pointer"),
    ({"kind": ", ISR_NOBLOCK"}, "__vector_2 lets in other interrupts")])
def test_an_image_without_a_bound(tmp_path: Path, what: dict[str, str], why: str) -> None:
    with pytest.raises(SystemExit, match=why):
        image_bound(tmp_path, **what)
