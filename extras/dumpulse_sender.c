/* Nodes of version 2 that only send. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

bool dumpulse_sender_begin(dumpulse_node *node, uint8_t variable)
{
    uint32_t own;

    node->left = 0;
    if (variable >= DUMPULSE_VARIABLES) {
        return false;
    }
    own = dumpulse_load(variable) + 1;
    node->epoch = own * 256U;
    /*@ assert own < 0x1000000 ==> node->epoch == 256 * own; */
    /*@ assert own == 0x1000000 ==> node->epoch == 0; */
    if (node->epoch < DUMPULSE_OWN_FIRST_ || !dumpulse_store(variable, own)) {
        return false;
    }
    node->twice = true;
    node->left = DUMPULSE_FULL_;
    return true;
}

bool dumpulse_sender_announce(const dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable)
{
    if (variable >= DUMPULSE_VARIABLES || node->left == 0) {
        return false;
    }
    dumpulse_write_(packet + 4, node->epoch / 256U);
    /*@ assert 0 <= three(packet + 5) < 0x1000000; */
    /*@ assert big(packet + 4) == 0x1000000 * packet[4] + three(packet + 5); */
    /*@ assert three(packet + 5) == node->epoch / 256; */
    packet[4] = (uint8_t)(DUMPULSE_IS_ANNOUNCE_ + variable);
    dumpulse_make_(packet, variable, 0);
    return true;
}
