/* An agent on standard input and output.                  SPDX-License-Identifier: MIT
 *
 * Each 8 bytes of the input are a packet. For each request, a report goes to the output.
 */
#include <dumpulse.h>
#include <stdio.h>

static uint16_t packets; /* Number of packets received: the agent's clock. */

uint16_t dumpulse_get_timestamp(void)
{
    return packets;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)fwrite(packet, 1, length, context);
}

int main(void)
{
    static dumpulse agent;
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    while (fread(packet, 1, sizeof packet, stdin) == sizeof packet) {
        packets++;
        dumpulse_process_packet(&agent, packet, sizeof packet, stdout);
    }
    return 0;
}
