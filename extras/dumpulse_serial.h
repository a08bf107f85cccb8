/* Dumpulse on a serial line: finds packets in bytes.   SPDX-License-Identifier: MIT
 *
 * Packets on a line have no frame, and nothing lies between them. So an agent checks
 * after each byte whether the last 8 are a packet: the checksum decides. Each byte is
 * part of one accepted packet at most. A reader needs no framer either: a report is the
 * first 260 bytes in a row that dumpulse_check_report() accepts.
 *
 * HOW TO USE IT
 *   A dumpulse_line for each line starts as zeros, like the agent. Call
 *   dumpulse_take_byte() for each byte that the line receives, from the main loop. An
 *   interrupt that receives bytes passes them on by a ring: a report must not begin in
 *   it, and the bytes that come meanwhile must wait somewhere.
 *
 *       static dumpulse agent;
 *       static dumpulse_line line;
 *
 *       while (byte_is_there())
 *           dumpulse_take_byte(&agent, &line, next_byte(), NULL);
 */
#ifndef DUMPULSE_SERIAL_H
#define DUMPULSE_SERIAL_H

#include "dumpulse.h"

typedef struct dumpulse_line {
    uint8_t bytes[DUMPULSE_PACKET_SIZE]; /* the last ones, the newest at the end */
    uint8_t length;                      /* Bytes that belong to no packet yet. */
} dumpulse_line;

/* Returns what dumpulse_process_packet() returned for the last bytes, which is
 * DUMPULSE_REFUSED after most of them. Until the next byte, line->bytes is the packet.
 * `context` goes to dumpulse_send_packet(). */
static inline dumpulse_result dumpulse_take_byte(dumpulse *agent, dumpulse_line *line, uint8_t byte,
                                                 void *context)
{
    for (uint8_t i = 0; i != DUMPULSE_PACKET_SIZE - 1; i++)
        line->bytes[i] = line->bytes[i + 1];
    line->bytes[DUMPULSE_PACKET_SIZE - 1] = byte;
    if (line->length != DUMPULSE_PACKET_SIZE)
        line->length++;
    const dumpulse_result result =
        dumpulse_process_packet(agent, line->bytes, line->length, context);
    if (result != DUMPULSE_REFUSED)
        line->length = 0;
    return result;
}

#endif /* DUMPULSE_SERIAL_H */
