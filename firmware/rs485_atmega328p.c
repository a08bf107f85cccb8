/* The agent on an RS-485 bus: an ATmega328P and a transceiver.   SPDX-License-Identifier: MIT
 *
 * rs485_atmega328p.md says how to wire, flash and ask it. Only one driver may be on at a time. So
 * an agent turns its own on for a report only, a while after the request, and off when the stop bit
 * of the last byte has left.
 */
#ifndef BAUD
#define BAUD 115200UL
#endif
#include "atmega328p.h"

enum { DRIVE = PD2 }; /* to DE and /RE of the transceiver: high, it sends and hears nothing */
enum { TURN = F_CPU / 64 / 1000 }; /* counts of timer 0 until the other driver is off: 1 ms */
_Static_assert(TURN >= 1 && TURN <= 256, "the clock does not fit timer 0");

static dumpulse agent; /* zeros: no heartbeat has come yet */
static serial_window window;
static uint8_t outgoing[DUMPULSE_REPORT_SIZE];
static uint16_t sent; /* of outgoing */
static volatile bool sends;

/* The other driver is off. */
ISR(TIMER0_COMPA_vect)
{
    TCCR0B = 0;
    PORTD |= _BV(DRIVE);
    UCSR0B |= _BV(UDRIE0);
}

ISR(USART_UDRE_vect)
{
    UDR0 = outgoing[sent++];
    if (sent == sizeof outgoing) {
        UCSR0A = _BV(U2X0) | _BV(TXC0); /* forgets that the line has rested before */
        UCSR0B = (uint8_t)((UCSR0B & ~_BV(UDRIE0)) | _BV(TXCIE0));
    }
}

/* The last stop bit has left. */
ISR(USART_TX_vect)
{
    PORTD &= (uint8_t)~_BV(DRIVE);
    UCSR0B &= (uint8_t)~_BV(TXCIE0);
    sends = false;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; /* there is only one bus */
    if (sends)
        return;
    for (size_t i = 0; i != length; i++)
        outgoing[i] = packet[i];
    sent = 0;
    sends = true;
    TCNT0 = 0;
    TCCR0B = _BV(CS01) | _BV(CS00); /* clock / 64 */
}

int main(void)
{
    uint8_t fed = 0; /* the low byte of the second in which the watchdog was fed */

    start_clock();
    start_uart();
    DDRD = _BV(DRIVE);
    OCR0A = TURN - 1;
    TCCR0A = _BV(WGM01);
    TIMSK0 = _BV(OCIE0A);
    for (;;) {
        const uint8_t now = (uint8_t)seconds;
        if (now != fed)
            wdt_reset();
        fed = now;
        rest();
        serial_serve(&agent, &window, &ring);
    }
}
