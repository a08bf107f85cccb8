/* Nodes of version 2. dumpulse_keyed.h is the manual.   SPDX-License-Identifier: MIT */
#include "dumpulse_keyed.h"

enum { FORGET = 60 }; /* questions without an answer, of which an epoch has two */

bool dumpulse_hear(dumpulse_node *node, uint8_t label, const uint8_t *packet, size_t length)
{
    uint32_t epoch;

    if (length != DUMPULSE_PACKET_SIZE || packet[4] >= DUMPULSE_BEACON_END_) {
        return false;
    }
    epoch = dumpulse_read_(packet + 4);
    if (epoch < node->epoch || !dumpulse_right_(packet, label, epoch)) {
        return false;
    }
    node->heard = true;
    if (epoch == node->epoch) {
        return false;
    }
    node->answered = node->questions;
    node->epoch = epoch;
    node->left = DUMPULSE_FULL_;
    return true;
}

void dumpulse_count_(dumpulse_node *node, uint8_t *packet, uint8_t label, uint8_t first,
                     uint8_t second)
{
    packet[4] = (uint8_t)(DUMPULSE_IS_HEARTBEAT_ + label);
    packet[5] = (uint8_t)(DUMPULSE_FULL_ + 1U - node->left);
    packet[6] = first;
    packet[7] = second;
    node->left--;
    dumpulse_make_(packet, label, node->epoch);
}

bool dumpulse_keyed_heartbeat(dumpulse_node *node, uint8_t packet[DUMPULSE_PACKET_SIZE],
                              uint8_t variable, uint8_t sender, uint8_t value)
{
    if (variable >= DUMPULSE_VARIABLES || node->left == 0) {
        return false;
    }
    dumpulse_count_(node, packet, variable, sender, value);
    return true;
}

void dumpulse_ask(uint8_t packet[DUMPULSE_PACKET_SIZE], uint8_t label)
{
    uint_fast8_t i;

    /*@ loop invariant 0 <= i <= 8;
        loop invariant \forall integer k; 0 <= k < i ==> packet[k] == 0;
        loop assigns i, packet[0 .. 7];
        loop variant 8 - i; */
    for (i = 0; i != DUMPULSE_PACKET_SIZE; i++) {
        packet[i] = 0;
    }
    packet[4] = (uint8_t)(DUMPULSE_IS_HEARTBEAT_ + label);
}

bool dumpulse_node_tick(dumpulse_node *node, const dumpulse_pace *pace, uint16_t now, uint8_t value,
                        uint8_t packet[DUMPULSE_PACKET_SIZE])
{
    uint16_t patience = pace->epoch / 2U;

    if (node->heard) {
        node->heard = false;
        node->questions = node->left == 0; /* a beacon of the same epoch brings no new counts */
        node->waits_since = now;
    }
    if (node->questions == 0) {
        patience = node->left == 0 ? 0 : (uint16_t)(pace->epoch + patience / 2U);
    }
    if ((uint16_t)(now - node->waits_since) >= patience) {
        node->waits_since = now;
        if (++node->questions == FORGET) {
            node->epoch = 0;
            node->left = 0;
        }
        dumpulse_ask(packet, pace->variable);
        return true;
    }
    if (!node->answered && (uint16_t)(now - node->beat_at) < pace->period) {
        return false;
    }
    node->answered = false;
    node->beat_at = now;
    return dumpulse_keyed_heartbeat(node, packet, pace->variable, pace->sender, value);
}
