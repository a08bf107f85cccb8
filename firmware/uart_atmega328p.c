/* The agent on an ATmega328P's UART, as on an Arduino Uno.   SPDX-License-Identifier: MIT
 *
 * uart_atmega328p.md says how to wire, flash and try it. 8 data bits, no parity, 1 stop bit.
 *
 * Nothing is lost at full speed, not even while a report goes out: interrupts receive and send the
 * bytes, and a report is sent from a copy. A byte has 10 bits on the line, which is 1,360 cycles at
 * 16 MHz and 115,200 baud. The loop leaves the ring alone for the longest time after a request:
 * 3,621 cycles to sum the report (performance.md), 2,600 at most to copy it, and the interrupts.
 * That is less than the time of 8 bytes, and the ring holds 32.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <avr/wdt.h>
#include <util/atomic.h>

#include "serial.h"
#include "watch.h"

#ifndef BAUD
#define BAUD 115200UL
#endif
enum { UBRR = (F_CPU / 8 + BAUD / 2) / BAUD - 1 }; /* the nearest divider, at double speed */
enum { SECOND = F_CPU / 1024 - 1 };                /* the last count of timer 1: 15,625 - 1 */
_Static_assert(UBRR <= 4095, "the baud rate is too low for this clock");
_Static_assert((UBRR + 1) * BAUD * 40 <= F_CPU / 8 * 41 && (UBRR + 1) * BAUD * 40 >= F_CPU / 8 * 39,
               "no divider of this clock is within 2.5 % of the baud rate");
_Static_assert(SECOND <= 65535, "the clock is too fast for timer 1");

static dumpulse agent; /* zeros: no heartbeat has come yet */
static serial_window window;
static serial_ring ring;
static uint8_t outgoing[DUMPULSE_REPORT_SIZE];
static const uint8_t
    *volatile next; /* of outgoing; while the interrupt is on, only it writes this */
static volatile uint16_t seconds;

ISR(TIMER1_COMPA_vect)
{
    seconds++;
}

ISR(USART_RX_vect)
{
    if (UCSR0A & _BV(DOR0)) /* must be read before the byte */
        serial_lose(&ring);
    serial_put(&ring, UDR0);
}

ISR(USART_UDRE_vect)
{
    UDR0 = *next++;
    if (next == outgoing + sizeof outgoing)
        UCSR0B &= (uint8_t)~_BV(UDRIE0);
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

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; /* there is only one line */
    if (UCSR0B & _BV(UDRIE0))
        return; /* the last report is still going out, so the reader must ask again */
    for (size_t i = 0; i != length; i++)
        outgoing[i] = packet[i];
    next = outgoing;
    UCSR0B |= _BV(UDRIE0);
}

int main(void)
{
    uint8_t fed = 0; /* the low byte of the second in which the watchdog was fed */

    MCUSR = 0; /* or the watchdog keeps its shortest time after it has reset the chip */
    wdt_enable(WDTO_2S);
    wdt_reset(); /* the first second begins */
    OCR1A = SECOND;
    TCCR1B = _BV(WGM12) | _BV(CS12) | _BV(CS10); /* starts again after SECOND; clock / 1024 */
    TIMSK1 = _BV(OCIE1A);
    PORTD = _BV(PD0); /* a pull-up: without a node, the line rests */
    UCSR0A = _BV(U2X0);
    UBRR0 = UBRR;
    UCSR0B = _BV(RXCIE0) | _BV(RXEN0) | _BV(TXEN0);
    watch_start();
    SMCR = _BV(SE); /* enables sleep; in its mode, idle, the UART and the timer go on */
    for (;;) {
        const uint8_t now = (uint8_t)seconds;
        if (now != fed && watch_is_well()) {
            fed = now;
            wdt_reset(); /* only here, so the watchdog ends a loop or a clock that stands still */
        }
        cli();
        if (serial_empty(&ring)) {
            sei(); /* works after the next instruction, so no byte can come in between */
            sleep_cpu();
        }
        sei();
        watch_nodes(&agent, serial_serve(&agent, &window, &ring) == DUMPULSE_HEARTBEAT);
    }
}
