/* Hooks for dumpulse_keyed.c on this computer, for a test in Python that loads both.
 * SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_ALONE
#define DUMPULSE_ALONE 8
#endif
#include "dumpulse_keyed.h"

#include <string.h>

/* What the hooks give, and what they were given. */
uint8_t host_master[16], host_numbers[66][3], host_sent[DUMPULSE_KEYED_REPORT_SIZE];
uint16_t host_now;
bool host_fails; /* storing fails */
unsigned host_stores, host_sends, host_times, host_loads;
size_t host_sent_length;
/* So that Python knows where things lie. */
const size_t host_sizes[] = {sizeof(dumpulse_keyed),         offsetof(dumpulse_keyed, epoch),
                             offsetof(dumpulse_keyed, last), offsetof(dumpulse_keyed, tag),
                             sizeof(dumpulse_node),          sizeof(dumpulse_reader)};

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    (void)label;
    memcpy(key, host_master, 16);
}

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    host_loads++;
    memcpy(number, host_numbers[label], 3);
}

bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    host_stores++;
    if (host_fails)
        return false;
    memcpy(host_numbers[label], number, 3);
    return true;
}

uint16_t dumpulse_get_timestamp(void)
{
    host_times++;
    return host_now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    host_sends++;
    host_sent_length = length;
    memcpy(host_sent, packet, length);
}
