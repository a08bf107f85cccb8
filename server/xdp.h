/* Heartbeats that the kernel takes for udpserver, before they reach a socket.
 * SPDX-License-Identifier: MIT
 *
 * server/xdp/program.bpf.c runs in the kernel, and says which heartbeats it takes. Its table is the
 * server's: memory that both have. If the server ends, in whatever way, the kernel removes the
 * program: so no heartbeat goes into a table that nobody serves.
 *
 * Without DUMPULSE_XDP, as the Makefile builds it where clang, bpftool or libbpf are missing, there
 * is only a message.
 */
#ifndef DUMPULSE_XDP_H
#define DUMPULSE_XDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"

#ifdef DUMPULSE_XDP
#define XDP_HELP "take heartbeats in the kernel (repeatable)"
#else
#define XDP_HELP "(this udpserver was built without it)"
#endif

extern size_t xdp_interface_count;
extern bool xdp_optional; /* is it served without XDP if that is impossible? */

void xdp_set_defaults(void);
bool xdp_add_interface(const char *text); /* the value of --xdp */

struct xdp_service {
    uint16_t port;
    const struct address_networks *senders;
    bool (*serves)(const uint8_t address[ADDRESS_SIZE], unsigned interface); /* does a socket? */
};

/* Loads the program, and attaches it to the interfaces. The table must be loaded already. False:
 * the server must not start, and the log has the reason. */
bool xdp_begin(const struct xdp_service *wanted);

uint64_t xdp_new_heartbeats(void); /* how many were taken since the last call */
void xdp_read_again(void);         /* `senders` has changed */
void xdp_finish(void); /* detaches the program: from now on, the table does not change */

#endif
