/* Where udpserver listens: at a port of some addresses, or on the sockets that it is given.
 * SPDX-License-Identifier: MIT
 */
#ifndef DUMPULSE_ENDPOINTS_H
#define DUMPULSE_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"

enum { ENDPOINTS_MAX = 16 };
extern uint64_t endpoints_port; /* 0: any free one, which this is when the sockets are open */
extern size_t endpoints_count;  /* addresses of --bind; 0: the sockets are on the loopback */

void endpoints_set_defaults(void);
bool endpoints_set_port(const char *text); /* false: options.wrong says why */
bool endpoints_add(const char *text);      /* the value of --bind */

/* Uses the sockets that the service manager passes, or opens its own ones. `take` takes packets
 * from them. False: it cannot listen, and has logged why. */
bool endpoints_open(unsigned (*take)(int descriptor));

/* Returns the addresses of the open sockets as text, each with a space before it. */
const char *endpoints_describe(void);

#endif
