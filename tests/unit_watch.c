/* Unit tests of dumpulse_watch.h and its hook.   SPDX-License-Identifier: MIT
 *
 * A test announces the calls of the hook, with their order and arguments, as in unit.c. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DUMPULSE_LOOK_WITHIN 100
#include "dumpulse_watch.h"
#include "support/units.h"

enum { LINES = 3 };

/* The limits that may be written at most: 65535 - 64 - 100 = 65371. */
DUMPULSE_WATCH(watch, DUMPULSE_WATCHED(3, 20, 3, 200, 10, 120),
               DUMPULSE_WATCHED(63, 65371, 1, 65371, 255, 255),
               DUMPULSE_WATCHED(0, 1, 65371, 0, 0, 0));

static dumpulse agent;

/* The library's clock is not used: the tests write the entries. */
uint16_t dumpulse_get_timestamp(void)
{
    return 0;
}

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    function_called();
    check_expected_ptr(context);
    check_expected(variable);
    check_expected(was);
    check_expected(is);
    /* The state is new already. */
    assert_true(watch.seen[0].state == is || watch.seen[1].state == is ||
                watch.seen[2].state == is);
}

static void expect_change(uint8_t variable, dumpulse_state before, dumpulse_state after)
{
    expect_function_call(dumpulse_changed);
    expect_value(dumpulse_changed, context, &agent);
    expect_value(dumpulse_changed, variable, variable);
    expect_value(dumpulse_changed, was, before);
    expect_value(dumpulse_changed, is, after);
}

static void hear(uint8_t variable, unsigned time, uint8_t sender, uint8_t value)
{
    uint8_t *entry = agent.report + 4 + 4 * (size_t)variable;
    entry[0] = (uint8_t)(time / 256);
    entry[1] = (uint8_t)(time % 256);
    entry[2] = sender;
    entry[3] = value;
}

static int fresh(void **state)
{
    (void)state;
    memset(&agent, 0, sizeof agent);
    memset(watch.seen, 0, LINES * sizeof *watch.seen);
    return 0;
}

/* Looks only at variable 3. */
static void look(uint16_t now)
{
    dumpulse_watch_part(&watch, &agent, now, 0, 1);
}

TEST_AFTER(fresh, test_sizes)
{
    assert_int_equal(sizeof(dumpulse_watched), 10); /* 9 where no number is aligned */
    assert_int_equal(sizeof(dumpulse_seen), 3);
    assert_int_equal(watch.count, LINES);
}

TEST_AFTER(fresh, test_lines)
{
    assert_int_equal(watch.table[0].variable, 3);
    assert_int_equal(watch.table[0].grace, 264);
    assert_int_equal(watch.table[0].lowest, 10);
    assert_int_equal(watch.table[0].span, 110);
    assert_int_equal(watch.table[0].late, 84);
    assert_int_equal(watch.table[0].dead, 124);
    assert_int_equal(watch.table[1].grace, 65435);
    assert_int_equal(watch.table[1].late, 65435);
    assert_int_equal(watch.table[1].dead, 65435);
    assert_int_equal(watch.table[2].grace, 64);
    assert_int_equal(watch.table[2].dead, 65435);
}

TEST_AFTER(fresh, test_never_heard)
{
    look(0);
    look(200); /* the last tick of its grace */
    assert_int_equal(dumpulse_watch_state(&watch, 3), DUMPULSE_WAITING);
    expect_change(3, DUMPULSE_WAITING, DUMPULSE_MISSING);
    look(201);
    look(0); /* missing is not left by time */
    look(0xFFFF);
    assert_int_equal(dumpulse_watch_state(&watch, 3), DUMPULSE_MISSING);
    hear(3, 0, 1, 10); /* tick 0, but not all bytes are 0 */
    expect_change(3, DUMPULSE_MISSING, DUMPULSE_ALIVE);
    look(0);
}

/* The times of a limit before and after the wrap, exactly. */
TEST_AFTER(fresh, test_late_at_the_wrap)
{
    for (unsigned time = 65400; time < 65536 + 100; time++) {
        fresh(NULL);
        hear(3, time % 65536, 5, 60);
        expect_change(3, DUMPULSE_WAITING, DUMPULSE_ALIVE);
        look((uint16_t)(time + 20));
        expect_change(3, DUMPULSE_ALIVE, DUMPULSE_LATE);
        look((uint16_t)(time + 21));
    }
}

/* Each byte of an entry makes it one that was heard. */
TEST_AFTER(fresh, test_first_heartbeat)
{
    for (size_t at = 0; at < 4; at++) {
        fresh(NULL);
        agent.report[4 + 4 * 3 + at] = 60;
        expect_change(3, DUMPULSE_WAITING, at == 3 ? DUMPULSE_ALIVE : DUMPULSE_OUT_OF_RANGE);
        look(at == 0 ? 60 * 256 : at == 1 ? 60 : 0);
    }
}

TEST_AFTER(fresh, test_late_dead_and_back)
{
    hear(3, 1000, 5, 60);
    expect_change(3, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    look(1000);
    look(1020);
    expect_change(3, DUMPULSE_ALIVE, DUMPULSE_LATE);
    look(1021);
    look(1060);
    expect_change(3, DUMPULSE_LATE, DUMPULSE_DEAD);
    look(1061);
    for (unsigned now = 1062; now != 1000; now = (now + 1) % 65536) /* over the wrap */
        look((uint16_t)now);
    look(1000); /* its age is 0 again */
    assert_int_equal(dumpulse_watch_state(&watch, 3), DUMPULSE_DEAD);
    hear(3, 1001, 5, 121);
    expect_change(3, DUMPULSE_DEAD, DUMPULSE_OUT_OF_RANGE);
    look(1001);
    expect_change(3, DUMPULSE_OUT_OF_RANGE, DUMPULSE_DEAD);
    look(1062);
    hear(3, 1500, 5, 60); /* it was heard again, and is late already */
    expect_change(3, DUMPULSE_DEAD, DUMPULSE_LATE);
    look(1530);
    look(1510); /* the clock goes back, and nothing is new */
    hear(3, 1510, 5, 60);
    expect_change(3, DUMPULSE_LATE, DUMPULSE_ALIVE);
    look(1510);
    hear(3, 0, 0, 0); /* four zeros after it was heard */
    expect_change(3, DUMPULSE_ALIVE, DUMPULSE_OUT_OF_RANGE);
    look(0);
}

/* The clock is set back, and a heartbeat comes in the same tick as the last one before. */
TEST_AFTER(fresh, test_a_clock_that_was_set_back)
{
    hear(3, 1000, 5, 60);
    expect_change(3, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    look(1000);
    look(1000 - 64);
    expect_change(3, DUMPULSE_ALIVE, DUMPULSE_DEAD);
    look(1000 - 65);
    hear(3, 1000, 6, 61); /* not noticed, though sender and value are new */
    look(1000);
    assert_int_equal(dumpulse_watch_state(&watch, 3), DUMPULSE_DEAD);
    hear(3, 1001, 6, 61);
    expect_change(3, DUMPULSE_DEAD, DUMPULSE_ALIVE);
    look(1001);
}

/* The high and the low byte of the timestamp alone tell a new heartbeat. */
TEST_AFTER(fresh, test_a_new_timestamp)
{
    static const unsigned TIMES[] = {0x1235, 0x1334};
    for (size_t i = 0; i < 2; i++) {
        fresh(NULL);
        hear(3, 0x1234, 5, 60);
        expect_change(3, DUMPULSE_WAITING, DUMPULSE_DEAD);
        look(0x2000);
        assert_int_equal(watch.seen[0].since[0], 0x12);
        assert_int_equal(watch.seen[0].since[1], 0x34);
        look(0x1235);
        hear(3, TIMES[i], 5, 60);
        expect_change(3, DUMPULSE_DEAD, DUMPULSE_ALIVE);
        look((uint16_t)TIMES[i]);
    }
}

TEST_AFTER(fresh, test_values)
{
    expect_change(3, DUMPULSE_WAITING, DUMPULSE_OUT_OF_RANGE);
    hear(3, 7, 5, 0);
    look(7);
    for (unsigned value = 0; value < 256; value++) { /* all in the same tick */
        hear(3, 7, 5, (uint8_t)value);
        if (value == 10)
            expect_change(3, DUMPULSE_OUT_OF_RANGE, DUMPULSE_ALIVE);
        if (value == 121)
            expect_change(3, DUMPULSE_ALIVE, DUMPULSE_OUT_OF_RANGE);
        look(7);
    }
}

/* A timestamp may be 64 ticks ahead. */
TEST_AFTER(fresh, test_a_clock_that_was_read_early)
{
    hear(3, 64, 5, 60);
    expect_change(3, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    look(0);
    hear(3, 65, 5, 60);
    expect_change(3, DUMPULSE_ALIVE, DUMPULSE_DEAD);
    look(0);
}

/* All lines, each once, in order. */
TEST_AFTER(fresh, test_the_whole_table)
{
    hear(3, 100, 5, 60);
    hear(63, 100, 6, 255);
    hear(0, 100, 7, 1);
    expect_change(3, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    expect_change(63, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    expect_change(0, DUMPULSE_WAITING, DUMPULSE_OUT_OF_RANGE);
    dumpulse_watch(&watch, &agent, 100);
    dumpulse_watch(&watch, &agent, 101);
    expect_change(0, DUMPULSE_OUT_OF_RANGE, DUMPULSE_LATE);
    dumpulse_watch(&watch, &agent, 102);
    expect_change(3, DUMPULSE_ALIVE, DUMPULSE_DEAD);
    dumpulse_watch(&watch, &agent, 65471);
    expect_change(63, DUMPULSE_ALIVE, DUMPULSE_DEAD);
    expect_change(0, DUMPULSE_LATE, DUMPULSE_DEAD);
    dumpulse_watch(&watch, &agent, (uint16_t)(100 + 65371 + 1));
    assert_int_equal(dumpulse_watch_count(&watch, DUMPULSE_DEAD), 3);
    assert_int_equal(dumpulse_watch_count(&watch, DUMPULSE_LATE), 0);
}

TEST_AFTER(fresh, test_an_empty_table)
{
    const dumpulse_watcher none = {watch.table, watch.seen, 0};

    hear(3, 100, 5, 60);
    dumpulse_watch(&none, &agent, 100);
    assert_int_equal(dumpulse_watch_check(&none, 0), 0);
    assert_int_equal(dumpulse_watch_worst(&none), DUMPULSE_ALIVE);
}

TEST_AFTER(fresh, test_parts)
{
    const dumpulse_watcher two = {watch.table, watch.seen, 2};

    hear(3, 100, 5, 60);
    hear(63, 100, 6, 255);
    hear(0, 100, 7, 0);
    dumpulse_watch_part(&watch, &agent, 100, 3, 1);
    dumpulse_watch_part(&watch, &agent, 100, 255, 255);
    dumpulse_watch_part(&watch, &agent, 100, 0, 0);
    expect_change(63, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    dumpulse_watch_part(&two, &agent, 100, 1, 255); /* not line 2, which is not in it */
    memset(watch.seen, 0, LINES * sizeof *watch.seen);
    expect_change(63, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    dumpulse_watch_part(&watch, &agent, 100, 1, 1);
    expect_change(0, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    dumpulse_watch_part(&watch, &agent, 100, 1, 2);
    expect_change(3, DUMPULSE_WAITING, DUMPULSE_ALIVE);
    dumpulse_watch_part(&watch, &agent, 100, 0, 255);
}

TEST_AFTER(fresh, test_begin)
{
    watch.seen[1].state = DUMPULSE_LATE;
    watch.seen[2].state = DUMPULSE_MISSING;
    dumpulse_watch_begin(&watch, 0xFF12);
    assert_int_equal(watch.seen[0].since[0], 0xFF);
    assert_int_equal(watch.seen[0].since[1], 0x12);
    assert_int_equal(watch.seen[1].since[0] | watch.seen[1].since[1], 0);
    assert_int_equal(watch.seen[2].since[0] | watch.seen[2].since[1], 0);
    look(0xFF12);
    look((uint16_t)(0xFF12 + 200));
    expect_change(3, DUMPULSE_WAITING, DUMPULSE_MISSING);
    look((uint16_t)(0xFF12 + 201));
}

TEST_AFTER(fresh, test_questions)
{
    static const dumpulse_state BETTER_FIRST[] = {DUMPULSE_ALIVE,        DUMPULSE_WAITING,
                                                  DUMPULSE_OUT_OF_RANGE, DUMPULSE_LATE,
                                                  DUMPULSE_MISSING,      DUMPULSE_DEAD};
    watch.seen[1].state = DUMPULSE_LATE;
    assert_int_equal(dumpulse_watch_state(&watch, 63), DUMPULSE_LATE);
    assert_int_equal(dumpulse_watch_state(&watch, 0), DUMPULSE_WAITING);
    assert_int_equal(dumpulse_watch_state(&watch, 62), DUMPULSE_WAITING);
    assert_int_equal(dumpulse_watch_state(&watch, 67), DUMPULSE_WAITING); /* 64 + 3 */
    assert_int_equal(dumpulse_watch_count(&watch, DUMPULSE_WAITING), 2);
    for (size_t bad = 0; bad < 6; bad++)
        for (size_t good = 0; good <= bad; good++)
            for (size_t at = 0; at < LINES; at++) {
                for (size_t i = 0; i < LINES; i++)
                    watch.seen[i].state = BETTER_FIRST[i == at ? bad : good];
                assert_int_equal(dumpulse_watch_worst(&watch), BETTER_FIRST[bad]);
            }
}

static void expect_zeros(dumpulse_watched made)
{
    assert_int_equal(made.variable | made.grace | made.lowest | made.span | made.late | made.dead,
                     0);
}

/* The same line, made at run time; and lines that are not allowed. */
TEST_AFTER(fresh, test_make)
{
    const dumpulse_watched made = dumpulse_watched_make(3, 20, 60, 200, 10, 120);

    assert_memory_equal(&made, &watch.table[0], 3); /* padding follows */
    assert_memory_equal(&made.grace, &watch.table[0].grace, 6);
    expect_zeros(dumpulse_watched_make(64, 20, 60, 200, 10, 120));
    expect_zeros(dumpulse_watched_make(3, 65472, 60, 200, 10, 120));
    expect_zeros(dumpulse_watched_make(3, 20, 65472, 200, 10, 120));
    expect_zeros(dumpulse_watched_make(3, 20, 60, 65472, 10, 120));
    expect_zeros(dumpulse_watched_make(3, 20, 60, 200, 120, 119));
}

static uint8_t checked(dumpulse_watched line, uint16_t within)
{
    const dumpulse_watched both[2] = {watch.table[0], line};
    const dumpulse_watcher two = {both, watch.seen, 2};
    return dumpulse_watch_check(&two, within);
}

TEST_AFTER(fresh, test_check)
{
    static const struct {
        dumpulse_watched line;
        uint16_t within;
        uint8_t good; /* 1: the line is refused; 2: it is not */
    } CASES[] = {
        {{64, 10, 110, 264, 84, 124}, 0, 1},       {{63, 10, 110, 264, 84, 124}, 0, 2},
        {{3, 10, 110, 63, 84, 124}, 0, 1},         {{3, 10, 110, 64, 84, 124}, 0, 2},
        {{3, 10, 246, 264, 84, 124}, 0, 1},        {{3, 10, 245, 264, 84, 124}, 0, 2},
        {{3, 10, 110, 264, 84, 65435}, 101, 1},    {{3, 10, 110, 264, 84, 65435}, 100, 2},
        {{3, 10, 110, 65435, 84, 124}, 101, 1},    {{3, 10, 110, 65435, 84, 124}, 100, 2},
        {{3, 10, 110, 264, 64, 124}, 0, 1},        {{3, 10, 110, 264, 65, 124}, 0, 2},
        {{3, 10, 110, 264, 125, 124}, 0, 1},       {{3, 10, 110, 264, 124, 124}, 0, 2},
        {{63, 255, 0, 65535, 65535, 65535}, 1, 1}, {{63, 255, 0, 65535, 65535, 65535}, 0, 2},
    };

    assert_int_equal(dumpulse_watch_check(&watch, 100), LINES);
    assert_int_equal(dumpulse_watch_check(&watch, 101), 1);
    assert_int_equal(dumpulse_watch_check(&watch, 65535), 0);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        assert_int_equal(checked(CASES[i].line, CASES[i].within), CASES[i].good);
}

/* Lines that make no sense, and states that no look makes, do no harm. */
TEST_AFTER(fresh, test_hostile_lines)
{
    const dumpulse_watched odd[2] = {{255, 200, 255, 0xFFFF, 0, 0}, {0, 0, 0, 0, 0xFFFF, 0xFFFF}};
    const dumpulse_watched early[1] = {{63, 0, 255, 127, 48, 0xFFFF}};
    const dumpulse_watcher two = {odd, watch.seen, 2}, ahead = {early, watch.seen, 1};

    hear(63, 9, 1, 1);
    expect_change(255, DUMPULSE_WAITING, DUMPULSE_DEAD); /* it reads the entry of variable 63 */
    expect_change(0, DUMPULSE_WAITING, DUMPULSE_MISSING);
    dumpulse_watch(&two, &agent, 9);
    hear(63, 10, 1, 1); /* it is 16 ticks ahead of now: 64 - 16 = 48 are not more than 48 */
    expect_change(63, DUMPULSE_DEAD, DUMPULSE_ALIVE);
    dumpulse_watch(&ahead, &agent, 65530);
    expect_change(63, DUMPULSE_ALIVE, DUMPULSE_LATE);
    dumpulse_watch(&ahead, &agent, 65531);
    watch.seen[1].state = 200;
    hear(0, 1, 1, 0);
    expect_change(255, DUMPULSE_LATE, DUMPULSE_DEAD);
    expect_change(0, 200, DUMPULSE_ALIVE);
    dumpulse_watch(&two, &agent, 9);
}

int main(void)
{
    return run_units("unit_watch");
}
