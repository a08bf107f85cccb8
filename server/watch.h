/* Decides which variables are late or dead: --watch.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_WATCHING_H
#define DUMPULSE_WATCHING_H

#include <stdbool.h>

#include "dumpulse.h"
#include "dumpulse_watch.h"

bool watch_read_names(void);       /* false: options.wrong says what is wrong */
bool watch_read_again(void);       /* Reads the files again. If it fails, nothing has changed. */
void watch_begin(void);            /* after the table was loaded */
void watch_finish(bool is_stored); /* Tells all. Has the state file what waits? */

/* For its tests. */
extern dumpulse_watcher watch_watcher;

/* The last heartbeat of each variable, also of those that the table has forgotten: a dead node
 * stays dead. Its timestamps are by a clock that nobody sets. */
extern dumpulse watch_heard;

void watch_look(void); /* the task: decides, tells what has changed, and sets when it looks again */

#endif
