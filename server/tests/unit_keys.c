/* Unit tests of when server/keys.c begins epochs, with a clock and a disk that do what a test says.
 *                                                             SPDX-License-Identifier: MIT
 * With a real disk, it would take 256 epochs until a number is needed. test_udpserver_keyed.py
 * tests the rest, with the real server.
 */
#define _GNU_SOURCE /* NOLINT: for sigset_t, in loop.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/counters.h"
#include "server/keys.h"
#include "server/keys_internal.h"
#include "server/loop.h"
#include "server/options.h"
#include "server/overlap.h"
#include "server/snapshot.h"
#include "server/state.h"
#include "server/table.h"
#include "server/timing.h"
#include "stand_ins.h"

enum { LABELS = 65, EPOCH = 13 /* s */ };

/* ---- The other parts -------------------------------------------------------------------- */

static void (*task_run)(void);
static uint64_t task_every;
static bool disk_fails;
static uint64_t disk_takes, beacon_takes; /* ns */
static uint32_t stored_block;
static unsigned sent;       /* beacons */
static int sent_to;         /* the label whose node waits for the last one; -1: only the bus */
static uint32_t sent_epoch; /* of the last one */
static bool came[LABELS];   /* has a beacon come to this label's node? */
static bool is_retired;     /* is variable 0? */
static unsigned kept;       /* beacons that did not leave */
static bool (*has_larger)(const uint8_t *file, const uint8_t *known, size_t size);

void loop_define_task(size_t task, void (*run)(void), uint64_t every)
{
    assert_int_equal(task, LOOP_EPOCH);
    task_run = run;
    task_every = every;
}

void loop_set_interval(size_t task, uint64_t every)
{
    assert_int_equal(task, LOOP_EPOCH);
    task_every = every;
}

bool state_read_numbers(struct state_numbers *file, uint8_t *bytes, size_t room, ssize_t *size)
{
    uint8_t mark[KEYS_MARK_SIZE];

    assert_true(file->suffix[0] == '.' && bytes == keys.numbers && room == sizeof keys.numbers);
    keys_mark(mark);
    memcpy(bytes, "Dumpulsekeys", KEYS_MARK_AT);
    memcpy(bytes + KEYS_MARK_AT, mark, sizeof mark);
    dumpulse_write_(bytes + KEYS_BLOCK_AT, stored_block);
    bytes[KEYS_RETIRED_AT] = is_retired;
    keys_seal_numbers();
    *size = KEYS_NUMBERS_SIZE;
    return true;
}

bool state_write_numbers(struct state_numbers *file, const uint8_t *bytes, size_t size,
                         bool (*is_later)(const uint8_t *file, const uint8_t *known, size_t size))
{
    assert_true(file == &keys.file && bytes == keys.numbers && keys_are_good(size) &&
                !is_later(bytes, bytes, size));
    has_larger = is_later;
    clock_unix_ns += disk_takes;
    return !disk_fails;
}

bool state_make_numbers(struct state_numbers *file, const uint8_t *bytes, size_t size)
{
    (void)file, (void)bytes, (void)size;
    return false;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    assert_int_equal(length, DUMPULSE_PACKET_SIZE);
    assert_true(context == NULL || context == &keys_label);
    sent++;
    kept += keys_keeps_beacons;
    clock_unix_ns += beacon_takes;
    sent_to = context == NULL ? -1 : keys_label;
    sent_epoch = dumpulse_read_(packet + 4);
    if (context != NULL) {
        came[keys_label] = true;
        assert_true(dumpulse_right_(packet, keys_label, sent_epoch));
    }
}

/* ---- The tests -------------------------------------------------------------------------- */

/* A server that has not begun yet, and the last block that it has used. */
static void start(uint32_t block)
{
    memset(&keys, 0, sizeof keys);
    memset(came, 0, sizeof came);
    logged_count = sent = kept = 0;
    keys_epoch = EPOCH;
    options.key = options.state = "file";
    stored_block = block;
    table_tick = TIMING_SECOND;
    assert_true(keys_begin());
    task_run();
}

/* All beacons go to the bus at once, and then again, so that a short queue loses none. Each later
 * one goes to its node, too. A round of them takes as long as an epoch. */
static void test_beacons_have_their_time(void **state)
{
    (void)state;
    start(0x123);
    assert_true(sent == LABELS && sent_to == -1 && sent_epoch == 0x12400);
    for (unsigned i = 0; i < LABELS; i++) {
        assert_int_equal(task_every, 5000000);
        task_run();
        assert_true(sent == LABELS + i + 1 && sent_to == -1 && sent_epoch == 0x12400);
    }
    for (int i = 0; i < 3 * LABELS; i++) {
        assert_int_equal(task_every, EPOCH * TIMING_SECOND / LABELS);
        task_run();
        assert_int_equal(sent_to, i % LABELS);
        assert_int_equal(sent_epoch, 0x12401 + i / LABELS);
    }
    for (unsigned label = 0; label < LABELS; label++)
        assert_true(came[label]);
}

/* Not to one whose variable is retired; and this keeps no other one. */
static void test_who_gets_beacons(void **state)
{
    (void)state;
    is_retired = true;
    start(7);
    is_retired = false;
    assert_true(sent == LABELS && kept == 0);
    for (unsigned round = 1; round <= 3; round++) {
        for (unsigned i = 0; i < LABELS; i++) {
            task_run();
            assert_true(kept == round && !keys_keeps_beacons);
        }
    }
}

/* The disk fails when the next block is needed. What belongs to the last epoch is taken until it
 * works again. */
static void test_the_last_epoch_goes_on(void **state)
{
    (void)state;
    start(0);
    for (unsigned i = 0; i < LABELS + 255 * LABELS; i++)
        task_run();
    assert_int_equal(sent_epoch, 0x1FF);
    disk_fails = true;
    sent = 0;
    for (unsigned i = 0; i < 3; i++) {
        task_run();
        assert_int_equal(task_every, TIMING_SECOND);
        assert_true(sent == 0 && keys.keyed.reached == LABELS && keys.keyed.epoch == 0x1FF);
        assert_string_equal(last_logged(), "no new epoch can begin: until a number can be stored, "
                                           "the last one goes on");
    }
    assert_int_equal(logged_count, 1);
    disk_fails = false;
    task_run();
    assert_true(sent == 1 && sent_epoch == 0x200 && sent_to == 0);
    assert_int_equal(task_every, EPOCH * TIMING_SECOND / LABELS);
    assert_string_equal(last_logged(), "a new epoch has begun");
    task_run();
    assert_int_equal(logged_count, 2);
}

static void test_nothing_begins_without_a_number(void **state)
{
    (void)state;
    disk_fails = true;
    start(5);
    assert_true(sent == 0 && keys.keyed.reached == 0 && task_every == TIMING_SECOND);
    assert_string_equal(last_logged(),
                        "no new epoch can begin: until a number can be stored, nothing is taken");
    disk_fails = false;
    task_run();
    assert_true(sent == LABELS && sent_epoch == 0x600);
    while (task_every != EPOCH * TIMING_SECOND / LABELS)
        task_run();
    assert_int_equal(sent, 2 * LABELS);
}

/* Another server has stored them. But what is in a damaged file is no number. */
static void test_larger_numbers_are_not_replaced(void **state)
{
    uint8_t file[KEYS_NUMBERS_SIZE];

    (void)state;
    start(0);
    memcpy(file, keys.numbers, sizeof file);
    for (unsigned at = KEYS_BLOCK_AT; at < KEYS_GENERATIONS_AT; at++) {
        file[at] += 1;
        assert_false(has_larger(file, keys.numbers, sizeof file));
        dumpulse_write_(file + KEYS_SUM_AT, snapshot_crc32(file, KEYS_SUM_AT));
        assert_true(has_larger(file, keys.numbers, sizeof file));
        assert_false(has_larger(keys.numbers, file, sizeof file));
        memcpy(file, keys.numbers, sizeof file);
    }
}

static void test_epochs_can_be_used_up(void **state)
{
    static const char said[] = "no new epoch can begin: all epochs of this key are used up: make a "
                               "new one";
    (void)state;
    start(0x1FFFFF);
    assert_true(sent == 0 && keys.keyed.reached == 0);
    assert_string_equal(last_logged(), said);
    start(0x1FFFFE);
    for (unsigned i = 0; i < LABELS + 255 * LABELS; i++)
        task_run();
    assert_int_equal(sent_epoch, 0x1FFFFFFF);
    task_run();
    assert_int_equal(keys.keyed.epoch, 0x1FFFFFFF);
    assert_string_equal(last_logged(), said);
}

/* ---- The date --------------------------------------------------------------------------- */

enum { PER_BLOCK = 450 /* s */, HOUR = 3600 / PER_BLOCK, YEARS = 4 * 366 * 86400 / PER_BLOCK };

static void set_clock(uint32_t block)
{
    clock_unix_ns = (1577836800 + (uint64_t)block * PER_BLOCK) * TIMING_SECOND;
}

/* Numbers that were put back from an old copy begin where the date is. A clock that is behind, and
 * one that is so far ahead that it must be wrong, change nothing. */
static void test_the_first_block_follows_the_date(void **state)
{
    static const struct {
        uint32_t stored, date, first;
        bool far;
    } cases[] = {
        {1000, 5000, 5000, false},
        {1000, 1001, 1001, false},
        {1000, 1000, 1001, false},
        {1000, 10, 1001, false},
        {1000, 1001 + YEARS, 1001 + YEARS, false},
        {1000, 1002 + YEARS, 1001, true},
        {0x1FFF00, 0x1FFFFE, 0x1FFFFE, false},
        {0x1FFF00, 0x1FFFFF, 0x1FFF01, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_clock(cases[i].date);
        start(cases[i].stored);
        assert_int_equal(sent_epoch, cases[i].first * 256);
        assert_int_equal(sent, LABELS);
        assert_int_equal(logged_count, cases[i].far);
        if (cases[i].far)
            assert_string_equal(last_logged(),
                                "the clock is more than 4 years ahead of file.0b1b3c26.numbers, so "
                                "epochs do not follow it: set it; if it is right, that file may be "
                                "an old copy, and needs a new key");
    }
    set_clock(0x1FFFFE);
    start(DUMPULSE_UNREADABLE);
    assert_true(sent == 0 && keys.keyed.reached == 0);
    clock_unix_ns = 0;
}

static void run_an_epoch(void)
{
    do
        task_run();
    while (keys.keyed.reached != LABELS);
}

/* As on a machine without a battery. All labels begin at once, and each node hears its beacon. If
 * the disk fails, the last epoch goes on until it works. */
static void test_a_clock_that_is_set_later(void **state)
{
    (void)state;
    set_clock(10);
    start(1000);
    while (task_every != EPOCH * TIMING_SECOND / LABELS)
        task_run();
    set_clock(1001 + HOUR);
    run_an_epoch();
    assert_int_equal(sent_epoch, 1001 * 256 + 1);
    set_clock(1001 + HOUR + 1);
    disk_fails = true;
    run_an_epoch();
    assert_int_equal(sent_epoch, 1001 * 256 + 2);
    disk_fails = false;
    memset(came, 0, sizeof came);
    task_run();
    for (unsigned label = 0; label < LABELS; label++)
        assert_true(came[label]);
    assert_int_equal(keys.keyed.epoch, (1001 + HOUR + 1) * 256 + 1);
    assert_int_equal(dumpulse_load(DUMPULSE_BLOCK), 1001 + HOUR + 1);
    while (task_every != EPOCH * TIMING_SECOND / LABELS)
        task_run();
    run_an_epoch();
    assert_int_equal(keys.keyed.epoch, (1001 + HOUR + 1) * 256 + 2);
    assert_int_equal(logged_count, 0);
    clock_unix_ns = 0;
}

/* Or else the watch would believe that these nodes were silent all the time. */
static void test_heartbeats_after_a_slow_store_have_the_time_of_then(void **state)
{
    (void)state;
    start(0);
    clock_unix_ns = 5000 * TIMING_SECOND;
    table_read_clock();
    disk_takes = 8 * TIMING_SECOND;
    assert_true(dumpulse_store(DUMPULSE_BLOCK, 2));
    disk_takes = 0;
    assert_int_equal(table_stamp, 5008);
}

/* It may be stopped again at any of the beacons that follow a stop. */
static void test_heartbeats_after_a_second_stop_have_the_time_of_then(void **state)
{
    static const uint8_t packet[DUMPULSE_PACKET_SIZE];

    (void)state;
    start(0);
    clock_ns += 64 * TIMING_SECOND;
    beacon_takes = TIMING_SECOND;
    (void)keys_take(packet, NULL);
    beacon_takes = 0;
    assert_int_equal(sent, 2 * LABELS);
    assert_int_equal(table_stamp, (uint16_t)(clock_unix_ns / TIMING_SECOND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beacons_have_their_time),
        cmocka_unit_test(test_who_gets_beacons),
        cmocka_unit_test(test_the_last_epoch_goes_on),
        cmocka_unit_test(test_nothing_begins_without_a_number),
        cmocka_unit_test(test_larger_numbers_are_not_replaced),
        cmocka_unit_test(test_epochs_can_be_used_up),
        cmocka_unit_test(test_the_first_block_follows_the_date),
        cmocka_unit_test(test_a_clock_that_is_set_later),
        cmocka_unit_test(test_heartbeats_after_a_slow_store_have_the_time_of_then),
        cmocka_unit_test(test_heartbeats_after_a_second_stop_have_the_time_of_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
