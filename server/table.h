/* The table of an agent for Linux, and what a packet does to it.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_TABLE_H
#define DUMPULSE_TABLE_H

#include <arpa/inet.h>
#include <string.h>

#include "counters.h"
#include "dumpulse.h"
#include "options.h"
#include "timing.h"

/* The entries, as in a report. With --key they are those of the agent with keys, and else those of
 * table_agent. */
typedef uint32_t __attribute__((may_alias)) table_entry;
extern table_entry *table_entries;
extern dumpulse table_agent;      /* table_prepare() or table_collect() bring it up to date */
extern uint16_t table_stamp;      /* the time now, in ticks: the clock hook returns it */
extern uint64_t table_tick;       /* ns */
extern uint64_t table_tick_begun; /* when this tick began, in ns since 1970 */
extern uint64_t table_started;    /* ticks since 1970 at the start, or when the state was written */

/* Called before entries are forgotten: whoever needs them looks now. NULL: nobody does. */
extern void (*table_before_it_forgets)(void);

void table_begin(void);     /* must be called before the table is used */
size_t table_count(void);   /* Returns the number of variables that are set. */
uint64_t table_ticks(void); /* the time now, in ticks since 1970 */

void table_share(table_entry *entries); /* Keeps the entries there. */
void table_collect(void); /* copies the entries into table_agent, if they are shared */

/* Must be called before each report: sets the variable of --self, and collects the entries. Its
 * value is what table_own_value() returns; NULL: 0. */
extern bool table_to_prepare;
extern uint8_t (*table_own_value)(void);
void table_prepare_now(void);
static inline void table_prepare(void)
{
    if (table_to_prepare)
        table_prepare_now();
}

/* Writes what dumpulse_process_packet() answers a request with, in fewer instructions. */
void table_write_report(uint8_t report[DUMPULSE_REPORT_SIZE]);

void table_begin_tick(uint64_t now); /* sets the stamp, and forgets entries that are too old */

/* Must be called before a packet is taken or a request is answered. A clock that was set back makes
 * the difference huge. */
static inline void table_read_clock(void)
{
    const uint64_t now = timing_unix_ns();

    if (now - table_tick_begun >= table_tick)
        table_begin_tick(now);
}

/* Makes entries zeros that are so old that they would soon look new. Returns how many. At `then`,
 * no entry was too old; some may have been set soon after it. Both times are ticks since 1970. If
 * the clock was set back (now < then), no entry counts as older than at `then`. */
unsigned table_forget_old(dumpulse *table, uint64_t then, uint64_t now);

/* Does what dumpulse_record() does for a variable below 64. It writes the entry in one piece, which
 * takes 9 instructions fewer than four bytes. */
static inline void table_record(uint8_t variable, uint8_t sender, uint8_t value)
{
    table_entries[variable] =
        htonl((uint32_t)table_stamp << 16 | (uint32_t)sender << 8 | (uint32_t)value);
}

/* Takes 8 bytes that are no request. Returns which counter counts them: a heartbeat, or the first
 * error. dumpulse_process_packet() decides the same, but does not say why. It also takes half as
 * many instructions again for a heartbeat: there, the compiler does not know how many bytes are
 * summed. */
static inline size_t table_take_heartbeat(const uint8_t *packet)
{
    uint32_t sum; /* its bytes, in the order in which they came */
    unsigned a, b;

    memcpy(&sum, packet, sizeof sum);
    if (packet[DUMPULSE_MAGIC_AT_] != DUMPULSE_MAGIC)
        return COUNT_MAGIC;
    dumpulse_sum_(packet + DUMPULSE_SUM_SIZE_, DUMPULSE_PACKET_LAST_, &a, &b);
    if (ntohl(sum) != (b << 16) + a)
        return COUNT_CHECKSUM;
    if (packet[DUMPULSE_VARIABLE_AT_] >= DUMPULSE_VARIABLES)
        return COUNT_VARIABLE;
    table_record(packet[DUMPULSE_VARIABLE_AT_], packet[DUMPULSE_SENDER_AT_],
                 packet[DUMPULSE_VALUE_AT_]);
    return COUNT_HEARTBEATS;
}

#endif
