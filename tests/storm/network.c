/* Links between the agent, the nodes and the reader, and an attacker; see storm.h.
 * SPDX-License-Identifier: MIT */
#include "storm.h"

#include <string.h>

static bool happens(uint32_t one_in)
{
    return one_in != 0 && world_chance(one_in) == 0;
}

static void arrive(unsigned at)
{
    struct packet *const packet = &world->packets[at];

    packet->used = false;
    if (world->weather.cut[packet->from] || world->weather.cut[packet->to])
        return;
    if (packet->to == AGENT)
        machine_deliver(packet);
    else
        nodes_take(packet->to, packet);
}

static void carry(const struct packet *packet)
{
    const uint64_t delay = MS / 10 + world_between(0, world->weather.delay);

    for (unsigned tries = 0; tries < PACKETS; tries++) {
        const unsigned at = world->next_packet++ % PACKETS;
        if (world->packets[at].used)
            continue;
        world->packets[at] = *packet;
        world->packets[at].used = true;
        world->packets[at].held = world->weather.held[packet->from];
        if (!world->packets[at].held)
            world_plan(world->now + delay, arrive, at);
        return;
    }
}

/* A damaged packet has one wrong bit, which a checksum and a tag always find. */
void network_send(unsigned from, unsigned to, const uint8_t *bytes, size_t length)
{
    struct packet packet = {.length = (uint16_t)length, .from = (uint8_t)from, .to = (uint8_t)to};

    memcpy(packet.bytes, bytes, length);
    attacker_record(&packet);
    if (happens(world->weather.lost))
        return;
    if (happens(world->weather.damaged)) {
        const uint32_t bit = world_chance((uint32_t)length * 8);
        packet.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    carry(&packet);
    if (happens(world->weather.doubled))
        carry(&packet);
}

void network_release(unsigned party)
{
    if (!world->weather.held[party])
        return;
    world->weather.held[party] = false;
    for (unsigned i = 0; i < PACKETS; i++)
        if (world->packets[i].used && world->packets[i].held && world->packets[i].from == party) {
            world->packets[i].held = false;
            world_plan(world->now + world_between(0, SECOND), arrive, i);
        }
}

/* ---- The attacker. */

void attacker_record(const struct packet *packet)
{
    world->recorded[world->records++ % RECORDED] = *packet;
}

static unsigned random_node(void)
{
    return FIRST_NODE + world_chance(NODES);
}

/* Some come to the agent with a byte too many or too few. A frame has at most eight. */
static size_t length_of(const struct packet *packet, unsigned at)
{
    if (packet->to != AGENT || packet->length != DUMPULSE_PACKET_SIZE || at % 8 != 0)
        return packet->length;
    return at % 16 == 0 && !machine_has_bus() ? packet->length + 1U : packet->length - 1U;
}

/* Some from here and there, or in their order. */
void attacker_replay(unsigned packets)
{
    const unsigned kept = world->records < RECORDED ? world->records : RECORDED;
    const bool in_order = world_chance(2) == 0;
    unsigned at = kept == 0 ? 0 : world_chance(kept);

    for (; packets != 0 && kept != 0; packets--) {
        at = in_order ? (at + 1) % kept : world_chance(kept);
        const struct packet packet = world->recorded[at];
        network_send(packet.from, packet.to, packet.bytes, length_of(&packet, at));
    }
}

/* All but its tag is as it should be. */
static void make_junk(uint8_t packet[DUMPULSE_PACKET_SIZE])
{
    static const uint8_t kinds[] = {0x00, 0x80, 0x80, 0xC0};

    for (unsigned i = 0; i < DUMPULSE_PACKET_SIZE; i++)
        packet[i] = (uint8_t)world_chance(256);
    packet[4] = kinds[world_chance(sizeof kinds)];
    if (packet[4] != 0xC0)
        packet[4] = (uint8_t)(packet[4] + world_chance(packet[4] == 0 ? 32 : NODES));
}

void attacker_send_junk(unsigned packets)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    for (; packets != 0; packets--) {
        make_junk(packet);
        const unsigned from = random_node(); /* compilers may exchange two draws of one call */
        const unsigned to = packet[4] < DUMPULSE_BEACON_END_ ? random_node() : AGENT;
        network_send(from, to, packet, world_chance(8) == 0 ? 1 + world_chance(7) : sizeof packet);
    }
}

/* Requests, or questions, faster than any limit. */
void attacker_flood(unsigned party, unsigned packets)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    memcpy(packet, request, sizeof packet);
    if (world->keyed)
        dumpulse_ask(packet,
                     party == READER ? DUMPULSE_READER_LABEL : (uint8_t)(party - FIRST_NODE));
    for (; packets != 0; packets--)
        network_send(party, AGENT, packet, sizeof packet);
}

/* It signs beacons of epochs to come for all nodes, and heartbeats of all. What is of the opened
 * node itself is not sent: nobody could tell it from what the node makes. */
void attacker_forge(unsigned node, unsigned packets)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    for (; packets != 0; packets--) {
        const unsigned other = (node + 1 + world_chance(NODES - 1)) % NODES;
        const uint32_t epoch = world->truth.epoch[world->nodes[node].before] + world_chance(3);
        const bool is_beacon = world_chance(2) == 0;
        make_junk(packet);
        if (is_beacon)
            dumpulse_write_(packet + 4, epoch);
        else
            packet[4] = (uint8_t)(DUMPULSE_IS_HEARTBEAT_ + other);
        world->key = world->nodes[node].key;
        dumpulse_make_(packet, (uint8_t)node, epoch);
        world->key = NULL;
        network_send(FIRST_NODE + node, is_beacon ? FIRST_NODE + other : AGENT, packet,
                     sizeof packet);
    }
}
