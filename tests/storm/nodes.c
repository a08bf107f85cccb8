/* The nodes and the reader, with the code of the library; see storm.h.
 * SPDX-License-Identifier: MIT */
#include "storm.h"

#include <string.h>

#include "server/keys_internal.h"

enum { FIRST_SERIAL = 256, READS_EVERY = 5 /* s */, FORGETS_AFTER = 30 };
/* The new key, and the one before. */
static const uint8_t MASTERS[2][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {1}};

/* The library's hook: of whoever acts, or else of the agent. */
void __real_dumpulse_get_key(uint8_t key[16], uint8_t label);
void __wrap_dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    if (world->key == NULL)
        __real_dumpulse_get_key(key, label);
    else
        memcpy(key, world->key, 16);
}

void nodes_make_key(uint8_t key[16], unsigned label, bool before, uint8_t generation)
{
    memcpy(key, MASTERS[before], sizeof MASTERS[before]);
    dumpulse_label_key(key, (uint8_t)label, generation);
}

/* ---- Nodes. */

struct made *nodes_find(unsigned node, uint32_t serial)
{
    struct made *const made = &world->nodes[node].made[serial % MADE];

    return made->serial == serial && serial != 0 ? made : NULL;
}

/* Makes the packet of this heartbeat. The storm has its own period, so each tick without a question
 * makes one. A question goes before it. */
static bool make(unsigned node, struct made *made)
{
    enum { UNITS = 64 }; /* Parts of a second. */
    struct node *const it = &world->nodes[node];
    const dumpulse_pace pace = {(uint16_t)(world->epoch * UNITS), 0, (uint8_t)node,
                                (uint8_t)(made->serial / 256)};
    const uint16_t now = (uint16_t)(world->now / (SECOND / UNITS));
    const uint8_t value = (uint8_t)made->serial;

    if (!world->keyed) {
        dumpulse_make_heartbeat(made->packet, pace.variable, pace.sender, value);
        return true;
    }
    while (dumpulse_node_tick(&it->keyed, &pace, now, value, made->packet)) {
        if (made->packet[5] != 0)
            return true;
        network_send(FIRST_NODE + node, AGENT, made->packet, sizeof made->packet);
    }
    return false;
}

static void ask(unsigned party, uint8_t label, uint64_t *asked_at)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    if (world->now - *asked_at < SECOND)
        return;
    *asked_at = world->now;
    dumpulse_ask(packet, label);
    network_send(party, AGENT, packet, sizeof packet);
}

static bool is_silent_for(uint64_t heard_at, uint64_t tenths)
{
    return world->now - heard_at > tenths * world->epoch * SECOND / 10;
}

static void beat_now(unsigned node)
{
    struct node *const it = &world->nodes[node];
    struct made *const made = &it->made[++it->serial % MADE];

    world->key = it->key;
    *made = (struct made){.serial = it->serial,
                          .generation = it->generations[it->before],
                          .before = it->before,
                          .made_at = world->now};
    if (make(node, made)) {
        made->epoch = it->keyed.epoch;
        made->count = made->packet[5];
        made->is_sent = true;
        network_send(FIRST_NODE + node, AGENT, made->packet, sizeof made->packet);
    }
    world_note(made->serial);
    world->key = NULL;
}

static void beat(unsigned node)
{
    world_plan(world->now + world->nodes[node].every, beat, node);
    if (world->nodes[node].runs)
        beat_now(node);
}

void nodes_start(unsigned node)
{
    struct node *const it = &world->nodes[node];

    it->runs = (world->smaller.nodes >> node & 1) == 0;
    memset(&it->keyed, 0, sizeof it->keyed);
}

static void give_key(unsigned node, bool before, uint8_t generation)
{
    struct node *const it = &world->nodes[node];

    it->before = before;
    it->generations[before] = generation;
    nodes_make_key(it->key, node, before, generation);
    nodes_start(node);
}

void nodes_renew(unsigned node)
{
    const struct node *const it = &world->nodes[node];

    give_key(node, it->before, (uint8_t)(it->generations[it->before] + 1));
}

/* Its last heartbeat may come when the agent has heard it with its next key. */
static void delay_last(unsigned node)
{
    const uint64_t delay = world->weather.delay;

    world->weather.delay = world->epoch * SECOND;
    if (world->nodes[node].runs)
        beat_now(node);
    world->weather.delay = delay;
}

void nodes_move(unsigned party)
{
    struct reader *const reader = &world->reader;

    if (party != READER) {
        delay_last(party - FIRST_NODE);
        give_key(party - FIRST_NODE, false, 0);
        return;
    }
    nodes_make_key(reader->key, DUMPULSE_READER_LABEL, false, 0);
    memset(&reader->keyed, 0, sizeof reader->keyed);
    reader->last_epoch = 0;
    reader->before = false;
}

static void take_beacon(unsigned node, const struct packet *packet)
{
    struct node *const it = &world->nodes[node];

    world->key = it->key;
    (void)dumpulse_hear(&it->keyed, (uint8_t)node, packet->bytes, packet->length);
    world->key = NULL;
    if (it->keyed.answered)
        beat_now(node);
}

/* ---- The reader. */

/* Sometimes from another address: whoever is not allowed there gets nothing. */
static void request(void)
{
    static const uint8_t plain[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    struct reader *const it = &world->reader;
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    /* On a bus, all that requests is one. */
    const unsigned from = machine_has_bus() || world_chance(16) != 0
                              ? (unsigned)READER
                              : FIRST_NODE + world_chance(NODES);
    if (!world->keyed) {
        network_send(from, AGENT, plain, sizeof plain);
        return;
    }
    it->nonce = world_chance(65536);
    const uint8_t nonce[2] = {(uint8_t)(it->nonce >> 8), (uint8_t)it->nonce};
    world->key = it->key;
    if (dumpulse_keyed_request(&it->keyed, packet, nonce)) {
        it->requested_at = world->now;
        network_send(from, AGENT, packet, sizeof packet);
    }
    world->key = NULL;
}

static void read_again(unsigned unused)
{
    struct reader *const it = &world->reader;

    world_plan(world->now + READS_EVERY * SECOND, read_again, unused);
    it->asks_again = 0;
    if (is_silent_for(it->heard_at, FORGETS_AFTER * 10))
        memset(&it->keyed, 0, sizeof it->keyed);
    if (world->keyed && (it->keyed.heard.left == 0 || is_silent_for(it->heard_at, 11)))
        ask(READER, DUMPULSE_READER_LABEL, &it->asked_at);
    else
        request();
}

static void take_report(const struct packet *packet)
{
    struct reader *const it = &world->reader;
    dumpulse_keyed_report report;
    const uint32_t epoch = it->keyed.epoch;

    if (!world->keyed) {
        if (!dumpulse_check_report(packet->bytes, packet->length))
            return;
    } else {
        memcpy(&report, packet->bytes, sizeof report);
        if (!dumpulse_keyed_check(&it->keyed, &report, packet->length) || epoch < it->last_epoch)
            return;
        it->last_epoch = epoch;
        it->heard_at = world->now;
    }
    it->believed_at = world->now;
    oracle_believed(packet->bytes, packet->length, it->requested_at);
}

static void read_packet(const struct packet *packet)
{
    struct reader *const it = &world->reader;

    world->key = it->key;
    const bool later =
        dumpulse_hear(&it->keyed.heard, DUMPULSE_READER_LABEL, packet->bytes, packet->length);
    if (!later)
        take_report(packet);
    world->key = NULL;
    if (!later)
        return;
    it->heard_at = world->now;
    if (it->asks_again++ < 2)
        request();
}

void nodes_take(unsigned party, const struct packet *packet)
{
    if (party == READER)
        read_packet(packet);
    else if (world->nodes[party - FIRST_NODE].runs && world->keyed)
        take_beacon(party - FIRST_NODE, packet);
}

void nodes_begin(void)
{
    for (unsigned node = 0; node < NODES; node++) {
        struct node *const it = &world->nodes[node];
        it->serial = FIRST_SERIAL - 1;
        give_key(node, world->two && world_chance(4) != 0, 0);
        it->every = world_between(SECOND / 2, 2 * SECOND);
        world_plan(world_between(0, 2 * SECOND), beat, node);
    }
    world->reader.before = world->two;
    nodes_make_key(world->reader.key, DUMPULSE_READER_LABEL, world->two, 0);
    world_plan(SECOND, read_again, 0);
}
