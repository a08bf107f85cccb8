/* Version 2 of the protocol, with keys, in an agent for Linux.   SPDX-License-Identifier: MIT
 *
 * spec/keyed.md has the protocol, and dumpulse_keyed.h the library that does what it says. This
 * part has the keys, the numbers that survive a restart, and the epochs.
 */
#ifndef DUMPULSE_KEYS_H
#define DUMPULSE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dumpulse_keyed.h"

extern uint64_t keys_epoch; /* s, as the file of --key says */

bool keys_read(void);         /* reads the file of --key; false: options.wrong says why not */
bool keys_make_numbers(void); /* for --key-is-new; false: the log has the reason */
bool keys_skip_to_date(void); /* for --key-to-date; the same */

/* Reads the file again; false: options.wrong says why it cannot be used while the server runs. Only
 * if `now`, the generations that it has hold from now on. */
bool keys_read_again(bool now);

/* Reads the numbers, and starts the task that begins epochs. The table must be loaded. False: the
 * log has the reason. */
bool keys_begin(void);

/* Is a packet of 8 bytes a heartbeat of version 1, and does --also-unkeyed list its variable? */
bool keys_leaves(const uint8_t *packet);

/* Is it a request for a report, or a question for a beacon? Whoever takes one of these must be able
 * to answer it. */
bool keys_is_request(const uint8_t *packet);
bool keys_is_question(const uint8_t *packet);

/* Takes a packet of 8 bytes, and sends what answers it. Returns which counter counts the packet. */
size_t keys_take(const uint8_t *packet, void *to);

/* The program defines it: sends a report or a beacon. `to` is what keys_take() got; NULL: the CAN
 * bus, if there is one. */
void keys_send(void *to, const uint8_t *packet, size_t length);

/* How many binary digits the number of wrong tags in the last whole epoch has. */
uint8_t keys_wrong_digits(void);

/* Has the last store of numbers failed? If the next ones fail, too, no new epoch begins. */
bool keys_cannot_store(void);

#endif
