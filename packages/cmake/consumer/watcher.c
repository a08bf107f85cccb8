/* An agent that watches two of its variables.             SPDX-License-Identifier: MIT
 *
 * Each 8 bytes of the input are a packet. For each change of a state, a line goes to the output.
 */
#include <dumpulse_watch.h>
#include <stdio.h>

DUMPULSE_WATCH(watch, DUMPULSE_WATCHED(variable(3), silence(2), misses(2), grace(3), values(0, 99)),
               DUMPULSE_WATCHED(variable(5), silence(1), misses(1), grace(5), values(0, 255)));
static uint16_t packets; /* Number of packets received: the agent's clock. */

uint16_t dumpulse_get_timestamp(void)
{
    return packets;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context, (void)packet, (void)length; /* nobody reads its reports */
}

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    (void)context;
    printf("%u: from state %u to %u\n", (unsigned)variable, (unsigned)was, (unsigned)is);
}

int main(void)
{
    static dumpulse agent;
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    while (fread(packet, 1, sizeof packet, stdin) == sizeof packet) {
        packets++;
        dumpulse_process_packet(&agent, packet, sizeof packet, NULL);
        dumpulse_watch(&watch, &agent, packets);
    }
    return 0;
}
