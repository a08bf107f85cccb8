/* A node that only sends, on an ATtiny13A.   SPDX-License-Identifier: MIT
 *
 * It sends a heartbeat each second. The value counts the heartbeats; replace it by what you
 * measure. sender_attiny13.md says how to wire, flash and try it. The line has 9600 baud, 8 data
 * bits, no parity, 1 stop bit. The clock has 1.2 MHz with the fuses from the factory.
 *
 * Between heartbeats the chip sleeps in power-down. There, only the watchdog goes on. Its interrupt
 * wakes the chip. The chip then turns this interrupt off, and the loop turns it on again: if the
 * loop hangs, the watchdog resets the chip.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <avr/wdt.h>

#include "dumpulse.h"

#ifndef BAUD
#define BAUD 9600UL
#endif
#ifndef VARIABLE
#define VARIABLE 7
#endif
#ifndef SENDER
#define SENDER 7
#endif
enum { OUT = PB1, BIT = F_CPU / BAUD }; /* cycles: 125 */
_Static_assert(BIT >= 40 && BIT <= 256, "timer 0 cannot do this baud rate at this clock");
_Static_assert(VARIABLE < DUMPULSE_VARIABLES, "there are 64 variables, from 0");

EMPTY_INTERRUPT(WDT_vect) /* it only wakes the chip */

int main(void)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

#ifdef CALIBRATION
    OSCCAL = CALIBRATION; /* of this chip's oscillator; README.md, "Fuses" */
#endif
    MCUSR = 0; /* or the watchdog keeps its shortest time after it has reset the chip */
    wdt_enable(WDTO_1S);
    PORTB = (uint8_t)~0U; /* the line rests high; open pins have pull-ups */
    DDRB = _BV(OUT);
    TCCR0A = _BV(WGM01); /* the timer starts again after each bit */
    TCCR0B = _BV(CS00);
    OCR0A = BIT - 1;
    MCUCR = _BV(SE) | _BV(SM1); /* enables sleep; its mode is power-down */
    sei();
    for (uint8_t beat = 0;; beat++) {
        dumpulse_make_heartbeat(packet, VARIABLE, SENDER, beat);
        for (uint8_t i = 0; i != sizeof packet; i++)
            for (uint16_t frame = (uint16_t)(0x200U | packet[i] * 2U); frame != 0; frame >>= 1) {
                TIFR0 = _BV(OCF0A);
                loop_until_bit_is_set(TIFR0, OCF0A);
                if (frame & 1U)
                    PORTB |= _BV(OUT);
                else
                    PORTB &= (uint8_t)~_BV(OUT);
            }
        WDTCR |= _BV(WDTIE);
        sleep_cpu();
    }
}
