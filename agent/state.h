/* The file that keeps an agent's table over a restart.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_STATE_H
#define DUMPULSE_STATE_H

#include <stdbool.h>

/* Loads what the last run has saved, if there is such a file. Then saves it again, to find out now
 * whether that is possible. False: the server must not start, and the log has the reason. */
bool state_load(void);

bool state_save(void); /* false: it failed, may be tried again, and has logged a new reason once */
void state_save_if_changed(void);

#endif
