"""Are the bounds on the stack true?"""

from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.size import AGENT, bound, hooks_of
from firmware.costs import images
from tools.processors import memory
from tools.processors.memory import frames
from tools.processors.targets import TARGETS
from tools.programs import run
from tools.tiers import tiered

SOURCE, BEGIN = AGENT
CHAIN = """
#include <stdint.h>
uint16_t dumpulse_get_timestamp(void);
void dumpulse_send_packet(void *context, const uint8_t *packet, unsigned length);
static int part(int i);
__attribute__((noinline, noclone))
static int leaf(int i) { volatile int a[9]; a[i] = i; return a[0]; }
__attribute__((noinline, noclone)) static int part(int i)
{ volatile int a[5]; a[i] = leaf(%s); return a[1]; }
int dumpulse_process_packet(int i)
{ dumpulse_send_packet(0, 0, 0); return part(i) + dumpulse_get_timestamp(); }
"""


def is_quick(name: str) -> bool:
    return TARGETS[name].quick


def depth(folder: Path, name: str, inside: str) -> tuple[int, dict[str, int]]:
    target = TARGETS[name]
    source, image = folder / "chain.c", folder / "chain.elf"
    source.write_text(CHAIN % inside)
    target.compile(source, folder / "chain.o", "-fstack-usage")
    target.link([folder / "chain.o"], image, f"-Wl,-e,{BEGIN}", "-Wl,-Ttext=0x0",
                *(f"-Wl,--defsym={hook}={at:#x}" for at, hook in hooks_of(target, SOURCE).items()))
    return bound(target, [folder / "chain.o"], image, AGENT), frames(folder / "chain.su")


@pytest.mark.parametrize("name", tiered(TARGETS, is_quick))
def test_frames_add_up_along_calls(tmp_path: Path, name: str) -> None:
    """Calls by a pointer and recursion have no bound."""
    with pytest.raises(SystemExit, match="part calls by a pointer"):
        depth(tmp_path, name, "((int (*)(int))(long)i)(1)")
    if name in ("ATmega328P", "Cortex-M0+", "rv32imc", "amd64", "i386"):
        deepest, frame = depth(tmp_path, name, "i")
        assert set(frame) == {BEGIN, "part", "leaf"}
        assert deepest == sum(frame.values()) > max(frame.values())
        with pytest.raises(SystemExit, match="calls part calls part"):
            depth(tmp_path, name, "i ? part(i - 1) : 1")


@pytest.mark.parametrize(("instruction", "does"), [
    ("bxne r3", True), ("blx lr", True), ("ldr pc, [r3, #4]", True), ("ldr.w pc, [sp], #4", False),
    ("jr a5", True), ("c.jr a5", True), ("jalr a5", True), ("eicall", True), ("ijmp", True),
    ("bctr", True), ("bctrl", True), ("blrl", True),
    ("notrack jmp *%rax", True), ("bxeq lr", False), ("blt.n 10 <f>", False), ("blr", False),
    ("jalr -20(ra) # 80 <f>", False), ("jr 8(t1) # 80 <f>", False), ("pop {r4, pc}", False)])
def test_what_goes_by_a_pointer(instruction: str, does: bool) -> None:
    what, _, operands = instruction.partition(" ")
    assert memory.by_pointer(what, operands) is does


IMAGE = """
#include <avr/interrupt.h>
#include <string.h>
static volatile char from[300], to[300];
static void (*volatile pointer)(void);
static void nothing(void) { }
__attribute__((noinline, noclone))
static char deep(char i) { volatile char a[20]; a[i] = VALUE; return a[0]; }
MORE
ISR(INT0_vect) { volatile char a[10]; a[to[0]] = 1; SERVED; }
ISR(INT1_vect KIND) { volatile char a[7]; a[to[0]] = 1; }
EMPTY_INTERRUPT(TIMER1_COMPA_vect)
int main(void)
{
    memcpy((char *)to, (const char *)from, sizeof to);
    for (pointer = nothing;;) {
        LOOP;
        to[1] = deep(to[0]);
    }
}
"""
ORDINARY = {"VALUE": "1", "MORE": "", "SERVED": "", "KIND": "", "LOOP": "sei()"}


def image_bound(folder: Path, **instead: str) -> int:
    """Returns the bound for an image of an AVR. Its main() calls deep() and memcpy(), which has no
    report. The image has three interrupts."""
    source, text = folder / "image.c", IMAGE
    for name, value in (ORDINARY | instead).items():
        text = text.replace(name, value)
    source.write_text(text)
    compiler = ["avr-gcc", "-mmcu=atmega328p", "-std=gnu11", "-Os", "-w", "-fstack-usage"]
    run([*compiler, "-c", source, "-o", folder / "image.o"])
    run([*compiler, folder / "image.o", "-o", folder / "image.elf"])
    return images.bound(folder / "image.elf", folder / "image.su")


def test_the_stack_of_an_image(tmp_path: Path) -> None:
    deepest = image_bound(tmp_path)
    frame = frames(tmp_path / "image.su")
    assert 20 < frame["deep"] < 30 and frame["__vector_1"] > frame["__vector_2"] > 7
    assert deepest == frame["main"] + frame["deep"] + frame["__vector_1"]


def test_the_stack_of_assembly(tmp_path: Path) -> None:
    """A function that pushes registers at its beginning, and then calls another one."""
    deepest = image_bound(
        tmp_path, LOOP='asm("call hidden")',
        MORE='asm("hidden: push r28\\n push r29\\n call deep\\n pop r29\\n pop r28\\n ret");')
    frame = frames(tmp_path / "image.su")
    assert deepest == frame["main"] + 2 + images.RETURN + frame["deep"] + frame["__vector_1"]


NAKED = 'ISR(PCINT0_vect, ISR_NAKED) { asm("%s"); }'
SERVANT = "__attribute__((noinline)) static void servant(void) { %s; }"


@pytest.mark.parametrize(("what", "why"), [
    ({"VALUE": "i ? deep(i - 1) : 1"}, "main calls deep calls deep"),
    ({"LOOP": "pointer()"}, "main calls by a pointer"),
    ({"MORE": SERVANT % "volatile char a[to[0]]; a[to[1]] = 1", "LOOP": "servant()"},
     "servant\t.*\tdynamic"),
    ({"MORE": 'asm("hidden: nop\\n push r24\\n pop r24\\n ret");', "LOOP": 'asm("call hidden")'},
     "main calls hidden"),
    ({"SERVED": 'asm("call main + 4")'}, "main lets in other interrupts"),
    ({"KIND": ", ISR_NOBLOCK"}, "__vector_2 lets in other interrupts"),
    ({"MORE": NAKED % "nop\\n push r24\\n pop r24\\n reti"}, "on the stack: __vector_3")])
def test_an_image_without_a_bound(tmp_path: Path, what: dict[str, str], why: str) -> None:
    with pytest.raises(SystemExit, match=why):
        image_bound(tmp_path, **what)


@pytest.mark.parametrize(("what", "operands", "does"), [
    ("cpsie", "i", True), ("cpsid", "i", False), ("sei", "", True), ("cli", "", False)])
def test_what_lets_in_an_interrupt(what: str, operands: str, does: bool) -> None:
    """On AVR and Cortex-M."""
    code = {"served": [(0, what, operands)], "loop": [(2, "cpsie", "i")]}
    with pytest.raises(SystemExit, match="served lets in") if does else nullcontext():
        images.refuse_nesting(Path("image"), code, {"served"})
