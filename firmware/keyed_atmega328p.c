/* An agent with keys on an ATmega328P's UART, as on an Arduino Uno.   SPDX-License-Identifier: MIT
 *
 * keyed_atmega328p.md says how to wire, flash and try it. keyed_avr.c knows the keys. The line has
 * 8 data bits, no parity, 1 stop bit.
 *
 * Interrupts receive and send the bytes, and a report is sent from a copy. A frame leaves at a
 * time: a beacon, or the next one of a report. Variable 0 is the agent's own: its timestamp is the
 * current time, its value says how many bytes were lost, up to 255.
 */
#ifndef BAUD
#define BAUD 9600UL
#endif
#include <string.h>

#include "atmega328p.h"
#include "keyed.h"
#include "keyed_frame.h"

/* The last byte needs ten bits, and then beacons have a pause of 2 ms: a node without a UART hears
 * nothing while it checks the tag of a beacon. In counts of timer 1. */
enum { PAUSE = F_CPU / 1024 * 10 / BAUD + F_CPU / 1024 / 500 };
enum { REPORT_FRAMES = DUMPULSE_KEYED_REPORT_SIZE / DUMPULSE_PACKET_SIZE };
/* Byte 0 of frames: of a report's first one, behind which is a beacon's; and of requests. */
enum { REPORT_AT = KEYED_FIRST + 64, REQUESTS_AT = KEYED_FIRST + 98 };

static keyed_agent keyed; /* zeros: it has not begun */
static keyed_frame window;

static uint8_t outgoing[SENT_SIZE]; /* a report, and a beacon */
static uint8_t frame, place;        /* of outgoing, and within a frame: the next byte */
static uint16_t ended;              /* timer 1, when the last byte left */

ISR(USART_UDRE_vect)
{
    static uint8_t sum;
    uint8_t byte;

    if (place == 0) {
        byte = (uint8_t)(REPORT_AT + frame);
        sum = 0;
    } else if (place == KEYED_FRAME - 1) {
        byte = (uint8_t)-sum;
    } else {
        byte = outgoing[(uint16_t)frame * DUMPULSE_PACKET_SIZE + place - 1];
    }
    UDR0 = byte;
    sum = (uint8_t)(sum + byte);
    if (++place == KEYED_FRAME) {
        place = 0;
        if (++frame >= REPORT_FRAMES) {
            UCSR0B &= (uint8_t)~_BV(UDRIE0);
            ended = TCNT1;
        }
    }
}

bool keyed_may_send(void)
{
    if (UCSR0B & _BV(UDRIE0))
        return false;
    const uint16_t now = TCNT1;
    return (now >= ended ? now - ended : now + SECOND + 1U - ended) >= PAUSE;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    if (!keyed_may_send() || context != NULL)
        return; /* keyed_avr.c sends it later */
    frame = length == DUMPULSE_PACKET_SIZE ? REPORT_FRAMES : 0;
    memcpy(outgoing + (uint16_t)frame * DUMPULSE_PACKET_SIZE, packet, length);
    UCSR0B |= _BV(UDRIE0);
}

/* A packet of version 1 has no frame: are the last bytes one of a variable in UNKEYED? */
static bool took_unkeyed(void)
{
#ifdef UNKEYED
    const uint8_t *packet = window.bytes + KEYED_FRAME - DUMPULSE_PACKET_SIZE;

    return window.length >= DUMPULSE_PACKET_SIZE && packet[4] == DUMPULSE_MAGIC &&
           keyed_process(&keyed, packet) == DUMPULSE_HEARTBEAT;
#else
    return false;
#endif
}

/* Takes a byte from the line, if there is one. */
static void serve(void)
{
    if (serial_empty(&ring))
        return;
    const bool ends = keyed_frame_ends(&window, serial_get(&ring));
    const uint8_t at = window.bytes[0];
    if (took_unkeyed())
        window.length = 0;
    else if (ends && at >= KEYED_FIRST && (at < REPORT_AT || at >= REQUESTS_AT)) {
        window.length = 0;
        (void)dumpulse_record(&keyed.agent, SERIAL_SELF, SERIAL_SELF_SENDER, ring.lost);
        (void)keyed_process(&keyed, window.bytes + 1);
    }
}

int main(void)
{
    uint8_t fed = 0; /* the low byte of the second in which the watchdog was fed */

    start_clock();
    start_uart();
    keyed_start();
    for (;;) {
        const uint8_t now = (uint8_t)seconds;
        if (now != fed) {
            fed = now;
            wdt_reset();
            keyed_each_second(&keyed);
        }
        rest();
        serve();
        keyed_go_on(&keyed);
    }
}
