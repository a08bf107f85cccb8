/* Gives the header's inline functions names that a test can call, on this machine and in a
 * simulator.   SPDX-License-Identifier: MIT */
#include "dumpulse.h"

dumpulse_result export_record(dumpulse *agent, uint8_t variable, uint8_t sender, uint8_t value);
void export_make_heartbeat(uint8_t *packet, uint8_t variable, uint8_t sender, uint8_t value);
bool export_check_report(const uint8_t *report, size_t length);
void export_read_entry(const uint8_t *report, uint8_t variable, uint8_t *entry);

dumpulse_result export_record(dumpulse *agent, uint8_t variable, uint8_t sender, uint8_t value)
{
    return dumpulse_record(agent, variable, sender, value);
}

void export_make_heartbeat(uint8_t *packet, uint8_t variable, uint8_t sender, uint8_t value)
{
    dumpulse_make_heartbeat(packet, variable, sender, value);
}

bool export_check_report(const uint8_t *report, size_t length)
{
    return dumpulse_check_report(report, length);
}

/* The entry as four bytes, with the high byte of the time first on every machine. */
void export_read_entry(const uint8_t *report, uint8_t variable, uint8_t *entry)
{
    const dumpulse_entry found = dumpulse_read_entry(report, variable);
    entry[0] = (uint8_t)(found.timestamp >> 8);
    entry[1] = (uint8_t)(found.timestamp & 0xFFU);
    entry[2] = found.sender;
    entry[3] = found.value;
}
