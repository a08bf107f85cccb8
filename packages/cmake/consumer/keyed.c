/* An agent with keys, for up to 8 nodes that only send.   SPDX-License-Identifier: MIT
 *
 * Each 8 bytes of the input are a packet. For each, a line with its result goes to the output; and
 * also each packet that the agent sends. It is only an example: its key is known to everybody, and
 * it keeps no number over a reset.
 */
#include <dumpulse_keyed.h>
#include <stdio.h>
#include <string.h>

static dumpulse_keyed keyed;

uint16_t dumpulse_get_timestamp(void)
{
    return 0;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    while (length-- != 0) {
        printf("%02x", *packet++);
    }
    printf("\n");
}

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    uint8_t i;

    (void)label;
    for (i = 0; i != 16; i++) {
        key[i] = i;
    }
}

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    (void)label;
    memset(number, 0, 3);
}

bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    (void)label, (void)number;
    return true;
}

int main(void)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    if (!dumpulse_keyed_begin(&keyed, NULL)) {
        return 1;
    }
    while (fread(packet, sizeof packet, 1, stdin) == 1) {
        printf("%d\n", dumpulse_keyed_process(&keyed, packet, sizeof packet, NULL));
    }
    return 0;
}
