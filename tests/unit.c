/* Unit tests of the library's C interface and its hooks.   SPDX-License-Identifier: MIT
 *
 * A test announces the calls of hooks, with their order and arguments. It fails if another call
 * comes, or if an announced one does not come.
 */
#include <string.h>

#include "dumpulse.h"
#include "support/units.h"

static const uint8_t REQUEST[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
/* The worked example of SPEC.md: variable 3, sender 76, value 9. */
static const uint8_t HEARTBEAT[DUMPULSE_PACKET_SIZE] = {0x04, 0x72, 0x01, 0x4a, 0xf1, 3, 76, 9};

static uint8_t sent[DUMPULSE_REPORT_SIZE];
static const dumpulse *watched; /* the agent that the clock hook copies, or NULL */
static dumpulse at_the_clock;   /* the copy */

uint16_t dumpulse_get_timestamp(void)
{
    function_called();
    if (watched != NULL)
        at_the_clock = *watched;
    return mock_type(uint16_t);
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    function_called();
    check_expected_ptr(context);
    check_expected_ptr(packet);
    check_expected(length);
    memcpy(sent, packet, sizeof sent);
}

static void expect_clock(uint16_t now)
{
    expect_function_call(dumpulse_get_timestamp);
    will_return(dumpulse_get_timestamp, now);
}

static void expect_report(const dumpulse *agent, void *context)
{
    expect_function_call(dumpulse_send_packet);
    expect_value(dumpulse_send_packet, context, context);
    expect_value(dumpulse_send_packet, packet, agent->report);
    expect_value(dumpulse_send_packet, length, DUMPULSE_REPORT_SIZE);
}

static uint32_t sum_in(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* An agent between two guards. They have a pattern that a wrong write would change. */
typedef struct guarded {
    uint8_t before[16];
    dumpulse agent;
    uint8_t after[16];
} guarded;

TEST(test_sizes)
{
    assert_int_equal(sizeof(dumpulse), 260);
    assert_int_equal(DUMPULSE_REFUSED, 0);
    assert_int_equal(DUMPULSE_HEARTBEAT, 1);
    assert_int_equal(DUMPULSE_REPORT, 2);
    assert_memory_equal(REQUEST, "AreyouOK", 8);
}

TEST(test_empty_report)
{
    dumpulse agent = {{0}};
    uint8_t expected[DUMPULSE_REPORT_SIZE] = {0x01, 0x00, 0x00, 0x01}; /* 256 zeros: b 256, a 1 */
    int context;

    expect_report(&agent, &context);
    assert_int_equal(dumpulse_process_packet(&agent, REQUEST, 8, &context), DUMPULSE_REPORT);
    assert_memory_equal(sent, expected, sizeof sent);
    assert_memory_equal(agent.report, expected, sizeof sent);
}

TEST(test_full_report)
{
    dumpulse agent;

    memset(&agent, 0xFF, sizeof agent);
    expect_report(&agent, NULL);
    assert_int_equal(dumpulse_process_packet(&agent, REQUEST, 8, NULL), DUMPULSE_REPORT);
    /* a = 1 + 256 * 255, b = (256 + 255 * 256 * 257 / 2) % 65521 */
    assert_int_equal(sum_in(sent), 8388736UL % 65521UL << 16 | 65281UL);
    for (size_t i = 4; i < sizeof sent; i++)
        assert_int_equal(sent[i], 0xFF);
}

TEST(test_heartbeat)
{
    guarded space, expected;

    memset(&space, 0x5A, sizeof space);
    expected = space;
    memcpy(expected.agent.report + 4 + 4 * 3, "\x12\x34\x4c\x09", 4);
    expect_clock(0x1234);
    assert_int_equal(dumpulse_process_packet(&space.agent, HEARTBEAT, 8, NULL), DUMPULSE_HEARTBEAT);
    assert_memory_equal(&space, &expected, sizeof space);
}

TEST(test_every_variable)
{
    for (unsigned variable = 0; variable < 256; variable++) {
        uint8_t packet[DUMPULSE_PACKET_SIZE];
        guarded space, expected;

        memset(&space, 0xA5, sizeof space);
        expected = space;
        dumpulse_make_heartbeat(packet, (uint8_t)variable, 0x77, 0x88);
        if (variable < DUMPULSE_VARIABLES) {
            memcpy(expected.agent.report + 4 + 4 * variable, "\xfe\x01\x77\x88", 4);
            expect_clock(0xFE01);
        }
        assert_int_equal(dumpulse_process_packet(&space.agent, packet, 8, NULL),
                         variable < DUMPULSE_VARIABLES ? DUMPULSE_HEARTBEAT : DUMPULSE_REFUSED);
        assert_memory_equal(&space, &expected, sizeof space);
    }
}

/* The packet is refused, no hook is called, and no bit changes. */
static void assert_refused(const uint8_t *packet, size_t length)
{
    guarded space, expected;

    memset(&space, 0x3C, sizeof space);
    expected = space;
    assert_int_equal(dumpulse_process_packet(&space.agent, packet, length, NULL), DUMPULSE_REFUSED);
    assert_memory_equal(&space, &expected, sizeof space);
}

TEST(test_lengths)
{
    uint8_t long_packet[300] = {0};

    for (size_t length = 0; length <= sizeof long_packet; length++) {
        if (length == 8)
            continue;
        memcpy(long_packet, HEARTBEAT, 8);
        assert_refused(long_packet, length);
        memcpy(long_packet, REQUEST, 8);
        assert_refused(long_packet, length);
    }
    assert_refused(NULL, 0);
    assert_refused(HEARTBEAT, 256 + 8); /* 8 if the length is cut to one byte */
    assert_refused(HEARTBEAT, SIZE_MAX - 7);
    if (SIZE_MAX > 0xFFFF)
        assert_refused(HEARTBEAT, (size_t)UINT16_MAX + 1 + 8); /* 8 if it is cut to two bytes */
    if (SIZE_MAX > UINT32_MAX)
        assert_refused(HEARTBEAT, (size_t)((uint64_t)UINT32_MAX + 1 + 8));
}

TEST(test_changed_bytes)
{
    const uint8_t *const good[] = {HEARTBEAT, REQUEST};

    for (size_t which = 0; which < 2; which++)
        for (size_t at = 0; at < 8; at++)
            for (unsigned change = 1; change < 256; change++) {
                uint8_t packet[DUMPULSE_PACKET_SIZE];
                memcpy(packet, good[which], sizeof packet);
                packet[at] ^= (uint8_t)change;
                assert_refused(packet, sizeof packet);
            }
}

TEST(test_record)
{
    guarded space, expected;

    for (unsigned variable = 0; variable < 256; variable++) {
        const bool valid = variable < DUMPULSE_VARIABLES;
        memset(&space, 0xC3, sizeof space);
        expected = space;
        if (valid) {
            memcpy(expected.agent.report + 4 + 4 * variable, "\x01\x02\x03\x04", 4);
            expect_clock(0x0102);
        }
        assert_int_equal(dumpulse_record(&space.agent, (uint8_t)variable, 3, 4),
                         valid ? DUMPULSE_HEARTBEAT : DUMPULSE_REFUSED);
        assert_memory_equal(&space, &expected, sizeof space);
    }
}

/* When the clock is read, the entry has the new sender and value, and still the old time.
 * dumpulse.h promises this to the writer of the hook, for heartbeats and for dumpulse_record(). */
TEST(test_the_entry_while_the_clock_is_read)
{
    dumpulse agent, expected;
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    for (uint8_t variable = 0; variable < DUMPULSE_VARIABLES; variable++)
        for (int own = 0; own < 2; own++) {
            memset(&agent, 0x96, sizeof agent);
            expected = agent;
            memcpy(expected.report + 4 + 4 * (size_t)variable + 2, "\x77\x88", 2);
            dumpulse_make_heartbeat(packet, variable, 0x77, 0x88);
            expect_clock(0x1234);
            watched = &agent;
            if (own != 0)
                (void)dumpulse_record(&agent, variable, 0x77, 0x88);
            else
                (void)dumpulse_process_packet(&agent, packet, sizeof packet, NULL);
            watched = NULL;
            assert_memory_equal(&at_the_clock, &expected, sizeof expected);
        }
}

/* An agent stamps itself and reports. The clock is read before the report is sent, and the report
 * that is sent has the stamp and the right checksum. */
TEST(test_stamp_then_report)
{
    dumpulse agent = {{0}};

    expect_clock(0xABCD);
    expect_report(&agent, &agent);
    assert_int_equal(dumpulse_record(&agent, 63, 7, 1), DUMPULSE_HEARTBEAT);
    assert_int_equal(dumpulse_process_packet(&agent, REQUEST, 8, &agent), DUMPULSE_REPORT);
    assert_true(dumpulse_check_report(sent, sizeof sent));
    const dumpulse_entry entry = dumpulse_read_entry(sent, 63);
    assert_int_equal(entry.timestamp, 0xABCD);
    assert_int_equal(entry.sender, 7);
    assert_int_equal(entry.value, 1);
}

TEST(test_agents_are_independent)
{
    dumpulse first = {{0}}, second = {{0}};
    const dumpulse empty = {{0}};

    expect_clock(1);
    assert_int_equal(dumpulse_process_packet(&first, HEARTBEAT, 8, NULL), DUMPULSE_HEARTBEAT);
    assert_memory_equal(&second, &empty, sizeof empty);
}

TEST(test_make_heartbeat)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE + 2];

    memset(packet, 0x99, sizeof packet);
    dumpulse_make_heartbeat(packet + 1, 3, 76, 9);
    assert_memory_equal(packet + 1, HEARTBEAT, 8);
    assert_int_equal(packet[0], 0x99);
    assert_int_equal(packet[9], 0x99);
    dumpulse_make_heartbeat(packet, 255, 255, 255); /* the largest sums */
    assert_int_equal(sum_in(packet), 0x09c203efU);
}

TEST(test_check_report)
{
    dumpulse agent = {{0}};

    for (unsigned i = 0; i < 256; i++)
        agent.report[4 + i] = (uint8_t)(255 - i);
    assert_false(dumpulse_check_report(agent.report, sizeof agent.report));
    expect_report(&agent, NULL);
    (void)dumpulse_process_packet(&agent, REQUEST, 8, NULL);
    assert_true(dumpulse_check_report(agent.report, sizeof agent.report));
    for (size_t length = 0; length < sizeof agent.report; length++)
        assert_false(dumpulse_check_report(agent.report, length));
    assert_false(dumpulse_check_report(agent.report, sizeof agent.report + 1));
    assert_false(dumpulse_check_report(NULL, 0));
    for (size_t at = 0; at < sizeof agent.report; at++) {
        agent.report[at] ^= 0x10;
        assert_false(dumpulse_check_report(agent.report, sizeof agent.report));
        agent.report[at] ^= 0x10;
    }
}

TEST(test_read_entry)
{
    dumpulse report;

    for (unsigned i = 0; i < sizeof report.report; i++)
        report.report[i] = (uint8_t)(i * 7);
    for (unsigned variable = 0; variable < 256; variable++) {
        const dumpulse_entry entry = dumpulse_read_entry(report.report, (uint8_t)variable);
        const uint8_t *bytes = report.report + 4 + 4 * variable;
        const bool valid = variable < DUMPULSE_VARIABLES;
        assert_int_equal(entry.timestamp, valid ? bytes[0] * 256 + bytes[1] : 0);
        assert_int_equal(entry.sender, valid ? bytes[2] : 0);
        assert_int_equal(entry.value, valid ? bytes[3] : 0);
    }
}

int main(void)
{
    return run_units("unit");
}
