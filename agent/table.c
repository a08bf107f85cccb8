/* The table of an agent for Linux: table.h tells more.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for sigset_t, in loop.h */
#include "table.h"

#include "log.h"
#include "loop.h"
#include "options.h"
#include "timing.h"

/* All in ticks. A timestamp has 16 bits: 65536 ticks later, an entry would look new; to readers it
 * does up to 64 ticks before, as they take it for ahead of their clock: SKEW. The table is looked at
 * every LOOK, or before the next packet is taken, if that is later. An entry must be gone before it
 * looks new, be it seen just before a look, by a clock that is up to LOOK ahead of this one. */
enum { WRAP = 65536, SKEW = 64, LOOK = 240, TOO_OLD = WRAP - SKEW - 2 * LOOK };

dumpulse table_agent;
uint16_t table_stamp;
uint64_t table_next_look;
static uint64_t look; /* when the last one was: ticks since 1970 */

uint16_t dumpulse_get_timestamp(void)
{
    return table_stamp;
}

unsigned table_forget_old(dumpulse *table, uint64_t then, uint64_t now)
{
    const uint64_t passed = now > then ? now - then : 0;
    const uint64_t limit = options.keep_old ? WRAP : TOO_OLD;
    unsigned forgotten = 0;

    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++) {
        static const uint8_t unset[4];
        uint8_t *entry = table->report + 4 + (size_t)4 * i;
        /* Set since `then`, before the next look was due; or else, at most WRAP - LOOK before. */
        const uint16_t ahead = (uint16_t)(dumpulse_read_entry(table->report, i).timestamp - then);
        const uint64_t age = passed + (ahead < LOOK ? 0 : WRAP) - ahead;
        if ((ahead < LOOK && ahead >= passed) || age < limit ||
            memcmp(entry, unset, sizeof unset) == 0)
            continue;
        memcpy(entry, unset, sizeof unset);
        forgotten++;
    }
    return forgotten;
}

/* Out of the way of what runs for every packet. */
__attribute__((noinline)) void table_look(void)
{
    const uint64_t now = table_ticks();
    const unsigned forgotten = options.keep_old ? 0 : table_forget_old(&table_agent, look, now);

    if (forgotten != 0)
        log_say("forgot %u variable%s: too old for a timestamp to tell", forgotten,
                forgotten == 1 ? "" : "s");
    look = now;
    table_next_look = now + LOOK;
}

/* A look comes in any case, should no packet come, or the clock be set back. */
void table_begin(void)
{
    look = table_ticks();
    table_next_look = look + LOOK;
    loop_define_task(LOOP_TABLE, table_look, LOOK * options.tick * 1000000);
}

size_t table_count(void)
{
    size_t count = 0;

    for (size_t at = 4; at < DUMPULSE_REPORT_SIZE; at += 4)
        if (memcmp(table_agent.report + at, (const uint8_t[4]){0}, 4) != 0)
            count++;
    return count;
}

void table_stamp_self(void)
{
    if (options.self)
        (void)dumpulse_record(&table_agent, (uint8_t)options.self_variable,
                              (uint8_t)options.self_sender, 0);
}
