/* Hooks for dumpulse_keyed.h on this computer, for a test in Python that loads both.
 * SPDX-License-Identifier: MIT */
#include "dumpulse_keyed.h"

#include <string.h>

/* What the hooks give, and what they were given. */
uint8_t host_master[16], host_sent[DUMPULSE_KEYED_REPORT_SIZE + 65 * DUMPULSE_PACKET_SIZE];
uint32_t host_numbers[66];
uint16_t host_now;
bool host_fails; /* storing fails */
unsigned host_sends;
size_t host_sent_length; /* of all that was sent, one after the other */
/* So that Python knows where things lie. */
const size_t host_sizes[] = {sizeof(dumpulse_keyed), offsetof(dumpulse_keyed, last),
                             offsetof(dumpulse_keyed, tag), sizeof(dumpulse_node),
                             sizeof(dumpulse_reader)};

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memcpy(key, host_master, 16);
    dumpulse_label_key(key, label, 0);
}

uint32_t dumpulse_load(uint8_t label)
{
    return host_numbers[label];
}

bool dumpulse_store(uint8_t label, uint32_t number)
{
    if (!host_fails)
        host_numbers[label] = number;
    return !host_fails;
}

uint16_t dumpulse_get_timestamp(void)
{
    return host_now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    host_sends++;
    memcpy(host_sent + host_sent_length, packet, length);
    host_sent_length += length;
}
