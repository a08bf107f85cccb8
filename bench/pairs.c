/* Counts the pairs of valid heartbeats that differ in 1, 2, 3 … 64 bits, and in bursts by length.
 *
 *     pairs                             all 2^44 pairs
 *     pairs VARIABLE SENDER VALUE       the fields have this many bits: for the tests
 *     pairs search                      tries each way to flip up to 4 bits of each heartbeat
 *
 * The first two print "flips COUNT PAIRS" for each count, then "burst ORDER LENGTH PAIRS" for
 * lengths up to 32. These are pairs whose differing bits span that length. There are two orders:
 * each byte's highest bit goes first (CAN, I2C), or its lowest (UART). A pair counts twice, because
 * each of the two may be turned into the other.
 *
 * These pairs are not listed. They are counted as in addition by hand: one binary place after the
 * other, from the lowest. Below 65521 both sums of Adler-32 are plain sums of the payload. So the
 * next places need to know only what both sums carry, for each heartbeat of the pair:
 *
 *     a = 242 + variable + sender + value            carries at most 3
 *     b = 968 + 3 variable + 2 sender + value        carries at most 6
 *
 * The search takes all 2^22 heartbeats, and all 9108 ways to flip 1 to 4 of the 22 bits that can
 * differ between two heartbeats; from these follow the flipped bits of the checksum. It prints a
 * line for each number of flipped bits:
 * - how many heartbeats were mistaken for another one
 * - how many of these kept their variable
 * - how many of these kept UDP's checksum, the ones' complement sum of 16-bit words
 * - how many pass if each byte has a parity bit, and 2, 4, 6 or 8 bits flip in all
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dumpulse.h"

enum {
    PLACES = 11, /* b <= 968 + 3 * 63 + 2 * 255 + 255 = 1922 < 2^11 */
    A_CARRIES = 4,
    B_CARRIES = 7,
    STATES = A_CARRIES * B_CARRIES * A_CARRIES * B_CARRIES,
    BITS = 64,
    LONGEST_BURST = 32,
    ORDERS = 2,
    MOST_FLIPS = 4,
    HEARTBEATS = 1 << 22 /* 6 bits of variable, 8 of sender, 8 of value */
};

static unsigned bits_in(uint64_t bits)
{
    unsigned count = 0;

    for (; bits != 0; bits &= bits - 1)
        count++;
    return count;
}

/* ---- As in addition by hand -------------------------------------------------------------- */

/* Where the lowest bit of each field is if the heartbeat is a big-endian number. */
enum { B_AT = 48, A_AT = 32, VARIABLE_AT = 16, SENDER_AT = 8, VALUE_AT = 0 };

static unsigned widths[3] = {6, 8, 8}; /* Bits of variable, sender and value. */

/* What one heartbeat's sums do at one place. */
typedef struct step {
    unsigned carries;    /* Carries to the next place: that of a times B_CARRIES, plus that of b. */
    uint64_t difference; /* bits of the heartbeat that are 1 at this place */
} step;

static step step_of(unsigned place, unsigned carries, unsigned bits)
{
    const unsigned variable = bits / 4, sender = bits / 2 % 2, value = bits % 2;
    const unsigned a = (242U >> place) % 2 + variable + sender + value + carries / B_CARRIES;
    const unsigned b =
        (968U >> place) % 2 + 3 * variable + 2 * sender + value + carries % B_CARRIES;
    const step result = {a / 2 * B_CARRIES + b / 2, (uint64_t)variable << (VARIABLE_AT + place) |
                                                        (uint64_t)sender << (SENDER_AT + place) |
                                                        (uint64_t)value << (VALUE_AT + place) |
                                                        (uint64_t)(a % 2) << (A_AT + place) |
                                                        (uint64_t)(b % 2) << (B_AT + place)};

    return result;
}

/* May these bits of variable, sender and value be set at this place? */
static bool exist(unsigned place, unsigned bits)
{
    return (bits / 4 == 0 || place < widths[0]) && (bits / 2 % 2 == 0 || place < widths[1]) &&
           (bits % 2 == 0 || place < widths[2]);
}

/* Counts, by the number of bits, the pairs that differ only in bits of `allowed`. */
static void count_pairs(uint64_t allowed, uint64_t by_flips[BITS + 1])
{
    static uint64_t now[STATES][BITS + 1], next[STATES][BITS + 1];

    memset(now, 0, sizeof now);
    now[0][0] = 1;
    for (unsigned place = 0; place < PLACES; place++) {
        memset(next, 0, sizeof next);
        for (unsigned state = 0; state < STATES; state++) {
            unsigned most = BITS + 1; /* the most flips so far plus one; 0: no such pair */
            while (most != 0 && now[state][most - 1] == 0)
                most--;
            for (unsigned both = 0; most != 0 && both < 64; both++) {
                if (!exist(place, both / 8) || !exist(place, both % 8))
                    continue;
                const step one = step_of(place, state / (A_CARRIES * B_CARRIES), both / 8);
                const step other = step_of(place, state % (A_CARRIES * B_CARRIES), both % 8);
                const uint64_t difference = one.difference ^ other.difference;
                if ((difference & ~allowed) != 0)
                    continue;
                const unsigned flips = bits_in(difference);
                uint64_t *to = next[one.carries * A_CARRIES * B_CARRIES + other.carries];
                for (unsigned before = 0; before < most; before++)
                    to[before + flips] += now[state][before];
            }
        }
        memcpy(now, next, sizeof now);
    }
    memcpy(by_flips, now[0], sizeof now[0]); /* after the last place, no carry is left */
}

/* Which bit is on the line at this time, in this order? The first bit is at time 0. */
static unsigned bit_at(unsigned order, unsigned time)
{
    return BITS - 8 - time / 8 * 8 + (order == 0 ? 7 - time % 8 : time % 8);
}

/* Counts the pairs that differ, but only in bits between these times. */
static uint64_t within(unsigned order, unsigned first, unsigned length)
{
    uint64_t by_flips[BITS + 1], allowed = 0, pairs = 0;

    for (unsigned time = first; time < first + length; time++)
        allowed |= 1ULL << bit_at(order, time);
    count_pairs(allowed, by_flips);
    for (unsigned flips = 1; flips <= BITS; flips++)
        pairs += by_flips[flips];
    return pairs;
}

static void count_all(uint64_t flips[BITS + 1], uint64_t bursts[ORDERS][BITS + 1])
{
    count_pairs(~0ULL, flips);
    for (unsigned order = 0; order < ORDERS; order++) {
        static uint64_t in[LONGEST_BURST + 1][BITS]; /* Bursts by length and first bit. */
        for (unsigned length = 1; length <= LONGEST_BURST; length++)
            for (unsigned first = 0; first + length <= BITS; first++) {
                in[length][first] = within(order, first, length);
                /* The pairs whose bursts begin and end exactly here: those within, minus those that
                 * begin later, minus those that end earlier. The pairs that do both are subtracted
                 * twice, so they are added once. */
                bursts[order][length] += in[length][first];
                if (length > 1)
                    bursts[order][length] -= in[length - 1][first] + in[length - 1][first + 1];
                if (length > 2)
                    bursts[order][length] += in[length - 2][first + 1];
            }
    }
}

/* ---- The search -------------------------------------------------------------------------- */

typedef struct counts {
    uint64_t mistaken, same_variable, same_words;
    uint64_t with_parity[MOST_FLIPS + 1]; /* Pairs by half their flips, which are always even. */
} counts;

static counts found[MOST_FLIPS + 1];

/* A heartbeat as the library builds it, a big-endian number. */
static uint64_t heartbeat(uint32_t number)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];
    uint64_t bits = 0;

    dumpulse_make_heartbeat(packet, (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                            (uint8_t)number);
    for (size_t i = 0; i < sizeof packet; i++)
        bits = bits << 8 | packet[i];
    return bits;
}

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
            record(heartbeat(one), heartbeat(other), other_row == row ? 1 : 2);
        }
    }
}

static void print_search(void)
{
    static uint32_t sums[HEARTBEATS];

    for (uint32_t number = 0; number < HEARTBEATS; number++)
        sums[number] = (uint32_t)(heartbeat(number) >> 32);
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
}

int main(int argc, char **argv)
{
    static const unsigned most[3] = {6, 8, 8};
    static uint64_t flips[BITS + 1], bursts[ORDERS][BITS + 1];

    if (argc == 2 && strcmp(argv[1], "search") == 0) {
        print_search();
        return 0;
    }
    for (int i = 0; i < argc - 1 && argc == 4; i++) {
        char *end;
        const unsigned long width = strtoul(argv[i + 1], &end, 10);
        if (*end != '\0' || argv[i + 1][0] < '0' || argv[i + 1][0] > '9' || width > most[i])
            argc = 0;
        else
            widths[i] = (unsigned)width;
    }
    if (argc != 1 && argc != 4) {
        (void)fputs("usage: pairs [search | BITS-OF-VARIABLE BITS-OF-SENDER BITS-OF-VALUE], "
                    "at most 6 8 8\n",
                    stderr);
        return 2;
    }
    count_all(flips, bursts);
    for (unsigned count = 1; count <= BITS; count++)
        printf("flips\t%u\t%llu\n", count, (unsigned long long)flips[count]);
    for (unsigned order = 0; order < ORDERS; order++)
        for (unsigned length = 1; length <= LONGEST_BURST; length++)
            printf("burst\t%s\t%u\t%llu\n", order == 0 ? "high" : "low", length,
                   (unsigned long long)bursts[order][length]);
    return 0;
}
