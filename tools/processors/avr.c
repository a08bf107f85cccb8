/* Calls functions of an AVR image, one at a time, on simavr.   SPDX-License-Identifier: MIT
 *
 *     avr MCU IMAGE TIME_HOOK SEND_HOOK CHANGED_HOOK KEY_HOOK LOAD_HOOK STORE_HOOK
 *
 * The hooks are byte addresses in flash without code. A call to one of them is answered here, in no
 * cycles. All numbers are hexadecimal. The program prints "ready RAMSTART". Then each line of the
 * standard input is a command, and the answer goes to the standard output:
 *
 *     w ADDRESS BYTES    write data memory (registers are 0 to 1f)
 *     r ADDRESS COUNT    read data memory: the bytes
 *     f ADDRESS BYTES    write program memory
 *     t TIME             set the time that the time hook returns
 *     c ADDRESS          call a function: prints a line for each hook that it calls ("time",
 *                        "send CONTEXT POINTER LENGTH BYTES",
 *                        "changed CONTEXT VARIABLE WAS IS",
 *                        "key POINTER LABEL", "load 0 0" or "store NUMBER 0"), then
 *                        "done CYCLES STACK", or "lost PC" if it does not return
 *     s ADDRESS          the same, and prints "at PC" before each instruction
 *     g RESULT           go on: the result of a hook "changed", "key", "load" or "store", which
 *                        waits for this
 *
 * CYCLES counts from the function's first instruction to the end of its return. STACK is how many
 * bytes are pushed below the caller's stack pointer, with the return address of the call itself.
 */
#include "avr_host.h" /* first: simavr's other headers need what it includes */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/sim_core.h>

enum { CYCLES_MAX = 1000000, LINE_MAX_BYTES = 4096, R24 = 24, R22 = 22, R20 = 20, R18 = 18 };

static avr_t *avr;
static unsigned time_hook, send_hook, changed_hook, key_hook, load_hook, store_hook;
static uint16_t now;
static unsigned long answer; /* the result that a hook returns */

static void set_stack_pointer(unsigned value)
{
    avr->data[R_SPL] = (uint8_t)value;
    avr->data[R_SPH] = (uint8_t)(value >> 8);
}

/* A return address is a word address. Its low byte is pushed first, so it lies big-endian. */
static void push_return(unsigned words)
{
    unsigned sp = stack_pointer(avr);
    for (int i = 0; i < avr->address_size; i++, words >>= 8)
        avr->data[sp--] = (uint8_t)words;
    set_stack_pointer(sp);
}

static unsigned pop_return(void)
{
    unsigned sp = stack_pointer(avr), words = 0;
    for (int i = 0; i < avr->address_size; i++)
        words = words << 8 | avr->data[++sp];
    set_stack_pointer(sp);
    return words;
}

static unsigned pair(unsigned reg)
{
    return avr->data[reg] | (unsigned)avr->data[reg + 1] << 8;
}

static void print_bytes(unsigned address, unsigned count)
{
    for (unsigned i = 0; i < count && address + i <= avr->ramend; i++)
        printf("%02x", avr->data[address + i]);
    putchar('\n');
}

static void write_bytes(uint8_t *memory, unsigned end, unsigned address, const char *hex)
{
    unsigned byte;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        if (address > end)
            fail("write beyond the end of a memory");
        memory[address++] = (uint8_t)byte;
    }
}

static bool serve(void);

/* Takes commands until one says what the hook returns. */
static void ask(void)
{
    fflush(stdout);
    while (serve()) {
    }
    if (avr->pc == load_hook) /* it returns 32 bits */
        for (unsigned i = 0; i != 4; i++)
            avr->data[R22 + i] = (uint8_t)(answer >> 8 * i);
    else
        avr->data[R24] = (uint8_t)answer;
    avr->pc = pop_return() * 2;
}

static void call(unsigned function, bool prints_steps)
{
    const unsigned home = avr->flashend - 1; /* the last word of the flash, where no code is */
    const unsigned top = avr->ramend;
    unsigned lowest = top;

    set_stack_pointer(top);
    push_return(home / 2);
    avr->data[1] = 0; /* the compiler's zero register */
    avr->pc = function;
    avr->state = cpu_Running;
    const avr_cycle_count_t start = avr->cycle;
    while (avr->pc != home) {
        if (avr->cycle - start > CYCLES_MAX || avr->state != cpu_Running) {
            printf("lost %x\n", (unsigned)avr->pc);
            return;
        }
        if (avr->pc == time_hook) {
            puts("time");
            avr->data[R24] = (uint8_t)now;
            avr->data[R24 + 1] = (uint8_t)(now >> 8);
            avr->pc = pop_return() * 2;
        } else if (avr->pc == send_hook) {
            printf("send %x %x %x ", pair(R24), pair(R22), pair(R20));
            print_bytes(pair(R22), pair(R20));
            avr->pc = pop_return() * 2;
        } else if (avr->pc == changed_hook) {
            printf("changed %x %x %x %x\n", pair(R24), avr->data[R22], avr->data[R20],
                   avr->data[R18]);
            ask();
        } else if (avr->pc == key_hook) {
            printf("key %x %x\n", pair(R24), avr->data[R22]);
            ask();
        } else if (avr->pc == load_hook) {
            puts("load 0 0");
            ask();
        } else if (avr->pc == store_hook) {
            printf("store %lx 0\n", pair(R22) | (unsigned long)pair(R24) << 16);
            ask();
        } else {
            if (prints_steps)
                printf("at %x\n", (unsigned)avr->pc);
            avr->pc = avr_run_one(avr);
        }
        if (stack_pointer(avr) < lowest)
            lowest = stack_pointer(avr);
    }
    if (stack_pointer(avr) != top) {
        printf("lost %x\n", (unsigned)avr->pc);
        return;
    }
    printf("done %x %x\n", (unsigned)(avr->cycle - start), top - lowest);
}

/* Takes a command. Returns false after the last one, and after the result of a hook. */
static bool serve(void)
{
    char line[LINE_MAX_BYTES], *rest;

    if (fgets(line, sizeof line, stdin) == NULL)
        return false;
    const unsigned first = (unsigned)strtoul(line + 1, &rest, 16);
    switch (line[0]) {
    case 'w': write_bytes(avr->data, avr->ramend, first, rest + 1); break;
    case 'f': write_bytes(avr->flash, avr->flashend, first, rest + 1); break;
    case 'r': print_bytes(first, (unsigned)strtoul(rest, NULL, 16)); break;
    case 't': now = (uint16_t)first; break;
    case 'c':
    case 's': call(first, line[0] == 's'); break;
    case 'g': answer = first; return false;
    default: fail("unknown command");
    }
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    unsigned *const hooks[] = {&time_hook, &send_hook, &changed_hook,
                               &key_hook,  &load_hook, &store_hook};

    if (argc != 9)
        fail("usage: avr MCU IMAGE TIME_HOOK SEND_HOOK CHANGED_HOOK KEY_HOOK LOAD_HOOK STORE_HOOK");
    avr = load_chip(argv[1], argv[2]);
    for (int i = 0; i < 6; i++)
        *hooks[i] = (unsigned)strtoul(argv[3 + i], NULL, 16);

    printf("ready %x\n", avr->ioend + 1U); /* after what simavr itself has printed */
    fflush(stdout);
    while (serve()) {
    }
    return 0;
}
