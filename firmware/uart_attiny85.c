/* The agent on an ATtiny85, with a serial line in software.   SPDX-License-Identifier: MIT
 *
 * It is the smallest AVR that can be an agent. It has 512 bytes of RAM; smaller AVRs have 256,
 * fewer than a report. It has 8 pins and no UART. uart_attiny85.md says how to wire, flash and
 * try it. The line has 8 data bits, no parity, 1 stop bit.
 *
 * Timer 0 counts microseconds and times the bits. Interrupts receive bits, so that the loop can
 * work meanwhile. RAM has no room for a copy of the report. So the loop sends the report itself,
 * and the agent hears nothing until it is out: 260 * 10 bits, 135 ms at 19,200 baud.
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
enum { LATE = 4 };                            /* counts from an edge until we read the timer */
enum { FIRST = BIT + BIT / 2 - LATE };        /* from the edge to the middle of bit 0 */
enum { HALF_SECOND = F_CPU / 2 / 8 / 256 };   /* overflows of timer 0: 1953 */
_Static_assert(FIRST <= 255 && BIT >= 40, "timer 0 cannot do this baud rate at this clock");

static dumpulse agent; /* zeros: no heartbeat has come yet */
static dumpulse_line line;
static serial_ring ring;
static volatile uint16_t half_seconds;

/* Runs each 256 microseconds. Inlined, because an interrupt that calls a function must save 12 more
 * registers. */
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
    GIFR = _BV(INTF0); /* forgets edges within the last byte, or while we were deaf */
    GIMSK = _BV(INT0);
}

static uint8_t arriving, bits_left; /* only the interrupts use these */

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
    (void)context;                    /* there is only one line */
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE) /* or a byte that ends in between would call listen() */
    {
        GIMSK = 0;
        TIMSK = 0;
    }
    /* Interrupts would make edges late. So the timer's interrupt is off, and we call tick() here;
     * the timer overflows every 5 bits. An edge is late by one turn of the inner loop at most,
     * which is 5 of the 416 cycles of a bit. */
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
            TIFR = flags; /* clears the flags that we have read, and no other */
            OCR0B = (uint8_t)(OCR0B + BIT);
            if (flags & _BV(TOV0))
                tick();
        }
    TIMSK = _BV(TOIE0);
    listen();
}

int main(void)
{
    uint8_t fed = 0; /* the low byte of the half second in which the watchdog was fed */

#ifdef CALIBRATION
    OSCCAL = CALIBRATION; /* of this chip's oscillator; README.md, "Fuses" */
#endif
    MCUSR = 0; /* or the watchdog keeps its shortest time after it has reset the chip */
    wdt_enable(WDTO_2S);
    wdt_reset();                /* the first second begins */
    PORTB = _BV(IN) | _BV(OUT); /* an input that nothing drives is high */
    DDRB = _BV(OUT);
    TCCR0B = _BV(CS01); /* clock / 8 */
    TIMSK = _BV(TOIE0);
    MCUCR = _BV(SE) | _BV(ISC01); /* enables sleep, mode idle; INT0 at a falling edge */
    listen();
    for (;;) {
        const uint8_t now = (uint8_t)half_seconds;
        if (now != fed)
            wdt_reset(); /* only here, so the watchdog ends a loop or a clock that stands still */
        fed = now;
        cli();
        if (serial_empty(&ring)) {
            sei(); /* works after the next instruction, so no byte can come in between */
            sleep_cpu();
        }
        sei();
        serial_serve(&agent, &line, &ring);
    }
}
