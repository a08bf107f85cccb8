/* The file that keeps an agent's table over a restart.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_STATE_H
#define DUMPULSE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "numbers.h"

/* Loads what the last run has saved, if there is such a file. Then saves it again, to find out now
 * whether that is possible. False: the server must not start, and the log has the reason. */
bool state_load(void);

/* Writes all that is due, and the table, while the caller waits. False: the table could not be
 * written, and the log has the reason. */
bool state_save(void);
bool state_is_saved(void); /* did the last save of the table succeed? */
void state_begin(void);    /* Starts writing: a thread writes one changed file at a time. */

/* None of its files is longer than this, not even one of a later version. */
enum { STATE_LONGEST = 1024 };

/* FILE.KEY.numbers, which server/keys.c keeps beside FILE. It begins with "Dumpulse", too. */
struct state_numbers {
    char suffix[sizeof ".00000000.numbers"]; /* ".KEY.numbers" */
    const struct numbers *numbers;           /* that are to be stored */
    int failure;                             /* Error number of the last write, or 0. */
    uint8_t last[NUMBERS_SIZE]; /* Bytes that this server last read from there, or wrote to it. */
    /* The loop calls it when a write has ended: whether these numbers will be read after a power
     * failure at any moment from now on. If not, they are due again in a second. */
    void (*on_end)(struct state_numbers *file, const struct numbers *numbers, bool is_stored);
};

/* Reads it. `size` becomes how many bytes it has; -1: there is none. False: it cannot be read, and
 * the log has the reason. */
bool state_read_numbers(struct state_numbers *file, uint8_t bytes[NUMBERS_SIZE], ssize_t *size);
/* Has the thread write it as soon as possible. A file with later numbers is not replaced: another
 * server has used it meanwhile. The log has each new reason of a failure once. */
void state_store_numbers(struct state_numbers *file);
/* The same, while the caller waits. False: it has failed. */
bool state_write_numbers(struct state_numbers *file);
/* Makes it for the first time: so a damaged one is not replaced, but gets the name FILE.retired. If
 * root does it, the files will belong to the owner of the folder. */
bool state_make_numbers(struct state_numbers *file);

#endif
