/* How often does a blind forgery succeed?   SPDX-License-Identifier: MIT
 *
 * A tag of 32 bits is right once in 2^32 guesses, which is too seldom to count. So the forger gets
 * three bytes of each tag, or seven of a report's, and guesses one: it must be right once in 256,
 * whichever byte it is. Then each bit and each two bits of right packets are flipped.
 *
 *     build/forgery [SEED]     a seed of 64 bits, not 0 */
#include "dumpulse_keyed.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dumpulse_keyed keyed;
static dumpulse_node node;
static dumpulse_reader reader;
static dumpulse_keyed_report report;
static uint64_t chance;

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    (void)label;
    memset(key, 0x5A, 16);
}

uint32_t dumpulse_load(uint8_t label)
{
    (void)label;
    return 0;
}

bool dumpulse_store(uint8_t label, uint32_t number)
{
    (void)label;
    (void)number;
    return true;
}

uint16_t dumpulse_get_timestamp(void)
{
    return 1;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    if (context != NULL) {
        memcpy(context, packet, length);
    }
}

static uint8_t byte(void)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (uint8_t)(chance >> 56);
}

/* An agent for which no count is used. */
static dumpulse_result process(const uint8_t *packet)
{
    memset(keyed.last, 0, sizeof keyed.last);
    return dumpulse_keyed_process(&keyed, packet, 8, &report);
}

/* Each kind makes what it says, without a tag that is right, gives it to its role, and says whether
 * it was taken. Byte `at` is guessed; all others are right. */

static bool heartbeat(unsigned at)
{
    uint8_t packet[8] = {0, 0, 0, 0, (uint8_t)(0x80 + byte() % 64), 1, byte(), byte()};

    dumpulse_make_(packet, packet[4] % 64, keyed.epoch);
    packet[at] = byte();
    return process(packet) == DUMPULSE_HEARTBEAT;
}

static bool request(unsigned at)
{
    uint8_t packet[8] = {0, 0, 0, 0, 0xC0, 1, byte(), byte()};

    dumpulse_make_(packet, DUMPULSE_READER_LABEL, keyed.epoch);
    packet[at] = byte();
    return process(packet) == DUMPULSE_REPORT;
}

static bool beacon(unsigned at)
{
    const uint8_t label = byte() % 65;
    uint8_t packet[8] = {0, 0, 0, 0, byte() % 32, byte(), byte(), 1};

    memset(&node, 0, sizeof node);
    dumpulse_make_(packet, label, dumpulse_read_(packet + 4));
    packet[at] = byte();
    return dumpulse_hear(&node, label, packet, 8);
}

static bool whole_report(unsigned at)
{
    const uint8_t nonce[2] = {byte(), byte()};
    uint8_t packet[8];

    reader.heard.epoch = keyed.epoch;
    reader.heard.left = 255;
    keyed.agent.report[byte() + 4U] = byte();
    if (!dumpulse_keyed_request(&reader, packet, nonce) || process(packet) != DUMPULSE_REPORT) {
        printf("forgery: a right request was refused\n");
        exit(1);
    }
    ((uint8_t *)&report)[at] = byte();
    return dumpulse_keyed_check(&reader, &report, sizeof report);
}

static const struct {
    const char *name;
    bool (*is_taken)(unsigned at);
    unsigned bytes, guesses; /* for each byte */
} kinds[] = {
    {"heartbeats", heartbeat, 4, 100000},
    {"requests", request, 4, 20000},
    {"beacons", beacon, 4, 100000},
    {"reports", whole_report, 8, 10000},
};

/* Returns how many packets were taken that differ from a right heartbeat in one or two bits. */
static unsigned flipped(void)
{
    unsigned taken = 0;

    for (unsigned first = 0; first != 64; first++) {
        for (unsigned second = first; second != 64; second++) {
            uint8_t packet[8] = {0, 0, 0, 0, 0x8B, 1, byte(), byte()};
            dumpulse_make_(packet, 11, keyed.epoch);
            packet[first / 8] ^= (uint8_t)(1U << first % 8);
            if (second != first) {
                packet[second / 8] ^= (uint8_t)(1U << second % 8);
            }
            const dumpulse_result what = process(packet);
            taken += what == DUMPULSE_HEARTBEAT || what == DUMPULSE_REPORT;
        }
    }
    return taken;
}

/* Returns how many packets were taken that are of no kind that an agent takes, each with the tag
 * that it would have by the key of each label. */
static unsigned of_no_kind(void)
{
    unsigned taken = 0;

    for (unsigned kind = 0; kind != 256; kind++) {
        if (kind >= 0x80 && kind <= 0xC0) {
            continue;
        }
        for (uint8_t label = 0; label <= DUMPULSE_READER_LABEL; label++) {
            uint8_t packet[8] = {0, 0, 0, 0, (uint8_t)kind, 0xFF, byte(), byte()};
            dumpulse_make_(packet, label, keyed.epoch);
            taken += process(packet) != DUMPULSE_REFUSED;
            dumpulse_make_(packet, label, 0);
            taken += process(packet) != DUMPULSE_REFUSED;
        }
    }
    return taken;
}

int main(int count, char **arguments)
{
    const uint64_t seed = count > 1 ? strtoull(arguments[1], NULL, 0) : 20261122;
    unsigned wrong = 0;

    chance = seed;
    if (!dumpulse_keyed_begin(&keyed, NULL)) {
        return 1;
    }
    for (size_t i = 0; i != sizeof kinds / sizeof *kinds; i++) {
        for (unsigned at = 0; at != kinds[i].bytes; at++) {
            const double expected = kinds[i].guesses / 256.0;
            unsigned taken = 0;
            for (unsigned guess = 0; guess != kinds[i].guesses; guess++) {
                taken += kinds[i].is_taken(at);
            }
            if (fabs(taken - expected) > 5 * sqrt(expected)) { /* chance: once in a million */
                printf("forgery: byte %u of %s: %u of %u guesses taken, expected %.0f\n", at,
                       kinds[i].name, taken, kinds[i].guesses, expected);
                wrong++;
            }
        }
    }
    const unsigned flips = flipped(), others = of_no_kind();
    printf("forgery: each byte of a tag is guessed right once in 256, in %u of 20 cases; "
           "one or two bits flipped: %u of 2080 taken; of no kind: %u of 24830 taken\n",
           20 - wrong, flips, others);
    if (wrong + flips + others != 0) {
        printf("forgery: build/forgery %" PRIu64 " replays this\n", seed);
    }
    return wrong + flips + others != 0;
}
