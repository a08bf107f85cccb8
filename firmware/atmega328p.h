/* What the images for an ATmega328P share.   SPDX-License-Identifier: MIT
 *
 * Timer 1 counts seconds. With BAUD, the UART's interrupt gives the bytes that come to a ring. Each
 * image feeds the watchdog in one place only, once a second: so it ends a loop or a clock that
 * stands still.
 */
#ifndef ATMEGA328P_H
#define ATMEGA328P_H

#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <avr/wdt.h>
#include <util/atomic.h>

#include "serial.h"

enum { SECOND = F_CPU / 1024 - 1 }; /* the last count of timer 1: 15,625 - 1 at 16 MHz */
_Static_assert(SECOND <= 65535, "the clock is too fast for timer 1");

static volatile uint16_t seconds;

ISR(TIMER1_COMPA_vect)
{
    seconds++;
}

uint16_t dumpulse_get_timestamp(void)
{
    uint16_t now;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        now = seconds;
    }
    return now;
}

static inline void start_clock(void)
{
    MCUSR = 0; /* or the watchdog keeps its shortest time after it has reset the chip */
    wdt_enable(WDTO_2S);
    wdt_reset(); /* the first second begins */
    OCR1A = SECOND;
    TCCR1B = _BV(WGM12) | _BV(CS12) | _BV(CS10); /* starts again after SECOND; clock / 1024 */
    TIMSK1 = _BV(OCIE1A);
}

#ifdef BAUD
enum { UBRR = (F_CPU / 8 + BAUD / 2) / BAUD - 1 }; /* the nearest divider, at double speed */
_Static_assert(UBRR <= 4095, "the baud rate is too low for this clock");
_Static_assert((UBRR + 1) * BAUD * 40 <= F_CPU / 8 * 41 && (UBRR + 1) * BAUD * 40 >= F_CPU / 8 * 39,
               "no divider of this clock is within 2.5 % of the baud rate");

static serial_ring ring;

ISR(USART_RX_vect)
{
    if (UCSR0A & _BV(DOR0)) /* must be read before the byte */
        serial_lose(&ring);
    serial_put(&ring, UDR0);
}

static inline void start_uart(void)
{
    PORTD = _BV(PD0); /* a pull-up: without a node, the line rests */
    UCSR0A = _BV(U2X0);
    UBRR0 = UBRR;
    UCSR0B = _BV(RXCIE0) | _BV(RXEN0) | _BV(TXEN0);
    SMCR = _BV(SE); /* enables sleep; in its mode, idle, the UART and the timers go on */
}

/* Sleeps until an interrupt, if no byte waits. */
static inline void rest(void)
{
    cli();
    if (serial_empty(&ring)) {
        sei(); /* works after the next instruction, so no byte can come in between */
        sleep_cpu();
    }
    sei();
}
#endif

#endif /* ATMEGA328P_H */
