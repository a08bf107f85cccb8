/* Unit tests of dumpulse_keyed.h: attacks of spec/README.md, what a refusal costs, and power that
 * fails while a slot is written.   SPDX-License-Identifier: MIT
 *
 * vectors_keyed.c tests the rest. The key hook counts its calls: one for each tag. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dumpulse_keyed.h"

enum { LABELS = 65 };

static dumpulse_keyed keyed;
static dumpulse_node node;
static dumpulse_reader reader;
static uint32_t stored;
static dumpulse_keyed_report room; /* Report that was sent. */
static uint8_t *const sent = (uint8_t *)&room;
static size_t sent_length;
static uint8_t beacons[LABELS][8]; /* the last ones */
static unsigned keys, sends, stores;
static int bus; /* the context of the agent */

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    assert_true(label < LABELS);
    keys++;
    for (uint8_t i = 0; i != 16; i++)
        key[i] = i;
    dumpulse_label_key(key, label, 0);
}

uint32_t dumpulse_load(void)
{
    return stored;
}

bool dumpulse_store(uint32_t following)
{
    assert_true(following <= 0xFFFFFF);
    stores++;
    stored = following;
    return true;
}

uint16_t dumpulse_get_timestamp(void)
{
    return 0x1234;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    assert_ptr_equal(context, &bus);
    assert_in_range(length, 1, sizeof room);
    sends++;
    sent_length = length;
    memcpy(sent, packet, length);
    for (uint8_t label = 0; label != LABELS && length == 8; label++)
        if (dumpulse_right_(packet, label, dumpulse_read_(packet + 4)))
            memcpy(beacons[label], packet, 8);
}

static bool begin(void)
{
    return dumpulse_keyed_begin(&keyed) == DUMPULSE_BEGUN;
}

/* All labels go on by one epoch. */
static void next_epoch(void)
{
    for (unsigned i = 0; i != LABELS; i++)
        assert_true(dumpulse_keyed_next(&keyed, &bus));
}

/* An agent in epoch 00012345, as in the examples of spec/keyed.md. */
static int fresh(void **state)
{
    (void)state;
    memset(&keyed, 0, sizeof keyed);
    memset(&node, 0, sizeof node);
    memset(&reader, 0, sizeof reader);
    stored = 0x122;
    if (!begin())
        return -1;
    keyed.epoch = 0x12344;
    next_epoch();
    keys = sends = stores = 0;
    return 0;
}

static dumpulse_result process(const uint8_t packet[8])
{
    return dumpulse_keyed_process(&keyed, packet, 8, &bus);
}

/* A packet that must be refused without any tag, and change nothing. */
static void refuse_cheaply(const uint8_t *packet, size_t length, dumpulse_result why)
{
    const dumpulse_keyed before = keyed;
    const unsigned begun = keys + sends + stores;

    assert_int_equal(dumpulse_keyed_process(&keyed, packet, length, &bus), why);
    assert_memory_equal(&keyed, &before, sizeof keyed);
    assert_int_equal(keys + sends + stores, begun);
}

static const uint8_t READERS_BEACON[8] = {0xbe, 0x14, 0xe9, 0xa2, 0x00, 0x01, 0x23, 0x45};
static const uint8_t HEARTBEAT[8] = {0x44, 0xb3, 0xbd, 0xd5, 0x83, 0x01, 0x4c, 0x09};
static const uint8_t REQUEST[8] = {0xf5, 0x41, 0xc4, 0x04, 0xc0, 0x01, 0xbe, 0xef};
static const uint8_t QUESTION[8] = {0x00, 0x00, 0x00, 0x00, 0x83, 0x00, 0x00, 0x00};

/* What is refused for its length, kind or count costs no tag. */
static void test_cheap_checks_come_first(void **state)
{
    uint8_t packet[16] = {0};

    (void)state;
    for (size_t length = 0; length <= 16; length++)
        if (length != 8) {
            refuse_cheaply(HEARTBEAT, length > 8 ? 8 + length : length, DUMPULSE_REFUSED);
            refuse_cheaply(REQUEST, length, DUMPULSE_REFUSED); /* no beacon either */
        }
    for (unsigned kind = 0; kind <= 0xFF; kind++) {
        memset(packet, 0xFF, 8);
        packet[4] = (uint8_t)kind;
        if (kind < 0x80 || kind > 0xC0)
            refuse_cheaply(packet, 8, DUMPULSE_REFUSED);
    }
    assert_int_equal(process(HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_int_equal(keys, 1);
    refuse_cheaply(HEARTBEAT, 8, DUMPULSE_OLD);
    assert_int_equal(process(REQUEST), DUMPULSE_REPORT);
    assert_int_equal(process(REQUEST), DUMPULSE_OLD);
    assert_memory_equal(sent, READERS_BEACON, 8);
}

/* After a reset of the agent, nothing of before is taken. */
static void test_reset_of_the_agent(void **state)
{
    uint8_t packet[8];

    (void)state;
    memset(&keyed, 0, sizeof keyed);
    keyed.wrong = 7;
    assert_true(begin() && keyed.wrong == 0);
    assert_int_equal(sends, 0); /* no queue of a driver holds 65 beacons */
    assert_int_equal(process(HEARTBEAT), DUMPULSE_WRONG_TAG);
    assert_int_equal(process(REQUEST), DUMPULSE_WRONG_TAG);
    assert_int_equal(process(QUESTION), DUMPULSE_ASKS);
    assert_true(dumpulse_hear(&node, 3, beacons[3], 8));
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
}

/* An agent that has not begun takes nothing that is right for the epochs 0 or -1. Nor does the next
 * label let it begin. */
static void test_an_agent_of_zeros(void **state)
{
    uint8_t early[2][8];

    (void)state;
    memset(&keyed, 0, sizeof keyed);
    for (uint32_t i = 0; i != 2; i++) {
        dumpulse_node it = {.epoch = 0 - i, .left = 255};
        assert_true(dumpulse_keyed_heartbeat(&it, early[i], 3, 76, 9));
    }
    for (unsigned again = 0; again != 2; again++) {
        for (uint8_t reached = 0; reached != 2; reached++) {
            assert_int_equal(process(early[reached]), DUMPULSE_NOT_BEGUN);
            assert_int_equal(process(REQUEST), DUMPULSE_NOT_BEGUN);
            assert_int_equal(process(QUESTION), DUMPULSE_NOT_BEGUN);
            dumpulse_keyed_beacon(&keyed, 3, &bus);
            assert_int_equal(sends + stores, 0);
        }
        assert_false(dumpulse_keyed_next(&keyed, &bus));
    }
}

/* The node of no variable makes nothing: it would be a packet of another kind. */
static void test_no_variable(void **state)
{
    const dumpulse_node ready = {.epoch = 0x12345, .left = 255};
    uint8_t packet[8] = {0}, zeros[8] = {0};

    (void)state;
    for (unsigned variable = 64; variable != 256; variable++) {
        node = ready;
        assert_false(dumpulse_keyed_heartbeat(&node, packet, (uint8_t)variable, 1, 2));
        assert_int_equal(node.left, 255);
    }
    assert_memory_equal(packet, zeros, 8);
    assert_int_equal(keys + stores, 0);
}

static uint16_t now;

/* What the node makes after some time: 0 nothing, -1 a question, or the count of a heartbeat. */
static int tick(unsigned later)
{
    static const dumpulse_pace pace = {.epoch = 80, .period = 10, .variable = 3, .sender = 76};
    uint8_t packet[8], question[8];

    now = (uint16_t)(now + later);
    if (!dumpulse_node_tick(&node, &pace, now, 9, packet))
        return 0;
    dumpulse_ask(question, 3);
    if (memcmp(packet, question, 8) == 0)
        return -1;
    assert_true(dumpulse_right_(packet, 3, node.epoch));
    assert_true(packet[4] == 0x83 && packet[6] == 76 && packet[7] == 9);
    return packet[5];
}

static bool hears(uint8_t label, uint32_t epoch)
{
    uint8_t packet[8];

    dumpulse_write_(packet + 4, epoch);
    dumpulse_make_(packet, label, epoch);
    return dumpulse_hear(&node, 3, packet, 8);
}

/* It asks at the start, and again after half an epoch. When it is answered, it beats at once, and
 * then in each period. A clock of 16 bits may wrap anywhere. */
static void test_a_node_asks_until_it_is_answered(void **state)
{
    (void)state;
    for (unsigned start = 65536 - 130; start < 65537; start++) {
        memset(&node, 0, sizeof node);
        now = (uint16_t)start;
        assert_int_equal(tick(0), -1);
        assert_int_equal(tick(0), 0);
        assert_int_equal(tick(39), 0);
        assert_int_equal(tick(1), -1);
        assert_true(hears(3, 7));
        assert_int_equal(tick(3), 1);
        assert_int_equal(tick(9), 0);
        assert_int_equal(tick(1), 2);
        assert_true(hears(3, 8));
        assert_int_equal(tick(1), 0); /* this was no answer */
        assert_int_equal(tick(9), 1);
    }
}

/* A beacon of its own label, and no other one, shows that its epoch lasts. It asks after a quarter
 * more than an epoch, and goes on to beat meanwhile. */
static void test_a_node_that_hears_nothing_more(void **state)
{
    unsigned questions = 0, beats = 0;

    (void)state;
    now = 0;
    assert_true(hears(3, 7));
    assert_int_equal(tick(10), 1);
    (void)tick(60);
    assert_false(hears(3, 7)); /* The same packet comes again. */
    (void)tick(0);
    assert_false(hears(4, 7));
    assert_false(hears(3, 6));
    for (unsigned later = 1; later <= 100 + 58 * 40; later++) {
        int made = tick(1);
        if (made < 0) {
            assert_int_equal(later, 100 + 40 * questions++);
            made = tick(0);
        }
        beats += made > 0;
        assert_int_equal(node.epoch, 7);
    }
    assert_true(questions == 59 && beats == 242);
    assert_int_equal(tick(40), -1); /* it forgets its epoch: somebody may have guessed that */
    assert_int_equal(tick(0), 0);
    assert_true(hears(3, 1));
    assert_int_equal(tick(1), 1);
}

/* An epoch that does not end gives no new counts. So it asks, but not each time it is answered. */
static void test_a_node_without_counts(void **state)
{
    (void)state;
    now = 0;
    assert_true(hears(3, 7));
    for (int count = 1; count <= 255; count++) {
        assert_int_equal(tick(10), count);
        assert_false(hears(3, 7));
        (void)tick(0);
    }
    for (unsigned i = 0; i != 5; i++) {
        assert_int_equal(tick(39), 0);
        assert_int_equal(tick(1), -1);
        assert_false(hears(3, 7));
        assert_int_equal(tick(0), 0);
    }
    assert_true(hears(3, 8));
    assert_int_equal(tick(0), 1);
    node.left = 0; /* used up since the beacon: it asks at once */
    assert_int_equal(tick(0), -1);
    assert_int_equal(tick(0), 0);
}

/* In the first epoch of all, a reader believes a report once, too. */
static void test_a_reader_in_the_first_epoch(void **state)
{
    uint8_t packet[8];
    dumpulse_keyed_report report;

    (void)state;
    memset(&report, 0, sizeof report);
    reader.heard.epoch = 1;
    reader.heard.left = 255;
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"ef"));
    dumpulse_report_tag_(reader.asked, 1, (uint8_t *)&report);
    assert_true(dumpulse_keyed_check(&reader, &report, 264));
    assert_false(dumpulse_keyed_check(&reader, &report, 264));
}

/* The power fails after each byte of a slot, and the byte after that has any value. */
static void test_torn_slots(void **state)
{
    uint8_t memory[12], slot[6];

    (void)state;
    memset(memory, 0xFF, 12);
    assert_int_equal(dumpulse_slots_read(memory), DUMPULSE_UNREADABLE);
    assert_int_equal(dumpulse_slots_write(memory, memory, 0x8000FF), 0);
    for (unsigned turn = 0; turn != 4; turn++) {
        const uint32_t old = dumpulse_slots_read(memory);
        const uint32_t following = 0x800100U + turn * 0x155U;
        const uint8_t at = dumpulse_slots_write(memory, slot, following);
        for (size_t torn = 0; torn != 6; torn++)
            for (unsigned value = 0; value != 256; value++) {
                uint8_t cut[12];
                memcpy(cut, memory, 12);
                memcpy(cut + at, slot, torn);
                cut[at + torn] = (uint8_t)value;
                const bool whole = memcmp(cut + at, slot, 6) == 0;
                assert_int_equal(dumpulse_slots_read(cut), whole ? following : old);
            }
        memcpy(memory + at, slot, 6);
        assert_int_equal(dumpulse_slots_read(memory), following);
    }
}

/* Power fails in a write, and again in the next one: with any two wrong bytes, the number never
 * becomes smaller. It may become larger. */
static void test_slots_torn_twice(void **state)
{
    uint8_t memory[12] = {0x80, 0x12, 0x33, 0x7F, 0xED, 0xCC, 0x80, 0x12, 0x34, 0x7F, 0xED, 0xCB};
    uint8_t slot[6];
    unsigned larger = 0;

    (void)state;
    assert_int_equal(dumpulse_slots_write(memory, slot, 0x801235), 0);
    for (unsigned both = 0; both != 6 * 256 * 6 * 256; both++) {
        const size_t first = both / 256 % 6, second = both / (6 * 256) % 6;
        memcpy(memory, "\x80\x12\x33\x7f\xed\xcc", 6);
        memcpy(memory, slot, first);
        memory[first] = (uint8_t)both;
        if (memcmp(memory, slot, 6) == 0)
            continue; /* it was stored; the next one would be written to the other slot */
        memcpy(memory, slot, second);
        memory[second] = (uint8_t)(both / (6 * 256 * 6));
        const uint32_t number = dumpulse_slots_read(memory);
        assert_true(number >= 0x801234);
        larger += number > 0x801235;
    }
    assert_in_range(larger, 1, 256);
}

/* ---- A model of flash: a unit is written at once, and a bit changes from blank only. A page is
 * erased at once. When the power fails, some bits have changed. */

enum { PAGE = 32, FLASH = 2 * PAGE };
static struct {
    uint8_t bytes[FLASH];
    uint8_t blank; /* 0xFF or 0 */
    size_t unit;   /* bytes: 2 in an STM32F1, 8 in an STM32G0 or L4 */
    unsigned steps_left, erasures;
} flash;

static uint8_t some_bits(void)
{
    static uint32_t chance = 1;

    chance = chance * 1664525 + 1013904223;
    return chance >> 30 == 0 ? 0xFF : chance >> 30 == 1 ? 0 : (uint8_t)(chance >> 20);
}

/* Returns false if the power fails in this step. */
static bool change(size_t at, const uint8_t *to, size_t length)
{
    const bool is_whole = flash.steps_left != 0;

    for (size_t i = 0; i != length; i++) {
        uint8_t *const byte = &flash.bytes[at + i];
        const uint8_t bits = is_whole ? 0xFF : some_bits();
        if (to == NULL)
            *byte = (uint8_t)((*byte & ~bits) | (flash.blank & bits));
        else
            *byte ^= (uint8_t)((*byte ^ to[i]) & ~(*byte ^ flash.blank) & bits);
    }
    if (is_whole)
        flash.steps_left--;
    return is_whole;
}

static bool write_flash(uint32_t number)
{
    uint8_t record[DUMPULSE_RECORD_SIZE];
    const size_t at = dumpulse_flash_write(flash.bytes, PAGE, record, number);

    assert_true(at < FLASH && at % DUMPULSE_RECORD_SIZE == 0);
    if (at % PAGE == 0) {
        flash.erasures++;
        if (!change(at, NULL, PAGE))
            return false;
    }
    for (size_t i = 0; i != DUMPULSE_RECORD_SIZE; i += flash.unit)
        if (!change(at + i, record + i, flash.unit))
            return false;
    return true;
}

/* The power fails in each step of each write, and then up to three times more at once. The number
 * is never smaller, and never one that was not written. */
static void test_flash_cut_at_each_step(void **state)
{
    (void)state;
    for (unsigned turn = 0; turn != 3 * 2 * 2 * 64 * 6; turn++) {
        flash.unit = turn % 3 == 0 ? 2 : turn % 3 == 1 ? 4 : 8;
        flash.blank = turn / 3 % 2 == 0 ? 0xFF : 0;
        memset(flash.bytes, turn / 6 % 2 == 0 ? flash.blank : 0x5A, FLASH);
        assert_int_equal(dumpulse_flash_read(flash.bytes, PAGE), DUMPULSE_UNREADABLE);
        flash.steps_left = 100000;
        assert_true(write_flash(0)); /* The factory wrote this. */
        uint32_t written = 0;
        for (unsigned i = 1; i != 40; i++) {
            const unsigned cuts = turn % 4 + (i % 3 == 0);
            for (unsigned cut = 0; cut != cuts; cut++) {
                flash.steps_left = (turn / 12 + cut * i) % 6;
                const bool done = write_flash(written + 1);
                const uint32_t is = dumpulse_flash_read(flash.bytes, PAGE);
                assert_true(is == written + 1 || (is == written && !done));
                written = is;
            }
            flash.steps_left = 100000;
            assert_true(write_flash(++written));
            assert_int_equal(dumpulse_flash_read(flash.bytes, PAGE), written);
        }
    }
}

/* As many numbers as both pages have records cost one erasure of each. */
static void test_flash_wears_slowly(void **state)
{
    enum { RECORDS = PAGE / DUMPULSE_RECORD_SIZE };

    (void)state;
    for (unsigned blank = 0; blank <= 0xFF; blank += 0xFF) {
        flash.blank = (uint8_t)blank;
        flash.unit = 2;
        flash.steps_left = 1000000;
        memset(flash.bytes, flash.blank, FLASH);
        flash.erasures = 0;
        for (uint32_t number = 0; number != 1000 * 2 * RECORDS; number++)
            assert_true(write_flash(number));
        assert_int_equal(flash.erasures, 2 * 1000); /* This is the sum of both pages. */
    }
    memcpy(flash.bytes, "\1\0\0\0\xfe\xff\xff\xff", 8); /* 25 bits */
    assert_int_equal(dumpulse_flash_read(flash.bytes, PAGE), 1000 * 2 * RECORDS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cheap_checks_come_first, fresh),
        cmocka_unit_test_setup(test_reset_of_the_agent, fresh),
        cmocka_unit_test_setup(test_an_agent_of_zeros, fresh),
        cmocka_unit_test_setup(test_no_variable, fresh),
        cmocka_unit_test_setup(test_a_node_asks_until_it_is_answered, fresh),
        cmocka_unit_test_setup(test_a_node_that_hears_nothing_more, fresh),
        cmocka_unit_test_setup(test_a_node_without_counts, fresh),
        cmocka_unit_test_setup(test_a_reader_in_the_first_epoch, fresh),
        cmocka_unit_test_setup(test_torn_slots, fresh),
        cmocka_unit_test_setup(test_slots_torn_twice, fresh),
        cmocka_unit_test(test_flash_cut_at_each_step),
        cmocka_unit_test(test_flash_wears_slowly),
    };
    return cmocka_run_group_tests_name("unit_keyed", tests, NULL, NULL);
}
