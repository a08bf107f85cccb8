/* Counts which swapped, doubled and dropped bytes turn valid heartbeats into one that nobody sent.
 *                                                                           make figures ONLY=moved
 *
 * The receiver has no framing: it cuts a stream of heartbeats every 8 bytes. All heartbeats are
 * equally likely, and all 2^44 pairs are counted. When a byte is doubled, the last byte does not
 * fit into the first 8 any more. When one is dropped, the first byte of the next heartbeat is the
 * last of these 8. After that, each 8 bytes are the end of one heartbeat and the start of the next.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>

#include "heartbeats.h"

enum { ADLER32, CRC32, CODES };
enum { BYTES = DUMPULSE_PACKET_SIZE };

static uint64_t heartbeats[HEARTBEATS], forwards[HEARTBEATS], backwards[HEARTBEATS];

static uint64_t reversed(uint64_t packet)
{
    uint64_t result = 0;

    for (int i = 0; i < BYTES; i++, packet >>= 8)
        result = result << 8 | (packet & 0xFF);
    return result;
}

static int in_order(const void *left, const void *right)
{
    const uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;

    return (one > other) - (one < other);
}

/* The index of the first of the sorted packets that is not less than this one. */
static size_t first_from(const uint64_t *sorted, uint64_t packet)
{
    size_t low = 0, high = HEARTBEATS;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (sorted[middle] < packet)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* All sorted packets that start with the same bytes: from `first` to before `end`. */
typedef struct range {
    size_t first, end;
} range;

static range same_start(const uint64_t *sorted, uint64_t packet, unsigned bytes)
{
    const unsigned rest = 8 * (BYTES - bytes);
    const size_t first = first_from(sorted, packet >> rest << rest);
    range result = {first, first};

    while (result.end < HEARTBEATS && (sorted[result.end] ^ packet) >> rest == 0)
        result.end++;
    return result;
}

static uint64_t swapped(uint64_t packet, unsigned left, unsigned right)
{
    const unsigned up = 8 * (BYTES - 1 - left), down = 8 * (BYTES - 1 - right);
    const uint64_t difference = (packet >> up ^ packet >> down) & 0xFF;

    return packet ^ difference << up ^ difference << down;
}

static uint64_t swaps(unsigned left, unsigned right)
{
    uint64_t mistaken = 0;

    if (left >= right)
        return 0;
    for (size_t i = 0; i < HEARTBEATS; i++) {
        const uint64_t got = swapped(heartbeats[i], left, right);
        mistaken += got != heartbeats[i] && is_heartbeat(heartbeats, got);
    }
    return mistaken;
}

static uint64_t doubles(unsigned at, unsigned once)
{
    const uint64_t kept = ~(UINT64_MAX >> 8 * at >> 8); /* bytes 0 to at */
    uint64_t mistaken = 0;

    for (size_t i = 0; i < HEARTBEATS && once == 0; i++) {
        const uint64_t sent = heartbeats[i], got = (sent & kept) | (sent >> 8 & ~kept);
        mistaken += got != sent && is_heartbeat(heartbeats, got);
    }
    return mistaken;
}

static uint64_t drops(unsigned at, unsigned once)
{
    const uint64_t kept = ~(UINT64_MAX >> 8 * at); /* bytes 0 to at - 1 */
    uint64_t starts[256] = {0}, mistaken = 0;

    if (once != 0)
        return 0;
    for (size_t i = 0; i < HEARTBEATS; i++)
        starts[heartbeats[i] >> 56]++;
    for (size_t i = 0; i < HEARTBEATS; i++) {
        const uint64_t sent = heartbeats[i], got = (sent & kept) | (sent << 8 & ~kept);
        if ((got >> 24 & 0xFF) != DUMPULSE_MAGIC)
            continue;
        const range same = same_start(forwards, got, BYTES - 1);
        for (size_t j = same.first; j < same.end; j++)
            mistaken += forwards[j] != sent ? starts[forwards[j] & 0xFF] : 0;
    }
    return mistaken;
}

/* Counts what happens if a heartbeat without its first `lost` bytes is received, and then as many
 * bytes of the next one. */
static uint64_t straddles(unsigned lost, unsigned once)
{
    /* Where the magic number of one of the two heartbeats is. */
    const unsigned magic_at = lost <= 4 ? 4 - lost : 12 - lost;
    uint64_t mistaken = 0;

    for (size_t i = 0; i < HEARTBEATS && lost != 0 && once == 0; i++) {
        const uint64_t got = heartbeats[i];
        if ((got >> 8 * (BYTES - 1 - magic_at) & 0xFF) != DUMPULSE_MAGIC)
            continue;
        const uint64_t end = got >> 8 * lost;             /* the end of one heartbeat, */
        const uint64_t start = got << 8 * (BYTES - lost); /* and the start of the other one */
        const range ones = same_start(backwards, reversed(end), BYTES - lost);
        const range others = same_start(forwards, start, lost);
        /* Pairs in which one of the two is the heartbeat that is received do not count. */
        const bool is_one = (got ^ end) << 8 * lost == 0;
        const bool is_other = (got ^ start) >> 8 * (BYTES - lost) == 0;
        mistaken += (ones.end - ones.first - is_one) * (others.end - others.first - is_other);
    }
    return mistaken;
}

/* Prints a line for one case, if any mistaken heartbeat is accepted there. */
static void print_case(const char *each, unsigned first, unsigned second,
                       const uint64_t mistaken[CODES], double cases)
{
    char what[64];

    if (mistaken[ADLER32] + mistaken[CRC32] == 0)
        return;
    (void)snprintf(what, sizeof what, each, first, second);
    printf("  of these, %-33s %12llu %9.1e %8llu %9.1e\n", what,
           (unsigned long long)mistaken[ADLER32], (double)mistaken[ADLER32] / cases,
           (unsigned long long)mistaken[CRC32], (double)mistaken[CRC32] / cases);
}

int main(void)
{
    static checksum *const sums[CODES] = {adler32_of, crc32_of};
    /* Two numbers give a case of a move. If there is no such case, the count is 0. */
    static const struct {
        const char *name, *each;
        uint64_t (*count)(unsigned first, unsigned second);
        double cases; /* how many heartbeats or pairs there are for each case */
    } moves[] = {{"two bytes swapped, 28 ways", "bytes %u and %u", swaps, HEARTBEATS},
                 {"a byte doubled, 8 ways", "byte %u", doubles, HEARTBEATS},
                 {"a byte dropped, 8 ways", "byte %u", drops, (double)HEARTBEATS * HEARTBEATS},
                 {"the end of one, the start of the next, 7 ways", "without the first %u bytes",
                  straddles, (double)HEARTBEATS * HEARTBEATS}};
    enum { MOVES = sizeof moves / sizeof *moves };
    static uint64_t mistaken[MOVES][BYTES][BYTES][CODES], all[MOVES][CODES];

    for (int code = 0; code < CODES; code++) {
        make_all(heartbeats, sums[code]);
        for (size_t i = 0; i < HEARTBEATS; i++) {
            forwards[i] = heartbeats[i];
            backwards[i] = reversed(heartbeats[i]);
        }
        qsort(forwards, HEARTBEATS, sizeof *forwards, in_order);
        qsort(backwards, HEARTBEATS, sizeof *backwards, in_order);
        for (int move = 0; move < MOVES; move++)
            for (unsigned first = 0; first < BYTES; first++)
                for (unsigned second = 0; second < BYTES; second++) {
                    mistaken[move][first][second][code] = moves[move].count(first, second);
                    all[move][code] += mistaken[move][first][second][code];
                }
    }
    printf("%-45s %12s %9s %8s %9s\n", "accepted, but nobody sent it", "Adler-32", "share",
           "CRC-32", "share");
    for (int move = 0; move < MOVES; move++) {
        printf("%-45s %12llu %18llu\n", moves[move].name, (unsigned long long)all[move][ADLER32],
               (unsigned long long)all[move][CRC32]);
        for (unsigned first = 0; first < BYTES; first++)
            for (unsigned second = 0; second < BYTES; second++)
                print_case(moves[move].each, first, second, mistaken[move][first][second],
                           moves[move].cases);
    }
    printf("share: of all 2^22 heartbeats for swapped and doubled bytes, else of all 2^44 pairs\n");
    return 0;
}
