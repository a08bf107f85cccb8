/* What agents with keys on a serial line share.   SPDX-License-Identifier: MIT
 *
 * A report is sent from a copy. A frame leaves at a time: a beacon, or the next one of a report.
 * Variable 0 is the agent's own: its timestamp is the current time, its value says how many bytes
 * were lost, up to 255. The image has the `ring` of the bytes that come.
 */
#ifndef KEYED_LINE_H
#define KEYED_LINE_H

#include "keyed.h"
#include "keyed_frame.h"

static void chip_start_sending(void); /* has next_byte() called for each byte, while `sends` */
static bool chip_rests(void);         /* has the line rested since the last byte for 2 ms? */

enum { REPORT_FRAMES = DUMPULSE_KEYED_REPORT_SIZE / DUMPULSE_PACKET_SIZE };
/* Byte 0 of frames: of a report's first one, behind which is a beacon's; and of requests. */
enum { REPORT_AT = KEYED_FIRST + 64, REQUESTS_AT = KEYED_FIRST + 98 };

static keyed_agent keyed; /* zeros: it has not begun */
static keyed_frame window;

static uint8_t outgoing[SENT_SIZE]; /* a report, and a beacon */
static uint8_t frame, place;        /* of outgoing, and within a frame: the next byte */
static volatile bool sends;         /* a frame leaves */

static uint8_t next_byte(void)
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
    sum = (uint8_t)(sum + byte);
    if (++place == KEYED_FRAME) {
        place = 0;
        sends = ++frame < REPORT_FRAMES;
    }
    return byte;
}

uint16_t dumpulse_get_timestamp(void)
{
    return board_time();
}

bool keyed_may_send(void)
{
    return !sends && chip_rests();
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    if (!keyed_may_send() || context != NULL)
        return; /* keyed_agent.c sends it later */
    frame = length == DUMPULSE_PACKET_SIZE ? REPORT_FRAMES : 0;
    for (size_t i = 0; i != length; i++)
        outgoing[(uint16_t)frame * DUMPULSE_PACKET_SIZE + i] = packet[i];
    sends = true;
    chip_start_sending();
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
static void take_byte(void)
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

#endif /* KEYED_LINE_H */
