/* An ATtiny85, with a serial line in software.   SPDX-License-Identifier: MIT
 *
 * It is the smallest AVR that can be an agent: smaller ones have 256 bytes of RAM, fewer than a
 * report. It has 8 pins and no UART. Timer 0 counts microseconds and times the bits. Interrupts
 * receive bits, so that the loop can work meanwhile. RAM has no room for a copy of the report. So
 * it is sent in place, and the board receives nothing until it is out: 260 * 10 bits, 135 ms at
 * 19,200 baud.
 */
#ifndef ATTINY85_H
#define ATTINY85_H

#ifndef BAUD
#define BAUD 19200UL
#endif
#ifndef TICKS
#define TICKS 2 /* in a second: the unit of its timestamps */
#endif
#include "avr.h"

enum { IN = PB2, OUT = PB1 };                 /* INT0 is on PB2 */
enum { BIT = (F_CPU / 8 + BAUD / 2) / BAUD }; /* counts of timer 0: 52 */
enum { LATE = 4 };                            /* counts from an edge until we read the timer */
enum { FIRST = BIT + BIT / 2 - LATE };        /* from the edge to the middle of bit 0 */
enum { TICK = F_CPU / TICKS / 8 / 256 };      /* overflows of timer 0: 1953 */
_Static_assert(FIRST <= 255 && BIT >= 40, "timer 0 cannot do this baud rate at this clock");

static volatile uint16_t ticks;

/* Runs each 256 microseconds. Inlined, because an interrupt that calls a function must save 12 more
 * registers. */
static inline __attribute__((always_inline)) void tick(void)
{
    static uint16_t overflows;
    uint16_t now = (uint16_t)(overflows + 1U);
    if (now == TICK) {
        now = 0;
        ticks++;
    }
    overflows = now;
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

/* Of the byte that comes. Registers save instructions; only the interrupts use these. */
#define arriving GPIOR0
#define bits_left GPIOR1

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
    uint8_t byte = arriving >> 1;
    if (PINB & _BV(IN))
        byte |= 0x80;
    arriving = byte;
    if (--bits_left != 0)
        return;
    serial_put(&ring, byte);
    TIMSK &= (uint8_t)~_BV(OCIE0A);
    listen();
}

static inline uint8_t board_ticks(void)
{
    return low_byte(&ticks);
}

static inline __attribute__((always_inline)) uint16_t board_time(void)
{
    return both_bytes(&ticks);
}

static inline bool board_transmits(void)
{
    return false; /* board_transmit() waits until the packet has left */
}

static inline void board_transmit(const uint8_t *packet, size_t length)
{
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

static inline void board_start(void)
{
    calibrate();
    start_watchdog(WDTO_2S);
    PORTB = _BV(IN) | _BV(OUT); /* an input that nothing drives is high */
    DDRB = _BV(OUT);
    TCCR0B = _BV(CS01); /* clock / 8 */
    TIMSK = _BV(TOIE0);
    MCUCR = _BV(SE) | _BV(ISC01); /* enables sleep, mode idle; INT0 at a falling edge */
    listen();
}

#ifdef KEYED
#include "eeprom.h"
#endif

#endif /* ATTINY85_H */
