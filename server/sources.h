/* Logs who has sent something, for --log changes.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_SOURCES_H
#define DUMPULSE_SOURCES_H

#include <stddef.h>
#include <stdint.h>

/* Logs a packet if it is the first one from this address with this outcome. The outcome is a
 * counter's number, up to COUNT_UNSENT. limits_choose_secret() must have been called before. */
void sources_note(const uint8_t *address, size_t outcome, const uint8_t *packet, uint64_t now);
void sources_finish(void); /* Logs the number of sources that were not named, at the end. */

#endif
