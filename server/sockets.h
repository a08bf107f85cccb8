/* The sockets of an agent for Linux.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_SOCKETS_H
#define DUMPULSE_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sockets that the loop waits for, each with the function that takes packets from it. This
 * function takes what has come, SOCKETS_BATCH packets at most, and returns how many. */
enum { SOCKETS_MAX = 17, SOCKETS_BATCH = 64 };
struct sockets_one {
    int fd; /* -1: the place is reserved for a later socket */
    unsigned (*take)(int fd);
};
extern struct sockets_one sockets[SOCKETS_MAX];
extern size_t sockets_count;
extern int sockets_poller;        /* Descriptor of epoll; event.data.ptr is the ready socket. */
extern uint64_t sockets_capacity; /* packets that the smallest of their buffers holds */

/* Adds a bound socket at the end, and gives it a large buffer. The descriptor -1 reserves a place
 * for a later socket. False: there are SOCKETS_MAX already, or the kernel has no memory. */
bool sockets_add(int descriptor, unsigned (*take)(int fd));
/* Closes a socket, and puts another one or -1 in its place. False: the kernel has no memory. */
bool sockets_replace(size_t socket, int descriptor);

/* Takes packets from a socket, a bounded number of them, and returns how many. */
unsigned sockets_take(const struct sockets_one *socket);
unsigned sockets_take_all(void); /* Takes from each socket, ready or not. */
/* Takes the packets that wait now, and some that come meanwhile: about a buffer of them at most. */
void sockets_take_waiting(void);

void sockets_say_if_small(void); /* logs a line if the buffers are small */
void sockets_count_drops(void);  /* must be called before a socket has dropped 2^32 packets more */

#endif
