/* The table of an agent for Linux, and what a packet does to it.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_TABLE_H
#define DUMPULSE_TABLE_H

#include <string.h>

#include "counters.h"
#include "dumpulse.h"

extern dumpulse table_agent;
extern uint16_t table_stamp; /* the time now in ticks: what the clock hook returns */

void table_read_clock(void); /* sets the stamp */
void table_stamp_self(void); /* before a report, if --self is given */

/* What to count for 8 bytes that are no request: a heartbeat, or the first thing that is wrong.
 * dumpulse_process_packet() would decide the same, but not say why; and a heartbeat would take
 * half as many instructions again, as the compiler does not know there how many bytes are summed. */
static inline size_t table_take_heartbeat(const uint8_t *packet)
{
    uint8_t right[DUMPULSE_PACKET_SIZE];

    if (packet[4] != DUMPULSE_MAGIC)
        return COUNT_MAGIC;
    dumpulse_make_heartbeat(right, packet[5], packet[6], packet[7]);
    if (memcmp(packet, right, 4) != 0) /* of the rest they share every byte */
        return COUNT_CHECKSUM;
    return dumpulse_record(&table_agent, packet[5], packet[6], packet[7]) == DUMPULSE_HEARTBEAT
               ? COUNT_HEARTBEATS
               : COUNT_VARIABLE;
}

#endif
