/* Runs the program of --exec.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_HOOK_H
#define DUMPULSE_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "alarms.h"

/* The states of dumpulse_watch.h by their numbers, in the words that the program gets. */
extern const char *const hook_states[];

bool hook_check(void); /* can the program be run? false: options.wrong says why not */
void hook_begin(void); /* after all files and sockets are open */

/* A variable has changed. The program runs with hook_run(), or later. */
void hook_tell(const struct alarms_change *change);

/* After a start: tells the last change of this variable, if the last run may not have told it. */
void hook_tell_again(uint8_t variable);

/* Starts the program for changes that wait, and kills those that run for too long. */
void hook_run(void);

void hook_reap(void); /* children have ended */

/* Logs what was not told. If what waits is stored, the next run tells it. Otherwise it is lost. */
void hook_finish(bool is_stored);

#endif
