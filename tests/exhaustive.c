/* All 2^24 heartbeats, each with its right checksum and with a wrong one: the first
 * is taken exactly when its variable is below 64, the second is refused, and
 * nothing but the one entry ever changes.   SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dumpulse.h"

static unsigned long times, sends;

uint16_t dumpulse_get_timestamp(void)
{
    times++;
    return 0x7E57;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context, (void)packet, (void)length;
    sends++;
}

static void fail(const uint8_t *packet, const char *what)
{
    printf("exhaustive: ");
    for (int i = 0; i < 8; i++)
        printf("%02x", packet[i]);
    printf(": %s\n", what);
    exit(1);
}

/* Adler-32 of four bytes, with each sum written out: another form than the library's. */
static uint32_t sum_of_four(unsigned p, unsigned q, unsigned r, unsigned s)
{
    return (4 + 4 * p + 3 * q + 2 * r + s) << 16 | (1 + p + q + r + s);
}

int main(void)
{
    /* Three agents: the one that is used, between two that nothing may change. */
    static const dumpulse before[3] = {{{0x99}}, {{0x88}}, {{0x77}}};
    dumpulse agents[3];
    dumpulse *const agent = &agents[1];
    unsigned long taken = 0, refused = 0;

    memcpy(agents, before, sizeof agents);
    for (uint32_t payload = 0; payload < 1UL << 24; payload++) {
        const uint8_t variable = (uint8_t)(payload >> 16), sender = (uint8_t)(payload >> 8);
        const uint8_t value = (uint8_t)payload;
        const uint32_t right = sum_of_four(0xF1, variable, sender, value);
        const uint32_t wrong = right ^ 1UL << payload % 32; /* another bit each time */
        uint8_t packet[8] = {(uint8_t)(wrong >> 24),
                             (uint8_t)(wrong >> 16),
                             (uint8_t)(wrong >> 8),
                             (uint8_t)wrong,
                             0xF1,
                             variable,
                             sender,
                             value};

        if (dumpulse_process_packet(agent, packet, 8, NULL) != DUMPULSE_REFUSED)
            fail(packet, "taken with a wrong checksum");
        if (memcmp(agents, before, sizeof agents) != 0)
            fail(packet, "refused, but the table has changed");
        refused++;
        packet[0] = (uint8_t)(right >> 24);
        packet[1] = (uint8_t)(right >> 16);
        packet[2] = (uint8_t)(right >> 8);
        packet[3] = (uint8_t)right;
        if (variable >= 64) {
            if (dumpulse_process_packet(agent, packet, 8, NULL) != DUMPULSE_REFUSED)
                fail(packet, "taken with a variable out of range");
            refused++;
        } else {
            uint8_t *entry = agent->report + 4 + 4 * variable;
            const uint8_t expected[4] = {0x7E, 0x57, sender, value};
            if (dumpulse_process_packet(agent, packet, 8, NULL) != DUMPULSE_HEARTBEAT)
                fail(packet, "refused");
            if (memcmp(entry, expected, 4) != 0)
                fail(packet, "entry not written");
            memcpy(entry, before[1].report + 4 + 4 * variable, 4);
            taken++;
        }
        if (memcmp(agents, before, sizeof agents) != 0)
            fail(packet, "more than its entry has changed");
    }
    if (taken != 1UL << 22 || times != taken || sends != 0) {
        printf("exhaustive: %lu taken, clock hook called %lu times, send hook %lu\n", taken, times,
               sends);
        return 1;
    }
    printf("exhaustive: %lu taken, %lu refused: %lu passed, 0 failed\n", taken, refused,
           taken + refused);
    return 0;
}
