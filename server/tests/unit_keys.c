/* Unit tests of when server/keys.c begins epochs, with a clock and a disk that do what a test says.
 *                                                             SPDX-License-Identifier: MIT
 * With a real disk, it would take 256 epochs until a number is needed. test_udpserver_keyed.py
 * tests the rest, with the real server.
 */
#define _GNU_SOURCE /* NOLINT: for sigset_t, in loop.h */
#include <stdio.h>
#include <string.h>

#include "server/counters.h"
#include "server/keys.h"
#include "server/keys_internal.h"
#include "server/listeners.h"
#include "server/loop.h"
#include "server/options.h"
#include "server/overlap.h"
#include "server/snapshot.h"
#include "server/state.h"
#include "server/table.h"
#include "server/timing.h"
#include "stand_ins.h"
#include "tools/units.h"

enum { LABELS = 65, EPOCH = 13 /* s */ };

/* ---- The other parts -------------------------------------------------------------------- */

static void (*epoch_task)(void);
static uint64_t task_every;
static bool task_started; /* it runs at once */
static bool disk_fails, disk_is_slow;
static struct state_numbers *due; /* its numbers are to be stored */
static unsigned stores;
static uint64_t beacon_takes; /* ns */
static uint32_t stored_block, stored_skips;
static unsigned sent;       /* beacons */
static int sent_to;         /* the label whose node got the last one, too; -1: only the bus */
static int tells = -1;      /* the label whose node has got the beacon that leaves next; -1: none */
static uint32_t sent_epoch; /* Epoch of the last packet. */
static bool came[LABELS];   /* has a beacon come to this label's node? */
static bool is_retired;     /* is variable 0? */

void loop_define_task(size_t task, void (*run)(void), uint64_t every)
{
    assert_int_equal(task, LOOP_EPOCH);
    epoch_task = run;
    task_every = every;
}

void loop_start_task(size_t task, uint64_t every)
{
    assert_true(task == LOOP_EPOCH && every == TIMING_SECOND);
    task_started = true;
}

void loop_set_interval(size_t task, uint64_t every)
{
    assert_int_equal(task, LOOP_EPOCH);
    task_every = every;
}

bool state_read_numbers(struct state_numbers *file, uint8_t bytes[NUMBERS_SIZE], ssize_t *size)
{
    struct numbers numbers = {.block = stored_block, .skips = stored_skips, .retired = is_retired};

    assert_true(file->suffix[0] == '.' && file->numbers == &keys.numbers);
    keys_mark(&keys, numbers.mark);
    numbers_encode(bytes, &numbers);
    *size = NUMBERS_SIZE;
    return true;
}

void state_store_numbers(struct state_numbers *file)
{
    assert_ptr_equal(file, &keys.file);
    due = file;
}

bool state_write_numbers(struct state_numbers *file)
{
    const struct numbers numbers = keys.numbers;

    due = NULL;
    file->failure = disk_fails;
    stores += !disk_fails;
    if (disk_fails)
        due = file;
    file->on_end(file, &numbers, !disk_fails);
    return !disk_fails;
}

bool state_make_numbers(struct state_numbers *file)
{
    (void)file;
    return false;
}

/* And the thread does what is due. The queue of a CAN interface is short: so each run of the task
 * sends at most one beacon to the bus. */
static void task_run(void)
{
    do {
        const unsigned before = sent;
        task_started = false;
        epoch_task();
        assert_true(sent - before <= 1);
        if (due != NULL && !disk_is_slow)
            (void)state_write_numbers(due);
    } while (task_started);
}

void keys_send(void *to, const uint8_t *packet, size_t length)
{
    assert_true(to == NULL && length == DUMPULSE_PACKET_SIZE);
    sent++;
    sent_to = tells;
    tells = -1;
    sent_epoch = dumpulse_read_(packet + 4);
}

void listeners_tell(uint8_t label, const uint8_t *beacon)
{
    tells = label;
    came[label] = true;
    assert_true(dumpulse_right_(beacon, label, dumpulse_read_(beacon + 4)));
}

/* The clock goes on while a beacon is made. */
void __real_dumpulse_get_key(uint8_t key[16], uint8_t label);
void __wrap_dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    clock_unix_ns += beacon_takes;
    __real_dumpulse_get_key(key, label);
}

/* ---- The tests -------------------------------------------------------------------------- */

/* A server that has not begun yet, and the last block that it has used. */
static void prepare(uint32_t block)
{
    memset(&keys, 0, sizeof keys);
    memset(came, 0, sizeof came);
    logged_count = sent = stores = 0;
    due = NULL;
    keys_epoch = EPOCH;
    options.key = options.state = "file";
    stored_block = block;
    table_tick = TIMING_SECOND;
}

static void start(uint32_t block)
{
    prepare(block);
    assert_true(keys_begin());
    task_run();
}

/* At the start, no beacon leaves at once. The first ones go to the bus one after the other, so that
 * a short queue loses none. Each later one goes to its node, too. A round of them takes as long as
 * an epoch. */
TEST(test_beacons_have_their_time)
{
    start(0x123);
    assert_true(sent == 0 && keys.keyed.epoch == 0x12400);
    for (unsigned i = 0; i < LABELS; i++) {
        assert_int_equal(task_every, 5000000);
        task_run();
        assert_true(sent == i + 1 && sent_to == -1 && sent_epoch == 0x12400);
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

static uint32_t on_disk(void)
{
    return keys.stored.block;
}

static void run_until(uint32_t epoch)
{
    while (keys.keyed.epoch != epoch || keys.keyed.reached != LABELS)
        task_run();
}

/* Not to one whose variable is retired, until it is renewed; and this keeps no other one. What is
 * renewed is stored at once. */
TEST(test_who_gets_beacons)
{
    static const uint8_t generations[LABELS] = {1};

    is_retired = true;
    start(7);
    is_retired = false;
    for (unsigned round = 0; round <= 3; round++) {
        assert_int_equal(sent, round * (LABELS - 1));
        for (unsigned i = 0; i < LABELS; i++)
            task_run();
    }
    assert_true(keys_renew(&keys, generations, true) && due == &keys.file);
    assert_true(state_write_numbers(due) && keys.stored.generations[0] == 1);
    assert_true(keys.stored.retired == 0);
    sent = 0;
    run_until(keys.keyed.epoch + 1);
    assert_int_equal(sent, LABELS);
}

/* The loop does not wait for the disk. The next block is stored when a quarter of the last one is
 * left, and begins when that has ended. */
TEST(test_a_block_is_stored_ahead)
{
    start(0);
    run_until(0x1BF);
    assert_true(on_disk() == 1 && due == NULL && stores == 1);
    disk_is_slow = true;
    run_until(0x1C0);
    assert_true(due == &keys.file);
    run_until(0x1FF);
    for (unsigned i = 0; i < 3; i++) {
        task_run();
        assert_true(task_every == TIMING_SECOND && keys.keyed.epoch == 0x1FF);
    }
    assert_true(on_disk() == 1 && stores == 1 && keys_cannot_store());
    assert_true(state_write_numbers(due) && task_started && on_disk() == 2);
    disk_is_slow = false;
    task_run();
    assert_true(keys.keyed.epoch == 0x200 && !keys_cannot_store() && due == NULL);
}

/* So it is noticed early when the disk is full. */
TEST(test_numbers_are_stored_now_and_then)
{
    start(0);
    clock_ns += 1199 * TIMING_SECOND;
    run_until(0x102);
    assert_int_equal(stores, 1);
    clock_ns += TIMING_SECOND;
    disk_fails = true;
    run_until(0x103);
    assert_true(stores == 1 && keys_cannot_store());
    disk_fails = false;
    run_until(0x104);
    assert_true(stores == 2 && !keys_cannot_store() && on_disk() == 1);
}

/* The disk fails before the next block is needed. What belongs to the last epoch is taken until it
 * works again. */
TEST(test_the_last_epoch_goes_on)
{
    start(0);
    logged_count = 0;
    disk_fails = true;
    run_until(0x1FF);
    assert_true(keys_cannot_store());
    assert_string_equal(last_logged(), "numbers cannot be stored: if that lasts for 13 min, no new "
                                       "epoch can begin");
    sent = 0;
    for (unsigned i = 0; i < 3; i++) {
        task_run();
        assert_int_equal(task_every, TIMING_SECOND);
        assert_true(sent == 0 && keys.keyed.reached == LABELS && keys.keyed.epoch == 0x1FF);
        assert_string_equal(last_logged(), "no new epoch can begin: until a number can be stored, "
                                           "the last one goes on");
    }
    assert_int_equal(logged_count, 2);
    disk_fails = false;
    task_run();
    assert_true(sent == 1 && sent_epoch == 0x200 && sent_to == 0);
    assert_int_equal(task_every, EPOCH * TIMING_SECOND / LABELS);
    assert_string_equal(last_logged(), "a new epoch has begun");
    task_run();
    assert_int_equal(logged_count, 3);
}

TEST(test_nothing_begins_without_a_number)
{
    disk_fails = true;
    start(5);
    assert_true(sent == 0 && keys.keyed.reached == 0 && task_every == TIMING_SECOND);
    assert_string_equal(
        last_logged(), "no new epoch can begin: until a number can be stored, nothing is accepted");
    disk_fails = false;
    task_run();
    assert_true(sent == 0 && keys.keyed.epoch == 0x600);
    while (task_every != EPOCH * TIMING_SECOND / LABELS)
        task_run();
    assert_int_equal(sent, LABELS);
}

/* Another server has stored them. But what is in a damaged file is no number. */
TEST(test_larger_numbers_are_not_replaced)
{
    uint8_t later[NUMBERS_SIZE], earlier[NUMBERS_SIZE];
    struct numbers numbers;

    start(0);
    numbers_encode(earlier, &keys.numbers);
    for (unsigned i = 0; i < 32 + DUMPULSE_VARIABLES; i++) {
        numbers = keys.numbers;
        if (i < 32)
            numbers.block += 1U << i;
        else
            numbers.retired |= UINT64_C(1) << (i - 32);
        numbers_encode(later, &numbers);
        assert_true(numbers_are_later(later, earlier, sizeof later));
        assert_false(numbers_are_later(earlier, later, sizeof later));
        later[NUMBERS_SUM_AT]++;
        assert_false(numbers_are_later(later, earlier, sizeof later));
    }
}

TEST(test_epochs_can_be_used_up)
{
    static const char said[] = "no new epoch can begin: all epochs of this key are used up: make a "
                               "new one";
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

enum { PER_BLOCK = 900 /* s */, HOUR = 3600 / PER_BLOCK, BLOCKS = 0x1FFFFE, SHARE = BLOCKS / 128 };

static void set_clock(uint32_t block)
{
    clock_unix_ns = (1577836800 + (uint64_t)block * PER_BLOCK) * TIMING_SECOND;
}

/* Numbers that were put back from an old copy begin where the date is. A clock that is behind
 * changes nothing. With one that is so far ahead that it may be wrong, nothing begins. */
TEST(test_the_first_block_follows_the_date)
{
    static const struct {
        uint32_t stored, date, skips, first, left; /* first 0: nothing begins */
    } cases[] = {
        {1000, 5000, 4000, 5000, 1},
        {1000, 1001, 0, 1001, 0},
        {1000, 1002, 1, 1002, 0},
        {1000, 1000, 7, 1001, 7},
        {1000, 10, 7, 1001, 7},
        {1000, 1004, 3, 1004, 0},
        {1000, 1005, 3, 0, 3},
        {0x1FFF00, 0x1FFF01, 9, 0x1FFF01, 1}, /* a share of those that are left */
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_clock(cases[i].date);
        stored_skips = cases[i].skips;
        prepare(cases[i].stored);
        assert_true(keys_begin() == (cases[i].first != 0));
        assert_int_equal(logged_count, 1); /* with a key, or the clock is ahead */
        if (cases[i].first != 0)
            task_run();
        assert_int_equal(keys.keyed.epoch, cases[i].first * 256);
        assert_int_equal(keys.numbers.skips, cases[i].left);
    }
    set_clock(1000 + 30 * 96);
    stored_skips = 2 * 96;
    prepare(999);
    assert_false(keys_begin());
    assert_string_equal(last_logged(),
                        "the clock is 30 days ahead of file.0b1b3c26.numbers, and epochs of 2 days "
                        "may be skipped now: set it; or if it is right, run this once with "
                        "--key-to-date");
    assert_true(keys_skip_to_date() && on_disk() == 1000 + 30 * 96);
    assert_int_equal(keys.numbers.skips, (BLOCKS - 1000 - 30 * 96) / 128);
    stored_skips = 0;
    prepare(5000); /* a block is not used again */
    assert_true(keys_skip_to_date() && on_disk() == 5000);
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

/* Epochs of 10 s fall behind the date. All labels begin at once, and each node hears its beacon. If
 * the disk fails, the last epoch goes on until it works. */
TEST(test_epochs_follow_the_date)
{
    set_clock(1001);
    stored_skips = HOUR + 2;
    start(1000);
    while (task_every != EPOCH * TIMING_SECOND / LABELS)
        task_run();
    for (unsigned i = 0; i < HOUR * PER_BLOCK / 20; i++) {
        clock_unix_ns += 20 * TIMING_SECOND;
        task_run();
    }
    run_an_epoch();
    assert_true(sent_epoch / 256 == 1001);
    disk_fails = true;
    for (unsigned i = 0; i < PER_BLOCK / 20; i++) {
        clock_unix_ns += 20 * TIMING_SECOND;
        task_run();
    }
    run_an_epoch();
    assert_true(sent_epoch / 256 == 1001);
    disk_fails = false;
    memset(came, 0, sizeof came);
    run_an_epoch();
    for (unsigned label = 0; label < LABELS; label++)
        assert_true(came[label]);
    assert_int_equal(keys.keyed.epoch, (1002 + HOUR) * 256 + 1);
    assert_int_equal(on_disk(), 1002 + HOUR);
    assert_int_equal(keys.numbers.skips, 1);
    clock_unix_ns = 0;
}

/* A snapshot of a machine that runs again does not know which epochs were used meanwhile, until
 * somebody sets its clock. Then a new block begins, though this one is not behind the date. */
TEST(test_a_clock_that_is_set_forward)
{
    static const struct {
        uint32_t date, step, skipped, skips; /* a block, s, blocks */
    } cases[] = {
        {500, 29, 0, 200},   {500, 30, 1, 200},      {500, 899, 1, 200},   {500, 900, 2, 200},
        {500, 7200, 9, 200}, {850, 200000, 97, 200}, {1001, 900, 2, 200},  {998, 9000, 11, 200},
        {500, 900, 0, 0},    {1000, 86400, 97, 200}, {1003, 3600, 5, 200}, {500, 86400, 5, 5},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_clock(cases[i].date);
        stored_skips = cases[i].skips;
        start(1000);
        for (unsigned j = 0; j < 2 * LABELS + 7; j++)
            task_run(); /* it is within an epoch */
        const uint32_t skips = keys.numbers.skips;
        const uint32_t block = keys.keyed.epoch / 256 + cases[i].skipped;
        clock_unix_ns += (uint64_t)cases[i].step * TIMING_SECOND;
        memset(came, 0, sizeof came);
        task_run();
        assert_int_equal(task_every,
                         cases[i].skipped != 0 ? 5000000 : EPOCH * TIMING_SECOND / LABELS);
        assert_int_equal(keys.keyed.epoch / 256, block);
        for (unsigned label = 0; label < LABELS && cases[i].skipped != 0; label++)
            assert_true(came[label] &&
                        keys.keyed.epoch - (label >= keys.keyed.reached) >= block * 256);
        run_an_epoch();
        assert_int_equal(keys.keyed.epoch / 256, block);
        assert_int_equal(keys.numbers.skips, skips - cases[i].skipped);
    }
    set_clock(1001);
    start(1000);
    for (unsigned i = 0; i < 2 * PER_BLOCK / 20; i++) { /* the epochs fall behind the date */
        clock_unix_ns += 20 * TIMING_SECOND;
        task_run();
    }
    clock_unix_ns += 30 * TIMING_SECOND;
    task_run();
    assert_int_equal(keys.keyed.epoch / 256, 1003);
    stored_skips = 0;
    clock_unix_ns = 0;
}

/* Whoever has the clock sets it a thousand times, and restarts the server when he likes. */
TEST(test_no_clock_uses_up_the_epochs)
{
    uint32_t number = 1, before, skips_before;

    set_clock(1000);
    stored_skips = BLOCKS / 128;
    start(1000);
    before = on_disk();
    for (unsigned i = 0; i < 1000; i++) {
        number = number * 1664525 + 1013904223;
        set_clock(number >> (11 + number % 12));
        if (number % 8 == 0) {
            stored_skips = keys.numbers.skips;
            prepare(on_disk());
            if (!keys_begin())
                set_clock(0);
            keys.far_behind = false;
            assert_true(keys_begin());
        }
        clock_ns += TIMING_SECOND;
        run_an_epoch();
    }
    assert_true(on_disk() - before > SHARE / 2);
    assert_true(on_disk() - before < BLOCKS / 100);
    skips_before = keys.numbers.skips;
    for (unsigned i = 1; i <= 40; i++) {
        clock_ns += 12 * TIMING_SECOND;
        run_an_epoch();
    }
    assert_int_equal(keys.numbers.skips - skips_before, 16);
    stored_skips = 0;
    clock_unix_ns = 0;
}

/* It may be stopped again at any of the beacons that follow a stop. */
TEST(test_heartbeats_after_a_second_stop_have_the_time_of_then)
{
    static const uint8_t packet[DUMPULSE_PACKET_SIZE];

    start(0);
    clock_ns += 64 * TIMING_SECOND;
    beacon_takes = TIMING_SECOND;
    (void)keys_take(packet, NULL);
    beacon_takes = 0;
    assert_true(sent == 0 && keys.to_repeat == LABELS);
    assert_int_equal(table_stamp, (uint16_t)(clock_unix_ns / TIMING_SECOND));
}

/* Those of the epochs before do not count. */
TEST(test_wrong_tags_of_an_epoch)
{
    static const uint8_t packet[DUMPULSE_PACKET_SIZE] = {0, 0, 0, 1, DUMPULSE_IS_HEARTBEAT_, 255};
    static const unsigned tags[] = {255, 255, 256, 255, 0}, lines[] = {0, 0, 1, 1, 0};

    start(0);
    for (unsigned i = 0; i < 5; i++) {
        run_until(0x101 + i);
        logged_count = 0;
        for (unsigned j = 0; j < tags[i]; j++)
            assert_int_equal(keys_take(packet, NULL), COUNT_TAG);
        task_run();
        assert_true(counters[COUNT_EPOCH_TAGS] == tags[i] && logged_count == lines[i]);
    }
}

int main(void)
{
    return run_units("unit-keys");
}
