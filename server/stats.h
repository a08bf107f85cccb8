/* The counters of an agent for Linux, for programs that read them while it runs.
 * SPDX-License-Identifier: MIT
 */
#ifndef DUMPULSE_STATS_H
#define DUMPULSE_STATS_H

#include <stdbool.h>

bool stats_open(void);   /* listens at options.stats; false: it cannot, and has logged why */
void stats_answer(void); /* after SIGIO: sends a line to everybody who has connected */
void stats_close(void);

#endif
