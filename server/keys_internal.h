/* What keys.c shows to its test: all that it keeps, and its files.
 * SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_KEYS_INTERNAL_H
#define DUMPULSE_KEYS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"
#include "numbers.h"
#include "state.h"

/* What the file of --key has. */
struct keys_master {
    uint8_t key[16];
    uint8_t generations[NUMBERS_LABELS];
    uint16_t epoch; /* s */
};

/* All of one master key. Starts as zeros. */
extern struct keys {
    struct keys_master master;
    dumpulse_keyed keyed;
    struct numbers numbers; /* Numbers that the file must get. */
    struct numbers stored;  /* Numbers that it has, even after a power failure. */
    struct state_numbers file;
    bool stopped;       /* no epoch can begin */
    bool cannot_store;  /* the last store of numbers has failed */
    bool far_behind;    /* more blocks behind the date than may be skipped: the log says so */
    int64_t offset;     /* ms from the clock since the start of the machine to Unix time */
    uint32_t step;      /* s that it was set forward, until epochs are skipped for it */
    uint32_t jump;      /* the block that begins as soon as it is stored, if it is a later one */
    uint64_t refilled;  /* Time of its last skips, ns since the machine was started. */
    uint64_t stored_at; /* Time when its numbers were stored, on the same clock. */
    uint8_t to_repeat;  /* beacons, since all labels began at once */
} keys, keys_before;    /* Contexts of --key and --key-before. */

/* Reads the content of the file of --key: a line with the key in 32 digits, and then for each
 * variable whose key has another generation than 0 a line with both in decimal digits, and perhaps
 * lines like "readers 1", and like "epoch 10", which is what holds without it. False: options.wrong
 * says what is wrong. */
enum {
    KEYS_DIGITS = 32,
    KEYS_LONGEST =
        KEYS_DIGITS + 1 + DUMPULSE_VARIABLES * 7 + sizeof "readers 255" + sizeof "epoch 3600"
};
bool keys_parse(const struct keys *key, const char *text, size_t length,
                struct keys_master *master);

/* The block of the first epoch. False: the clock is wrong. */
bool keys_choose_block(uint64_t unix_s, uint32_t *chosen);

/* Gives new keys to the labels whose generation is larger than in its numbers. False: one is
 * smaller, and options.wrong says which. */
bool keys_renew(struct keys *key, const uint8_t generations[NUMBERS_LABELS], bool now);

void keys_mark(const struct keys *key, uint8_t mark[NUMBERS_MARK_SIZE]);

#endif
