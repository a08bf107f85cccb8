/* Neither version takes a packet of the other.   SPDX-License-Identifier: MIT
 *
 * All heartbeats of version 1 go to an agent with keys, also those of variables out of range, and
 * its request. Then 10^8 packets of all kinds of version 2 go to an agent of version 1. */
#include "dumpulse_keyed.h"

#include <stdio.h>
#include <string.h>

static dumpulse_keyed keyed;
static dumpulse_alone alone[DUMPULSE_VARIABLES];
static dumpulse agent;
static unsigned long called; /* how often a hook was called */

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memset(key, label, 16);
    called++;
}

uint32_t dumpulse_load(uint8_t label)
{
    (void)label;
    called++;
    return 0;
}

bool dumpulse_store(uint8_t label, uint32_t number)
{
    (void)label;
    (void)number;
    called++;
    return true;
}

uint16_t dumpulse_get_timestamp(void)
{
    called++;
    return 1;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    (void)packet;
    (void)length;
    called++;
}

static dumpulse_result process(const uint8_t *packet)
{
    return dumpulse_alone_process(&keyed, alone, DUMPULSE_VARIABLES, packet, 8, NULL);
}

/* Returns how many of the packets of version 1 an agent with keys took, or computed a tag for. */
static unsigned long of_version_1(void)
{
    const uint8_t request[8] = DUMPULSE_REQUEST;
    uint8_t packet[8];
    unsigned long taken = 0;

    if (!dumpulse_alone_begin(&keyed, alone, DUMPULSE_VARIABLES, NULL))
        return 1;
    called = 0;
    for (uint32_t number = 0; number != 0x1000000U; number++) {
        dumpulse_make_heartbeat(packet, (uint8_t)(number >> 16), (uint8_t)(number >> 8 & 0xFFU),
                                (uint8_t)(number & 0xFFU));
        taken += process(packet) != DUMPULSE_REFUSED;
    }
    taken += process(request) != DUMPULSE_REFUSED;
    return taken + called;
}

/* Returns how many of so many packets of version 2 an agent of version 1 took. */
static unsigned long of_version_2(uint32_t count)
{
    const uint8_t request[8] = DUMPULSE_REQUEST;
    uint8_t packet[8];
    uint64_t chance = 88172645463325252U; /* xorshift */
    unsigned long taken = 0;

    called = 0;
    for (uint32_t number = 0; number != count; number++) {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        memcpy(packet, &chance, 8);
        packet[4] = (uint8_t)(number % 0xC1U); /* beacon, announce, heartbeat, request */
        if (packet[4] >= 0x40 && packet[4] < 0x80)
            packet[5] |= 0x80;
        if (number % 2 == 0)
            memcpy(packet, request, 4); /* the likeliest tag to be mistaken */
        taken += dumpulse_process_packet(&agent, packet, 8, NULL) != DUMPULSE_REFUSED;
    }
    return taken + called;
}

int main(void)
{
    const unsigned long first = of_version_1(), second = of_version_2(100000000U);

    printf("downgrade: %d packets of version 1 and 100000000 of version 2: %lu taken\n", 0x1000001,
           first + second);
    return first + second != 0;
}
