/* A year of 64 nodes and an agent with keys: is anybody locked out for longer than spec/keyed.md
 * says?   SPDX-License-Identifier: MIT
 *
 *     fleet_keyed [SEED]
 *
 * An epoch is a minute, and each node sends three heartbeats in it. Nodes 0 to 31 only send, and
 * announce with every 16th heartbeat. Packets are lost, and now and then the bus is down for
 * hours. Agent and nodes are reset at any moment, also while one of them writes a byte of a
 * number. Then that byte is anything. The tag is a quick one that protects nothing: this is not
 * about keys. It must be compiled with DUMPULSE_ALONE=32 and DUMPULSE_OWN_TAG. */
#ifndef DUMPULSE_ALONE
#define DUMPULSE_ALONE 32
#endif
#include "dumpulse_keyed.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 64, EPOCHS = 365 * 24 * 60, BEATS = 3, ANNOUNCED = 16, SLOTS = 12 };
/* One in so many: packets lost, beacons that a node does not hear, resets of a node in a heartbeat
 * and of the agent before one, bytes of a number at which the power fails, epochs when the bus
 * fails. */
enum { LOST = 50, UNHEARD = 20, NODE_RESET = 5000, AGENT_RESET = 100000, TORN = 500, DOWN = 20000 };

typedef struct post {
    dumpulse_node node;
    bool waits;       /* for power: it lost it while it stored a number */
    bool heard;       /* the beacon of this epoch */
    bool was_reset;   /* in this epoch */
    unsigned sent;    /* since the last announce */
    unsigned refused; /* in a row, of those that came to the agent */
    unsigned missed;  /* announces that were lost meanwhile */
    unsigned longest; /* what `refused` has been at most */
} post;

static dumpulse_keyed keyed;
static post nodes[NODES];
/* The EEPROMs of the nodes, and then those of the agent. The agent's block is its last one. */
static uint8_t eeproms[2 * NODES + 1][SLOTS];
static unsigned side; /* whose EEPROM is used: 0 nodes, NODES the agent */
static jmp_buf power_fails;
static uint64_t state;
static uint8_t beacon[8];
static uint32_t epoch; /* the agent's */
static unsigned down;  /* epochs that the bus will be down */
static unsigned long failures;

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint32_t chance(uint32_t in)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % in;
}

uint32_t dumpulse_tag_(const uint8_t *packet, uint8_t label, const uint8_t number[4],
                       uint8_t *report)
{
    if (report != NULL) /* there are no readers */
        report[4] = 0;
    return (number_at(packet + 4) * 0x9E3779B1U ^ number_at(number)) * 0x85EBCA77U +
           label * 0xC2B2AE3DU;
}

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    key[0] = label;
}

static uint8_t *eeprom_of(uint8_t label)
{
    return label == DUMPULSE_BEACON_LABEL ? eeproms[2 * NODES] : eeproms[side + label];
}

void dumpulse_load(uint8_t label, uint8_t number[3])
{
    dumpulse_slots_read(eeprom_of(label), number);
}

bool dumpulse_store(uint8_t label, const uint8_t number[3])
{
    uint8_t slot[DUMPULSE_SLOT_SIZE], *memory = eeprom_of(label);
    uint8_t *to = memory + dumpulse_slots_write(memory, slot, number);

    for (unsigned i = 0; i != DUMPULSE_SLOT_SIZE; i++) {
        if (chance(TORN) == 0) {
            to[i] = (uint8_t)chance(256);
            longjmp(power_fails, 1);
        }
        to[i] = slot[i];
    }
    return true;
}

uint16_t dumpulse_get_timestamp(void)
{
    return 1;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    if (length == 8)
        for (unsigned i = 0; i != 8; i++)
            beacon[i] = packet[i];
}

static void fail(const char *what)
{
    if (failures++ < 10)
        printf("fleet: %s\n", what);
}

/* A beacon was sent. */
static void epoch_begins(bool after_reset)
{
    const uint32_t now = number_at(beacon + 4);

    if (now <= epoch)
        fail("an epoch comes again");
    epoch = now;
    for (unsigned i = 0; i != NODES; i++) {
        nodes[i].was_reset = false;
        nodes[i].heard = i >= DUMPULSE_ALONE && down == 0 && chance(UNHEARD) != 0 &&
                         dumpulse_hear(&nodes[i].node, beacon, 8);
        if (after_reset) /* from now on, the rest of its count may be refused */
            nodes[i].refused = nodes[i].missed = 0;
    }
}

static void reset_agent(void)
{
    static const dumpulse_keyed ZEROS;
    volatile unsigned tries = 0;

    setjmp(power_fails);
    keyed = ZEROS;
    side = NODES;
    if (tries++ == 1000 || !dumpulse_keyed_begin(&keyed, NULL)) {
        fail("the agent does not begin");
        exit(1);
    }
    epoch_begins(true);
}

static void tick(void)
{
    if (setjmp(power_fails) != 0) {
        reset_agent();
        return;
    }
    side = NODES;
    if (!dumpulse_keyed_tick(&keyed, NULL))
        fail("no epoch begins");
    epoch_begins(false);
}

/* Takes the next own epoch. The power may fail meanwhile. */
static void renew(post *it, uint8_t variable)
{
    static const dumpulse_node ZEROS;

    it->waits = true;
    if (setjmp(power_fails) != 0) {
        it->node = ZEROS;
        return;
    }
    side = 0;
    if (!dumpulse_sender_begin(&it->node, variable))
        fail("a node has no number");
    it->waits = false;
    it->sent = 0;
}

static void give(const uint8_t packet[8], dumpulse_result *result)
{
    if (setjmp(power_fails) != 0) {
        reset_agent();
        *result = DUMPULSE_REFUSED;
        return;
    }
    side = NODES;
    *result = dumpulse_keyed_process(&keyed, packet, 8, NULL);
}

static void count(post *it, bool taken)
{
    it->refused = taken ? 0 : it->refused + 1;
    if (taken)
        it->missed = 0;
    if (it->refused > it->longest)
        it->longest = it->refused;
}

/* A node sends, and the agent gets it or not. */
static void beat(uint8_t variable)
{
    static const dumpulse_node ZEROS;
    post *it = &nodes[variable];
    const bool sends_only = variable < DUMPULSE_ALONE;
    dumpulse_result result;
    uint8_t packet[8];

    if (chance(NODE_RESET) == 0) {
        it->node = ZEROS;
        it->was_reset = true;
        it->heard = false;
    }
    if (sends_only && (it->waits || it->node.left == 0))
        renew(it, variable);
    if (it->waits)
        return;
    if (sends_only && it->sent++ % ANNOUNCED == 0) {
        dumpulse_sender_announce(&it->node, packet, variable);
        if (down != 0 || chance(LOST) == 0)
            it->missed++;
        else
            give(packet, &result);
    }
    if (!dumpulse_keyed_heartbeat(&it->node, packet, variable, 1, 2) || down != 0 ||
        chance(LOST) == 0)
        return;
    give(packet, &result);
    const bool taken = result == DUMPULSE_HEARTBEAT;
    if (sends_only) {
        count(it, taken);
        if (it->refused > 256U + ANNOUNCED * (it->missed + 1U))
            fail("a node that only sends is locked out");
    } else if (it->heard && !it->was_reset) {
        count(it, taken);
        if (!taken)
            fail("a node that has heard this epoch's beacon is refused");
    }
}

int main(int argc, char **argv)
{
    unsigned resets = 0, longest = 0;

    state = 88172645463325252U + (argc > 1 ? strtoul(argv[1], NULL, 10) : 0);
    for (unsigned i = 0; i != 2 * NODES + 1; i++) {
        const uint8_t first[3] = {i < DUMPULSE_ALONE ? 0x80 : 0, 0, 0};
        uint8_t slot[DUMPULSE_SLOT_SIZE];
        dumpulse_slots_write(eeproms[i], slot, first);
        for (unsigned k = 0; k != SLOTS; k++)
            eeproms[i][k] = k < DUMPULSE_SLOT_SIZE ? slot[k] : 0xFF;
    }
    reset_agent();
    for (unsigned turn = 0; turn != EPOCHS; turn++) {
        if (turn != 0)
            tick();
        if (down != 0)
            down--;
        else if (chance(DOWN) == 0)
            down = chance(600);
        const unsigned when = chance(AGENT_RESET); /* of this epoch's heartbeats, if it is one */
        for (unsigned i = 0; i != NODES * BEATS; i++) {
            if (i == when) {
                reset_agent();
                resets++;
            }
            beat((uint8_t)(i % NODES));
        }
    }
    for (unsigned i = 0; i != DUMPULSE_ALONE; i++)
        longest = nodes[i].longest > longest ? nodes[i].longest : longest;
    printf("fleet: %d epochs, %u resets of the agent, at most %u heartbeats refused in a row: "
           "%lu failures\n",
           EPOCHS, resets, longest, failures);
    return failures != 0;
}
