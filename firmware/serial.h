/* What the images with a serial line share.   SPDX-License-Identifier: MIT
 *
 * The framing of SPEC.md: there is none but the checksum. An agent looks at the last 8
 * bytes after each one that comes. Also a ring, from the receive interrupt to the loop.
 */
#ifndef SERIAL_H
#define SERIAL_H

#include "dumpulse.h"

/* The agent's own variable: its timestamp is the time now, its value counts lost bytes. */
enum { SERIAL_SELF = 0, SERIAL_SELF_SENDER = 1 };

/* The last 8 bytes of the line; starts as zeros. */
typedef struct serial_window {
    uint8_t bytes[DUMPULSE_PACKET_SIZE];
    uint8_t length; /* how many of them, the last ones, are in no packet yet */
} serial_window;

/* Takes a byte from the line. None is looked at again once it was in a packet that was
 * accepted: until 8 more have come, the length has the window refused. */
static inline dumpulse_result serial_take(dumpulse *agent, serial_window *window, uint8_t byte)
{
    for (uint8_t i = 0; i != DUMPULSE_PACKET_SIZE - 1; i++)
        window->bytes[i] = window->bytes[i + 1];
    window->bytes[DUMPULSE_PACKET_SIZE - 1] = byte;
    if (window->length != DUMPULSE_PACKET_SIZE)
        window->length++;
    const dumpulse_result result =
        dumpulse_process_packet(agent, window->bytes, window->length, NULL);
    if (result != DUMPULSE_REFUSED)
        window->length = 0;
    return result;
}

/* Bytes on their way from one interrupt to the loop: each index has one writer, so that
 * neither waits for the other. The indices run on and wrap at 256, which the size divides. */
enum { SERIAL_RING_SIZE = 32 };
typedef struct serial_ring {
    volatile uint8_t bytes[SERIAL_RING_SIZE];
    volatile uint8_t written, read;
    volatile uint8_t lost; /* bytes that found it full, or the UART overrun; 255 and more */
} serial_ring;

static inline void serial_lose(serial_ring *ring)
{
    if (ring->lost != UINT8_MAX)
        ring->lost++;
}

static inline bool serial_empty(const serial_ring *ring)
{
    return ring->written == ring->read;
}

static inline bool serial_full(const serial_ring *ring)
{
    return (uint8_t)(ring->written - ring->read) == SERIAL_RING_SIZE;
}

/* From the interrupt. */
static inline void serial_put(serial_ring *ring, uint8_t byte)
{
    if (serial_full(ring)) {
        serial_lose(ring);
        return;
    }
    const uint8_t at = ring->written;
    ring->bytes[at % SERIAL_RING_SIZE] = byte;
    ring->written = (uint8_t)(at + 1U);
}

/* From the loop, unless it is empty. */
static inline uint8_t serial_get(serial_ring *ring)
{
    const uint8_t at = ring->read;
    const uint8_t byte = ring->bytes[at % SERIAL_RING_SIZE];
    ring->read = (uint8_t)(at + 1U);
    return byte;
}

/* The agent's turn: at most one byte of the ring. */
static inline void serial_serve(dumpulse *agent, serial_window *window, serial_ring *ring)
{
    if (serial_empty(ring))
        return;
    /* A reader learns from it what the time is here. */
    (void)dumpulse_record(agent, SERIAL_SELF, SERIAL_SELF_SENDER, ring->lost);
    (void)serial_take(agent, window, serial_get(ring));
}

#endif /* SERIAL_H */
