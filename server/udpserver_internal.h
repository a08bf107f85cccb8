/* What udpserver.c shows to its test: what its options have set.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_UDPSERVER_INTERNAL_H
#define DUMPULSE_UDPSERVER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "address.h"

extern struct udpserver {
    struct address_networks readers; /* Sources whose requests are answered. */
    struct address_networks senders; /* Sources of heartbeats; none: all are accepted. */
    uint64_t burst;                  /* reports at once for one source */
    uint64_t rate;                   /* reports a second for one source */
    uint64_t rate_total;             /* reports a second for all sources together */
    bool allow, can_id;
} udpserver;

#endif
