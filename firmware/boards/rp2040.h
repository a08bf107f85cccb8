/* An RP2040, as on the Raspberry Pi Pico.   SPDX-License-Identifier: MIT
 *
 * UART 0 sends at GP0 and receives at GP1. The crystal of 12 MHz is the clock. Core 1 sleeps on.
 * Sections in comments are of the data sheet.
 */
#ifndef RP2040_H
#define RP2040_H

enum { CLOCK = 12000000, UART_IRQ = 20, IRQS = 21 };
#include "boards/cortex_m.h"

#define SET 0x2000   /* offset of the address that sets bits */
#define CLEAR 0x3000 /* offset of the address that clears bits */
#define WAIT 1       /* added to a setting's address: waits until these bits are set */
#define RESET_BY_WATCHDOG 0x40010008 /* PSM_WDSEL: what the watchdog resets */
#define CLOCK_REFERENCE 0x40008030
#define CLOCK_REFERENCE_IS 0x40008038
#define CLOCK_PERIPHERALS 0x40008048
#define RESETS 0x4000C000
#define RESET_DONE 0x4000C008
#define PIN_FUNCTION(pin) (0x40014004 + 8 * (pin))
#define PAD(pin) (0x4001C004 + 4 * (pin))
#define CRYSTAL 0x40024000
#define CRYSTAL_STATE 0x40024004
#define CRYSTAL_STARTUP 0x4002400C
#define UART(offset) (0x40034000 + (offset)) /* a PL011 */
#define UART_DATA REGISTER(UART(0x00))
#define UART_STATE REGISTER(UART(0x18))
#define CHIP_RESET REGISTER(0x40064008) /* 2.10.6: not changed by a reset by the watchdog */
#define WATCHDOG_CONTROL 0x40058000
#define WATCHDOG_LOAD 0x40058004
#define WATCHDOG_REASON REGISTER(0x40058008) /* 4.7.6: 1 by its timer, 2 forced, else 0 */
#define WATCHDOG_TICK 0x4005802C

enum { NOTHING = 0x10, FULL = 0x20, OVERRUN = 0x800 }; /* bits of UART_STATE, and of UART_DATA */
enum { DIVIDER = (CLOCK * 8LL / BAUD + 1) / 2 };       /* clock / 16 / baud rate, in 64ths */
enum { WATCHDOG_TIME = 2 * 2000000 }; /* 2 s: it counts each microsecond twice, erratum RP2040-E1 */
enum { PARTS = 1 << 5 | 1 << 8 | 1 << 22 }; /* bits of RESETS: the pins, their pads, UART 0 */

/* The chip's ROM copies the first 256 bytes of the flash into its RAM, checks their CRC, and runs
 * them. These set the flash so that the core can read its code there, with the command 03 that all
 * flash chips know, and give the program its table of vectors. A test checks the CRC. */
__asm__(".syntax unified\n .section .boot, \"a\"\n .balign 4\n"
        " ldr r3, ssi\n"
        " movs r0, 0\n str r0, [r3, 0x08]\n" /* SSIENR: off, to be set */
        " movs r1, 4\n str r1, [r3, 0x14]\n" /* BAUDR: a quarter of the clock */
        " ldr r1, frames\n str r1, [r3]\n"   /* CTRLR0: it sends a command, and reads 32 bits */
        " str r0, [r3, 0x04]\n"              /* CTRLR1: one of them */
        " ldr r1, command\n adds r3, 0xF4\n str r1, [r3]\n" /* SPI_CTRLR0: 03, 24-bit address */
        " subs r3, 0xF4\n movs r0, 1\n str r0, [r3, 0x08]\n"
        " ldr r0, program\n ldr r1, table\n str r0, [r1]\n"
        " ldmia r0!, {r1, r2}\n msr msp, r1\n bx r2\n"
        " .hword 0\n"
        "ssi: .word 0x18000000\nframes: .word 0x001F0300\ncommand: .word 0x03000218\n"
        "program: .word vectors\ntable: .word 0xE000ED08\n"
        " .org 252\n .word 0x30EC0D22\n .text\n");

/* The watchdog has started the chip by its timer (1) or was forced to (2). Otherwise RUN_PIN is 1
 * after a reset by the pin. The debugger's restart leads to a safe mode (2.10.6). */
static inline uint8_t board_reset_cause(void)
{
    const uint32_t reason = WATCHDOG_REASON;
    enum { RUN_PIN = 16 }; /* the number of a bit */

    if (reason != 0)
        return (uint8_t)(RESET_WATCHDOG - 1 + reason);
    return CHIP_RESET >> RUN_PIN & 1 ? RESET_PIN : RESET_POWER_UP;
}

/* The chip begins with its ring oscillator, 1.8 to 12 MHz (data sheet, 2.17). The watchdog counts
 * its clocks (4.7.2) before anything is waited for, so that a crystal that does not start causes a
 * reset after each 2 to 13.4 s. With a crystal it is 2 s. */
static inline void board_start(void)
{
    static const setting settings[] = {
        {WATCHDOG_TICK, 1 << 9 | CLOCK / 1000000},
        {WATCHDOG_LOAD, WATCHDOG_TIME},
        {RESET_BY_WATCHDOG, 0x1FFFC}, /* everything but the oscillators */
        {WATCHDOG_CONTROL + SET, 1U << 30},
        {CRYSTAL_STARTUP, 64 * 47}, /* 64 ms, in 256 of its clocks (2.16): for slow crystals */
        {CRYSTAL, 0xFABAA0},        /* on, for 1 to 15 MHz */
        {CRYSTAL_STATE + WAIT, 1U << 31},
        {CLOCK_REFERENCE, 2}, /* the crystal, and the core's clock follows it (2.15) */
        {CLOCK_REFERENCE_IS + WAIT, 1 << 2},
        {CLOCK_PERIPHERALS, 1 << 11},
        {RESETS + CLEAR, PARTS},
        {RESET_DONE + WAIT, PARTS},
        {0xE000E014, CLOCK / TICKS - 1}, /* SysTick, which start_ticks() sets on other chips */
        {0xE000E018, 0},
        {0xE000E010, 7},
        {UART(0x24), DIVIDER / 64},
        {UART(0x28), DIVIDER % 64},
        {UART(0x2C), 0x70},  /* 8 bits, and it holds 32 bytes */
        {UART(0x30), 0x301}, /* on: it receives and sends */
        {UART(0x38), 0x50},  /* bytes that came cause an interrupt */
        {PAD(1), 0x5A},      /* an input with a pull-up: an open line rests */
        {PIN_FUNCTION(0), 2},
        {PIN_FUNCTION(1), 2},
    };

    for (size_t i = 0; i != sizeof settings / sizeof settings[0]; i++) {
        const setting *const set = &settings[i];
        if (set->address & WAIT)
            while ((REGISTER(set->address - WAIT) & set->value) != set->value) {
            }
        else
            REGISTER(set->address) = set->value;
    }
}

static inline void board_feed(void)
{
    REGISTER(WATCHDOG_LOAD) = WATCHDOG_TIME;
}

static inline void uart_receive(void)
{
    while (!(UART_STATE & NOTHING) && !serial_full(&ring)) {
        const uint32_t data = UART_DATA;
        if (data & OVERRUN)
            serial_lose(&ring);
        serial_add(&ring, (uint8_t)data);
    }
}

static inline bool uart_send(uint8_t byte)
{
    if (UART_STATE & FULL)
        return false;
    UART_DATA = byte;
    return true;
}

#endif /* RP2040_H */
