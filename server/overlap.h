/* Two master keys for a stated time: how long, and who has which.   SPDX-License-Identifier: MIT
 *
 * keys.c takes packets under both of them.
 */
#ifndef DUMPULSE_OVERLAP_H
#define DUMPULSE_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

/* Reads --key-until. From now on, only a clock counts that nobody can set. False: options.wrong
 * says what is wrong with it. */
bool overlap_read_until(const char *text);

/* Begins it, if its time is not over. False: the clock was not right, and the log says so. */
bool overlap_begin(void);
uint64_t overlap_left(void); /* ns; 0: it is over, or there is none */
void overlap_end(void);      /* again, it does nothing */

/* If it was over at the start, since when: Unix time in s. 0: for more than a year. */
uint64_t overlap_ended(void);

/* What was accepted under the key before since the start: variables, a bit for each, and requests.
 * After each change, overlap_count() must be called: it sets the counter. */
extern struct overlap {
    uint64_t variables, reports;
} overlap;
void overlap_count(void);

/* These variables have their new keys, and this is stored. If one was heard under the key before,
 * the log has a line. */
void overlap_retire(uint64_t variables);

/* Lists them as 1,3,7-12. A bit for each. */
const char *overlap_list(uint64_t variables);

/* Logs who still uses the key before. */
void overlap_say(const char *what);

#endif
