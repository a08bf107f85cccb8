/* An agent on a serial line, for chips with memory for a copy of the report.
 *                                                           SPDX-License-Identifier: MIT
 * Nothing is lost at full speed: an interrupt puts the bytes that come into the ring, and the loop
 * sends a report from the copy. No interrupt sends, so only the loop writes what is to be sent.
 */
#ifndef SERIAL_AGENT_H
#define SERIAL_AGENT_H

#include "serial.h"

static bool chip_send(uint8_t byte); /* gives the UART a byte; false: it has no room yet */

static dumpulse agent; /* zeros: no heartbeat has come yet */
static serial_window window;
static serial_ring ring;
static uint8_t outgoing[DUMPULSE_REPORT_SIZE];
static uint16_t left; /* bytes of outgoing to send */
static volatile uint16_t seconds;

uint16_t dumpulse_get_timestamp(void)
{
    return seconds;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; /* there is only one line */
    if (left != 0)
        return; /* the last report is still going out, so the reader must ask again */
    for (size_t i = 0; i != length; i++)
        outgoing[i] = packet[i];
    left = (uint16_t)length;
}

static inline bool is_idle(void)
{
    return serial_empty(&ring) && left == 0;
}

/* Sends a byte of the report if there is room, and gives the agent one that came. */
static inline void serve(void)
{
    if (left != 0 && chip_send(outgoing[sizeof outgoing - left]))
        left--;
    serial_serve(&agent, &window, &ring);
}

#endif /* SERIAL_AGENT_H */
