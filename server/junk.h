/* Tells whoever runs an agent with keys that somebody sends junk.   SPDX-License-Identifier: MIT
 *
 * dumpulse_keyed.h says what an agent does about it.
 */
#ifndef DUMPULSE_JUNK_H
#define DUMPULSE_JUNK_H

#include <stdbool.h>
#include <stdint.h>

/* A packet from this source, of LIMITS_SOURCE bytes, had a wrong tag. `is_junk`: does the agent
 * take heartbeats in pairs now? The log gets a line when that begins. */
void junk_note(const uint8_t *source, bool is_junk, uint64_t now);

/* An epoch has begun. The log gets a line when there is no junk any more. */
void junk_begin_epoch(bool is_junk);

#endif
