/* The table of an agent for Linux, and what a packet does to it.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_TABLE_H
#define DUMPULSE_TABLE_H

#include <string.h>

#include "counters.h"
#include "dumpulse.h"
#include "options.h"
#include "timing.h"

extern dumpulse table_agent;
extern uint16_t table_stamp;      /* the time now, in ticks: the clock hook returns it */
extern uint64_t table_next_check; /* when the ages are checked next, in ticks since 1970 */

void table_begin(void);      /* must be called before the table is used */
void table_check_ages(void); /* checks the ages, forgets entries that are too old, and logs that */
void table_stamp_self(void); /* sets the variable of --self: called before each report */
size_t table_count(void);    /* how many variables are set */

static inline uint64_t table_ticks(void)
{
    return timing_unix_ms() / options.tick;
}

/* Sets the stamp. The machine may have slept, or somebody may have set its clock forward. So the
 * ages are checked, if that is due, before a packet is taken or a request is answered. */
static inline void table_read_clock(void)
{
    const uint64_t now = table_ticks();

    if (now >= table_next_check)
        table_check_ages();
    table_stamp = (uint16_t)now;
}

/* Makes entries zeros that are so old that they would soon look new. Returns how many. At `then`,
 * no entry was too old; some may have been set soon after it. Both times are ticks since 1970. If
 * the clock was set back (now < then), no entry counts as older than at `then`. */
unsigned table_forget_old(dumpulse *table, uint64_t then, uint64_t now);

/* Takes 8 bytes that are no request. Returns which counter counts them: a heartbeat, or the first
 * error. dumpulse_process_packet() decides the same, but does not say why. It also takes half as
 * many instructions again for a heartbeat: there, the compiler does not know how many bytes are
 * summed. */
static inline size_t table_take_heartbeat(const uint8_t *packet)
{
    uint8_t right[DUMPULSE_PACKET_SIZE];

    if (packet[4] != DUMPULSE_MAGIC)
        return COUNT_MAGIC;
    dumpulse_make_heartbeat(right, packet[5], packet[6], packet[7]);
    if (memcmp(packet, right, 4) != 0) /* the other bytes are the same in both */
        return COUNT_CHECKSUM;
    return dumpulse_record(&table_agent, packet[5], packet[6], packet[7]) == DUMPULSE_HEARTBEAT
               ? COUNT_HEARTBEATS
               : COUNT_VARIABLE;
}

#endif
