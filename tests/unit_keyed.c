/* Unit tests of dumpulse_keyed.h and its hooks.   SPDX-License-Identifier: MIT
 *
 * The key hook counts its calls: one for each tag. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dumpulse_keyed.h"

enum { ALONE = 8, LABELS = 65 };

static dumpulse_keyed keyed;
static dumpulse_alone alone[ALONE + 1]; /* nothing may change the last one */
static dumpulse_node node;
static dumpulse_reader reader;
static uint32_t numbers[LABELS + 1];
static uint8_t generations[LABELS];
static dumpulse_keyed_report room; /* what was sent */
static uint8_t *const sent = (uint8_t *)&room;
static size_t sent_length;
static uint8_t beacons[LABELS][8]; /* the last ones */
static unsigned keys, sends, stores;
static bool storing_fails;
static dumpulse_keyed at_store; /* what the agent was when a number was stored */
static int bus;                 /* the context of the agent */

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    assert_true(label < LABELS);
    keys++;
    for (uint8_t i = 0; i != 16; i++)
        key[i] = i;
    dumpulse_label_key(key, label, generations[label]);
}

uint32_t dumpulse_load(uint8_t label)
{
    assert_true(label <= DUMPULSE_BLOCK);
    return numbers[label];
}

bool dumpulse_store(uint8_t label, uint32_t number)
{
    assert_true(label <= DUMPULSE_BLOCK);
    assert_true(number <= 0xFFFFFF);
    stores++;
    at_store = keyed;
    if (storing_fails)
        return false;
    numbers[label] = number;
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
        if (dumpulse_right_(packet, label, dumpulse_read_(packet + 4) & 0x1FFFFFFF))
            memcpy(beacons[label], packet, 8);
}

static bool begin(void)
{
    return dumpulse_alone_begin(&keyed, alone, ALONE, &bus);
}

/* All labels go on by one epoch. */
static void next_epoch(void)
{
    for (unsigned i = 0; i != LABELS; i++)
        assert_true(dumpulse_keyed_next(&keyed, &bus));
}

static void reset(void)
{
    memset(&keyed, 0, sizeof keyed);
    memset(alone, 0, sizeof alone);
    alone[ALONE] = 0x5A5A5A5A;
}

/* An agent in epoch 00012345, as in the examples of spec/keyed.md. */
static int fresh(void **state)
{
    (void)state;
    reset();
    memset(&node, 0, sizeof node);
    memset(&reader, 0, sizeof reader);
    memset(numbers, 0, sizeof numbers);
    memset(generations, 0, sizeof generations);
    storing_fails = false;
    numbers[DUMPULSE_BLOCK] = 0x122;
    if (!begin())
        return -1;
    keyed.epoch = 0x12344;
    next_epoch();
    keys = sends = stores = 0;
    return 0;
}

static int untouched(void **state)
{
    (void)state;
    return alone[ALONE] == 0x5A5A5A5A ? 0 : -1;
}

static dumpulse_result process(const uint8_t packet[8])
{
    return dumpulse_alone_process(&keyed, alone, ALONE, packet, 8, &bus);
}

/* A heartbeat of a node that hears, in the agent's epoch of its label. */
static void beaten(uint8_t packet[8], uint8_t variable, uint8_t count, uint8_t value)
{
    dumpulse_node it = {keyed.epoch - (variable >= keyed.reached), (uint8_t)(256 - count), false};

    assert_true(dumpulse_keyed_heartbeat(&it, packet, variable, 76, value));
}

static dumpulse_result beat(uint8_t variable, uint8_t value)
{
    uint8_t packet[8];

    beaten(packet, variable, (uint8_t)(keyed.last[variable] + 1), value);
    return process(packet);
}

/* So many packets whose tag is wrong, of no node that sends. */
static void junk(unsigned count)
{
    uint8_t packet[8];

    for (unsigned i = 0; i != count; i++) {
        beaten(packet, 60, 255, (uint8_t)i);
        packet[i % 4] ^= 1;
        assert_int_equal(process(packet), DUMPULSE_WRONG_TAG);
    }
}

/* A packet that must be refused without any tag, and change nothing. */
static void refuse_cheaply(const uint8_t *packet, size_t length, dumpulse_result why)
{
    const dumpulse_keyed before = keyed;
    const unsigned begun = keys + sends + stores;

    assert_int_equal(dumpulse_alone_process(&keyed, alone, ALONE, packet, length, &bus), why);
    assert_memory_equal(&keyed, &before, sizeof keyed);
    assert_int_equal(keys + sends + stores, begun);
}

static const uint8_t BEACON[8] = {0x00, 0x19, 0x29, 0x42, 0x00, 0x01, 0x23, 0x45};
static const uint8_t TWICE[8] = {0x05, 0xdc, 0x11, 0x7e, 0x20, 0x01, 0x23, 0x45};
static const uint8_t READERS_BEACON[8] = {0xbe, 0x14, 0xe9, 0xa2, 0x00, 0x01, 0x23, 0x45};
static const uint8_t HEARTBEAT[8] = {0x44, 0xb3, 0xbd, 0xd5, 0x83, 0x01, 0x4c, 0x09};
static const uint8_t REQUEST[8] = {0xf5, 0x41, 0xc4, 0x04, 0xc0, 0x01, 0xbe, 0xef};
static const uint8_t REPORT[8] = {0xe0, 0xde, 0x8c, 0x24, 0x29, 0xa8, 0xf6, 0xae};
static const uint8_t ANNOUNCE[8] = {0x72, 0x32, 0x98, 0xfb, 0x45, 0x80, 0x00, 0x01};
static const uint8_t OWN_HEARTBEAT[8] = {0x34, 0x93, 0xc9, 0x7c, 0x85, 0x01, 0x4d, 0xc8};
static const uint8_t QUESTION[8] = {0x00, 0x00, 0x00, 0x00, 0x83, 0x00, 0x00, 0x00};

static void test_the_examples_of_the_page(void **state)
{
    const uint8_t entry[4] = {0x12, 0x34, 0x4c, 0x09};
    uint8_t table[256] = {0}, packet[8];

    (void)state;
    assert_int_equal(process(QUESTION), DUMPULSE_ASKS);
    assert_int_equal(sent_length, 8);
    assert_memory_equal(sent, BEACON, 8);
    dumpulse_keyed_beacon(&keyed, 64, &bus);
    assert_memory_equal(sent, READERS_BEACON, 8);
    assert_int_equal(process(HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_int_equal(process(REQUEST), DUMPULSE_REPORT);
    memcpy(table + 12, entry, 4);
    assert_int_equal(sent_length, 264);
    assert_memory_equal(sent, REPORT, 8);
    assert_memory_equal(sent + 8, table, 256);
    assert_int_equal(dumpulse_read_entry(sent + 4, 3).timestamp, 0x1234);
    assert_int_equal(dumpulse_read_entry(keyed.agent.report, 3).value, 9);
    assert_true(dumpulse_hear(&reader.heard, 64, READERS_BEACON, 8));
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"\xbe\xef"));
    assert_memory_equal(packet, REQUEST, 8);
    assert_true(dumpulse_keyed_check(&reader, &room, 264));
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
    dumpulse_ask(packet, 3);
    assert_memory_equal(packet, QUESTION, 8);
    assert_true(dumpulse_hear(&node, 3, BEACON, 8));
    assert_false(node.twice);
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_memory_equal(packet, HEARTBEAT, 8);
    memset(&node, 0, sizeof node);
    assert_true(dumpulse_hear(&node, 3, TWICE, 8));
    assert_true(node.twice);
    numbers[5] = 0x800000;
    assert_true(dumpulse_sender_begin(&node, 5));
    assert_true(dumpulse_sender_announce(&node, packet, 5));
    assert_memory_equal(packet, ANNOUNCE, 8);
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 5, 77, 200));
    assert_memory_equal(packet, OWN_HEARTBEAT, 8);
}

static void test_agents_own_variables(void **state)
{
    (void)state;
    assert_int_equal(dumpulse_record(&keyed.agent, 7, 1, 2), DUMPULSE_HEARTBEAT);
    assert_int_equal(process(REQUEST), DUMPULSE_REPORT);
    assert_int_equal(dumpulse_read_entry(sent + 4, 7).value, 2);
}

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
        if (kind < 0x40 || kind > 0xC0 || (kind >= 0x48 && kind < 0x80))
            refuse_cheaply(packet, 8, DUMPULSE_REFUSED);
    }
    memcpy(packet, ANNOUNCE, 8);
    packet[5] = 0x7F; /* no own epoch */
    refuse_cheaply(packet, 8, DUMPULSE_REFUSED);
    assert_int_equal(process(HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    refuse_cheaply(ANNOUNCE, 8, DUMPULSE_OLD);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_int_equal(keys, 3);
    refuse_cheaply(ANNOUNCE, 8, DUMPULSE_OLD);
    refuse_cheaply(OWN_HEARTBEAT, 8, DUMPULSE_OLD);
    refuse_cheaply(HEARTBEAT, 8, DUMPULSE_OLD);
    assert_int_equal(process(REQUEST), DUMPULSE_REPORT);
    assert_int_equal(process(REQUEST), DUMPULSE_OLD);
    assert_memory_equal(sent, READERS_BEACON, 8);
}

/* A question gets the beacon of its label. Nobody has signed it, so it is no guess, and nothing of
 * it is used. */
static void test_questions_do_not_count(void **state)
{
    uint8_t packet[8];

    (void)state;
    dumpulse_keyed before = keyed;
    for (unsigned i = 0; i != 1000; i++) {
        const uint8_t label = (uint8_t)(i % LABELS);
        memset(packet, (int)(i * 7 % 256), 8);
        packet[4] = (uint8_t)(0x80 + label);
        packet[5] = 0;
        assert_int_equal(dumpulse_keyed_look(&keyed, packet, 8), DUMPULSE_ASKS);
        assert_int_equal(process(packet), DUMPULSE_ASKS);
        assert_memory_equal(sent, beacons[label], 8);
    }
    assert_int_equal(sends, 1000);
    assert_memory_equal(&keyed, &before, sizeof keyed);
    /* A request that is old gets a beacon, too; one with a wrong tag, and it counts. */
    memcpy(packet, REQUEST, 8);
    packet[0] ^= 1;
    assert_int_equal(process(packet), DUMPULSE_WRONG_TAG);
    assert_memory_equal(sent, READERS_BEACON, 8);
    assert_int_equal(keyed.wrong, 1);
    /* A try sends none, and takes nothing. */
    assert_int_equal(dumpulse_keyed_try(&keyed, packet, 8), DUMPULSE_WRONG_TAG);
    assert_int_equal(keyed.wrong, 2);
    assert_int_equal(dumpulse_keyed_try(&keyed, REQUEST, 8), DUMPULSE_NEW);
    assert_int_equal(dumpulse_keyed_try(&keyed, REQUEST, 7), DUMPULSE_REFUSED);
    assert_int_equal(sends, 1001);
}

/* Of the 256 values of each byte of a tag, one is taken. */
static void test_each_byte_of_a_tag_counts(void **state)
{
    const uint8_t *const good[] = {HEARTBEAT, REQUEST, ANNOUNCE, OWN_HEARTBEAT};
    uint8_t packet[8];

    for (size_t which = 0; which != 4; which++)
        for (size_t at = 0; at != 4; at++) {
            unsigned taken = 0;
            fresh(state);
            if (good[which] == OWN_HEARTBEAT)
                process(ANNOUNCE);
            const dumpulse_keyed before = keyed;
            for (unsigned value = 0; value != 256; value++) {
                keyed = before;
                memset(alone, 0, sizeof *alone * ALONE);
                memcpy(packet, good[which], 8);
                packet[at] = (uint8_t)value;
                taken += process(packet) != DUMPULSE_WRONG_TAG;
            }
            assert_int_equal(taken, 1);
        }
}

static void test_a_number_is_stored_before_it_counts(void **state)
{
    (void)state;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    assert_int_equal(stores, 0); /* who has recorded an announce changes nothing that stays */
    const dumpulse_keyed before = keyed;
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_int_equal(stores, 1);
    assert_memory_equal(&at_store, &before, sizeof before);
    assert_int_equal(numbers[5], 0x800001);
    assert_int_equal(alone[5], 0x80000101);
    keyed.epoch = 0x123FF;
    assert_true(dumpulse_keyed_next(&keyed, &bus));
    assert_int_equal(stores, 2);
    assert_int_equal(numbers[DUMPULSE_BLOCK], 0x124);
    assert_int_equal(at_store.epoch, 0x123FF);
    assert_int_equal(at_store.reached, LABELS);
    numbers[5] = 0x800000;
    assert_true(dumpulse_sender_begin(&node, 5));
    assert_int_equal(node.epoch, 0x80000100);
}

static void test_storing_that_fails(void **state)
{
    (void)state;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    storing_fails = true;
    const dumpulse_keyed before = keyed;
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_NOT_STORED);
    assert_memory_equal(&keyed, &before, sizeof keyed);
    assert_int_equal(alone[5], 0);
    storing_fails = false;
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
    storing_fails = true;
    assert_false(dumpulse_alone_renew(&keyed, alone, 5));
    assert_int_equal(alone[5], 0x80000101);
    keyed.epoch = 0x123FF;
    sends = 0;
    assert_false(dumpulse_keyed_next(&keyed, &bus));
    assert_false(dumpulse_keyed_next(&keyed, &bus));
    assert_int_equal(sends, 0);
    assert_int_equal(beat(3, 1), DUMPULSE_HEARTBEAT); /* the epoch goes on */
    storing_fails = false;
    assert_true(dumpulse_keyed_next(&keyed, &bus));
    assert_int_equal(dumpulse_read_(sent + 4), 0x12400);
    storing_fails = true;
    assert_false(begin());
    assert_int_equal(process(HEARTBEAT), DUMPULSE_NOT_BEGUN);
    assert_int_equal(process(REQUEST), DUMPULSE_NOT_BEGUN);
    assert_int_equal(process(QUESTION), DUMPULSE_NOT_BEGUN);
    assert_int_equal(process(ANNOUNCE), DUMPULSE_REFUSED);
    assert_int_equal(sends, 1); /* there is no beacon */
    storing_fails = false;
    assert_true(begin());
    assert_int_equal(keyed.epoch, 0x12500);
    numbers[5] = 0x800000;
    storing_fails = true;
    assert_false(dumpulse_sender_begin(&node, 5));
    storing_fails = false;
    assert_true(dumpulse_sender_begin(&node, 5));
    storing_fails = true;
    assert_false(dumpulse_sender_begin(&node, 5)); /* what it may send is gone, too */
    assert_int_equal(node.left, 0);
    assert_false(dumpulse_sender_announce(&node, sent, 5));
}

/* After a reset of the agent, nothing of before is taken. */
static void test_reset_of_the_agent(void **state)
{
    uint8_t packet[8];

    (void)state;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
    reset();
    assert_true(begin());
    assert_int_equal(process(HEARTBEAT), DUMPULSE_WRONG_TAG);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_OLD);
    assert_int_equal(process(ANNOUNCE), DUMPULSE_OLD);
    assert_int_equal(process(REQUEST), DUMPULSE_WRONG_TAG);
    assert_true(dumpulse_hear(&node, 3, beacons[3], 8));
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
    numbers[5] = DUMPULSE_UNREADABLE;
    reset();
    assert_true(begin());
    numbers[5] = 0xFFFFFE;
    assert_true(dumpulse_sender_begin(&node, 5));
    assert_true(dumpulse_sender_announce(&node, packet, 5));
    assert_int_equal(process(packet), DUMPULSE_OLD);
}

/* An agent that has not begun takes nothing: no announce that was recorded long ago, and nothing
 * that is right for the epochs 0 or -1. Nor does the next label let it begin. */
static void test_an_agent_of_zeros(void **state)
{
    uint8_t early[2][8];

    (void)state;
    numbers[5] = 0x800002;
    reset();
    for (uint32_t i = 0; i != 2; i++) {
        dumpulse_node it = {0 - i, 255, false};
        assert_true(dumpulse_keyed_heartbeat(&it, early[i], 3, 76, 9));
    }
    for (unsigned again = 0; again != 2; again++) {
        for (uint8_t reached = 0; reached != 2; reached++) {
            assert_int_equal(process(ANNOUNCE), DUMPULSE_REFUSED);
            assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_NOT_BEGUN);
            assert_int_equal(process(early[reached]), DUMPULSE_NOT_BEGUN);
            assert_int_equal(process(REQUEST), DUMPULSE_NOT_BEGUN);
            assert_int_equal(process(QUESTION), DUMPULSE_NOT_BEGUN);
            dumpulse_keyed_beacon(&keyed, 3, &bus);
            assert_int_equal(sends + stores, 0);
        }
        assert_false(dumpulse_keyed_next(&keyed, &bus));
    }
    assert_int_equal(numbers[5], 0x800002);
}

/* Each label begins the epoch with its beacon. Before that, what is right is of the one before. */
static void test_epochs_begin_label_after_label(void **state)
{
    uint8_t before[8], packet[8];

    (void)state;
    for (uint8_t label = 0; label != LABELS; label++) {
        const uint8_t following = (uint8_t)((label + 1) % LABELS);
        const bool last = label == LABELS - 1;
        dumpulse_node old = {0x12345, 56, false}, new = {0x12346, 255, false};

        sends = 0;
        if (!last)
            beaten(before, label, 200, 1);
        assert_true(dumpulse_keyed_next(&keyed, &bus));
        assert_int_equal(sends, 1);
        assert_memory_equal(sent, beacons[label], 8);
        assert_int_equal(dumpulse_read_(sent + 4), 0x12346);
        if (last || following == LABELS - 1)
            continue;
        assert_int_equal(process(before), DUMPULSE_WRONG_TAG);
        assert_true(dumpulse_keyed_heartbeat(&new, packet, following, 76, 9));
        assert_int_equal(process(packet), DUMPULSE_WRONG_TAG); /* it is too early */
        assert_true(dumpulse_keyed_heartbeat(&old, packet, following, 76, 9));
        keyed.wrong = 0;
        assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
        assert_int_equal(beat(label, 9), DUMPULSE_HEARTBEAT);
    }
    assert_int_equal(process(REQUEST), DUMPULSE_WRONG_TAG);
}

static void test_the_last_epoch(void **state)
{
    static const uint32_t NO_BLOCKS[] = {0x1FFFFF, 0x200000, 0x3FFFFF, 0xFFFFFE,
                                         DUMPULSE_UNREADABLE};
    uint8_t packet[8];

    (void)state;
    keyed.epoch = 0x1FFFFFFE;
    next_epoch();
    assert_int_equal(dumpulse_read_(beacons[3] + 4), 0x1FFFFFFF);
    assert_true(dumpulse_hear(&node, 3, beacons[3], 8));
    assert_false(dumpulse_keyed_next(&keyed, &bus));
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT); /* it goes on for ever */
    for (size_t i = 0; i != sizeof NO_BLOCKS / sizeof *NO_BLOCKS; i++) {
        stores = 0;
        numbers[DUMPULSE_BLOCK] = NO_BLOCKS[i];
        reset();
        assert_false(begin());
        assert_int_equal(stores, 0);
        assert_int_equal(process(packet), DUMPULSE_NOT_BEGUN);
    }
}

static void test_255_heartbeats_in_an_epoch(void **state)
{
    uint8_t packet[8];
    unsigned made = 0;

    (void)state;
    assert_false(dumpulse_keyed_heartbeat(&node, packet, 9, 1, 2));
    assert_true(dumpulse_hear(&node, 9, beacons[9], 8));
    while (dumpulse_keyed_heartbeat(&node, packet, 9, 1, (uint8_t)made)) {
        assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
        made++;
    }
    assert_int_equal(made, 255);
    assert_false(dumpulse_hear(&node, 9, beacons[9], 8));
    next_epoch();
    assert_true(dumpulse_hear(&node, 9, beacons[9], 8));
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 9, 1, 2));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
}

static void test_what_is_no_beacon(void **state)
{
    uint8_t packet[8];

    (void)state;
    for (size_t length = 0; length != 8; length++)
        assert_false(dumpulse_hear(&node, 3, BEACON, length));
    assert_false(dumpulse_hear(&node, 5, ANNOUNCE, 8));
    assert_false(dumpulse_hear(&node, 3, HEARTBEAT, 8));
    assert_int_equal(keys, 0);
    for (unsigned bit = 0; bit != 64; bit++) {
        memcpy(packet, BEACON, 8);
        packet[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_false(dumpulse_hear(&node, 3, packet, 8));
    }
    for (uint32_t byte4 = 0x40; byte4 != 0x100; byte4++) { /* another kind, with a right tag */
        dumpulse_write_(packet + 4, byte4 << 24 | 0x12345);
        dumpulse_make_(packet, 3, (byte4 % 0x20) << 24 | 0x12345);
        assert_false(dumpulse_hear(&node, 3, packet, 8));
    }
    assert_false(dumpulse_keyed_request(&reader, packet, BEACON)); /* no beacon was heard */
    assert_false(dumpulse_keyed_heartbeat(&node, packet, 3, 1, 2));
}

/* Somebody has opened node 9, and has its key. It hears for itself alone: with all that it can
 * make, and with all beacons of others, no other node and no reader goes on. */
static void test_a_node_speaks_for_itself_alone(void **state)
{
    uint8_t packet[8];

    (void)state;
    dumpulse_node nine = {0, 0, false};
    for (uint32_t epoch = 0x12346; epoch != 0x12446; epoch++) {
        dumpulse_write_(packet + 4, epoch);
        dumpulse_make_(packet, 9, epoch);
        for (uint8_t label = 0; label != LABELS; label++)
            if (label != 9)
                assert_false(dumpulse_hear(&node, label, packet, 8));
        assert_true(dumpulse_hear(&nine, 9, packet, 8)); /* or the others would refuse anything */
    }
    for (uint8_t label = 0; label != LABELS; label++)
        assert_int_equal(dumpulse_hear(&node, 3, beacons[label], 8), label == 3);
    /* Nor does the agent take what it signs as another. */
    for (uint8_t label = 0; label != LABELS; label++)
        if (label != 9) {
            memset(packet, 1, 8);
            packet[4] = (uint8_t)(0x80 + label);
            dumpulse_make_(packet, 9, 0x12345);
            keyed.wrong = 0;
            assert_int_equal(process(packet), DUMPULSE_WRONG_TAG);
        }
}

/* A key that was stolen is worth nothing any more when its variable has the next one. */
static void test_a_new_key(void **state)
{
    uint8_t packet[8];

    (void)state;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_true(dumpulse_hear(&node, 3, BEACON, 8));
    generations[3] = generations[5] = 1;
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT); /* made with the new one */
    assert_int_equal(process(HEARTBEAT), DUMPULSE_OLD);
    next_epoch();
    keys = 0;
    assert_true(dumpulse_alone_renew(&keyed, alone, 5));
    assert_int_equal(numbers[5], 0);
    assert_int_equal(process(ANNOUNCE), DUMPULSE_WRONG_TAG);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_WRONG_TAG);
    assert_int_equal(beat(5, 7), DUMPULSE_HEARTBEAT); /* it hears now */
    assert_true(dumpulse_sender_begin(&node, 5) == false);
    numbers[5] = 0x7FFFFF;
    assert_true(dumpulse_sender_begin(&node, 5)); /* or it only sends, from the first number on */
    assert_true(dumpulse_sender_announce(&node, packet, 5));
    assert_int_equal(process(packet), DUMPULSE_ANNOUNCE);
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 5, 1, 2));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
    assert_int_equal(numbers[5], 0x800000);
}

/* Otherwise a node with a new key would be refused until its count is as large as the old one. */
static void test_a_new_key_begins_anew(void **state)
{
    dumpulse_keyed other;

    (void)state;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    memset(keyed.waiting[1], 0x83, sizeof keyed.waiting - sizeof keyed.waiting[0]);
    keyed.waiting[2][0] = 0x85;
    keyed.last[3] = keyed.last[5] = 200;
    memcpy(&other, &keyed, sizeof other);
    assert_true(dumpulse_alone_renew(&keyed, alone, 5));
    other.last[5] = other.waiting[0][0] = other.waiting[2][0] = 0;
    assert_memory_equal(&keyed, &other, sizeof other);
}

/* 100 wrong tags in an epoch, and no fewer: then a value must come twice in an epoch. */
static void test_under_junk_two_are_needed(void **state)
{
    uint8_t packet[8];

    (void)state;
    junk(99);
    assert_int_equal(beat(9, 1), DUMPULSE_HEARTBEAT);
    next_epoch();
    junk(99); /* each epoch has its own */
    assert_int_equal(beat(9, 2), DUMPULSE_HEARTBEAT);
    dumpulse_keyed_beacon(&keyed, 9, &bus);
    assert_int_equal(sent[4], 0);
    junk(1);
    dumpulse_keyed_beacon(&keyed, 9, &bus);
    assert_int_equal(sent[4], 0x20);
    assert_true(dumpulse_hear(&node, 9, sent, 8) && node.twice);
    assert_int_equal(beat(9, 3), DUMPULSE_FIRST);
    assert_int_equal(dumpulse_read_entry(keyed.agent.report, 9).value, 2);
    assert_int_equal(beat(9, 4), DUMPULSE_FIRST);
    assert_int_equal(beat(9, 3), DUMPULSE_FIRST);
    assert_int_equal(beat(9, 3), DUMPULSE_HEARTBEAT);
    assert_int_equal(dumpulse_read_entry(keyed.agent.report, 9).value, 3);
    assert_int_equal(beat(9, 3), DUMPULSE_HEARTBEAT); /* it stays there */
    packet[4] = 0x80 + 9;
    packet[5] = (uint8_t)(keyed.last[9] + 1);
    packet[6] = 77; /* the same value of another sender */
    packet[7] = 3;
    dumpulse_make_(packet, 9, keyed.epoch);
    assert_int_equal(process(packet), DUMPULSE_FIRST);
    assert_int_equal(beat(9, 3), DUMPULSE_FIRST);
    beaten(packet, 9, 100, 3);
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
    assert_int_equal(process(packet), DUMPULSE_OLD); /* the same packet again is no second one */
    assert_int_equal(beat(9, 5), DUMPULSE_FIRST);
    next_epoch();
    assert_int_equal(beat(9, 5), DUMPULSE_FIRST); /* nor is one of the epoch before */
    assert_int_equal(process(REQUEST), DUMPULSE_WRONG_TAG);
}

/* It lasts for 64 epochs after the last one with junk. */
static void test_junk_ends(void **state)
{
    (void)state;
    junk(100);
    next_epoch();
    junk(100);
    for (unsigned i = 0; i != 63; i++) {
        next_epoch();
        assert_int_equal(beacons[9][4], 0x20);
        assert_int_equal(beat(9, (uint8_t)i), DUMPULSE_FIRST);
        assert_int_equal(beat(9, (uint8_t)i), DUMPULSE_HEARTBEAT);
    }
    next_epoch();
    assert_int_equal(beacons[9][4], 0);
    assert_int_equal(beat(9, 1), DUMPULSE_HEARTBEAT);
}

/* Junk announces, however many, keep nobody's announce from being taken, nor a right one that is
 * older; and they store nothing. */
static void test_announces_under_junk(void **state)
{
    uint8_t packet[8], forged[8];

    (void)state;
    numbers[2] = 0x800000;
    for (unsigned turn = 0; turn != 20; turn++) {
        memset(&node, 0, sizeof node);
        assert_true(dumpulse_sender_begin(&node, 2));
        numbers[2]--; /* the agent's is not the node's */
        assert_true(dumpulse_sender_announce(&node, packet, 2));
        const unsigned before = stores;
        for (unsigned i = 0; i != 1000; i++) {
            if (i == 500)
                assert_int_equal(process(packet), DUMPULSE_ANNOUNCE);
            memcpy(forged, packet, 8);
            forged[0] ^= 1;
            forged[4] = (uint8_t)(0x40 + i % ALONE);
            forged[5] = 0xFF;
            assert_int_equal(process(forged), DUMPULSE_WRONG_TAG);
        }
        assert_int_equal(stores, before);
        assert_true(dumpulse_keyed_heartbeat(&node, packet, 2, 76, (uint8_t)turn));
        assert_int_equal(process(packet), DUMPULSE_HEARTBEAT); /* two tags were right */
        assert_true(dumpulse_keyed_heartbeat(&node, packet, 2, 77, (uint8_t)turn));
        assert_int_equal(process(packet), DUMPULSE_FIRST);
        assert_true(dumpulse_keyed_heartbeat(&node, packet, 2, 77, (uint8_t)turn));
        assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
    }
    assert_int_equal(numbers[2], 0x800014);
}

/* A heartbeat may be of the own epoch that has begun, or of the one that waits, or a guess. */
static void test_two_own_epochs(void **state)
{
    dumpulse_node later = {0x80000200, 255, true};
    uint8_t packet[8];

    (void)state;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_true(dumpulse_keyed_heartbeat(&later, packet, 5, 77, 1));
    assert_true(dumpulse_keyed_heartbeat(&later, packet, 5, 77, 1));
    assert_int_equal(process(packet), DUMPULSE_WRONG_TAG); /* nobody has announced it */
    assert_true(dumpulse_sender_announce(&later, packet, 5));
    assert_int_equal(process(packet), DUMPULSE_ANNOUNCE);
    memset(packet, 0, 4);
    packet[4] = 0x85;
    packet[5] = 0;
    refuse_cheaply(packet, 8, DUMPULSE_OLD); /* the count of no heartbeat */
    packet[5] = 9;
    assert_int_equal(process(packet), DUMPULSE_WRONG_TAG);
    node = (dumpulse_node){0x80000100, 254, true};
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 5, 77, 2));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
    assert_int_equal(alone[5], 0x80000102);
    assert_true(dumpulse_keyed_heartbeat(&later, packet, 5, 77, 3));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
    assert_int_equal(alone[5], 0x80000203);
    assert_int_equal(keyed.wrong, 2);
}

/* More wait than there are places: the one that has waited longest must go. Who sends much from one
 * node has one place. */
static void test_places(void **state)
{
    (void)state;
    junk(100);
    for (uint8_t variable = 20; variable != 28; variable++)
        assert_int_equal(beat(variable, 1), DUMPULSE_FIRST);
    for (uint8_t value = 0; value != 200; value++)
        assert_int_equal(beat(27, value), DUMPULSE_FIRST);
    assert_int_equal(beat(20, 1), DUMPULSE_HEARTBEAT);
    assert_int_equal(beat(28, 1), DUMPULSE_FIRST);
    assert_int_equal(beat(21, 1), DUMPULSE_HEARTBEAT);
    assert_int_equal(beat(20, 1), DUMPULSE_FIRST);
    assert_int_equal(beat(21, 1), DUMPULSE_FIRST);
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    assert_int_equal(beat(28, 1), DUMPULSE_HEARTBEAT);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
}

/* The node of no variable makes nothing: it would be a packet of another kind. */
static void test_no_variable(void **state)
{
    const dumpulse_node ready = {0x12345, 255, false};
    uint8_t packet[8] = {0}, zeros[8] = {0};

    (void)state;
    numbers[64] = 0x800000; /* a number that would do */
    for (unsigned variable = 64; variable != 256; variable++) {
        node = ready;
        assert_false(dumpulse_keyed_heartbeat(&node, packet, (uint8_t)variable, 1, 2));
        assert_false(dumpulse_sender_announce(&node, packet, (uint8_t)variable));
        assert_int_equal(node.left, 255);
        assert_false(dumpulse_sender_begin(&node, (uint8_t)variable)); /* its number is not read */
        assert_int_equal(node.left, 0);
    }
    assert_memory_equal(packet, zeros, 8);
    assert_int_equal(keys + stores, 0);
}

/* A number grows by one over all its bytes, and ends at ff ff ff. */
static void test_own_epochs(void **state)
{
    static const struct {
        uint32_t had, gets; /* 0: it begins none */
    } cases[] = {
        {0x8000FE, 0x8000FF}, {0x8000FF, 0x800100}, {0x80FFFF, 0x810000},
        {0xFFFFFE, 0xFFFFFF}, {0xFFFFFF, 0},        {0, 0},
        {0x7FFFFE, 0},        {0x7FFFFF, 0x800000},
    };

    (void)state;
    for (size_t i = 0; i != sizeof cases / sizeof *cases; i++) {
        numbers[5] = cases[i].had;
        assert_int_equal(dumpulse_sender_begin(&node, 5), cases[i].gets != 0);
        assert_int_equal(node.left, cases[i].gets != 0 ? 255 : 0);
        assert_int_equal(numbers[5], cases[i].gets != 0 ? cases[i].gets : cases[i].had);
        if (cases[i].gets != 0) {
            assert_int_equal(node.epoch, cases[i].gets * 256);
            assert_true(node.twice); /* it cannot hear of junk */
        }
    }
}

/* An agent writes to no more of its array than it was told, and takes no announce of others. */
static void test_nodes_that_only_send_by_number(void **state)
{
    uint8_t packet[8];

    (void)state;
    for (uint8_t count = 1; count != ALONE + 1; count++) {
        memset(&keyed, 0, sizeof keyed);
        for (unsigned i = 0; i <= ALONE; i++)
            alone[i] = 0x5A5A5A5A;
        for (uint8_t i = 0; i != ALONE; i++)
            numbers[i] = 0x900000;
        assert_true(dumpulse_alone_begin(&keyed, alone, count, &bus));
        for (uint8_t i = 0; i != ALONE; i++) {
            assert_true(dumpulse_sender_begin(&node, i));
            assert_true(dumpulse_sender_announce(&node, packet, i));
            assert_int_equal(dumpulse_alone_process(&keyed, alone, count, packet, 8, &bus),
                             i < count ? DUMPULSE_ANNOUNCE : DUMPULSE_REFUSED);
            assert_true(dumpulse_keyed_heartbeat(&node, packet, i, 1, 2));
            assert_int_equal(dumpulse_alone_process(&keyed, alone, count, packet, 8, &bus),
                             i < count ? DUMPULSE_HEARTBEAT : DUMPULSE_WRONG_TAG);
        }
        for (unsigned i = count; i <= ALONE; i++)
            assert_int_equal(alone[i], 0x5A5A5A5A);
    }
}

/* A reader believes the report of its last request only, and once. */
static void test_reader(void **state)
{
    uint8_t packet[8];
    dumpulse_keyed_report report, old;
    uint8_t *const bytes = (uint8_t *)&report;

    (void)state;
    memset(&report, 0, sizeof report);
    dumpulse_report_tag_(reader.asked, 0, bytes); /* what a reader of zeros has asked for */
    assert_false(dumpulse_keyed_check(&reader, &report, 264));
    assert_true(dumpulse_hear(&reader.heard, 64, READERS_BEACON, 8));
    assert_false(dumpulse_keyed_check(&reader, &report, 264));
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"ab"));
    assert_int_equal(process(packet), DUMPULSE_REPORT);
    old = room;
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"cd"));
    assert_false(dumpulse_keyed_check(&reader, &old, 264));
    assert_int_equal(process(packet), DUMPULSE_REPORT);
    report = room;
    assert_false(dumpulse_keyed_check(&reader, &report, 260));
    for (size_t at = 0; at != 264; at++) {
        bytes[at] ^= 1;
        assert_false(dumpulse_keyed_check(&reader, &report, 264));
        bytes[at] ^= 1;
    }
    assert_memory_equal(&report, &room, 264);
    assert_true(dumpulse_keyed_check(&reader, &report, 264));
    assert_false(dumpulse_keyed_check(&reader, &report, 264));
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"\0"));
    assert_int_equal(process(packet), DUMPULSE_REPORT);
    assert_true(dumpulse_keyed_check(&reader, &room, 264));
    assert_false(dumpulse_keyed_check(&reader, &room, 264)); /* also with a nonce of zeros */
    /* In the first epoch of all, too. */
    memset(&reader, 0, sizeof reader);
    reader.heard.epoch = 1;
    reader.heard.left = 255;
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"ef"));
    dumpulse_report_tag_(reader.asked, 1, bytes);
    assert_true(dumpulse_keyed_check(&reader, &report, 264));
    assert_false(dumpulse_keyed_check(&reader, &report, 264));
}

/* A report may be held back: after a later beacon, it is not believed, however many there were. */
static void test_a_report_that_is_late(void **state)
{
    uint8_t packet[8];

    (void)state;
    for (unsigned later = 1; later <= 100; later += 99) {
        memset(&reader, 0, sizeof reader);
        assert_true(dumpulse_hear(&reader.heard, 64, beacons[64], 8));
        reader.heard.left -= 10; /* counts that another reader has used */
        assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"gh"));
        assert_int_equal(packet[5], 11);
        assert_int_equal(process(packet), DUMPULSE_REPORT);
        dumpulse_keyed_report held = room;
        for (unsigned i = 0; i != later; i++) {
            next_epoch();
            assert_true(dumpulse_hear(&reader.heard, 64, beacons[64], 8));
        }
        assert_false(dumpulse_keyed_check(&reader, &held, 264));
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_examples_of_the_page, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_agents_own_variables, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_cheap_checks_come_first, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_questions_do_not_count, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_each_byte_of_a_tag_counts, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_a_number_is_stored_before_it_counts, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_storing_that_fails, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_reset_of_the_agent, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_an_agent_of_zeros, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_epochs_begin_label_after_label, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_the_last_epoch, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_255_heartbeats_in_an_epoch, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_what_is_no_beacon, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_a_node_speaks_for_itself_alone, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_a_new_key, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_a_new_key_begins_anew, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_under_junk_two_are_needed, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_junk_ends, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_announces_under_junk, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_two_own_epochs, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_places, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_no_variable, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_own_epochs, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_nodes_that_only_send_by_number, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_reader, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_a_report_that_is_late, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_torn_slots, fresh, untouched),
        cmocka_unit_test_setup_teardown(test_slots_torn_twice, fresh, untouched),
    };
    return cmocka_run_group_tests_name("unit_keyed", tests, NULL, NULL);
}
