/* The counters of an agent for Linux, for programs that read them while it runs.
 * SPDX-License-Identifier: MIT
 */
#ifndef DUMPULSE_STATS_H
#define DUMPULSE_STATS_H

#include <stdbool.h>

bool stats_open(void);   /* at options.stats; false, and has said why, if it cannot be */
void stats_answer(void); /* whoever has connected: when SIGIO has come */
void stats_close(void);

#endif
