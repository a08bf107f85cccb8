/* Calls the library in any order, with any bytes, on any table. In this program Frama-C's Eva looks
 * for undefined behaviour; its method is another one than WP's.   SPDX-License-Identifier: MIT */
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
    /* If an argument is wrong, the index is out of range, which Eva reports. */
    (void)sender->report[packet == agent.report && length == 260 ? 259 : 260];
}

static void fill(uint8_t *destination, size_t count)
{
    for (size_t i = 0; i != count; i++)
        destination[i] = anything;
}

int main(void)
{
    fill(agent.report, sizeof agent.report);
    while (anything) {
        uint8_t packet[DUMPULSE_PACKET_SIZE]; /* it is never longer, even if the length says so */
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
