/* The table of an agent for Linux, and what a packet does to it.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_TABLE_H
#define DUMPULSE_TABLE_H

#include <string.h>

#include "counters.h"
#include "dumpulse.h"
#include "options.h"
#include "timing.h"

extern dumpulse table_agent;
extern uint16_t table_stamp;     /* the time now in ticks: what the clock hook returns */
extern uint64_t table_next_look; /* for entries that are too old: due then, in ticks since 1970 */

void table_begin(void);      /* before the table is used */
void table_look(void);       /* forgets what is too old, and says so */
void table_stamp_self(void); /* before a report, if --self is given */
size_t table_count(void);    /* of the variables that are set */

static inline uint64_t table_ticks(void)
{
    return timing_unix_ms() / options.tick;
}

/* Sets the stamp. The machine may have slept, or its clock been set forward: no packet is taken, and
 * so nobody is answered, before the look that is due then. */
static inline void table_read_clock(void)
{
    const uint64_t now = table_ticks();

    if (now >= table_next_look)
        table_look();
    table_stamp = (uint16_t)now;
}

/* Makes those entries zeros whose age will soon be too much for 16 bits, and would look young again.
 * The table was right at `then`, but for what was set soon after; both times are in ticks since
 * 1970. Returns how many. A clock that was set back makes nothing older. */
unsigned table_forget_old(dumpulse *table, uint64_t then, uint64_t now);

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
