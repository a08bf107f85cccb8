/* Calls each function of the library once, so that callgrind can count them.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "dumpulse.h"

#define CASE __attribute__((noinline)) static void

static dumpulse agent;
static uint8_t heartbeat[DUMPULSE_PACKET_SIZE], other[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
static volatile unsigned got; /* keeps every result needed */

__attribute__((noinline)) uint16_t dumpulse_get_timestamp(void)
{
    return (uint16_t)got;
}

__attribute__((noinline)) void dumpulse_send_packet(void *context, const uint8_t *packet,
                                                    size_t length)
{
    (void)context;
    got = packet[length - 1];
}

__attribute__((always_inline)) static inline void process(const uint8_t *bytes, size_t length)
{
    got = dumpulse_process_packet(&agent, bytes, length, NULL);
}

CASE case_heartbeat(void)
{
    process(heartbeat, sizeof heartbeat);
}

CASE case_report_of_zeros(void)
{
    process(other, sizeof other);
}

CASE case_report_of_ff(void)
{
    process(other, sizeof other);
}

CASE case_refused_length(void)
{
    process(heartbeat, sizeof heartbeat - 1);
}

CASE case_refused_magic(void)
{
    process(other, sizeof other);
}

CASE case_refused_sum(void)
{
    process(other, sizeof other);
}

CASE case_refused_variable(void)
{
    process(other, sizeof other);
}

/* These are inline: all of their cost is the case's own, with the call's. */
CASE case_record(void)
{
    got = dumpulse_record(&agent, (uint8_t)got, (uint8_t)got, (uint8_t)got);
}

CASE case_make_heartbeat(void)
{
    dumpulse_make_heartbeat(other, (uint8_t)got, (uint8_t)got, (uint8_t)got);
}

CASE case_check_report(void)
{
    got = dumpulse_check_report(agent.report, sizeof agent.report);
}

CASE case_read_entry(void)
{
    const dumpulse_entry entry = dumpulse_read_entry(agent.report, (uint8_t)got);
    got = entry.value;
}

int main(void)
{
    case_report_of_zeros();
    memset(agent.report, 0xFF, sizeof agent.report);
    case_report_of_ff();
    case_check_report();
    if (got != true)
        return 1;
    dumpulse_make_heartbeat(heartbeat, 3, 76, 9);
    case_heartbeat();
    if (got != DUMPULSE_HEARTBEAT)
        return 1;
    case_refused_length();
    dumpulse_make_heartbeat(other, 3, 76, 9);
    other[DUMPULSE_MAGIC_AT_] ^= 1U;
    case_refused_magic();
    dumpulse_make_heartbeat(other, 3, 76, 9);
    other[3] ^= 1U; /* the last byte of the checksum: found last */
    case_refused_sum();
    dumpulse_make_heartbeat(other, DUMPULSE_VARIABLES, 76, 9);
    case_refused_variable();
    if (got != DUMPULSE_REFUSED)
        return 1;
    got = 3;
    case_record();
    got = 3;
    case_make_heartbeat();
    got = 3;
    case_read_entry();
    return 0;
}
