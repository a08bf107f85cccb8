/* Frames of version 2 on a serial line.   SPDX-License-Identifier: MIT
 *
 * spec/keyed.md, "Transport: a serial line", has the bytes.
 */
#ifndef KEYED_FRAME_H
#define KEYED_FRAME_H

#include "dumpulse_keyed.h"

enum { KEYED_FRAME = DUMPULSE_PACKET_SIZE + 2 };
enum { KEYED_FIRST = 0x80 }; /* byte 0 of a frame: this, and its identifier on a CAN bus */

/* Makes the frame of a packet, which may be in it. Its last byte makes the sum of all bytes 0. */
static inline void keyed_frame_make(uint8_t frame[KEYED_FRAME], uint8_t first,
                                    const uint8_t packet[DUMPULSE_PACKET_SIZE])
{
    uint8_t sum = first;

    *frame++ = first;
    for (uint8_t i = 0; i != DUMPULSE_PACKET_SIZE; i++) {
        sum = (uint8_t)(sum + packet[i]);
        *frame++ = packet[i];
    }
    *frame = (uint8_t)-sum;
}

/* The last bytes from a line; at first, and after a frame that was received, zeros. So no byte is
 * in two frames: no frame begins with a zero. */
typedef struct keyed_frame {
    uint8_t bytes[KEYED_FRAME];
} keyed_frame;

/* Takes a byte from the line. Returns whether the last bytes are a frame, by their sum. If byte 0
 * is one that the caller receives, the caller sets all of them to 0. */
static inline bool keyed_frame_ends(keyed_frame *frame, uint8_t byte)
{
    uint8_t sum = byte;

    for (uint8_t i = 0; i != KEYED_FRAME - 1; i++) {
        frame->bytes[i] = frame->bytes[i + 1];
        sum = (uint8_t)(sum + frame->bytes[i]);
    }
    frame->bytes[KEYED_FRAME - 1] = byte;
    return sum == 0;
}

#endif /* KEYED_FRAME_H */
