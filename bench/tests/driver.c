/* Gives the agent one packet of each kind, so that callgrind can count what each takes.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "dumpulse.h"

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

#define CASE(kind, bytes, length)                                                                  \
    __attribute__((noinline)) static void case_##kind(void)                                        \
    {                                                                                              \
        got = dumpulse_process_packet(&agent, bytes, length, NULL);                                \
    }
CASE(heartbeat, heartbeat, sizeof heartbeat)
CASE(report_of_zeros, other, sizeof other)
CASE(report_of_ff, other, sizeof other)
CASE(refused_length, heartbeat, sizeof heartbeat - 1)
CASE(refused_magic, other, sizeof other)
CASE(refused_sum, other, sizeof other)
CASE(refused_variable, other, sizeof other)

int main(void)
{
    case_report_of_zeros();
    memset(agent.report, 0xFF, sizeof agent.report);
    case_report_of_ff();
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
    return 0;
}
