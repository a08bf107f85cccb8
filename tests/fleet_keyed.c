/* A year of 64 nodes and an agent with keys: is anybody locked out for longer than spec/keyed.md
 * says?   SPDX-License-Identifier: MIT
 *
 *     fleet_keyed [SEED]
 *
 * An epoch is a minute, and each node sends three heartbeats in it. Nodes 0 to 31 only send, and
 * announce with every 16th heartbeat. Packets are lost, and now and then the bus is down for
 * hours. Agent and nodes are reset at any moment, also while one of them writes a byte of a
 * number. Then that byte is anything. The tag is a quick one that protects nothing: this is not
 * about keys. So it is linked without dumpulse_tag.c and dumpulse_report.c. */
#include "dumpulse_keyed.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 64, ALONE = 32, LABELS = 65 };
enum { EPOCHS = 365 * 24 * 60, BEATS = 3, ANNOUNCED = 16, SLOTS = 12 };
/* One in so many: packets lost, beacons that a node does not hear, resets of a node in a heartbeat
 * and of the agent before one, bytes of a number at which the power fails, epochs when the bus
 * fails. */
enum { LOST = 50, UNHEARD = 20, NODE_RESET = 5000, AGENT_RESET = 100000, TORN = 500, DOWN = 20000 };

typedef struct post {
    dumpulse_node node;
    bool waits;       /* for power: it lost it while it stored a number */
    bool heard;       /* the beacon of this epoch */
    bool was_reset;   /* in this epoch */
    bool has_come;    /* the last announce */
    unsigned sent;    /* since the last announce */
    unsigned refused; /* in a row, of those that came to the agent */
    unsigned missed;  /* announces that were lost meanwhile, or the heartbeat behind them */
    unsigned longest; /* what `refused` has been at most */
} post;

static dumpulse_keyed keyed;
static dumpulse_alone alone[ALONE];
static post nodes[NODES];
/* The EEPROMs of the nodes, and then those of the agent. The agent's block is its last one. */
static uint8_t eeproms[2 * NODES + 1][SLOTS];
static unsigned side; /* whose EEPROM is used: 0 nodes, NODES the agent */
static jmp_buf power_fails;
static uint64_t state;
static uint32_t epochs[LABELS]; /* of the last beacon of each label */
static uint8_t following;       /* the label of the next beacon */
static unsigned down;           /* epochs that the bus will be down */
static unsigned long failures;

static uint32_t chance(uint32_t in)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % in;
}

static uint32_t tag(const uint8_t *packet, uint8_t label, uint32_t number)
{
    return (dumpulse_read_(packet + 4) * 0x9E3779B1U ^ number) * 0x85EBCA77U + label * 0xC2B2AE3DU;
}

bool dumpulse_right_(const uint8_t *packet, uint8_t label, uint32_t number)
{
    return dumpulse_read_(packet) == tag(packet, label, number);
}

void dumpulse_make_(uint8_t *packet, uint8_t label, uint32_t number)
{
    dumpulse_write_(packet, tag(packet, label, number));
}

void dumpulse_report_tag_(const uint8_t *request, uint32_t number, uint8_t *report)
{
    (void)request; /* there are no readers */
    (void)number;
    report[0] = 0;
}

static uint8_t *eeprom_of(uint8_t label)
{
    return label == DUMPULSE_BLOCK ? eeproms[2 * NODES] : eeproms[side + label];
}

uint32_t dumpulse_load(uint8_t label)
{
    return dumpulse_slots_read(eeprom_of(label));
}

bool dumpulse_store(uint8_t label, uint32_t number)
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

static void fail(const char *what)
{
    if (failures++ < 10)
        printf("fleet: %s\n", what);
}

/* A beacon: its label is in the next epoch, and its node hears that, or does not. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const uint8_t label = following;
    post *it = &nodes[label];

    (void)context;
    if (length != 8)
        return;
    following = (uint8_t)((label + 1) % LABELS);
    const uint32_t now = dumpulse_read_(packet + 4) & 0x1FFFFFFFU;
    if (now <= epochs[label])
        fail("an epoch comes again");
    epochs[label] = now;
    if (label == DUMPULSE_READER_LABEL)
        return;
    it->was_reset = false;
    it->heard = label >= ALONE && down == 0 && chance(UNHEARD) != 0 &&
                dumpulse_hear(&it->node, label, packet, 8);
}

static void reset_agent(void)
{
    static const dumpulse_keyed ZEROS;
    volatile unsigned tries = 0;

    setjmp(power_fails);
    keyed = ZEROS;
    side = NODES;
    following = 0;
    if (tries++ == 1000 || !dumpulse_alone_begin(&keyed, alone, ALONE, NULL)) {
        fail("the agent does not begin");
        exit(1);
    }
    for (unsigned i = 0; i != NODES; i++) /* from now on, the rest of its count may be refused */
        nodes[i].refused = nodes[i].missed = 0;
}

static void next(void)
{
    if (setjmp(power_fails) != 0) {
        reset_agent();
        return;
    }
    side = NODES;
    if (!dumpulse_keyed_next(&keyed, NULL))
        fail("no epoch begins");
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
    *result = dumpulse_alone_process(&keyed, alone, ALONE, packet, 8, NULL);
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
    const bool sends_only = variable < ALONE;
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
        it->has_come =
            dumpulse_sender_announce(&it->node, packet, variable) && down == 0 && chance(LOST) != 0;
        if (it->has_come)
            give(packet, &result);
        else
            it->missed++;
    }
    if (!dumpulse_keyed_heartbeat(&it->node, packet, variable, 1, 2) || down != 0 ||
        chance(LOST) == 0) {
        it->missed += it->has_come; /* when the next one comes, it may not wait any more */
        it->has_come = false;
        return;
    }
    it->has_come = false;
    give(packet, &result);
    const bool taken = result == DUMPULSE_HEARTBEAT || result == DUMPULSE_FIRST;
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
        uint8_t slot[DUMPULSE_SLOT_SIZE];
        dumpulse_slots_write(eeproms[i], slot, i < ALONE ? 0x800000 : 0);
        for (unsigned k = 0; k != SLOTS; k++)
            eeproms[i][k] = k < DUMPULSE_SLOT_SIZE ? slot[k] : 0xFF;
    }
    reset_agent();
    for (unsigned turn = 0; turn != EPOCHS; turn++) {
        if (down != 0)
            down--;
        else if (chance(DOWN) == 0)
            down = chance(600);
        unsigned turned = 0;                       /* labels that have gone on */
        const unsigned when = chance(AGENT_RESET); /* of this epoch's heartbeats, if it is one */
        for (unsigned i = 0; i != NODES * BEATS; i++) {
            if (i == when) {
                reset_agent();
                resets++;
            }
            beat((uint8_t)(i % NODES));
            while (turned * NODES * BEATS <= i * LABELS) {
                next();
                turned++;
            }
        }
    }
    for (unsigned i = 0; i != ALONE; i++)
        longest = nodes[i].longest > longest ? nodes[i].longest : longest;
    printf("fleet: %d epochs, %u resets of the agent, at most %u heartbeats refused in a row: "
           "%lu failures\n",
           EPOCHS, resets, longest, failures);
    return failures != 0;
}
