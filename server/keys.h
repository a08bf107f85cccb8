/* Version 2 of the protocol, with keys, in an agent for Linux.   SPDX-License-Identifier: MIT
 *
 * SPEC-keyed.md has the protocol, and dumpulse_keyed.c does what it says. This part has the key,
 * the numbers that survive a restart, the epochs, and the limits on packets that are wrong.
 */
#ifndef DUMPULSE_KEYS_H
#define DUMPULSE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each variable may belong to a node that only sends. */
#define DUMPULSE_ALONE 64
#include "dumpulse_keyed.h"

bool keys_read(void);         /* reads the file of --key; false: options.wrong says why not */
bool keys_make_numbers(void); /* for --key-is-new; false: the log has the reason */

/* Reads the numbers, and starts the tasks. These begin epochs, and give beacons to keys_send()
 * each second, with the context `keys_everybody`. The table must be loaded. False: the log has the
 * reason. */
extern char keys_everybody[];

/* Hook, written by the program: sends a packet of version 2, as dumpulse_send_packet() sends one of
 * version 1. */
void keys_send(void *context, const uint8_t *packet, size_t length);
bool keys_begin(void);

/* Is a packet of 8 bytes for version 1, and is that taken, too? */
bool keys_leaves(const uint8_t *packet);

/* Is it a request of version 2? Before such a packet is taken, a way to answer must be there. */
bool keys_is_request(const uint8_t *packet);

/* Does the node of this variable hear beacons? */
bool keys_hears(uint8_t variable);

/* Takes a packet of 8 bytes. The source has LIMITS_SOURCE bytes. A report or a beacon goes to the
 * send hook, with the context. Returns which counter counts the packet. */
size_t keys_take(const uint8_t *packet, const uint8_t *source, uint64_t now, void *context);

#endif
