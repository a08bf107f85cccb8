/* The counters of an agent for Linux as text: for people, and as JSON for programs that read them
 * while it runs.   SPDX-License-Identifier: MIT
 */
#ifndef DUMPULSE_STATS_H
#define DUMPULSE_STATS_H

#include <stdbool.h>

void stats_begin(const char *of_program, char *const *given); /* the uptime counts from now */
void stats_print(void);                                       /* on stdout */

bool stats_open(void);   /* listens at options.stats; false: it cannot, and has logged why */
void stats_answer(void); /* after SIGIO: sends a line to everybody who has connected */
void stats_close(void);

/* --reload: has the server that listens at options.stats read its files again. False: it has not,
 * or cannot be reached; the log has the reason. */
bool stats_reload(void);

#endif
