/* Decides which variables are late or dead: --watch.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_WATCHING_H
#define DUMPULSE_WATCHING_H

#include <stdbool.h>

bool watch_read_names(void); /* false: options.wrong says what is wrong */
bool watch_read_again(void); /* the same; then nothing has changed */
void watch_begin(void);      /* after the table was loaded */
void watch_finish(void);

#endif
