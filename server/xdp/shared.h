/* What udpserver and its program in the kernel share.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_XDP_SHARED_H
#define DUMPULSE_XDP_SHARED_H

#ifndef __bpf__
#include <string.h>
#endif

#include "dumpulse.h"

enum {
    XDP_CORES = 512,   /* packets that come in on later cores go up to the socket */
    XDP_PLACES = 128,  /* addresses of this machine */
    XDP_NETWORKS = 64, /* of --allow-heartbeats */
    XDP_CACHE_LINE = 64
};

/* An address is kept as IPv6; IPv4's a.b.c.d is ::ffff:a.b.c.d. The halves are only compared, so
 * they are in the order of the packet. */
struct xdp_address {
    uint64_t halves[2];
};

/* An address is in the network if it has the same bits wherever the mask has a one, and is of the
 * same kind. */
struct xdp_network {
    struct xdp_address address, mask;
    uint64_t ipv4; /* 1: it is of IPv4 */
};

/* A packet to this address, with this hardware address, that comes in on this interface is for the
 * server. No packet from here has one of these addresses as its source. */
struct xdp_place {
    struct xdp_address address;
    uint64_t hardware;  /* what xdp_hardware() returns */
    uint64_t interface; /* 0: nothing is served there */
};

struct xdp_list {
    uint64_t last_bytes[4]; /* bit N: an address ends in N; so most sources have none */
    uint64_t network_count; /* of --allow-heartbeats; 0: everybody may send heartbeats */
    struct xdp_place places[XDP_PLACES]; /* first those that are served */
    struct xdp_network networks[XDP_NETWORKS];
};

/* A hardware address, from its three numbers of 16 bits in the order of the packet. */
static inline uint64_t xdp_hardware(uint16_t first, uint16_t second, uint16_t third)
{
    return (uint64_t)first << 32 | (uint64_t)second << 16 | third;
}

static inline uint8_t xdp_last_byte(const struct xdp_address *address)
{
    return ((const uint8_t *)address)[15];
}

/* What udpserver writes, while the program reads it. What each packet needs comes first, so that it
 * takes few lines of the cache. */
struct xdp_settings {
    uint64_t offset; /* ns: Unix time, minus the time of the atomic clock (TAI) */
    uint64_t until;  /* ns of Unix time: from then on, the program takes no heartbeat */
    uint64_t list;   /* 0 or 1: which list holds now; the other one can be changed */
    /* These are set before the program runs, and do not change. */
    uint64_t tick;  /* ns */
    uint64_t reuse; /* 1: a stamp is used again in the same jiffy; 0: never */
    uint16_t port;  /* as in a packet */
    struct xdp_list lists[2];
};

#ifndef __bpf__
/* The program reads one list while the other one is written. */
static inline void xdp_publish(struct xdp_settings *settings, const struct xdp_list *list)
{
    const uint64_t other = 1 - settings->list;

    if (memcmp(list, &settings->lists[settings->list], sizeof *list) == 0)
        return;
    memcpy(&settings->lists[other], list, sizeof *list);
    __atomic_store_n(&settings->list, other, __ATOMIC_RELEASE);
}
#endif

/* What the program keeps on one core. Nobody else writes it. */
struct xdp_core {
    uint64_t heartbeats; /* how many it has taken */
    uint64_t jiffy;      /* when it has made the stamp */
    uint32_t stamp;
    dumpulse agent; /* the library's; of its entries, only the one just written counts */
} __attribute__((aligned(XDP_CACHE_LINE)));

#endif
