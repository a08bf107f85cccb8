/* Dumpulse over a Linux CAN interface.   SPDX-License-Identifier: MIT
 *
 * SPEC.md and spec/keyed.md say which identifiers carry what. There is one interface. The kernel
 * drops frames with other identifiers. When the interface goes away and comes back, the socket
 * is opened again.
 */
#ifndef DUMPULSE_CAN_H
#define DUMPULSE_CAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const char *can_interface; /* NULL: no CAN */

void can_set_defaults(void);
bool can_set_interface(const char *text);
bool can_set_id(const char *text);
extern uint64_t can_rate; /* reports a second */

bool can_open(void);            /* false: it cannot run, and it has logged why */
const char *can_describe(void); /* interface and identifiers, for people to read */

void can_finish(void); /* sends reports that were asked for, for 2 s at most */

/* The send hook gives it a report to send in frames, or a beacon. Without an interface, it does
 * nothing. */
void can_send(const uint8_t *bytes, size_t length);

#endif
