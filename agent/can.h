/* Dumpulse over a Linux CAN interface.   SPDX-License-Identifier: MIT
 *
 * SPEC.md says which identifiers carry what. One interface; the socket filters in the kernel,
 * and comes back by itself when the interface does.
 */
#ifndef DUMPULSE_CAN_H
#define DUMPULSE_CAN_H

#include <stdbool.h>
#include <stdint.h>

extern const char *can_interface; /* NULL: no CAN */

void can_set_defaults(void);
bool can_set_interface(const char *text);
bool can_set_id(const char *text);
extern uint64_t can_rate; /* reports a second */

bool can_open(void);                        /* false: cannot run, and it has said why */
const char *can_describe(void);             /* interface and identifiers, for a human */
unsigned can_take(bool polled);             /* what has come, in bounds; the number of packets */
void can_finish(void);                      /* what was asked for leaves, in 2 s, or is given up */
void can_keep_report(const uint8_t *bytes); /* for the send hook: it leaves frame by frame */

#endif
