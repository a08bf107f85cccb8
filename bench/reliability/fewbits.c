/* Flips up to 4 of the 64 bits of every valid heartbeat in every way, and counts which results are
 * valid, too.                                                                make figures ONLY=bits
 *
 * This is a plain search. It takes all 2^22 heartbeats, and all 9108 ways to flip 1 to 4 of the 22
 * bits that can differ between two heartbeats; from these follow the flipped bits of the checksum.
 * Prints a line for each number of flipped bits:
 * - how many heartbeats were mistaken for another one
 * - how many of these kept their variable
 * - how many of these kept UDP's checksum, the ones' complement sum of 16-bit words
 * - how many pass if each byte has a parity bit, and 2, 4, 6 or 8 bits flip in all
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>

#include "heartbeats.h"

enum { MOST_FLIPS = 4 };

typedef struct counts {
    uint64_t mistaken, same_variable, same_words;
    uint64_t with_parity[MOST_FLIPS + 1]; /* Pairs by half their flips, which are always even. */
} counts;

static counts found[MOST_FLIPS + 1];

/* The sum of the four 16-bit words modulo 65535, from 0 to 65534. 0 and 65535 are the same here,
 * because no heartbeat is all zeros. */
static uint64_t words(uint64_t packet)
{
    return packet % 65535;
}

/* How many bytes have an odd number of these bits? Each of these needs a flipped parity bit. */
static unsigned odd_bytes(uint64_t difference)
{
    unsigned count = 0;

    for (; difference != 0; difference >>= 8)
        count += bits_in(difference & 0xFF) % 2;
    return count;
}

static void record(uint64_t one, uint64_t other, uint64_t times)
{
    const uint64_t difference = one ^ other;
    const unsigned flips = bits_in(difference);
    counts *const count = &found[flips];

    count->mistaken += times;
    count->same_variable += (difference >> 16 & 0xFF) == 0 ? times : 0;
    count->same_words += words(one) == words(other) ? times : 0;
    count->with_parity[(flips + odd_bytes(difference)) / 2] += times;
}

/* Clears the lowest one of these bits, as often as `times` says. */
static uint32_t without_lowest(uint32_t bits, unsigned times)
{
    while (times-- != 0)
        bits &= bits - 1;
    return bits;
}

/* Compares all heartbeats with those that differ by this mask. Each pair is looked at once, from
 * its lower heartbeat. If the two differ only in the value, it is looked at from both. */
static void search(const uint32_t *sums, uint32_t mask, unsigned flips_left)
{
    for (uint32_t row = 0; row < HEARTBEATS; row += 256) {
        const uint32_t other_row = row ^ (mask & ~255U);
        if (other_row < row)
            continue;
        uint32_t here = 0;
        for (uint32_t value = 0; value < 256; value++)
            here += without_lowest(sums[row + value] ^ sums[other_row + (value ^ (mask & 255U))],
                                   flips_left) == 0;
        for (uint32_t value = 0; here != 0 && value < 256; value++) {
            const uint32_t one = row + value, other = one ^ mask;
            if (without_lowest(sums[one] ^ sums[other], flips_left) != 0)
                continue;
            record((uint64_t)sums[one] << 32 | PAYLOAD_OF(one),
                   (uint64_t)sums[other] << 32 | PAYLOAD_OF(other), other_row == row ? 1 : 2);
        }
    }
}

int main(void)
{
    static uint32_t sums[HEARTBEATS];

    for (uint32_t number = 0; number < HEARTBEATS; number++)
        sums[number] = adler32_of(PAYLOAD_OF(number));
    for (uint32_t mask = 1; mask < HEARTBEATS; mask++)
        switch (bits_in(mask)) { /* the loop is fast only with a constant number of times */
        case 1: search(sums, mask, 3); break;
        case 2: search(sums, mask, 2); break;
        case 3: search(sums, mask, 1); break;
        case 4: search(sums, mask, 0); break;
        default: break;
        }
    for (int flips = 1; flips <= MOST_FLIPS; flips++) {
        printf("%d\t%llu\t%llu\t%llu", flips, (unsigned long long)found[flips].mistaken,
               (unsigned long long)found[flips].same_variable,
               (unsigned long long)found[flips].same_words);
        for (int half = 1; half <= MOST_FLIPS; half++)
            printf("\t%llu", (unsigned long long)found[flips].with_parity[half]);
        printf("\n");
    }
    return 0;
}
