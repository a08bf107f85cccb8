/* Names in the log who has sent something, for --log changes.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_SOURCES_H
#define DUMPULSE_SOURCES_H

#include <stddef.h>
#include <stdint.h>

/* What became of a packet from that address: a counter's number, up to COUNT_RATE. It is said if
 * it is the first of its kind from there. limits_choose_secret() has been called. */
void sources_note(const uint8_t *address, size_t outcome, const uint8_t *packet, uint64_t now);
void sources_finish(void); /* at the end: how many were not named */

#endif
