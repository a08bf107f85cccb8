/* Links between the agent, the nodes and the reader; see storm.h.   SPDX-License-Identifier: MIT */
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
