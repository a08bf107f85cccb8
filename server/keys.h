/* Version 2 of the protocol, with keys, in an agent for Linux.   SPDX-License-Identifier: MIT
 *
 * spec/keyed.md has the protocol, and dumpulse_keyed.c does what it says. This part has the key,
 * the numbers that survive a restart, the epochs, and the limits on packets that are wrong.
 */
#ifndef DUMPULSE_KEYS_H
#define DUMPULSE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "settings.h" /* before dumpulse_keyed.h, which it changes */

#include "dumpulse_keyed.h"

bool keys_read(void);         /* reads the file of --key; false: options.wrong says why not */
bool keys_read_again(void);   /* the same; false, too, if it has another key */
bool keys_make_numbers(void); /* for --key-is-new; false: the log has the reason */

/* Reads the numbers, and starts the tasks. These begin epochs, and give beacons to the send hook
 * each second, with the context `keys_everybody`. The table must be loaded. False: the log has the
 * reason. */
bool keys_begin(void);
extern char keys_everybody[];

/* Is a packet of 8 bytes one of version 1, and does --also-unkeyed take those? */
bool keys_leaves(const uint8_t *packet);

/* Is it a request of version 2? Whoever takes such a packet must be able to answer it. */
bool keys_is_request(const uint8_t *packet);

/* Does the node of this variable hear beacons? */
bool keys_hears(uint8_t variable);

/* Takes a packet of 8 bytes. The source has LIMITS_SOURCE bytes. A report or a beacon goes to the
 * send hook, with the context. Returns which counter counts the packet. */
size_t keys_take(const uint8_t *packet, const uint8_t *source, uint64_t now, void *context);

#endif
