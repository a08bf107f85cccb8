/* Decides which variables are late or dead; see watch.h.   SPDX-License-Identifier: MIT
 *
 * dumpulse_watch.c decides, as on devices. This part gives it the limits of the file of names, and
 * a copy of the table. It looks by a timer, so that packets cost the same with it and without. */
#define _GNU_SOURCE /* NOLINT: for sigset_t, in loop.h */
#include "watch.h"
#include "watch_internal.h"

#include <string.h>

#include "counters.h"
#include "dumpulse_watch.h"
#include "hook.h"
#include "limits.h"
#include "log.h"
#include "loop.h"
#include "names.h"
#include "options.h"
#include "table.h"
#include "timing.h"

enum {
    SHORTEST = 100,
    LONGEST = 1000,    /* ms from one look to the next, if the limits allow it */
    GRACE_MAX = 65344, /* ticks: then 64 looks reach each moment of 65536 ticks */
    LINES = 100        /* of the log at once; then one a second */
};

static dumpulse_watched lines[DUMPULSE_VARIABLES];
static dumpulse_seen seen[DUMPULSE_VARIABLES];
dumpulse watch_heard;
dumpulse_watcher watch_watcher = {lines, seen, 0};

static uint64_t looked;      /* ticks since 1970: the last look */
static uint64_t within;      /* the most ticks between two looks, so that no age wraps around */
static uint64_t least_pause; /* ticks between two looks */
static struct bucket said;
static uint64_t unsaid; /* changes that got no line, because too many came at once */

static uint16_t grace_of(const struct names_variable *variable)
{
    return (uint16_t)(variable->crit < GRACE_MAX ? variable->crit : GRACE_MAX);
}

bool watch_read_names(void)
{
    if (!names_read(options.watch))
        return false;
    watch_watcher.count = 0;
    within = UINT16_MAX;
    least_pause = SHORTEST / options.tick;
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++) {
        const struct names_variable *one = &names_variables[i];
        if (!one->expected)
            continue;
        const dumpulse_watched line = dumpulse_watched_make(
            i, (uint16_t)one->warn, (uint16_t)one->crit, grace_of(one), one->low, one->high);
        const uint16_t longest = line.dead > line.grace ? line.dead : line.grace;
        if (UINT16_MAX - longest < (int)within)
            within = (uint64_t)(UINT16_MAX - longest);
        if (one->warn < least_pause)
            least_pause = one->warn;
        lines[watch_watcher.count++] = line;
    }
    if (least_pause == 0)
        least_pause = 1;
    return options.exec == NULL || hook_check();
}

static void say_unsaid(void)
{
    if (unsaid != 0)
        log_say("%llu more changes: too many came at once", (unsigned long long)unsaid);
    unsaid = 0;
}

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    const struct limit limit = limits_make(1, LINES);
    const uint64_t now = timing_ns();
    const char *name = names_variables[variable].name;

    (void)context;
    counters[COUNT_CHANGES]++;
    if (options.exec != NULL)
        hook_tell(variable, was, is);
    if (options.log < OPTIONS_LOG_NORMAL)
        return;
    if (!limits_has_left(&said, &limit, now)) {
        unsaid++;
        return;
    }
    limits_take(&said, &limit, now);
    say_unsaid();
    log_say("variable %u%s%s: %s, was %s", variable, *name == '\0' ? "" : " ", name,
            hook_states[is], hook_states[was]);
}

/* The machine may have slept, or its clock was set forward, by more ticks than 16 bits can tell.
 * Then this looks at moments between, before it takes new heartbeats: a node that was silent for
 * so long is dead. After twice 65536 ticks, everything is dead or missing. */
static void look_at_what_was_missed(uint64_t now)
{
    enum { ENOUGH = 2 * 65536 };

    if (now > looked && now - looked > ENOUGH)
        looked = now - ENOUGH;
    while (now > looked && now - looked > within) {
        looked += within;
        dumpulse_watch(&watch_watcher, &watch_heard, (uint16_t)looked);
    }
}

void watch_look(void)
{
    static const uint8_t unset[4];
    const uint64_t ms = timing_unix_ms(), now = ms / options.tick;

    look_at_what_was_missed(now);
    table_collect();
    for (size_t at = 4; at < DUMPULSE_REPORT_SIZE; at += sizeof unset)
        if (memcmp(table_agent.report + at, unset, sizeof unset) != 0)
            memcpy(watch_heard.report + at, table_agent.report + at, sizeof unset);
    dumpulse_watch(&watch_watcher, &watch_heard, (uint16_t)now);
    looked = now;
    if (options.exec != NULL)
        hook_run();
    /* The next look is when a tick begins: only then, ages change. */
    const uint64_t pause = least_pause * options.tick - ms % options.tick;
    loop_set_interval(LOOP_WATCH, (pause < LONGEST ? pause : LONGEST) * 1000000);
}

void watch_begin(void)
{
    looked = table_ticks();
    dumpulse_watch_begin(&watch_watcher, (uint16_t)looked);
    if (options.exec != NULL)
        hook_begin();
    if (options.log >= OPTIONS_LOG_NORMAL)
        log_say("watching %u variable%s of %.300s%s%.300s", watch_watcher.count,
                watch_watcher.count == 1 ? "" : "s", options.watch,
                options.exec == NULL ? "" : "; each change runs ",
                options.exec == NULL ? "" : options.exec);
    loop_define_task(LOOP_WATCH, watch_look, TIMING_SECOND);
}

void watch_finish(void)
{
    say_unsaid();
    if (options.exec != NULL)
        hook_finish();
}
