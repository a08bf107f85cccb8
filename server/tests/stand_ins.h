/* What unit tests have in place of server/log.c and server/timing.c: lines of the log that a test
 * can read, and clocks that it sets.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_STAND_INS_H
#define DUMPULSE_STAND_INS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOGGED_LINES = 2048 };
extern char logged[LOGGED_LINES]
                  [200]; /* the first lines; those after them overwrite the last one */
extern size_t logged_count;
extern bool log_is_full; /* The log takes no line. */
const char *last_logged(void);

extern uint64_t clock_ns;      /* Time that timing_ns() and timing_boot_ns() return, ns. */
extern uint64_t clock_unix_ns; /* Time that timing_unix_ns() returns, ns. */

uint64_t random_number(void); /* splitmix64: the same numbers in each run */

#endif
