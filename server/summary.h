/* The counters of an agent for Linux as text: for people, or as JSON.
 * SPDX-License-Identifier: MIT
 */
#ifndef DUMPULSE_SUMMARY_H
#define DUMPULSE_SUMMARY_H

#include <stddef.h>

#include "counters.h"

/* A name has at most 25 characters, a number at most 20. */
enum { SUMMARY_LINE = (COUNTERS + 5) * 48 };

void summary_begin(const char *program); /* the uptime counts from now */
void summary_print(void);                /* on stdout */

/* Writes a line of JSON: the program, its version, start and uptime, the number of variables that
 * are set, and the counters. Returns its length. */
size_t summary_write(char line[SUMMARY_LINE]);

#endif
