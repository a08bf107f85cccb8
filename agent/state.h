/* The file that keeps an agent's table over a restart.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_STATE_H
#define DUMPULSE_STATE_H

#include <stdbool.h>

/* What the last run has left, if it has; and whether it can be written is found out now. False, and
 * has said why, if the server must not start. */
bool state_load(void);

bool state_save(void); /* false, and has said why once, if it failed: to be tried again */
void state_save_if_changed(void);

#endif
