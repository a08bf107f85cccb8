/* The file that keeps an agent's table over a restart.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_STATE_H
#define DUMPULSE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Loads what the last run has saved, if there is such a file. Then saves it again, to find out now
 * whether that is possible. False: the server must not start, and the log has the reason. */
bool state_load(void);

bool state_save(void); /* false: it failed, may be tried again, and has logged a new reason once */
bool state_is_saved(void); /* did the last save succeed? */
void state_begin(void);    /* from now on, a thread saves it when it has changed */

/* None of its files is longer than this, not even one of a later version. */
enum { STATE_LONGEST = 1024 };

/* FILE.KEY.numbers, which server/keys.c keeps beside FILE. It begins with "Dumpulse", too. */
struct state_numbers {
    char suffix[sizeof ".00000000.numbers"]; /* ".KEY.numbers" */
    int failure;                             /* why the last write failed: an error number; or 0 */
    uint8_t last[STATE_LONGEST]; /* what this server has last read from there, or written to it */
};

/* Reads it. `size` becomes how many bytes it has; -1: there is none. False: it cannot be read, and
 * the log has the reason. */
bool state_read_numbers(struct state_numbers *file, uint8_t *bytes, size_t room, ssize_t *size);
/* Writes it. True only if these bytes will be read after a power failure at any moment from now on.
 * False: it failed, may be tried again, and the log has each new reason once. It fails, too, if
 * another server has used the file meanwhile: is_later() compares what the file has with what this
 * server knows that it had. */
bool state_write_numbers(struct state_numbers *file, const uint8_t *bytes, size_t size,
                         bool (*is_later)(const uint8_t *file, const uint8_t *known, size_t size));
/* Makes it for the first time: so a damaged one is not replaced, but gets the name FILE.retired. If
 * root does it, the files will belong to the owner of the folder. */
bool state_make_numbers(struct state_numbers *file, const uint8_t *bytes, size_t size);

#endif
