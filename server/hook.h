/* Runs the program of --exec.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_HOOK_H
#define DUMPULSE_HOOK_H

#include <stdbool.h>
#include <stdint.h>

/* The states of dumpulse_watch.h by their numbers, in the words that the program gets. */
extern const char *const hook_states[];

bool hook_check(void); /* can the program be run? false: options.wrong says why not */
void hook_begin(void); /* after all files and sockets are open */

/* A variable has changed. The program runs with hook_run(), or later. */
void hook_tell(uint8_t variable, uint8_t was, uint8_t is);

/* Starts the program for changes that wait, and kills those that run for too long. */
void hook_run(void);

void hook_reap(void);   /* children have ended */
void hook_finish(void); /* says what was not told */

#endif
