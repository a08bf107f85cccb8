/* What keys.c shows to its test: all that it keeps, and its file.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_KEYS_INTERNAL_H
#define DUMPULSE_KEYS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"
#include "limits.h"

/* FILE.KEY.numbers has 8 bytes "Dumpulse", 4 bytes "keys", 4 bytes that tell keys apart, 66 numbers
 * of 3 bytes by label, big-endian, and 4 bytes CRC-32 of all bytes before it, big-endian. */
enum {
    KEYS_MARK_AT = 12,
    KEYS_NUMBERS_AT = 16,
    KEYS_MARK_SIZE = KEYS_NUMBERS_AT - KEYS_MARK_AT,
    KEYS_NUMBER_SIZE = 3,
    KEYS_SUM_AT = KEYS_NUMBERS_AT + (DUMPULSE_BEACON_LABEL + 1) * KEYS_NUMBER_SIZE,
    KEYS_NUMBERS_SIZE = KEYS_SUM_AT + 4
};

/* "Limits on failures" in spec/keyed.md: of all sources together, 100 wrong packets a second are
 * looked at, and 100 beacons a second answer. One source gets a fifth of that: so it cannot stop
 * the others. But 64 nodes at one address may all be wrong at once, when an epoch has ended. */
enum {
    KEYS_ALL = 100,  /* a second */
    KEYS_EACH = 20,  /* a second */
    KEYS_BURST = 64, /* at once, of one source */
    KEYS_STORES = 10 /* announces a second that are taken: each has to get to the disk */
};

/* Starts as zeros. */
extern struct keys {
    uint8_t master[16]; /* the master key */
    dumpulse_keyed keyed;
    uint8_t numbers[KEYS_NUMBERS_SIZE]; /* what the file has */
    struct limits wrong, beacons;
    struct bucket wrong_announces, stored_announces;
} keys;

/* Reads the master key. */
enum { KEYS_DIGITS = 2 * sizeof keys.master };
bool keys_read_digits(const char digits[KEYS_DIGITS]);

uint8_t *keys_number_of(uint8_t label); /* in keys.numbers, as the next two */
void keys_seal_numbers(void);
bool keys_choose_block(uint64_t unix_s); /* of the first epoch; false: the clock is wrong */

void keys_mark(uint8_t mark[KEYS_MARK_SIZE]); /* of the master key */

bool keys_are_good(size_t size); /* are the numbers whole, and of this key? */

#endif
