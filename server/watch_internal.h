/* What watch.c shows to its test.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_WATCH_INTERNAL_H
#define DUMPULSE_WATCH_INTERNAL_H

#include "dumpulse.h"
#include "dumpulse_watch.h"

extern dumpulse_watcher watch_watcher;

/* The last heartbeat of each variable, also of those that the table has forgotten: a dead node
 * stays dead. Its timestamps are by a clock that nobody sets. */
extern dumpulse watch_heard;

void watch_look(void); /* the task: decides, tells what has changed, and sets when it looks again */

#endif
