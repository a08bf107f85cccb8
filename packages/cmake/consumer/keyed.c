/* A node with keys that only sends.                       SPDX-License-Identifier: MIT
 *
 *     keyed VARIABLE SENDER VALUE   writes an announce and a heartbeat to the output
 *
 * It is only an example: its key is known to everybody, and it keeps no number over a reset.
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

uint32_t dumpulse_load(uint8_t label)
{
    (void)label;
    return 0x800000; /* as before the first start */
}

bool dumpulse_store(uint8_t label, uint32_t number)
{
    (void)label, (void)number;
    return true;
}

static uint8_t byte(const char *text)
{
    return (uint8_t)strtoul(text, NULL, 10);
}

int main(int count, char **words)
{
    static dumpulse_node node;
    uint8_t packets[2][DUMPULSE_PACKET_SIZE];

    if (count != 4 || !dumpulse_sender_begin(&node, byte(words[1])) ||
        !dumpulse_sender_announce(&node, packets[0], byte(words[1])) ||
        !dumpulse_keyed_heartbeat(&node, packets[1], byte(words[1]), byte(words[2]),
                                  byte(words[3]))) {
        fputs("keyed: it cannot make these packets\n", stderr);
        return 1;
    }
    return fwrite(packets, sizeof packets, 1, stdout) == 1 ? 0 : 1;
}
