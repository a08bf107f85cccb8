/* An ATtiny85, with a serial line in software.   SPDX-License-Identifier: MIT
 *
 * It is the smallest AVR that can be an agent: smaller ones have 256 bytes of RAM, fewer than a
 * report. It has 8 pins and no UART. Timer 0 counts microseconds and times the bits, timer 1 counts
 * half seconds, 0.06 % too short. Interrupts receive bits, so that the loop can work meanwhile. RAM
 * has no room for a copy of the report. So it is sent in place, and the board receives nothing
 * until it is out: 260 * 10 bits, 135 ms at 19,200 baud.
 */
#ifndef ATTINY85_H
#define ATTINY85_H

#ifndef BAUD
#define BAUD 19200UL
#endif
#ifndef TICKS
#define TICKS 2 /* ticks per second: the unit of its timestamps */
#endif
#include "avr.h"

enum { IN = PB2, OUT = PB1 };                 /* INT0 is on PB2 */
enum { BIT = (F_CPU / 8 + BAUD / 2) / BAUD }; /* counts of timer 0: 52 */
enum { LATE = 4 };                            /* counts from an edge until we read the timer */
enum { FIRST = BIT + BIT / 2 - LATE };        /* counts from the edge to the middle of bit 0 */
enum { TICK = F_CPU / 16384 / TICKS };        /* counts of timer 1: 244 */
_Static_assert(TICK <= 255, "timer 1 cannot count so slowly at this clock");
_Static_assert(FIRST <= 255 && BIT >= 40, "timer 0 cannot do this baud rate at this clock");

static volatile uint16_t ticks;

ISR(TIMER1_COMPA_vect)
{
    OCR1A = (uint8_t)(OCR1A + TICK);
    ticks++;
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
    TIMSK = _BV(OCIE1A) | _BV(OCIE0A);
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
    TIMSK = _BV(OCIE1A);
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

static inline void board_transmit(const uint8_t *packet, size_t length)
{
    ATOMIC_BLOCK(ATOMIC_FORCEON) /* otherwise a byte that ends in between would call listen() */
    {
        GIMSK = 0;
        TIMSK = 0;
    }
    /* Interrupts would make edges late. So all are off: a tick waits until the packet has left. An
     * edge is late by one turn of the inner loop at most, which is 4 of the 416 cycles of a bit. */
    OCR0B = (uint8_t)(TCNT0 + BIT);
    TIFR = _BV(OCF0B);
    for (; length != 0; length--, packet++)
        for (uint16_t frame = (uint16_t)(0x200U | *packet * 2U); frame != 0; frame >>= 1) {
            loop_until_bit_is_set(TIFR, OCF0B);
            if (frame & 1U)
                PORTB |= _BV(OUT);
            else
                PORTB &= (uint8_t)~_BV(OUT);
            TIFR = _BV(OCF0B);
            OCR0B = (uint8_t)(OCR0B + BIT);
        }
    TIMSK = _BV(OCIE1A);
    listen();
}

#ifdef PACKET_SIZE
static uint8_t outgoing[PACKET_SIZE];

static inline bool board_transmits(void)
{
    return false; /* board_send() waits until the packet has left */
}

/* Sends the last bytes of outgoing. */
static inline void board_send(uint16_t length)
{
    board_transmit(outgoing + sizeof outgoing - length, length);
}
#endif

static inline void board_start(void)
{
    calibrate();
    start_watchdog(WDTO_2S);
    PORTB = _BV(IN) | _BV(OUT); /* an input that nothing drives is high */
    DDRB = _BV(OUT);
    TCCR0B = _BV(CS01); /* clock / 8 */
    OCR1A = TICK;
    TCCR1 = _BV(CS13) | _BV(CS12) | _BV(CS11) | _BV(CS10); /* clock / 16384 */
    TIMSK = _BV(OCIE1A);
    MCUCR = _BV(SE) | _BV(ISC01); /* enables sleep, mode idle; INT0 at a falling edge */
    listen();
}

#ifdef KEYED
#include "eeprom.h"
#endif

#endif /* ATTINY85_H */
