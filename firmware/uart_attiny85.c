/* The agent on an ATtiny85, with a serial line in software.   SPDX-License-Identifier: MIT
 *
 * The smallest AVR that can be an agent: of those with 512 bytes of RAM (the next have 256, fewer
 * than a report) it has the fewest pins, 8, and no UART. uart_attiny85.md says how to wire,
 * flash and try it. 8 data bits, no parity, 1 stop bit.
 *
 * Timer 0 counts microseconds, and times the bits; in interrupts for those that come, so that the
 * loop can work meanwhile. There is no room for a copy of the report, so it is sent at once, and
 * nothing is heard until it is out: 260 * 10 bits, 135 ms at 19,200 baud.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <avr/wdt.h>
#include <util/atomic.h>

#include "serial.h"

#ifndef BAUD
#define BAUD 19200UL
#endif
enum { IN = PB2, OUT = PB1 };                 /* INT0 is on PB2 */
enum { BIT = (F_CPU / 8 + BAUD / 2) / BAUD }; /* counts of timer 0: 52 */
enum { LATE = 4 };                            /* since the edge, when we read the timer */
enum { FIRST = BIT + BIT / 2 - LATE };        /* from the edge to the middle of bit 0 */
enum { HALF_SECOND = F_CPU / 2 / 8 / 256 };   /* overflows of timer 0: 1953 */
_Static_assert(FIRST <= 255 && BIT >= 40, "timer 0 cannot do this baud rate at this clock");

static dumpulse agent; /* zeros: nobody has been heard yet */
static serial_window window;
static serial_ring ring;
static volatile uint16_t half_seconds;

/* Each 256 microseconds. Inlined, as a call from the interrupt would save 12 registers more. */
static inline __attribute__((always_inline)) void tick(void)
{
    static uint16_t overflows;
    if (++overflows == HALF_SECOND) {
        overflows = 0;
        half_seconds++;
    }
}

ISR(TIMER0_OVF_vect)
{
    tick();
}

static void listen(void)
{
    GIFR = _BV(INTF0); /* edges within the last byte, or while we were deaf */
    GIMSK = _BV(INT0);
}

static uint8_t arriving, bits_left; /* of the interrupts alone */

ISR(INT0_vect) /* a start bit */
{
    OCR0A = (uint8_t)(TCNT0 + FIRST);
    TIFR = _BV(OCF0A);
    TIMSK |= _BV(OCIE0A);
    GIMSK = 0;
    bits_left = 8;
}

ISR(TIMER0_COMPA_vect) /* the middle of a data bit */
{
    OCR0A = (uint8_t)(OCR0A + BIT);
    arriving >>= 1;
    if (PINB & _BV(IN))
        arriving |= 0x80;
    if (--bits_left != 0)
        return;
    serial_put(&ring, arriving);
    TIMSK &= (uint8_t)~_BV(OCIE0A);
    listen();
}

uint16_t dumpulse_get_timestamp(void)
{
    uint16_t now;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        now = half_seconds;
    }
    return now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;                    /* there is one line only */
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE) /* or the end of a byte, in between, would listen again */
    {
        GIMSK = 0;
        TIMSK = 0;
    }
    /* No interrupt makes an edge late: the clock is looked at here, and overflows each 5 bits. An
     * edge comes at most a turn of the inner loop late, 5 cycles of a bit's 416. */
    OCR0B = (uint8_t)(TCNT0 + BIT);
    TIFR = _BV(OCF0B);
    for (; length != 0; length--, packet++)
        for (uint16_t frame = (uint16_t)(0x200U | *packet * 2U); frame != 0; frame >>= 1) {
            uint8_t flags;
            do
                flags = TIFR;
            while ((flags & _BV(OCF0B)) == 0);
            if (frame & 1U)
                PORTB |= _BV(OUT);
            else
                PORTB &= (uint8_t)~_BV(OUT);
            TIFR = flags; /* clears those that were seen, and no other */
            OCR0B = (uint8_t)(OCR0B + BIT);
            if (flags & _BV(TOV0))
                tick();
        }
    TIMSK = _BV(TOIE0);
    listen();
}

int main(void)
{
    MCUSR = 0; /* or the watchdog stays at its shortest after it has bitten */
    wdt_enable(WDTO_2S);
    PORTB = _BV(IN) | _BV(OUT); /* a line that nobody drives rests high */
    DDRB = _BV(OUT);
    TCCR0B = _BV(CS01); /* clock / 8 */
    TIMSK = _BV(TOIE0);
    MCUCR = _BV(SE) | _BV(ISC01); /* sleep may be entered, and is idle; INT0 on a falling edge */
    listen();
    for (;;) {
        wdt_reset(); /* here alone: if the loop hangs, the chip resets */
        cli();
        if (serial_empty(&ring)) {
            sei(); /* takes effect after the next instruction: no byte can come in between */
            sleep_cpu();
        }
        sei();
        serial_serve(&agent, &window, &ring);
    }
}
