/* The sockets of an agent for Linux.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_SOCKETS_H
#define DUMPULSE_SOCKETS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sockets that the loop waits for. */
enum { SOCKETS_MAX = 17 };
extern struct pollfd sockets[SOCKETS_MAX];
extern size_t sockets_count;
extern uint64_t sockets_capacity; /* packets that the smallest of their buffers holds */

/* Adds a bound socket at the end, and gives it a large buffer. The descriptor -1 reserves a place
 * for a later socket. False: there are SOCKETS_MAX already. */
bool sockets_add(int descriptor);
/* Closes a socket, and puts another one or -1 in its place. */
void sockets_replace(size_t socket, int descriptor);

void sockets_say_if_small(void); /* logs a line if the buffers are small */
void sockets_count_drops(void);  /* must be called before a socket has dropped 2^32 packets more */

#endif
