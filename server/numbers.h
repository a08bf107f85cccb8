/* The bytes of FILE.KEY.numbers: what survives a restart of one master key.
 * SPDX-License-Identifier: MIT
 *
 * These are 8 bytes "Dumpulse", 4 bytes "key3" (3 is the version of this file), then the members of
 * struct numbers in their order, and 4 bytes CRC-32 of all bytes before it. Numbers are big-endian;
 * variable v is bit v % 8 of byte v / 8 of the 8 bytes of `retired`.
 */
#ifndef DUMPULSE_NUMBERS_H
#define DUMPULSE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dumpulse_keyed.h"

enum {
    NUMBERS_LABELS = DUMPULSE_READER_LABEL + 1,
    NUMBERS_MARK_AT = 12,
    NUMBERS_BLOCK_AT = 16,
    NUMBERS_MARK_SIZE = NUMBERS_BLOCK_AT - NUMBERS_MARK_AT,
    NUMBERS_RETIRED_AT = 20,
    NUMBERS_SKIPS_AT = NUMBERS_RETIRED_AT + DUMPULSE_VARIABLES / 8,
    NUMBERS_GENERATIONS_AT = NUMBERS_SKIPS_AT + 4,
    NUMBERS_SUM_AT = NUMBERS_GENERATIONS_AT + NUMBERS_LABELS,
    NUMBERS_SIZE = NUMBERS_SUM_AT + 4
};

struct numbers {
    uint8_t mark[NUMBERS_MARK_SIZE];     /* tells keys apart */
    uint32_t block;                      /* the last block of epochs that was used or reserved */
    uint64_t retired;                    /* under this key; variable v is bit v */
    uint32_t skips;                      /* blocks that may be skipped to follow the date */
    uint8_t generations[NUMBERS_LABELS]; /* Generation of each label's key. */
};

void numbers_encode(uint8_t bytes[NUMBERS_SIZE], const struct numbers *numbers);

/* False: they are damaged, or of another version. */
bool numbers_decode(struct numbers *numbers, const uint8_t *bytes, size_t size);

/* Returns whether this is a file of numbers in the form of another version. */
bool numbers_are_foreign(const uint8_t *bytes, size_t size);

/* Has `file` a later block than `known`, or variables that are retired only there? Both must be
 * whole, and of the same key. */
bool numbers_are_later(const uint8_t *file, const uint8_t *known, size_t size);

#endif
