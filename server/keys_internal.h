/* What keys.c shows to its test: all that it keeps, and its files.
 * SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_KEYS_INTERNAL_H
#define DUMPULSE_KEYS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"
#include "state.h"

/* FILE.KEY.numbers has 8 bytes "Dumpulse", 4 bytes "key2" (2 is the version of this file), 4 bytes
 * that tell keys apart, 4 bytes with the last block of epochs that was used or reserved, 8 bytes
 * with the variables that are retired under this key (variable v is bit v % 8 of byte v / 8),
 * 4 bytes with how many blocks may be skipped to follow the date, the generation of each label's
 * key, for each label the generation under which a packet was last accepted plus 1 (at most 255;
 * 0: none), and 4 bytes CRC-32 of all bytes before it. Numbers are big-endian. */
enum {
    KEYS_LABELS = DUMPULSE_READER_LABEL + 1,
    KEYS_MARK_AT = 12,
    KEYS_BLOCK_AT = 16,
    KEYS_MARK_SIZE = KEYS_BLOCK_AT - KEYS_MARK_AT,
    KEYS_RETIRED_AT = 20,
    KEYS_SKIPS_AT = KEYS_RETIRED_AT + DUMPULSE_VARIABLES / 8,
    KEYS_GENERATIONS_AT = KEYS_SKIPS_AT + 4,
    KEYS_ACCEPTED_AT = KEYS_GENERATIONS_AT + KEYS_LABELS,
    KEYS_SUM_AT = KEYS_ACCEPTED_AT + KEYS_LABELS,
    KEYS_NUMBERS_SIZE = KEYS_SUM_AT + 4
};

/* What the file of --key has. */
struct keys_master {
    uint8_t key[16];
    uint8_t generations[KEYS_LABELS];
    uint16_t epoch; /* s */
};

/* All of one master key. Starts as zeros. */
extern struct keys {
    struct keys_master master;
    dumpulse_keyed keyed;
    uint8_t numbers[KEYS_NUMBERS_SIZE]; /* what the file is to have */
    uint8_t stored[KEYS_NUMBERS_SIZE];  /* what it has, also after a power failure */
    struct state_numbers file;
    bool stopped;       /* no epoch can begin */
    bool cannot_store;  /* the last store of numbers has failed */
    bool far_behind;    /* more blocks behind the date than may be skipped: the log says so */
    int64_t offset;     /* ms from the clock since the start of the machine to Unix time */
    uint32_t step;      /* s that it was set forward, until epochs are skipped for it */
    uint32_t jump;      /* the block that begins as soon as it is stored, if it is a later one */
    uint64_t refilled;  /* ns since the machine was started: when it got its last skips, */
    uint64_t stored_at; /* and when its numbers were stored */
    uint8_t to_repeat;  /* beacons of the first epoch */
} keys, keys_before;    /* of --key, and of --key-before */

/* Reads the content of the file of --key: a line with the key in 32 digits, and then for each
 * variable whose key has another generation than 0 a line with both in decimal digits, and perhaps
 * lines like "readers 1", and like "epoch 10", which is what holds without it. Returns NULL, or
 * what is wrong with it. */
enum {
    KEYS_DIGITS = 32,
    KEYS_LONGEST =
        KEYS_DIGITS + 1 + DUMPULSE_VARIABLES * 7 + sizeof "readers 255" + sizeof "epoch 3600"
};
const char *keys_parse(const char *text, size_t length, struct keys_master *master);

/* These are about `keys`, as long as there is no overlap. keys_renew() gives new keys to the labels
 * whose generation is larger than there. False: one is smaller, and options.wrong says which. */
bool keys_choose_block(uint64_t unix_s); /* of the first epoch; false: the clock is wrong */
bool keys_renew(const uint8_t generations[KEYS_LABELS], bool now);

void keys_seal(uint8_t numbers[KEYS_NUMBERS_SIZE]); /* writes their checksum */
void keys_mark(uint8_t mark[KEYS_MARK_SIZE]);       /* of the master key */
bool keys_are_good(size_t size);                    /* are the numbers whole, and of this key? */

#endif
