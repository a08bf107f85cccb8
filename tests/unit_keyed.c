/* Unit tests of dumpulse_keyed.h and its hooks.   SPDX-License-Identifier: MIT
 *
 * They are compiled with DUMPULSE_ALONE=8. The key hook counts its calls: one for each tag. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#ifndef DUMPULSE_ALONE
#define DUMPULSE_ALONE 8
#endif
#include "dumpulse_keyed.h"

static dumpulse_keyed keyed;
static dumpulse_node node;
static dumpulse_reader reader;
static uint8_t numbers[66][3];
static dumpulse_keyed_report room; /* what was sent */
static uint8_t *const sent = (uint8_t *)&room;
static size_t sent_length;
static unsigned keys, sends, stores;
static bool storing_fails;
static dumpulse_keyed at_store; /* what the agent was when a number was stored */
static int bus;                 /* the context of the agent */

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    assert_true(label <= DUMPULSE_BEACON_LABEL);
    keys++;
    for (uint8_t i = 0; i != 16; i++)
        key[i] = i;
}

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    assert_true(label <= DUMPULSE_BEACON_LABEL);
    memcpy(number, numbers[label], 3);
}

bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    stores++;
    at_store = keyed;
    if (storing_fails)
        return false;
    memcpy(numbers[label], number, 3);
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
}

static void stored(uint8_t label, uint8_t high, uint8_t middle, uint8_t low)
{
    const uint8_t number[3] = {high, middle, low};
    memcpy(numbers[label], number, 3);
}

/* An agent in epoch 00012345, as in the examples of spec/keyed.md. */
static int fresh(void **state)
{
    (void)state;
    memset(&keyed, 0, sizeof keyed);
    memset(&node, 0, sizeof node);
    memset(&reader, 0, sizeof reader);
    memset(numbers, 0, sizeof numbers);
    storing_fails = false;
    stored(DUMPULSE_BEACON_LABEL, 0, 1, 0x22);
    if (!dumpulse_keyed_begin(&keyed, &bus))
        return -1;
    keyed.epoch[3] = 0x44;
    if (!dumpulse_keyed_tick(&keyed, &bus))
        return -1;
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
    assert_int_equal(dumpulse_keyed_look(&keyed, packet, length), why);
    assert_int_equal(dumpulse_keyed_process(&keyed, packet, length, &bus), why);
    assert_memory_equal(&keyed, &before, sizeof keyed);
    assert_int_equal(keys + sends + stores, 0);
}

static const uint8_t BEACON[8] = {0xfe, 0x6c, 0x7c, 0x5e, 0x00, 0x01, 0x23, 0x45};
static const uint8_t HEARTBEAT[8] = {0x81, 0x07, 0x5c, 0x82, 0x83, 0x01, 0x4c, 0x09};
static const uint8_t REQUEST[8] = {0xac, 0xee, 0xc0, 0xea, 0xc0, 0x01, 0xbe, 0xef};
static const uint8_t REPORT[8] = {0x3b, 0x20, 0x39, 0x44, 0xc6, 0x6e, 0x16, 0x0e};
static const uint8_t ANNOUNCE[8] = {0xfc, 0x07, 0x6b, 0xf4, 0x45, 0x80, 0x00, 0x01};
static const uint8_t OWN_HEARTBEAT[8] = {0xb2, 0x01, 0x29, 0x91, 0x85, 0x01, 0x4d, 0xc8};

static void test_the_examples_of_the_page(void **state)
{
    const uint8_t entry[4] = {0x12, 0x34, 0x4c, 0x09};
    uint8_t table[256] = {0}, packet[8];

    (void)state;
    dumpulse_keyed_beacon(&keyed, &bus);
    assert_int_equal(sent_length, 8);
    assert_memory_equal(sent, BEACON, 8);
    assert_int_equal(process(HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_int_equal(process(REQUEST), DUMPULSE_REPORT);
    memcpy(table + 12, entry, 4);
    assert_int_equal(sent_length, 264);
    assert_memory_equal(sent, REPORT, 8);
    assert_memory_equal(sent + 8, table, 256);
    assert_int_equal(dumpulse_read_entry(sent + 4, 3).timestamp, 0x1234);
    assert_int_equal(dumpulse_read_entry(keyed.agent.report, 3).value, 9);
    assert_true(dumpulse_hear(&reader.heard, BEACON, 8));
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"\xbe\xef"));
    assert_memory_equal(packet, REQUEST, 8);
    assert_true(dumpulse_keyed_check(&reader, &room, 264));
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_HEARTBEAT);
    assert_true(dumpulse_hear(&node, BEACON, 8));
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_memory_equal(packet, HEARTBEAT, 8);
    stored(5, 0x80, 0, 0);
    assert_true(dumpulse_sender_begin(&node, 5));
    dumpulse_sender_announce(&node, packet, 5);
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
        if (length != 8)
            refuse_cheaply(HEARTBEAT, length > 8 ? 8 + length : length, DUMPULSE_REFUSED);
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
    assert_int_equal(keys, 2);
    keys = stores = 0;
    refuse_cheaply(HEARTBEAT, 8, DUMPULSE_OLD);
    refuse_cheaply(ANNOUNCE, 8, DUMPULSE_OLD);
    memcpy(packet, REQUEST, 8);
    packet[5] = 0;
    assert_int_equal(process(packet), DUMPULSE_OLD);
    assert_int_equal(keys, 0);
    assert_int_equal(sends, 1);
    assert_memory_equal(sent, BEACON, 8);
}

/* Of the 256 values of each byte of a tag, one is taken. */
static void test_each_byte_of_a_tag_counts(void **state)
{
    const uint8_t *const good[] = {HEARTBEAT, REQUEST, ANNOUNCE};
    uint8_t packet[8];

    for (size_t which = 0; which != 3; which++)
        for (size_t at = 0; at != 4; at++) {
            unsigned taken = 0;
            for (unsigned value = 0; value != 256; value++) {
                fresh(state);
                memcpy(packet, good[which], 8);
                packet[at] = (uint8_t)value;
                const dumpulse_result result = process(packet);
                taken += result != DUMPULSE_WRONG_TAG;
            }
            assert_int_equal(taken, 1);
        }
}

static void test_a_number_is_stored_before_it_counts(void **state)
{
    const uint8_t zeros[4] = {0};

    (void)state;
    const dumpulse_keyed before = keyed;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    assert_int_equal(stores, 1);
    assert_memory_equal(&at_store, &before, sizeof before);
    assert_memory_equal(numbers[5], ANNOUNCE + 5, 3);
    keyed.epoch[3] = 255;
    assert_true(dumpulse_keyed_tick(&keyed, &bus));
    assert_int_equal(stores, 2);
    assert_memory_equal(numbers[DUMPULSE_BEACON_LABEL], "\x00\x01\x24", 3);
    assert_int_equal(at_store.beacon, before.beacon);
    stored(5, 0x80, 0, 0);
    assert_true(dumpulse_sender_begin(&node, 5));
    assert_memory_not_equal(node.epoch, zeros, 4);
}

static void test_storing_that_fails(void **state)
{
    (void)state;
    storing_fails = true;
    const dumpulse_keyed before = keyed;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_NOT_STORED);
    assert_memory_equal(&keyed, &before, sizeof keyed);
    keyed.epoch[3] = 255;
    assert_false(dumpulse_keyed_tick(&keyed, &bus));
    assert_false(dumpulse_keyed_tick(&keyed, &bus)); /* it does not go on by itself */
    assert_int_equal(process(HEARTBEAT), DUMPULSE_NOT_BEGUN);
    assert_int_equal(process(REQUEST), DUMPULSE_NOT_BEGUN);
    assert_int_equal(sends, 0); /* there is no beacon */
    assert_false(dumpulse_keyed_begin(&keyed, &bus));
    storing_fails = false;
    assert_true(dumpulse_keyed_begin(&keyed, &bus));
    assert_memory_equal(sent + 4, "\x00\x01\x24\x00", 4);
    stored(5, 0x80, 0, 0);
    storing_fails = true;
    assert_false(dumpulse_sender_begin(&node, 5));
    storing_fails = false;
    assert_true(dumpulse_sender_begin(&node, 5));
    storing_fails = true;
    assert_false(dumpulse_sender_begin(&node, 5)); /* what it may send is gone, too */
    assert_int_equal(node.left, 0);
}

/* After a reset of the agent, nothing of before is taken. */
static void test_reset_of_the_agent(void **state)
{
    uint8_t packet[8];

    (void)state;
    assert_int_equal(process(ANNOUNCE), DUMPULSE_ANNOUNCE);
    memset(&keyed, 0, sizeof keyed);
    assert_true(dumpulse_keyed_begin(&keyed, &bus));
    assert_int_equal(process(HEARTBEAT), DUMPULSE_WRONG_TAG);
    assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_OLD);
    assert_int_equal(process(ANNOUNCE), DUMPULSE_OLD);
    assert_int_equal(process(REQUEST), DUMPULSE_WRONG_TAG);
    assert_true(dumpulse_hear(&node, sent, sent_length));
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
    stored(5, 0xFF, 0xFF, 0xFF); /* it cannot be read */
    memset(&keyed, 0, sizeof keyed);
    assert_true(dumpulse_keyed_begin(&keyed, &bus));
    stored(5, 0xFF, 0xFF, 0xFE);
    assert_true(dumpulse_sender_begin(&node, 5));
    dumpulse_sender_announce(&node, packet, 5);
    assert_int_equal(process(packet), DUMPULSE_OLD);
    stored(DUMPULSE_BEACON_LABEL, 0xFF, 0xFF, 0xFF);
    memset(&keyed, 0, sizeof keyed);
    assert_false(dumpulse_keyed_begin(&keyed, &bus));
}

/* An agent that has not begun takes nothing: no announce that was recorded long ago, and nothing
 * that is right for the epoch 0. Nor does a tick let it begin. */
static void test_an_agent_of_zeros(void **state)
{
    static const dumpulse_node of_zeros = {{0}, 255};
    uint8_t heartbeat[8];
    dumpulse_node early = of_zeros;

    (void)state;
    stored(5, 0x80, 0, 2);
    assert_true(dumpulse_keyed_heartbeat(&early, heartbeat, 3, 76, 9));
    memset(&keyed, 0, sizeof keyed);
    for (unsigned tick = 0; tick != 2; tick++) {
        assert_int_equal(process(ANNOUNCE), DUMPULSE_NOT_BEGUN);
        assert_int_equal(process(OWN_HEARTBEAT), DUMPULSE_NOT_BEGUN);
        assert_int_equal(process(heartbeat), DUMPULSE_NOT_BEGUN);
        assert_int_equal(process(REQUEST), DUMPULSE_NOT_BEGUN);
        assert_int_equal(sends + stores, 0);
        assert_false(dumpulse_keyed_tick(&keyed, &bus));
    }
    assert_memory_equal(numbers[5], "\x80\x00\x02", 3);
}

static void test_the_last_epoch(void **state)
{
    uint8_t packet[8];

    (void)state;
    keyed.epoch[0] = 0x3E;
    keyed.epoch[1] = keyed.epoch[2] = 0xFF;
    keyed.epoch[3] = 0xFE;
    assert_true(dumpulse_keyed_tick(&keyed, &bus));
    assert_true(dumpulse_keyed_tick(&keyed, &bus));
    assert_memory_equal(sent + 4, "\x3f\x00\x00\x00", 4);
    assert_true(dumpulse_hear(&node, sent, 8));
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_false(dumpulse_keyed_tick(&keyed, &bus));
    assert_int_equal(process(packet), DUMPULSE_NOT_BEGUN);
    memset(&keyed, 0, sizeof keyed);
    assert_false(dumpulse_keyed_begin(&keyed, &bus));
    /* With the beacons' key, somebody can let a node make heartbeats of any epoch. */
    node = (dumpulse_node){{0x3F, 0x00, 0x00, 0xFF}, 255};
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 3, 76, 9));
    assert_int_equal(process(packet), DUMPULSE_NOT_BEGUN);
}

static void test_255_heartbeats_in_an_epoch(void **state)
{
    uint8_t packet[8];
    unsigned made = 0;

    (void)state;
    assert_false(dumpulse_keyed_heartbeat(&node, packet, 9, 1, 2));
    assert_true(dumpulse_hear(&node, BEACON, 8));
    while (dumpulse_keyed_heartbeat(&node, packet, 9, 1, (uint8_t)made)) {
        assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
        made++;
    }
    assert_int_equal(made, 255);
    assert_false(dumpulse_hear(&node, BEACON, 8));
    assert_true(dumpulse_keyed_tick(&keyed, &bus));
    assert_true(dumpulse_hear(&node, sent, 8));
    assert_true(dumpulse_keyed_heartbeat(&node, packet, 9, 1, 2));
    assert_int_equal(process(packet), DUMPULSE_HEARTBEAT);
}

static void test_what_is_no_beacon(void **state)
{
    uint8_t packet[8];

    (void)state;
    for (size_t length = 0; length != 8; length++)
        assert_false(dumpulse_hear(&node, BEACON, length));
    assert_false(dumpulse_hear(&node, ANNOUNCE, 8));
    assert_false(dumpulse_hear(&node, HEARTBEAT, 8));
    assert_int_equal(keys, 0);
    for (unsigned bit = 0; bit != 64; bit++) {
        memcpy(packet, BEACON, 8);
        packet[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_false(dumpulse_hear(&node, packet, 8));
    }
    assert_false(dumpulse_keyed_request(&reader, packet, BEACON)); /* no beacon was heard */
    assert_false(dumpulse_keyed_heartbeat(&node, packet, 3, 1, 2));
}

/* The node of no variable makes nothing: it would be a packet of another kind. */
static void test_no_variable(void **state)
{
    const dumpulse_node ready = {{0, 1, 0x23, 0x45}, 255};
    uint8_t packet[8] = {0}, zeros[8] = {0};

    (void)state;
    for (unsigned variable = 64; variable != 256; variable++) {
        node = ready;
        assert_false(dumpulse_keyed_heartbeat(&node, packet, (uint8_t)variable, 1, 2));
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
        uint8_t had[3], gets[3];
        bool works;
    } cases[] = {
        {{0x80, 0, 0xFE}, {0x80, 0, 0xFF}, true}, {{0x80, 0, 0xFF}, {0x80, 1, 0}, true},
        {{0x80, 0xFF, 0xFF}, {0x81, 0, 0}, true}, {{0xFF, 0xFF, 0xFE}, {0xFF, 0xFF, 0xFF}, true},
        {{0xFF, 0xFF, 0xFF}, {0, 0, 0}, false},   {{0, 0, 0}, {0, 0, 0}, false},
        {{0x7F, 0xFF, 0xFE}, {0, 0, 0}, false},   {{0x7F, 0xFF, 0xFF}, {0x80, 0, 0}, true},
    };

    (void)state;
    for (size_t i = 0; i != sizeof cases / sizeof *cases; i++) {
        stored(5, cases[i].had[0], cases[i].had[1], cases[i].had[2]);
        assert_int_equal(dumpulse_sender_begin(&node, 5), cases[i].works);
        assert_int_equal(node.left, cases[i].works ? 255 : 0);
        assert_memory_equal(numbers[5], cases[i].works ? cases[i].gets : cases[i].had, 3);
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
    assert_false(dumpulse_keyed_check(&reader, &report, 264));
    assert_true(dumpulse_hear(&reader.heard, BEACON, 8));
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
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"gh"));
    assert_int_equal(process(packet), DUMPULSE_REPORT);
    report = room;
    assert_true(dumpulse_keyed_tick(&keyed, &bus));
    assert_true(dumpulse_hear(&reader.heard, sent, 8));
    assert_false(dumpulse_keyed_check(&reader, &report, 264)); /* it may have been held back */
    reader.heard.left -= 10; /* counts that another reader has used */
    assert_true(dumpulse_keyed_request(&reader, packet, (const uint8_t *)"ef"));
    assert_int_equal(packet[5], 11);
}

/* The power fails after each byte of a slot, and the byte after that has any value. */
static void test_torn_slots(void **state)
{
    uint8_t memory[12], slot[6], number[3];

    (void)state;
    memset(memory, 0xFF, 12);
    dumpulse_slots_read(memory, number);
    assert_memory_equal(number, "\xff\xff\xff", 3);
    assert_int_equal(dumpulse_slots_write(memory, memory, (const uint8_t *)"\x80\x00\xff"), 0);
    for (unsigned turn = 0; turn != 4; turn++) {
        uint8_t old[3];
        dumpulse_slots_read(memory, old);
        const uint8_t following[3] = {0x80, (uint8_t)(turn + 1), (uint8_t)(turn * 85)};
        const uint8_t at = dumpulse_slots_write(memory, slot, following);
        for (size_t torn = 0; torn != 6; torn++)
            for (unsigned value = 0; value != 256; value++) {
                uint8_t cut[12];
                memcpy(cut, memory, 12);
                memcpy(cut + at, slot, torn);
                cut[at + torn] = (uint8_t)value;
                dumpulse_slots_read(cut, number);
                if (memcmp(cut + at, slot, 6) == 0)
                    assert_memory_equal(number, following, 3);
                else
                    assert_memory_equal(number, old, 3);
            }
        memcpy(memory + at, slot, 6);
        dumpulse_slots_read(memory, number);
        assert_memory_equal(number, following, 3);
    }
}

/* Power fails in a write, and again in the next one: with any two wrong bytes, the number never
 * becomes smaller. It may become larger. */
static void test_slots_torn_twice(void **state)
{
    uint8_t memory[12] = {0x80, 0x12, 0x33, 0x7F, 0xED, 0xCC, 0x80, 0x12, 0x34, 0x7F, 0xED, 0xCB};
    uint8_t slot[6], number[3];
    unsigned larger = 0;

    (void)state;
    assert_int_equal(dumpulse_slots_write(memory, slot, (const uint8_t *)"\x80\x12\x35"), 0);
    for (unsigned both = 0; both != 6 * 256 * 6 * 256; both++) {
        const size_t first = both / 256 % 6, second = both / (6 * 256) % 6;
        memcpy(memory, "\x80\x12\x33\x7f\xed\xcc", 6);
        memcpy(memory, slot, first);
        memory[first] = (uint8_t)both;
        if (memcmp(memory, slot, 6) == 0)
            continue; /* it was stored; the next one would be written to the other slot */
        memcpy(memory, slot, second);
        memory[second] = (uint8_t)(both / (6 * 256 * 6));
        dumpulse_slots_read(memory, number);
        assert_true(memcmp(number, "\x80\x12\x34", 3) >= 0);
        larger += memcmp(number, "\x80\x12\x35", 3) > 0;
    }
    assert_in_range(larger, 1, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_examples_of_the_page, fresh),
        cmocka_unit_test_setup(test_agents_own_variables, fresh),
        cmocka_unit_test_setup(test_cheap_checks_come_first, fresh),
        cmocka_unit_test_setup(test_each_byte_of_a_tag_counts, fresh),
        cmocka_unit_test_setup(test_a_number_is_stored_before_it_counts, fresh),
        cmocka_unit_test_setup(test_storing_that_fails, fresh),
        cmocka_unit_test_setup(test_reset_of_the_agent, fresh),
        cmocka_unit_test_setup(test_an_agent_of_zeros, fresh),
        cmocka_unit_test_setup(test_the_last_epoch, fresh),
        cmocka_unit_test_setup(test_255_heartbeats_in_an_epoch, fresh),
        cmocka_unit_test_setup(test_what_is_no_beacon, fresh),
        cmocka_unit_test_setup(test_no_variable, fresh),
        cmocka_unit_test_setup(test_own_epochs, fresh),
        cmocka_unit_test_setup(test_reader, fresh),
        cmocka_unit_test_setup(test_torn_slots, fresh),
        cmocka_unit_test_setup(test_slots_torn_twice, fresh),
    };
    return cmocka_run_group_tests_name("unit_keyed", tests, NULL, NULL);
}
