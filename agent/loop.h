/* The loop of an agent for Linux, and what it runs from time to time.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_LOOP_H
#define DUMPULSE_LOOP_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

enum { LOOP_READY, LOOP_TABLE, LOOP_DROPS, LOOP_WATCHDOG, LOOP_SAVING, LOOP_TRANSPORT, LOOP_TASKS };

/* What the loop runs: at once, and then each so many ns; 0: never, until it is started. */
void loop_define_task(size_t task, void (*run)(void), uint64_t every);
void loop_start_task(size_t task, uint64_t every); /* at once, and then each so many ns */
void loop_pace_task(size_t task, uint64_t every);  /* from the task itself: when it comes again */

sigset_t loop_catch_signals(void); /* they come while it waits, with the mask that this returns */
void loop_serve(const sigset_t *waiting);

#endif
