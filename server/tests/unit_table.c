/* Unit tests of server/table.c and watch.c with clocks that a test sets.
 *                                                             SPDX-License-Identifier: MIT
 * Does an old entry ever look new to a reader?
 */
#define _GNU_SOURCE /* NOLINT: for random, and sigset_t in loop.h */
#include <stdlib.h>

#include "server/alarms.h"
#include "server/loop.h"
#include "server/names.h"
#include "server/options.h"
#include "server/sockets.h"
#include "server/table.h"
#include "server/watch.h"
#include "stand_ins.h"
#include "tools/units.h"

enum { INTERVAL = 240, TOO_OLD = 64992 /* the help and the manual say that */ }; /* ticks */

static uint64_t unix_ms;
static void (*check_ages)(void); /* the task */

static void set_clock(uint64_t ms)
{
    unix_ms = ms;
    clock_unix_ns = ms * 1000000;
}

void loop_define_task(size_t task, void (*run)(void), uint64_t every)
{
    if (task == LOOP_WATCH)
        return;
    assert_int_equal(task, LOOP_TABLE);
    assert_int_equal(every, INTERVAL * options.tick * 1000000);
    check_ages = run;
}

static void start(uint64_t now, uint64_t tick)
{
    options = (struct options){.tick = tick};
    memset(&table_agent, 0, sizeof table_agent);
    logged_count = 0;
    set_clock(now * tick);
    table_begin();
    assert_int_equal(table_tick_begun, now * table_tick);
}

static void beat(uint8_t variable)
{
    table_read_clock();
    assert_int_equal(table_stamp, (uint16_t)(unix_ms / options.tick)); /* also if it went back */
    table_record(variable, 7, 1);
}

static bool is_there(uint8_t variable)
{
    return dumpulse_read_entry(table_agent.report, variable).sender != 0;
}

/* The age that a reader sees: computed as in client.py. */
static unsigned seen_age(uint8_t variable)
{
    const uint16_t age =
        dumpulse_age(table_stamp, dumpulse_read_entry(table_agent.report, variable).timestamp);

    return age >= 65536 - 64 ? 0 : age;
}

/* One tick passes. `passed` is the number of ticks since the clock was set back. The task runs at
 * its usual times. */
static void wait_a_tick(unsigned passed)
{
    set_clock(unix_ms + options.tick);
    if (passed % INTERVAL == INTERVAL - 1)
        check_ages();
    table_read_clock();
}

/* Time passes. Then all entries have the right age, and none younger than 64,000 ticks is gone. */
static void wait_and_look(uint64_t wait, const uint64_t set_at[DUMPULSE_VARIABLES])
{
    set_clock(unix_ms + wait * options.tick);
    table_read_clock();
    for (uint8_t variable = 0; variable < DUMPULSE_VARIABLES; variable++) {
        const uint64_t age = unix_ms / options.tick - set_at[variable];
        if (set_at[variable] == 0)
            assert_false(is_there(variable));
        else if (is_there(variable))
            assert_true(age < 65536 - 64 - INTERVAL && seen_age(variable) == age);
        else
            assert_true(age >= 64000);
    }
}

TEST(nothing_old_looks_young)
{
    static const uint64_t units[] = {1, 7, 1000, 3600000};

    srandom(1);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        uint64_t set_at[DUMPULSE_VARIABLES] = {0};
        start(UINT64_C(1800000000000) / units[i] + 65536, units[i]);
        /* With ticks of an hour, 20,000 steps would end after the year 2554. */
        for (unsigned step = 0; step < (units[i] == 3600000 ? 3000 : 20000); step++) {
            const uint8_t variable = (uint8_t)(random() % DUMPULSE_VARIABLES);
            if (variable % 8 == 0 || random() % 500 == 0) { /* the others are silent much longer */
                beat(variable);
                set_at[variable] = unix_ms / options.tick;
            }
            /* Mostly up to one interval of the task passes. Sometimes it is hours: the machine was
             * asleep, or the clock was set forward. */
            wait_and_look((uint64_t)random() % (random() % 200 == 0 ? 300000 : INTERVAL + 1),
                          set_at);
        }
        assert_true(logged_count > 10);
    }
}

/* A leap second, or a clock that is corrected: nodes that were just heard are kept. */
TEST(a_small_step_back_forgets_nobody)
{
    start(1000000, 1000);
    beat(3);
    set_clock(unix_ms - UINT64_C(64) * 1000);
    for (unsigned passed = 0; passed < 1000; passed++) {
        wait_a_tick(passed);
        assert_true(is_there(3));
        assert_true(seen_age(3) == (passed < 63 ? 0 : passed - 63));
    }
}

/* The clock goes back an hour. An entry that is not set again looks very old from then on. It is
 * forgotten before it looks new. */
TEST(a_large_step_back_revives_nobody)
{
    unsigned age = 0;

    start(1000000, 1000);
    beat(3);
    table_read_clock();
    set_clock(unix_ms - UINT64_C(3600) * 1000);
    for (unsigned passed = 0; passed < 200000; passed++) {
        wait_a_tick(passed);
        assert_true(!is_there(3) || seen_age(3) > age);
        age = is_there(3) ? seen_age(3) : UINT16_MAX;
    }
    assert_false(is_there(3));
}

TEST(unless_told_otherwise)
{
    start(1000000, 1000);
    options.keep_old = true;
    beat(3);
    set_clock(unix_ms + UINT64_C(65536) * 1000);
    table_read_clock();
    assert_true(is_there(3) && seen_age(3) == 0);
    assert_int_equal(logged_count, 0);
    assert_int_equal(table_count(), 1);
}

TEST(the_log_has_the_number)
{
    for (uint8_t count = 1; count <= 2; count++) {
        start(1000000, 1000);
        for (uint8_t variable = 0; variable < count; variable++)
            beat(variable);
        set_clock(unix_ms + UINT64_C(65536) * 1000);
        table_read_clock();
        assert_int_equal(logged_count, 1);
        assert_string_equal(last_logged(),
                            count == 1 ? "forgot 1 variable: older than a timestamp can show"
                                       : "forgot 2 variables: older than a timestamp can show");
    }
}

/* The limit of the age, as for a state that is read from a file. */
TEST(the_limit_is_exact)
{
    dumpulse table = {{0}};

    options = (struct options){.tick = 1};
    table.report[6] = 1; /* variable 0, set at time 0 */
    assert_int_equal(table_forget_old(&table, 500, TOO_OLD - 1), 0);
    assert_int_equal(table_forget_old(&table, 500, 400), 0);
    options.keep_old = true;
    assert_int_equal(table_forget_old(&table, 500, 65535), 0);
    options.keep_old = false;
    assert_int_equal(table_forget_old(&table, 500, TOO_OLD), 1);
    assert_int_equal(table_forget_old(&table, 500, TOO_OLD), 0);
    table.report[5] = 200; /* set after the last look */
    table.report[6] = 1;
    assert_int_equal(table_forget_old(&table, 100, 200 + TOO_OLD - 1), 0);
    assert_int_equal(table_forget_old(&table, 100, 200 + TOO_OLD), 1);
    table.report[6] = 1;
    options.keep_old = true;
    assert_int_equal(table_forget_old(&table, 500, 65536), 1);
}

/* The clock goes back a day. A node that is heard is kept; a silent one is not. After the second
 * step, what was stamped just now would look nearly a whole wrap old from the last check. */
TEST(a_day_back)
{
    static const uint64_t steps[] = {100000, 65400};

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        start(1000000, 1000);
        beat(3);
        beat(4);
        set_clock(unix_ms - steps[i] * 1000);
        for (unsigned passed = 0; passed < 65536; passed++) {
            wait_a_tick(passed);
            assert_true(is_there(4));
            beat(4);
            assert_true(seen_age(4) == 0);
        }
        assert_false(is_there(3));
    }
}

/* The clock goes forward and back. The next look is not as far away as it was. */
TEST(forward_and_back)
{
    start(1000000, 1000);
    set_clock(unix_ms + UINT64_C(72000) * 1000);
    beat(4);
    set_clock(unix_ms - UINT64_C(72000) * 1000);
    beat(3);
    set_clock(unix_ms + UINT64_C(65536) * 1000);
    table_read_clock();
    assert_false(is_there(3));
}

/* With --key the entries are elsewhere. They are reported and forgotten all the same. */
TEST(shared_entries)
{
    uint32_t shared[DUMPULSE_VARIABLES] = {0};
    table_entry *const before = table_entries;

    start(1000000, 1000);
    beat(3);
    table_share(shared);
    beat(4);
    shared[5] = shared[4]; /* The agent with keys does the same. */
    assert_int_equal(table_count(), 3);
    assert_true(is_there(3) && is_there(4) && is_there(5));
    set_clock(unix_ms + UINT64_C(60000) * 1000);
    beat(4);
    set_clock(unix_ms + UINT64_C(4992) * 1000);
    check_ages();
    assert_true(shared[3] == 0 && shared[4] != 0 && shared[5] == 0);
    options.self = true;
    options.self_variable = 6;
    options.self_sender = 1;
    table_begin();
    assert_true(table_to_prepare);
    table_prepare();
    assert_true(is_there(4) && !is_there(5) && is_there(6) && shared[6] != 0);
    table_entries = before;
}

/* What compilers make vectors of is the library's sum, also where no byte can be larger. */
TEST(a_report_has_the_librarys_sum)
{
    uint8_t report[DUMPULSE_REPORT_SIZE];

    start(1000000, 1000);
    srandom(1);
    for (unsigned turn = 0; turn < 1000; turn++) {
        for (size_t at = 4; at < sizeof report; at++)
            table_agent.report[at] = (uint8_t)(turn == 0 ? 255 : random());
        table_write_report(report);
        assert_memory_equal(report + 4, table_agent.report + 4, sizeof report - 4);
        assert_true(dumpulse_check_report(report, sizeof report));
    }
}

/* ---- The watch ---------------------------------------------------------------------------- */

struct names_variable names_variables[DUMPULSE_VARIABLES];
static uint64_t next_look; /* ns until then */

static bool lacks_engine; /* the file that is read next */

bool names_read(const char *path)
{
    names_variables[3].expected = !lacks_engine;
    return path != NULL;
}

void loop_set_interval(size_t task, uint64_t every)
{
    assert_int_equal(task, LOOP_WATCH);
    next_look = every;
}

void sockets_take_waiting(void)
{
}

static void pass(uint64_t ms)
{
    clock_ns += ms * 1000000;
    set_clock(unix_ms + ms);
}

static void start_to_watch(uint64_t tick, uint64_t deadline)
{
    names_variables[3] =
        (struct names_variable){true, deadline, deadline, 0, 255, NAMES_NO_BOOTS, "engine"};
    start(1000000, tick);
    options.watch = "names";
    assert_true(watch_read_names());
    watch_watcher.seen[0].state = DUMPULSE_WAITING;
    watch_begin();
}

/* After a look comes a heartbeat, and somebody sets Unix time. At the next look the node is alive,
 * or dead, because it was silent for more than 500 ms. */
TEST(who_is_dead_at_the_next_look)
{
    static const struct {
        unsigned beat_after, set_forward, look_after; /* ms */
        dumpulse_state is;
    } tried[] = {{0, 0, 500, DUMPULSE_ALIVE},
                 {0, 0, 501, DUMPULSE_DEAD},
                 {100, 0, 501, DUMPULSE_DEAD},
                 {100, 0, 500, DUMPULSE_ALIVE},
                 {1000, 900, 0, DUMPULSE_ALIVE},     /* its timestamp tells nothing any more */
                 {0, 0, 65536 + 400, DUMPULSE_DEAD}, /* 16 bits do not tell how long */
                 {0, 0, 114212, DUMPULSE_DEAD},      /* now the time is 100, near that of a zero */
                 {0, 0, 10 * 65536 + 400, DUMPULSE_DEAD}};

    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        start_to_watch(1, 500);
        beat(3);
        watch_look();
        assert_int_equal(watch_watcher.seen[0].state, DUMPULSE_ALIVE);
        pass(tried[i].beat_after);
        if (tried[i].beat_after != 0)
            beat(3);
        set_clock(unix_ms + tried[i].set_forward);
        pass(tried[i].look_after);
        check_ages(); /* the table forgets who is too old, and the watch does not */
        watch_look();
        assert_int_equal(watch_watcher.seen[0].state, tried[i].is);
    }
}

/* Its last heartbeat is so old that 16 bits do not tell how old it is. Its state was forgotten, and
 * its number was not. */
TEST(who_is_watched_again_is_dead)
{
    start_to_watch(1, 500);
    beat(3);
    watch_look();
    lacks_engine = true;
    assert_true(watch_read_again());
    assert_true(alarms[3].is == DUMPULSE_WAITING && alarms[3].number != 0);
    pass(65536 + 100);
    check_ages();
    watch_look();
    lacks_engine = false;
    assert_true(watch_read_again());
    watch_look();
    assert_int_equal(watch_watcher.seen[0].state, DUMPULSE_DEAD);
}

/* The state has how many changes the log lacks. The next run logs the last one, and counts the
 * others. */
TEST(what_the_log_lacks_is_logged_by_the_next_run)
{
    memset(alarms, 0, sizeof alarms);
    start_to_watch(1, 500);
    log_is_full = true;
    beat(3);
    watch_look();
    pass(501);
    watch_look();
    log_is_full = false;
    assert_int_equal(alarms[3].unlogged, 2);
    logged_count = 0;
    watch_begin();
    assert_int_equal(alarms[3].unlogged, 0);
    assert_int_equal(logged_count, 3); /* One is counted, and the last one is about the start. */
    assert_string_equal(logged[1], "variable 3 engine: dead, was alive; number 2");
}

TEST(it_looks_as_often_as_the_shortest_deadline_needs)
{
    static const struct {
        uint64_t tick, deadline, begun, pause; /* ms, ticks, ms, ms */
    } tried[] = {{1, 1, 0, 1},       {10, 2, 0, 20},     {10, 10, 0, 100},
                 {10, 5000, 0, 100}, {5000, 2, 0, 1000}, {1000, 5, 300, 700}};

    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        start_to_watch(tried[i].tick, tried[i].deadline);
        pass(tried[i].begun); /* the next look is when a tick begins */
        watch_look();
        assert_int_equal(next_look, tried[i].pause * 1000000);
    }
}

int main(void)
{
    return run_units("unit-table");
}
