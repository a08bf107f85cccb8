/* An agent with keys on an STM32F103, whose only memory is flash.   SPDX-License-Identifier: MIT
 *
 * keyed_stm32.md describes how to wire, flash and try it. stm32_flash.h has the keys and the
 * number. The line has 9600 baud, 8 data bits, no parity, 1 stop bit. The clock is the internal
 * oscillator. */
#define BAUD 9600
#define TICKS 256 /* in a second */
#define OWN_SENDER
#include BOARD
#include "keyed_line.h"
#include "stm32_flash.h"

#define LED_HIGH REGISTER(0x40011004) /* port C's pins 8 to 15 */
#define LED_SET REGISTER(0x40011010)
enum { LED = 13 };               /* of a Blue Pill: lit when it is low */
enum { INTERRUPT_EMPTY = 0x80 }; /* of UART_CONTROL */

static volatile uint8_t ended; /* ticks, when the last byte was given to the UART */

uint8_t keyed_turns(void)
{
    return (uint8_t)(ticks / 4); /* 64 in a second: an epoch has 10.16 seconds */
}

void keyed_show(bool is_lit)
{
    LED_SET = 1U << (is_lit ? LED + 16 : LED);
}

static void on_uart(void)
{
    if (sends && UART_STATE & EMPTY) {
        UART_DATA = next_byte();
        ended = (uint8_t)ticks;
        if (!sends)
            REGISTER(UART_CONTROL) &= ~(uint32_t)INTERRUPT_EMPTY;
    }
    if (UART_STATE & (READY | OVERRUN)) /* else reading could lose a byte that comes just now */
        serve_uart();
}

static void chip_start_sending(void)
{
    REGISTER(UART_CONTROL) |= INTERRUPT_EMPTY;
}

/* A tick has 3.9 ms, so two and a part are at least the 2 ms after two bytes of 1.04 ms. */
static bool chip_rests(void)
{
    return (uint8_t)(ticks - ended) > 2;
}

int main(void)
{
    uint8_t fed = 0; /* the tick in which the watchdog was fed */
    uint16_t last = 0;

    start_dog(250);
    set_line_pins();
    CLOCKS |= 1U << 4; /* port C */
    keyed_show(false);
    LED_HIGH = 0x44644444; /* an open-drain output */
    start_ticks(CLOCK);
    start_uart();
    for (;;) {
        const uint8_t now = board_ticks();
        if (now != fed)
            board_feed(); /* only here: it resets a chip whose loop or clock stands still */
        fed = now;
        board_rest();
        const uint16_t second = board_time();
        if (second != last)
            keyed_each_second(&keyed);
        last = second;
        take_byte();
        keyed_go_on(&keyed);
    }
}
