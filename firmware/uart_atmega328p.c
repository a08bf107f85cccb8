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
#ifndef BAUD
#define BAUD 115200UL
#endif
#include "atmega328p.h"
#include "watch.h"

static dumpulse agent; /* zeros: no heartbeat has come yet */
static serial_window window;
static uint8_t outgoing[DUMPULSE_REPORT_SIZE];
static const uint8_t
    *volatile next; /* of outgoing; while the interrupt is on, only it writes this */

ISR(USART_UDRE_vect)
{
    UDR0 = *next++;
    if (next == outgoing + sizeof outgoing)
        UCSR0B &= (uint8_t)~_BV(UDRIE0);
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

    start_clock();
    start_uart();
    watch_start();
    for (;;) {
        const uint8_t now = (uint8_t)seconds;
        if (now != fed) {
            fed = now;
            wdt_reset();
        }
        rest();
        watch_nodes(&agent, serial_serve(&agent, &window, &ring) == DUMPULSE_HEARTBEAT);
    }
}
