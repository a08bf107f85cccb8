/* All 2^22 valid heartbeats as big-endian numbers of 64 bits: with Adler-32 as the library builds
 * them, or with CRC-32 in its place.   SPDX-License-Identifier: MIT
 */
#ifndef RELIABILITY_HEARTBEATS_H
#define RELIABILITY_HEARTBEATS_H

#include "dumpulse.h"

enum { FREE_BITS = 22, HEARTBEATS = 1 << FREE_BITS }; /* 6 of variable, 8 of sender, 8 of value */

#define PAYLOAD_OF(number) ((uint32_t)DUMPULSE_MAGIC << 24 | (uint32_t)(number))

typedef uint32_t checksum(uint32_t payload);

static inline uint32_t adler32_of(uint32_t payload)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    dumpulse_make_heartbeat(packet, (uint8_t)(payload >> 16), (uint8_t)(payload >> 8),
                            (uint8_t)payload);
    return (uint32_t)packet[0] << 24 | (uint32_t)packet[1] << 16 | (uint32_t)packet[2] << 8 |
           packet[3];
}

/* The CRC-32 of IEEE 802.3 and zlib, bit by bit. */
static inline uint32_t crc32_of(uint32_t payload)
{
    uint32_t crc = 0xFFFFFFFFU;

    for (int shift = 24; shift >= 0; shift -= 8) {
        crc ^= payload >> shift & 0xFFU;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc % 2 * 0xEDB88320U);
    }
    return ~crc;
}

/* Fills heartbeats[0 .. HEARTBEATS - 1], sorted by variable, sender and value. */
static inline void make_all(uint64_t *heartbeats, checksum *sum)
{
    for (uint32_t number = 0; number < HEARTBEATS; number++)
        heartbeats[number] = (uint64_t)sum(PAYLOAD_OF(number)) << 32 | PAYLOAD_OF(number);
}

/* Is this one of the heartbeats? It first checks the magic number and the two bits of the variable
 * that must be 0, because memory is slow. */
static inline bool is_heartbeat(const uint64_t *heartbeats, uint64_t packet)
{
    return (uint32_t)packet >> FREE_BITS == PAYLOAD_OF(0) >> FREE_BITS &&
           heartbeats[packet % HEARTBEATS] == packet;
}

static inline unsigned bits_in(uint64_t bits)
{
    unsigned count = 0;

    for (; bits != 0; bits &= bits - 1)
        count++;
    return count;
}

#endif
