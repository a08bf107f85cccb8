/* An ATtiny13A that only sends.   SPDX-License-Identifier: MIT
 *
 * The clock has 1.2 MHz with the fuses from the factory. Timer 0 times the bits. Between packets
 * the chip sleeps in power-down. There, only the watchdog goes on. Its interrupt wakes the chip,
 * and is then off until the next sleep: if the loop hangs, the watchdog resets the chip.
 */
#ifndef ATTINY13_H
#define ATTINY13_H

#ifndef BAUD
#define BAUD 9600UL
#endif
#include "avr.h"

enum { OUT = PB1, BIT = F_CPU / BAUD }; /* cycles: 125 */
_Static_assert(BIT >= 40 && BIT <= 256, "timer 0 cannot do this baud rate at this clock");

EMPTY_INTERRUPT(WDT_vect) /* it only wakes the chip */

static inline void board_start(void)
{
    calibrate();
    start_watchdog(WDTO_1S);
    PORTB = (uint8_t)~0U; /* the line rests high; open pins have pull-ups */
    DDRB = _BV(OUT);
    TCCR0A = _BV(WGM01); /* the timer starts again after each bit */
    TCCR0B = _BV(CS00);
    OCR0A = BIT - 1;
    MCUCR = _BV(SE) | _BV(SM1); /* enables sleep; its mode is power-down */
    sei();
}

static inline void board_transmit(const uint8_t *packet, size_t length)
{
    for (; length != 0; length--, packet++)
        for (uint16_t frame = (uint16_t)(0x200U | *packet * 2U); frame != 0; frame >>= 1) {
            TIFR0 = _BV(OCF0A);
            loop_until_bit_is_set(TIFR0, OCF0A);
            if (frame & 1U)
                PORTB |= _BV(OUT);
            else
                PORTB &= (uint8_t)~_BV(OUT);
        }
}

/* Sleeps for a second. */
static inline void board_sleep(void)
{
    WDTCR = _BV(WDTIE) | _BV(WDE) | WDTO_1S; /* the period stays */
    sleep_cpu();
}

#endif /* ATTINY13_H */
