/* Dumpulse over a Linux CAN interface.   SPDX-License-Identifier: MIT
 *
 * SPEC.md says which identifiers carry what. One interface; the socket filters in the kernel,
 * and comes back by itself when the interface does.
 */
#ifndef DUMPULSE_CAN_H
#define DUMPULSE_CAN_H

#include "service.h"

extern const char *can_interface; /* NULL: no CAN */

void set_can_defaults(void);
bool set_can_interface(const char *text);
bool set_can_id(const char *text);
extern uint64_t can_rate; /* reports a second */

bool open_can(void);                        /* false: cannot run, and it has said why */
const char *describe_can(void);             /* interface and identifiers, for a human */
unsigned take_can(bool polled);             /* what has come, in bounds; the number of packets */
void finish_can(void);                      /* what was asked for leaves, in 2 s, or is given up */
void keep_can_report(const uint8_t *bytes); /* for the send hook: it leaves frame by frame */

#endif
