/* What udpserver and its program in the kernel share.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_XDP_SHARED_H
#define DUMPULSE_XDP_SHARED_H

#include "dumpulse.h"

enum {
    XDP_CORES = 512,   /* packets that come in on later cores go up to the socket */
    XDP_PLACES = 64,   /* addresses of this machine */
    XDP_NETWORKS = 64, /* of --allow-heartbeats */
    XDP_CACHE_LINE = 64
};

/* An address is kept as IPv6; IPv4's a.b.c.d is ::ffff:a.b.c.d. The halves are only compared, so
 * they are in the order of the packet. */
struct xdp_address {
    uint64_t halves[2];
};

struct xdp_network {
    struct xdp_address address, mask;
};

/* A packet to this address, with this hardware address, that comes in on this interface is for the
 * server. No packet from here has one of these addresses as its source. */
struct xdp_place {
    struct xdp_address address;
    uint64_t hardware;  /* its 6 bytes, and 2 zeros */
    uint32_t interface; /* 0: this address is not served */
    uint32_t used;      /* 0: the list ends here */
};

/* What udpserver writes, while the program reads it. */
struct xdp_settings {
    uint64_t offset; /* ns: Unix time, minus the time since the machine was started */
    uint64_t until;  /* ns of Unix time: from then on, the program takes no heartbeat */
    uint64_t list;   /* 0 or 1: which list holds now; the other one can be changed */
    struct xdp_place places[2][XDP_PLACES];
};

/* What the program keeps on one core. Nobody else writes it. */
struct xdp_core {
    uint64_t heartbeats; /* how many it has taken */
    uint64_t jiffy;      /* when it has made the stamp */
    uint32_t stamp;
    dumpulse agent; /* the library's; of its entries, only the one just written counts */
} __attribute__((aligned(XDP_CACHE_LINE)));

#endif
