/* What an agent for Linux says.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_LOG_H
#define DUMPULSE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void log_begin(const char *program); /* each line begins with its name */

/* Writes one line to stderr, cut off at 1 KB. If the format begins like "<4>", that is the severity
 * of syslog, from 3 to 6; without, it is an error, 3. The arguments may contain anything: each byte
 * that is not part of a printable UTF-8 character becomes a question mark. Returns false if the
 * line could not be written, and is counted. */
__attribute__((format(printf, 1, 2))) bool log_say(const char *format, ...);

/* Writes one line to a descriptor, or nothing if it would have to wait: a reader that has stopped
 * reading must not stop the agent. Returns false if the line was not written as a whole. */
bool log_write(int descriptor, const char *line, size_t length);

/* Logs how many lines of log_say() could not be written, if there are any. Returns false if this is
 * not possible now. log_say() does the same before its line. */
bool log_say_lost(void);

/* Counts lines of the last run that may not have been written. */
void log_count_lost(uint32_t lines);

/* Returns how many lines could not be written since the start. */
uint32_t log_lost(void);

/* Returns how many bytes the UTF-8 character has that begins here, or 0 if it must not be shown. */
size_t log_character_size(const char *text);

#endif
