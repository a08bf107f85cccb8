/* A node with keys.                                        SPDX-License-Identifier: MIT
 *
 *     keyed VARIABLE SENDER VALUE   takes a beacon from the input, and writes a heartbeat to the
 *                                   output; without a beacon, it writes a question for one
 *
 * It is only an example: its key is known to everybody.
 */
#include <dumpulse_keyed.h>
#include <stdio.h>
#include <stdlib.h>

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    for (uint8_t i = 0; i != 16; i++) {
        key[i] = i; /* the master key, of which only the agent should know */
    }
    dumpulse_label_key(key, label, 0);
}

static uint8_t byte(const char *text)
{
    return (uint8_t)strtoul(text, NULL, 10);
}

int main(int count, char **words)
{
    static dumpulse_node node;
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    if (count != 4) {
        fputs("keyed: give VARIABLE SENDER VALUE\n", stderr);
        return 1;
    }
    if (!dumpulse_hear(&node, byte(words[1]), packet, fread(packet, 1, sizeof packet, stdin)) ||
        !dumpulse_keyed_heartbeat(&node, packet, byte(words[1]), byte(words[2]), byte(words[3]))) {
        dumpulse_ask(packet, byte(words[1]));
    }
    return fwrite(packet, sizeof packet, 1, stdout) == 1 ? 0 : 1;
}
