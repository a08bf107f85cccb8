/* Scenes with agents and nodes of dumpulse_keyed.h, and an attacker between them.
 * SPDX-License-Identifier: MIT
 *
 *     scenes_keyed
 *
 * junk: 10 nodes that only send and 54 that hear send a heartbeat a second, each with a new value,
 * and somebody sends 5,000 guesses a second. 99 of 100 heartbeats must be recorded, and a node that
 * only sends must not be heard later than half as long again as without junk.
 *
 * insider: somebody has opened node 9, has its key, and is the network. He keeps what the others
 * send as long as he likes. None of it may be taken later than an epoch after it was made. It is
 * played again with nodes that hear beacons under his key, too. Then it must be later, as it was
 * when all had one key for beacons: or this scene would show nothing. */
#include "dumpulse_keyed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 64, ALONE = 10, LABELS = 65, OPENED = 9 };
enum { EPOCH = 10000, BEAT = 1000 };                /* milliseconds */
enum { MINUTES = 15, GUESSES = 5, ANNOUNCED = 16 }; /* guesses a millisecond */
enum { LOST = 1000, RESET = 8 };                    /* one packet in so many; one beat in so many */
enum { KEPT = 4096 };                               /* packets that the insider has */

typedef struct post {
    dumpulse_node node;
    uint8_t value;
    unsigned sent;  /* since its last announce */
    unsigned tries; /* heartbeats since its reset, until one is recorded; 0: one was */
} post;

/* What came of a scene. */
typedef struct outcome {
    unsigned beats, recorded, resets, tries, wrong;
} outcome;

static dumpulse_keyed keyed;
static dumpulse_alone alone[ALONE];
static post nodes[NODES];
static uint32_t numbers[2][LABELS + 1]; /* of the nodes; of the agent */
static unsigned side;                   /* whose numbers are used */
static unsigned now;                    /* milliseconds */
static bool insider, gullible;
static uint64_t state;
static struct {
    uint8_t packet[8];
    unsigned made;
} kept[KEPT];
static unsigned keeps;

static uint32_t chance(uint32_t in)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % in;
}

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    memset(key, 0x5A, 16);
    dumpulse_label_key(key, label, 0);
}

uint32_t dumpulse_load(uint8_t label)
{
    return numbers[side][label];
}

bool dumpulse_store(uint8_t label, uint32_t number)
{
    numbers[side][label] = number;
    return true;
}

uint16_t dumpulse_get_timestamp(void)
{
    return (uint16_t)(now / BEAT);
}

/* All nodes get each packet that may be a beacon. */
static void to_nodes(const uint8_t *packet)
{
    for (uint8_t i = insider ? 0 : ALONE; i != NODES; i++)
        if (!dumpulse_hear(&nodes[i].node, i, packet, 8) && gullible)
            dumpulse_hear(&nodes[i].node, OPENED, packet, 8);
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context;
    if (length == 8)
        to_nodes(packet);
}

static dumpulse_result give(const uint8_t *packet)
{
    side = 1;
    const dumpulse_result result =
        insider ? dumpulse_keyed_process(&keyed, packet, 8, NULL)
                : dumpulse_alone_process(&keyed, alone, ALONE, packet, 8, NULL);
    side = 0;
    return result;
}

static void begin(void)
{
    state = 88172645463325252U;
    memset(&keyed, 0, sizeof keyed);
    memset(nodes, 0, sizeof nodes);
    memset(numbers, 0, sizeof numbers);
    for (unsigned i = 0; i != ALONE; i++)
        numbers[0][i] = 0x800000;
    keeps = now = 0;
    side = 1;
    if (!(insider ? dumpulse_keyed_begin(&keyed, NULL)
                  : dumpulse_alone_begin(&keyed, alone, ALONE, NULL))) {
        printf("scenes: the agent does not begin\n");
        exit(1);
    }
    side = 0;
}

/* The label whose time has come begins its epoch. */
static void go_on(void)
{
    if (now * LABELS / EPOCH != (now + 1) * LABELS / EPOCH) {
        side = 1;
        dumpulse_keyed_next(&keyed, NULL);
        side = 0;
    }
}

/* ---- Junk. */

static void guess(void)
{
    static const uint8_t KINDS[] = {0x00, 0x20, 0x40, 0x80, 0x80, 0xC0};
    uint8_t packet[8];

    for (unsigned i = 0; i != 8; i++)
        packet[i] = (uint8_t)chance(256);
    packet[4] = KINDS[chance(sizeof KINDS)];
    if (packet[4] != 0xC0)
        packet[4] = (uint8_t)(packet[4] + chance(packet[4] < 0x40 ? 32 : NODES));
    if (packet[4] >= 0x40)
        packet[5] |= 0xC0; /* a count or an own epoch that is probably new */
    else
        to_nodes(packet);
    give(packet);
}

static void send(const uint8_t *packet)
{
    if (chance(LOST) != 0)
        give(packet);
}

/* A node that only sends makes its announce, if it is time, and each node its heartbeat. */
static void beat(uint8_t variable, outcome *out)
{
    post *it = &nodes[variable];
    const bool only_sends = variable < ALONE;
    uint8_t packet[8];

    if (only_sends && (chance(RESET) == 0 || it->node.left < 2)) {
        dumpulse_sender_begin(&it->node, variable);
        it->sent = 0;
        it->tries = 1;
        out->resets++;
    }
    if (only_sends && it->sent++ % ANNOUNCED == 0 &&
        dumpulse_sender_announce(&it->node, packet, variable))
        send(packet);
    it->value++;
    for (unsigned times = it->node.twice ? 2 : 1; times != 0; times--)
        if (dumpulse_keyed_heartbeat(&it->node, packet, variable, 1, it->value))
            send(packet);
    const dumpulse_entry entry = dumpulse_read_entry(keyed.agent.report, variable);
    const bool recorded = entry.value == it->value && entry.timestamp == dumpulse_get_timestamp();
    out->beats++;
    out->recorded += recorded;
    out->tries += it->tries != 0;
    it->tries = recorded ? 0 : it->tries;
}

static outcome beats(unsigned guesses)
{
    outcome out = {0, 0, 0, 0, 0};

    begin();
    for (; now != MINUTES * 60 * 1000; now++) {
        go_on();
        for (unsigned i = 0; i != guesses; i++)
            guess();
        if (now % BEAT < NODES)
            beat((uint8_t)(now % BEAT), &out);
    }
    return out;
}

static bool junk_silences_nobody(void)
{
    const outcome calm = beats(0), junk = beats(GUESSES);
    const double before = (double)calm.tries / calm.resets, then = (double)junk.tries / junk.resets;

    printf("scenes: %u junk packets a second: %.2f %% of %u heartbeats are recorded; without, %.2f "
           "%%\n"
           "        a node that was reset is heard with heartbeat %.2f on average; without, %.2f\n",
           GUESSES * 1000, 100.0 * junk.recorded / junk.beats, junk.beats,
           100.0 * calm.recorded / calm.beats, then, before);
    return junk.recorded * 100UL >= junk.beats * 99UL && then <= before * 1.5 && calm.resets > 100;
}

/* ---- An insider. */

/* Whatever the key of node 9 signs: beacons of times to come, and heartbeats of others. */
static void forge(void)
{
    const uint32_t epoch = keyed.epoch + chance(4);
    uint8_t packet[8];

    dumpulse_write_(packet + 4, epoch | (chance(2) << 29));
    dumpulse_make_(packet, OPENED, epoch);
    to_nodes(packet);
    packet[4] = (uint8_t)(0x80 + chance(NODES));
    packet[5] = 255;
    dumpulse_make_(packet, OPENED, epoch);
    if (packet[4] != 0x80 + OPENED)
        give(packet);
}

/* Returns how many milliseconds after it was made a heartbeat of another node was taken at most. */
static unsigned latest(void)
{
    unsigned longest = 0;

    begin();
    for (; now != MINUTES * 60 * 1000; now++) {
        go_on();
        if (now % BEAT < NODES && now % BEAT != OPENED) {
            const uint8_t variable = (uint8_t)(now % BEAT);
            if (dumpulse_keyed_heartbeat(&nodes[variable].node, kept[keeps % KEPT].packet, variable,
                                         1, (uint8_t)chance(256)))
                kept[keeps++ % KEPT].made = now;
        }
        if (now % 100 == 0)
            forge();
        if (keeps != 0) { /* one that he chooses, also of minutes ago */
            const unsigned at = chance(keeps < KEPT ? keeps : KEPT);
            if (give(kept[at].packet) == DUMPULSE_HEARTBEAT && now - kept[at].made > longest)
                longest = now - kept[at].made;
        }
        keyed.junk = keyed.wrong = 0; /* as if he had not guessed */
    }
    return longest;
}

static bool one_node_speaks_for_itself(void)
{
    insider = true;
    const unsigned with_own_keys = latest();
    gullible = true;
    const unsigned with_one_key = latest();

    printf(
        "scenes: with one node's key, a heartbeat of another is taken at most %u ms after it was\n"
        "        made; if all hear beacons under that key, %u ms\n",
        with_own_keys, with_one_key);
    return with_own_keys > 0 && with_own_keys <= EPOCH && with_one_key > 2 * EPOCH;
}

int main(void)
{
    const bool loud = junk_silences_nobody(), alone_is_alone = one_node_speaks_for_itself();

    printf("scenes: %d passed, %d failed\n", loud + alone_is_alone, 2 - loud - alone_is_alone);
    return !loud || !alone_is_alone;
}
