/* The sockets of an agent for Linux.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_SOCKETS_H
#define DUMPULSE_SOCKETS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the loop waits for, and how many packets the smallest buffer of them holds. */
enum { SOCKETS_MAX = 17 };
extern struct pollfd sockets[SOCKETS_MAX];
extern size_t sockets_count;
extern uint64_t sockets_capacity;

/* Takes a bound socket into service, with a large buffer, as the last one or in the place of one
 * that is then closed; -1 keeps its place. False: there are SOCKETS_MAX already. */
bool sockets_add(int descriptor);
void sockets_replace(size_t socket, int descriptor);

void sockets_say_if_small(void); /* the buffers, that is */
void sockets_count_drops(void);  /* to be called before one has dropped 2^32 */

#endif
