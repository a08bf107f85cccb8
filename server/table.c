/* The table of an agent for Linux; see table.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for sigset_t, in loop.h */
#include "table.h"

#include "log.h"
#include "loop.h"
#include "options.h"
#include "timing.h"

/* All of these are ticks. A timestamp has 16 bits: WRAP ticks later, an old entry would look new.
 * To readers it looks new up to SKEW ticks earlier, because they believe that it was set by a clock
 * ahead of theirs. An entry must be forgotten before that. The ages are checked every INTERVAL, or
 * before the next packet is taken, if that is later. So an entry may become INTERVAL older before
 * it is forgotten; and a reader's clock may be up to INTERVAL ahead of this one. */
enum { WRAP = 65536, SKEW = 64, INTERVAL = 240, TOO_OLD = WRAP - SKEW - 2 * INTERVAL };

dumpulse table_agent __attribute__((aligned(sizeof(table_entry))));
static table_entry *const own_entries = (table_entry *)(void *)(table_agent.report + 4);
table_entry *table_entries = (table_entry *)(void *)(table_agent.report + 4);
bool table_to_prepare;
void (*table_before_it_forgets)(void);
uint8_t (*table_own_value)(void);
uint16_t table_stamp;
uint64_t table_tick, table_tick_begun, table_started;
static uint64_t last_check; /* ticks since 1970 */

/* The library asks for it only if it takes a heartbeat itself. */
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
        /* It was set less than INTERVAL after `then`, or at most WRAP - INTERVAL before it. */
        const uint16_t ahead = (uint16_t)(dumpulse_read_entry(table->report, i).timestamp - then);
        const uint64_t age = passed + (ahead < INTERVAL ? 0 : WRAP) - ahead;
        if ((ahead < INTERVAL && ahead >= passed) || age < limit ||
            memcmp(entry, unset, sizeof unset) == 0)
            continue;
        memcpy(entry, unset, sizeof unset);
        forgotten++;
    }
    return forgotten;
}

uint64_t table_ticks(void)
{
    return timing_unix_ns() / table_tick;
}

void table_collect(void)
{
    if (table_entries == own_entries)
        return;
    for (size_t i = 0; i < DUMPULSE_VARIABLES; i++)
        own_entries[i] = table_entries[i];
}

void table_share(table_entry *entries)
{
    for (size_t i = 0; i < DUMPULSE_VARIABLES; i++)
        entries[i] = own_entries[i];
    table_entries = entries;
    table_to_prepare = true;
}

/* Forgets the entries of table_agent that are too old, and the same ones where they are shared.
 * Returns how many. */
static unsigned forget_old(uint64_t now)
{
    table_collect();
    const unsigned forgotten = table_forget_old(&table_agent, last_check, now);
    for (size_t i = 0; forgotten != 0 && i < DUMPULSE_VARIABLES; i++)
        table_entries[i] = own_entries[i];
    return forgotten;
}

static void check_ages(void)
{
    const uint64_t now = table_ticks();

    if (table_before_it_forgets != NULL)
        table_before_it_forgets();
    const unsigned forgotten = options.keep_old ? 0 : forget_old(now);

    if (forgotten != 0)
        log_say("forgot %u variable%s: older than a timestamp can show", forgotten,
                forgotten == 1 ? "" : "s");
    last_check = now;
}

/* The machine may have slept, or somebody may have set its clock forward. So the ages are checked,
 * if that is due, before a packet is taken or a request is answered. */
void table_begin_tick(uint64_t now)
{
    const uint64_t ticks = now / table_tick;

    if (ticks - last_check >= INTERVAL) /* it is due; the clock was set back, if this is below 0 */
        check_ages();
    table_tick_begun = ticks * table_tick;
    table_stamp = (uint16_t)ticks;
}

/* The task checks the ages even if no packet comes, or if the clock is set back. */
void table_begin(void)
{
    table_tick = options.tick * 1000000;
    table_to_prepare = options.self;
    last_check = table_started = table_ticks();
    table_begin_tick(last_check * table_tick);
    loop_define_task(LOOP_TABLE, check_ages, INTERVAL * table_tick);
}

size_t table_count(void)
{
    size_t count = 0;

    table_collect();
    for (size_t at = 4; at < DUMPULSE_REPORT_SIZE; at += 4)
        if (memcmp(table_agent.report + at, (const uint8_t[4]){0}, 4) != 0)
            count++;
    return count;
}

void table_prepare_now(void)
{
    if (options.self)
        table_record((uint8_t)options.self_variable, (uint8_t)options.self_sender,
                     table_own_value == NULL ? 0 : table_own_value());
    table_collect();
}

/* What dumpulse_sum_() sums, in rows, of which compilers make vectors. A byte counts once in `a`.
 * In `b` it counts as often as there are bytes from it to the end: 16 times for each row below its
 * own, which is in `above`, and the rest by its column. All fit 16 bits: a column is 16 * 255 at
 * most, and what is above it 120 * 255. */
static void sum_rows(const uint8_t *bytes, unsigned *sum_a, unsigned *sum_b)
{
    enum { ROW = 16, SIZE = DUMPULSE_REPORT_SIZE - DUMPULSE_SUM_SIZE_ };
    uint16_t columns[ROW] = {0}, above[ROW] = {0};
    unsigned a = 1, b = SIZE;

    for (const uint8_t *row = bytes; row < bytes + SIZE; row += ROW)
        for (unsigned i = 0; i < ROW; i++) {
            above[i] = (uint16_t)(above[i] + columns[i]);
            columns[i] = (uint16_t)(columns[i] + row[i]);
        }
    for (unsigned i = 0; i < ROW; i++) {
        a += columns[i];
        b += ROW * (unsigned)above[i] + (ROW - i) * columns[i];
    }
    *sum_a = a;
    *sum_b = b % 65521;
}

/* Processors of 64 bits have vectors. On others, rows would take longer. */
void table_write_report(uint8_t report[DUMPULSE_REPORT_SIZE])
{
    unsigned a, b;

    table_prepare();
    memcpy(report, table_agent.report, DUMPULSE_REPORT_SIZE);
    if (sizeof(size_t) == 8)
        sum_rows(report + DUMPULSE_SUM_SIZE_, &a, &b);
    else
        dumpulse_sum_(report + DUMPULSE_SUM_SIZE_, DUMPULSE_REPORT_LAST_, &a, &b);
    dumpulse_write16_(report, b);
    dumpulse_write16_(report + 2, a);
}
