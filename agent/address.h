/* Internet addresses, and networks of them.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_ADDRESS_H
#define DUMPULSE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    ADDRESS_SIZE = 16,  /* every address is kept as IPv6: IPv4's a.b.c.d as ::ffff:a.b.c.d */
    ADDRESS_MAPPED = 12 /* bytes before an IPv4 address in there */
};

static const uint8_t address_mapped[ADDRESS_MAPPED] = {[10] = 0xFF, [11] = 0xFF};

static inline bool address_is_ipv4(const uint8_t address[ADDRESS_SIZE])
{
    uint32_t parts[4], mapped[4] = {0}; /* in whatever order of bytes */

    memcpy(parts, address, sizeof parts);
    memcpy(mapped, address_mapped, sizeof address_mapped);
    return (parts[0] | parts[1] | (parts[2] ^ mapped[2])) == 0;
}

/* An address in numbers, of so many characters. */
bool address_read(const char *text, size_t length, uint8_t address[ADDRESS_SIZE]);
const char *address_write(const uint8_t address[ADDRESS_SIZE]); /* until the next call */

enum { ADDRESS_NETWORKS = 64 };

struct address_network { /* where the mask has a bit, an address must have this one */
    uint8_t address[ADDRESS_SIZE], mask[ADDRESS_SIZE];
    bool ipv4;
    const char *text;
};

struct address_networks {
    struct address_network list[ADDRESS_NETWORKS];
    size_t count;
};

/* One like 192.0.2.0/24, the value of that option. False: options.wrong says why. */
bool address_add_network(struct address_networks *networks, const char *option, const char *text);
/* IPv4 has networks of its own: ::/0 is all of IPv6 alone. */
static inline bool address_is_in(const struct address_networks *networks,
                                 const uint8_t address[ADDRESS_SIZE])
{
    const bool ipv4 = address_is_ipv4(address);
    uint64_t from[2], there[2], mask[2]; /* in whatever order of bytes: nothing is carried */

    memcpy(from, address, sizeof from);
    for (const struct address_network *one = networks->list; one < networks->list + networks->count;
         one++) {
        memcpy(there, one->address, sizeof there);
        memcpy(mask, one->mask, sizeof mask);
        if ((((from[0] ^ there[0]) & mask[0]) | ((from[1] ^ there[1]) & mask[1])) == 0 &&
            one->ipv4 == ipv4)
            return true;
    }
    return false;
}

#endif
