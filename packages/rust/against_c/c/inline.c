/* The header's inline functions as functions that Rust can call, and hooks as a firmware has them.
 * SPDX-License-Identifier: MIT */
#include "dumpulse.h"

static uint16_t now;
static unsigned times, sends;

uint16_t dumpulse_get_timestamp(void)
{
    times++;
    return now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)packet;
    if (context == &now && length == DUMPULSE_REPORT_SIZE)
        sends++;
}

/* Returns what became of the packet, and the calls of the clock and of the send hook. */
uint32_t c_process(dumpulse *agent, const uint8_t *packet, size_t length, uint16_t when)
{
    now = when;
    times = sends = 0;
    const uint32_t result = dumpulse_process_packet(agent, packet, length, &now);
    return result << 16 | times << 8 | sends;
}

void c_make_heartbeat(uint8_t *packet, uint8_t variable, uint8_t sender, uint8_t value)
{
    dumpulse_make_heartbeat(packet, variable, sender, value);
}

uint8_t c_check_report(const uint8_t *report, size_t length)
{
    return dumpulse_check_report(report, length);
}

uint32_t c_read_entry(const uint8_t *report, uint8_t variable)
{
    const dumpulse_entry entry = dumpulse_read_entry(report, variable);
    return (uint32_t)entry.timestamp << 16 | (uint32_t)entry.sender << 8 | entry.value;
}
