/* What the agents on serial lines share.   SPDX-License-Identifier: MIT
 *
 * A ring carries bytes from the receive interrupt to the loop, which finds the packets in them.
 */
#ifndef SERIAL_H
#define SERIAL_H

#include "dumpulse_serial.h"

/* The agent's own variable: its timestamp is the current time, its value counts lost bytes. */
enum { SERIAL_SELF = 0, SERIAL_SELF_SENDER = 1 };

#ifdef KEYED_NODE
/* The byte on its way from an interrupt to the loop of a node. The loop takes it before the next
 * one comes, except while it sends. Lost bytes are not counted. */
typedef struct serial_ring {
    volatile uint8_t byte;
    volatile bool is_full;
} serial_ring;

static inline void serial_lose(serial_ring *ring)
{
    (void)ring;
}

static inline bool serial_empty(const serial_ring *ring)
{
    return !ring->is_full;
}

static inline bool serial_full(const serial_ring *ring)
{
    return ring->is_full;
}

static inline void serial_add(serial_ring *ring, uint8_t byte)
{
    ring->byte = byte;
    ring->is_full = true;
}

static inline void serial_put(serial_ring *ring, uint8_t byte)
{
    serial_add(ring, byte);
}

static inline uint8_t serial_get(serial_ring *ring)
{
    const uint8_t byte = ring->byte;
    ring->is_full = false;
    return byte;
}
#else
/* Bytes on their way from an interrupt to the loop. Each index has one writer, so neither waits for
 * the other. The indices count on and wrap at 256, which is a multiple of the size. */
enum { SERIAL_RING_SIZE = 32 };
typedef struct serial_ring {
    volatile uint8_t bytes[SERIAL_RING_SIZE];
    volatile uint8_t written, read;
    volatile uint8_t lost; /* bytes that came while the ring or the UART was full; 255: or more */
} serial_ring;

static inline void serial_lose(serial_ring *ring)
{
    const uint8_t lost = ring->lost;
    if (lost != UINT8_MAX)
        ring->lost = (uint8_t)(lost + 1U);
}

static inline bool serial_empty(const serial_ring *ring)
{
    return ring->written == ring->read;
}

static inline bool serial_full(const serial_ring *ring)
{
    return (uint8_t)(ring->written - ring->read) == SERIAL_RING_SIZE;
}

/* Only the interrupt calls these, and this one only if the ring is not full. */
static inline void serial_add(serial_ring *ring, uint8_t byte)
{
    const uint8_t at = ring->written;
    ring->bytes[at % SERIAL_RING_SIZE] = byte;
    ring->written = (uint8_t)(at + 1U);
}

static inline void serial_put(serial_ring *ring, uint8_t byte)
{
    if (serial_full(ring))
        serial_lose(ring);
    else
        serial_add(ring, byte);
}

/* Only the loop calls this, and only if the ring is not empty. */
static inline uint8_t serial_get(serial_ring *ring)
{
    const uint8_t at = ring->read;
    const uint8_t byte = ring->bytes[at % SERIAL_RING_SIZE];
    ring->read = (uint8_t)(at + 1U);
    return byte;
}

/* Gives the agent one byte of the ring, if there is one. Returns what dumpulse_take_byte() does. */
static inline dumpulse_result serial_serve(dumpulse *agent, dumpulse_line *line, serial_ring *ring)
{
    if (serial_empty(ring))
        return DUMPULSE_REFUSED;
    /* With each report, a reader gets the agent's time. */
    (void)dumpulse_record(agent, SERIAL_SELF, SERIAL_SELF_SENDER, ring->lost);
    return dumpulse_take_byte(agent, line, serial_get(ring), NULL);
}
#endif

#endif /* SERIAL_H */
