/* An agent with keys on an ATmega328P's UART, as on an Arduino Uno.   SPDX-License-Identifier: MIT
 *
 * keyed_atmega328p.md says how to wire, flash and try it. keyed_avr.c has the keys. The line has
 * 8 data bits, no parity, 1 stop bit. Interrupts receive and send the bytes.
 */
#ifndef BAUD
#define BAUD 9600UL
#endif
#define OWN_SENDER
#include BOARD
#include "keyed_line.h"

/* The last byte needs ten bits, and then beacons have a pause of 2 ms: a node without a UART hears
 * nothing while it checks the tag of a beacon. In counts of timer 1. */
enum { PAUSE = F_CPU / 1024 * 10 / BAUD + F_CPU / 1024 / 500 };

static uint16_t ended; /* timer 1, when the last byte left */

ISR(USART_UDRE_vect)
{
    UDR0 = next_byte();
    if (!sends) {
        UCSR0B &= (uint8_t)~_BV(UDRIE0);
        ended = TCNT1;
    }
}

static void chip_start_sending(void)
{
    UCSR0B |= _BV(UDRIE0);
}

static bool chip_rests(void)
{
    const uint16_t now = TCNT1;
    return (now >= ended ? now - ended : now + SECOND + 1U - ended) >= PAUSE;
}

int main(void)
{
    uint8_t fed = 0; /* the low byte of the second in which the watchdog was fed */

    (void)board_reset_cause(); /* clears the flags */
    board_start();
    keyed_start();
    for (;;) {
        const uint8_t now = board_ticks();
        if (now != fed) {
            fed = now;
            board_feed();
            keyed_each_second(&keyed);
        }
        board_rest();
        take_byte();
        keyed_go_on(&keyed);
    }
}
