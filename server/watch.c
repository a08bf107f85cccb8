/* Decides which variables are late or dead; see watch.h.   SPDX-License-Identifier: MIT
 *
 * dumpulse_watch.c decides, as on devices. This part gives it the limits of the file of names, and
 * a copy of the table. It looks by a timer, so that packets cost the same with it and without. */
#define _GNU_SOURCE /* NOLINT: for sigset_t, in loop.h */
#include "watch.h"

#include <stdio.h>
#include <string.h>

#include "alarms.h"
#include "counters.h"
#include "dumpulse_watch.h"
#include "hook.h"
#include "limits.h"
#include "log.h"
#include "loop.h"
#include "names.h"
#include "options.h"
#include "sockets.h"
#include "table.h"
#include "timing.h"

enum {
    SHORTEST = 100,
    LONGEST = 1000,    /* ms from one look to the next, if the limits allow it */
    GRACE_MAX = 65344, /* ticks: then 64 looks reach each moment of 65536 ticks */
    WRAPS = 2 * 65536, /* ticks: for longer than this, nobody has to look back */
    LINES = 100        /* Lines of the log at once; then there is one a second. */
};

static dumpulse_watched lines[DUMPULSE_VARIABLES];
static dumpulse_seen seen[DUMPULSE_VARIABLES];
dumpulse watch_heard;
dumpulse_watcher watch_watcher = {lines, seen, 0};

/* Ages are by a clock that nobody sets. It begins with Unix time, so that its ticks begin with
 * those of the table, and WRAPS later, so that nothing was heard before 0. */
static uint64_t ahead;                        /* ms: this clock, minus timing_ns() */
static uint8_t table[DUMPULSE_REPORT_SIZE];   /* Table at the last look. */
static uint64_t heard_at[DUMPULSE_VARIABLES]; /* ticks of this clock */
static uint64_t looked;                       /* Tick of the last look. */
static uint64_t within;      /* the most ticks between two looks, so that no age wraps around */
static uint64_t least_pause; /* ticks between two looks */
static struct bucket said;
static uint64_t unsaid; /* changes that got no line, because too many came at once */
static uint8_t node_of[DUMPULSE_VARIABLES]; /* Node of the variable that carries its boot count. */

static uint64_t steady_ms(void)
{
    return timing_ns() / 1000000 + ahead;
}

static uint16_t grace_of(const struct names_variable *variable)
{
    return (uint16_t)(variable->crit < GRACE_MAX ? variable->crit : GRACE_MAX);
}

static void make_lines(void)
{
    watch_watcher.count = 0;
    memset(node_of, DUMPULSE_VARIABLES, sizeof node_of);
    within = UINT16_MAX;
    least_pause = SHORTEST / options.tick;
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++) {
        const struct names_variable *one = &names_variables[i];
        if (one->boots != NAMES_NO_BOOTS)
            node_of[one->boots] = i;
        if (!one->expected || (options.self && i == options.self_variable))
            continue; /* the server's own is recorded only when somebody asks */
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
}

bool watch_read_names(void)
{
    bool is_right = options_check(names_read(options.watch));

    if (options.exec != NULL && (is_right || options.check))
        is_right &= options_check(hook_check());
    if (is_right)
        make_lines();
    return is_right;
}

static void say_unsaid(void)
{
    if (unsaid != 0 &&
        log_say("<4>%llu more changes: too many came at once", (unsigned long long)unsaid))
        unsaid = 0;
}

/* Logs a change unless too many came at once. Returns false if the log lacks it. */
static bool log_change(const struct alarms_change *change)
{
    static const char causes[][10] = {"unknown",  "power-up", "brown-out", "reset pin",
                                      "watchdog", "software", "other",     "7"};
    const struct limit limit = limits_make(1, LINES);
    const uint64_t now = timing_ns();
    const bool is_good = change->is == DUMPULSE_ALIVE || change->is == DUMPULSE_WAITING;
    const char *const name = names_variables[change->variable].name;
    char boot[32] = "";

    if (!limits_has_left(&said, &limit, now)) {
        unsaid++;
        return false;
    }
    limits_take(&said, &limit, now);
    say_unsaid();
    if (change->is == ALARMS_RESTARTED)
        (void)snprintf(boot, sizeof boot, "; %s, boot %u", causes[change->boot / 32],
                       change->boot % 32U);
    return log_say(is_good ? "<5>variable %u%s%s: %s, was %s; number %u%s"
                           : "<4>variable %u%s%s: %s, was %s; number %u%s",
                   change->variable, *name == '\0' ? "" : " ", name, hook_states[change->is],
                   hook_states[change->was], (unsigned)change->number, boot);
}

/* What the log lacks stays unlogged in the state: then the next run logs it, or counts it. */
static void log_state(const struct alarms_change *change)
{
    uint8_t *const unlogged = &alarms[change->variable].unlogged, before = *unlogged;

    alarms_log(change);
    if (!log_change(change))
        *unlogged = before;
}

static void tell(const struct alarms_change *change)
{
    if (change == NULL) {
        if (options.exec != NULL)
            hook_run();
        return;
    }
    log_state(change);
    if (options.exec != NULL)
        hook_tell(change);
    else
        alarms[change->variable].untold = 0;
}

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    (void)context;
    counters[COUNT_CHANGES]++;
    alarms_add(variable, was, is);
}

/* The variable's heartbeat is new since the last look: if it carries a boot count, its node has
 * restarted. Its state stays. */
static void note_boot(uint8_t variable, uint8_t value)
{
    const uint8_t node = node_of[variable];

    if (node == DUMPULSE_VARIABLES)
        return;
    counters[COUNT_CHANGES]++;
    alarms_add_restart(node, value);
}

/* Notes what was heard since the last look. The table's timestamp says when that was, unless
 * somebody has set Unix time meanwhile, or the machine slept: then it counts as heard now. What the
 * table has at the beginning was no restart. */
static void note_heard(uint64_t now, bool is_beginning)
{
    static uint64_t offset; /* ms: Unix time minus this clock, at the last look */
    const uint64_t offset_now = timing_unix_ms() - steady_ms(), gone = offset_now - offset;
    const bool was_set = gone + options.tick > 2 * options.tick;
    const uint16_t stamp = (uint16_t)table_ticks();

    offset = offset_now;
    table_collect();
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++) {
        static const uint8_t unset[4];
        const size_t at = 4 + sizeof unset * i;
        if (memcmp(table + at, table_agent.report + at, sizeof unset) == 0)
            continue;
        memcpy(table + at, table_agent.report + at, sizeof unset);
        if (memcmp(table + at, unset, sizeof unset) ==
            0) /* too old for the table, and not for us */
            continue;
        if (!is_beginning)
            note_boot(i, table[at + 3]);
        const uint16_t age = dumpulse_age(stamp, dumpulse_read_entry(table, i).timestamp);
        /* Ticks of Unix time and of this clock begin at other moments. */
        heard_at[i] = now - (age <= now - looked + 1 && !was_set ? age : 0);
        memcpy(watch_heard.report + at, table + at, sizeof unset);
    }
}

/* The machine may have slept for so long, or its clock may be set forward by so much, that the
 * table forgets even what came since the last look. */
static void note_before_it_is_forgotten(void)
{
    note_heard(steady_ms() / options.tick, false);
}

/* Decides as if `moment` were now. Who was heard later was alive then. */
static void look_at(uint64_t moment)
{
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++) {
        const uint64_t time = moment < heard_at[i] ? moment : heard_at[i];
        uint8_t *entry = watch_heard.report + 4 + (size_t)4 * i;
        if (heard_at[i] == 0)
            continue;
        entry[0] = (uint8_t)(time >> 8);
        entry[1] = (uint8_t)time;
    }
    dumpulse_watch(&watch_watcher, &watch_heard, (uint16_t)moment);
}

/* Heartbeats may wait in the sockets, because the server was stopped or did something else: they
 * are taken first. If it was stopped for so long that 16 bits do not tell how long, it looks at
 * moments between, too. */
void watch_look(void)
{
    sockets_take_waiting();
    const uint64_t ms = steady_ms(), now = ms / options.tick;

    note_heard(now, false);
    if (now - looked > WRAPS)
        looked = now - WRAPS;
    for (; now - looked > within; looked += within)
        look_at(looked + within);
    look_at(now);
    looked = now;
    alarms_tell(alarms_store == NULL);
    if (options.exec != NULL)
        hook_run();
    (void)log_say_lost();
    /* The next look is when a tick begins: only then, ages change. */
    const uint64_t pause = least_pause * options.tick - ms % options.tick;
    loop_set_interval(LOOP_WATCH, (pause < LONGEST ? pause : LONGEST) * 1000000);
}

/* Nobody has watched it. After 65536 ticks its last heartbeat would look new. */
static void limit_age(const dumpulse_watched *line)
{
    uint64_t *const at = &heard_at[line->variable];

    if (*at != 0 && *at + line->dead < looked) /* it may have been heard since that look */
        *at = looked - line->dead;
}

static void forget_unwatched(void)
{
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++)
        if (!names_variables[i].expected)
            alarms_forget(i);
}

bool watch_read_again(void)
{
    struct names_variable names[DUMPULSE_VARIABLES];
    dumpulse_seen before[DUMPULSE_VARIABLES] = {{{0}, 0}};

    watch_look(); /* after a stop, the last look is too old for the beginning of a new watch */
    memcpy(names, names_variables, sizeof names);
    for (uint8_t i = 0; i < watch_watcher.count; i++)
        before[lines[i].variable] = seen[i];
    if (!watch_read_names()) {
        memcpy(names_variables, names, sizeof names);
        return false;
    }
    forget_unwatched();
    for (uint8_t i = 0; i < watch_watcher.count; i++) {
        const dumpulse_watcher one = {lines + i, seen + i, 1};
        seen[i] = before[lines[i].variable];
        if (!names[lines[i].variable].expected) {
            limit_age(&lines[i]);
            dumpulse_watch_begin(&one, (uint16_t)looked);
        }
    }
    return true;
}

/* Goes on with the state of the last run, and tells again what that may not have told. An entry
 * that the table has forgotten since is older than any limit. */
static void restore_state(const dumpulse_watched *line, dumpulse_seen *of)
{
    const uint8_t variable = line->variable;
    struct alarms_record *const record = &alarms[variable];

    if (record->is != DUMPULSE_WAITING) {
        if (heard_at[variable] == 0 && record->is >= DUMPULSE_ALIVE)
            heard_at[variable] = looked - (line->dead - DUMPULSE_AHEAD) - 1;
        dumpulse_write16_(of->since, (uint16_t)heard_at[variable]);
        of->state = record->is;
    }
    if (record->unlogged != 0) {
        const struct alarms_change last = alarms_last(variable);
        log_count_lost(record->unlogged - 1U);
        log_state(&last);
    }
    if (options.exec != NULL)
        hook_tell_again(variable);
    else
        record->untold = 0;
}

static void restore_states(void)
{
    forget_unwatched();
    for (uint8_t i = 0; i < watch_watcher.count; i++)
        restore_state(&lines[i], &seen[i]);
}

/* Of a table from a file, all ages are by Unix time. That may be wrong until somebody sets it: then
 * they are as old as when the file was written. */
void watch_begin(void)
{
    const uint64_t unix_ms = table_started * options.tick + timing_unix_ms() % options.tick;

    ahead = unix_ms + WRAPS * options.tick - timing_ns() / 1000000;
    looked = steady_ms() / options.tick;
    memset(table, 0, sizeof table);
    memset(heard_at, 0, sizeof heard_at);
    memset(&watch_heard, 0, sizeof watch_heard);
    note_heard(looked, true);
    table_before_it_forgets = note_before_it_is_forgotten;
    for (uint8_t i = 0; i < DUMPULSE_VARIABLES; i++)
        if (heard_at[i] != 0) {
            const uint16_t age =
                dumpulse_age((uint16_t)table_started, dumpulse_read_entry(table, i).timestamp);
            heard_at[i] = looked - (age < 65536 - DUMPULSE_AHEAD ? age : 0);
        }
    dumpulse_watch_begin(&watch_watcher, (uint16_t)looked);
    alarms_tell_one = tell;
    if (options.exec != NULL)
        hook_begin();
    restore_states();
    log_say("<6>watching %u variable%s of %.300s%s%.300s", watch_watcher.count,
            watch_watcher.count == 1 ? "" : "s", options.watch,
            options.exec == NULL ? "" : "; each change runs ",
            options.exec == NULL ? "" : options.exec);
    loop_define_task(LOOP_WATCH, watch_look, TIMING_SECOND);
}

void watch_finish(bool is_stored)
{
    alarms_tell(true);
    say_unsaid();
    if (options.exec != NULL)
        hook_finish(is_stored);
}
