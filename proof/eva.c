/* Any sequence of calls, with any bytes, on any table: for Frama-C's Eva, which works by
 * another method than WP, to look for undefined behaviour in.   SPDX-License-Identifier: MIT */
#include "dumpulse.c"

static dumpulse agent;
static uint8_t bytes[DUMPULSE_REPORT_SIZE];
static volatile uint8_t anything;
static volatile uint16_t any_time;
static volatile size_t any_length;

uint16_t dumpulse_get_timestamp(void)
{
    return any_time;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const dumpulse *sender = context;
    /* An index that is out of range where something is wrong. */
    (void)sender->report[packet == agent.report && length == 260 ? 259 : 260];
}

static void fill(uint8_t *place, size_t count)
{
    for (size_t i = 0; i != count; i++)
        place[i] = anything;
}

int main(void)
{
    fill(agent.report, sizeof agent.report);
    while (anything) {
        uint8_t packet[DUMPULSE_PACKET_SIZE]; /* and not a byte more, whatever the length says */
        fill(packet, sizeof packet);
        dumpulse_process_packet(&agent, packet, any_length, &agent);
        dumpulse_record(&agent, anything, anything, anything);
        dumpulse_make_heartbeat(packet, anything, anything, anything);
        fill(bytes, sizeof bytes);
        dumpulse_check_report(bytes, any_length);
        dumpulse_read_entry(bytes, anything);
    }
    return 0;
}
