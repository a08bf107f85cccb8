/* An nRF51822, as on the BBC micro:bit.   SPDX-License-Identifier: MIT
 *
 * This Cortex-M0 has no SysTick, so timer 0 is the clock. Sections are of the reference manual 3.0.
 */
#ifndef NRF51_H
#define NRF51_H

#define TIMER_IRQ 8
enum { UART_IRQ = 2, IRQS = TIMER_IRQ + 1 };
enum { SEND_PIN = 24, RECEIVE_PIN = 25 }; /* the micro:bit's USB is at these */
#include "boards/cortex_m.h"

#define CRYSTAL_START 0x40000000
#define RESET_FLAGS REGISTER(0x40000400) /* RESETREAS: writing a bit clears it */
#define UART(offset) (0x40002000 + (offset))
#define UART_RECEIVED REGISTER(UART(0x108))
#define UART_SENT REGISTER(UART(0x11C))
#define UART_ERROR REGISTER(UART(0x124))
#define UART_ERRORS REGISTER(UART(0x480)) /* writing a bit clears it */
#define UART_IN REGISTER(UART(0x518))
#define UART_OUT REGISTER(UART(0x51C))
#define TIMER(offset) (0x40008000 + (offset))
#define WATCHDOG(offset) (0x40010000 + (offset))
#define PIN_SETTING(pin) (0x50000700 + 4 * (pin))
#define PINS_SET 0x50000508

enum { TIMER_RATE = 31250, OVERRUN = 1 }; /* 16 MHz divided by 2^9; a bit of UART_ERRORS */

static bool sending; /* UART_OUT holds a byte until UART_SENT is 1 */

/* A digit for each value of the lowest three flags: software, watchdog, pin. No flag is set by a
 * power-up or a brown-out (chapter POWER, RESETREAS). */
enum { CAUSES = 0x44554431 };

static inline uint8_t board_reset_cause(void)
{
    const uint32_t flags = RESET_FLAGS;

    RESET_FLAGS = flags;
    return flags > 7 ? RESET_OTHER : CAUSES >> flags * 4 & 7;
}

static inline void board_start(void)
{
    static const setting settings[] = {
        {WATCHDOG(0x504), 2 * 32768 - 1}, /* 2 s of its own oscillator */
        {WATCHDOG(0x508), 1},             /* the first of its 8 registers feeds it */
        {WATCHDOG(0x000), 1},             /* it starts */
        {CRYSTAL_START, 1},               /* an RC oscillator clocks the chip until it is stable */
        {TIMER(0x508), 3},                /* 32 bits */
        {TIMER(0x510), 9},
        {TIMER(0x540), TIMER_RATE / TICKS},
        {TIMER(0x200), 1},       /* it starts over then, */
        {TIMER(0x304), 1 << 16}, /* the compare event requests an interrupt */
        {TIMER(0x000), 1},
        {IRQ_ENABLE(TIMER_IRQ), 1 << TIMER_IRQ},
        {PINS_SET, 1 << SEND_PIN}, /* a line rests high */
        {PIN_SETTING(SEND_PIN), 1},
        {PIN_SETTING(RECEIVE_PIN), 0xC}, /* an input with a pull-up: an open line rests */
        {UART(0x50C), SEND_PIN},
        {UART(0x514), RECEIVE_PIN},
        {UART(0x524), 0x01D7E000}, /* 115,200 baud */
        {UART(0x500), 4},          /* on */
        {UART(0x304), 1 << 2},     /* UART_RECEIVED causes an interrupt */
        {UART(0x000), 1},          /* receives */
        {UART(0x008), 1},          /* sends */
    };

    SET_REGISTERS(settings);
}

static inline void board_feed(void)
{
    REGISTER(WATCHDOG(0x600)) = 0x6E524635;
}

static void on_timer(void)
{
    REGISTER(TIMER(0x140)) = 0;
    on_tick();
}

static inline void uart_receive(void)
{
    UART_RECEIVED = 0; /* before UART_IN is read: the next byte may come at once */
    if (UART_ERROR) {
        UART_ERROR = 0;
        if (UART_ERRORS & OVERRUN)
            serial_lose(&ring);
        UART_ERRORS = UART_ERRORS;
    }
    serial_add(&ring, (uint8_t)UART_IN);
}

static inline bool uart_send(uint8_t byte)
{
    if (sending && !UART_SENT)
        return false;
    UART_SENT = 0;
    UART_OUT = byte;
    sending = true;
    return true;
}

#endif /* NRF51_H */
