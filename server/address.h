/* Internet addresses, and networks of them.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_ADDRESS_H
#define DUMPULSE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    ADDRESS_SIZE = 16,  /* every address is kept as IPv6; IPv4's a.b.c.d is ::ffff:a.b.c.d */
    ADDRESS_MAPPED = 12 /* bytes before an IPv4 address in this form */
};

static const uint8_t address_mapped[ADDRESS_MAPPED] = {[10] = 0xFF, [11] = 0xFF};

static inline bool address_is_ipv4(const uint8_t address[ADDRESS_SIZE])
{
    uint32_t parts[4], mapped[4] = {0}; /* only compared, so the byte order does not matter */

    memcpy(parts, address, sizeof parts);
    memcpy(mapped, address_mapped, sizeof address_mapped);
    return (parts[0] | parts[1] | (parts[2] ^ mapped[2])) == 0;
}

/* Reads an address in numbers from the first `length` characters. False: they are no address. */
bool address_read(const char *text, size_t length, uint8_t address[ADDRESS_SIZE]);

enum { ADDRESS_NETWORKS = 64 };

/* An address is in the network if it has the same bits wherever the mask has a one. */
struct address_network {
    uint8_t address[ADDRESS_SIZE], mask[ADDRESS_SIZE];
    bool ipv4;
};

struct address_networks {
    struct address_network list[ADDRESS_NETWORKS];
    const char *given[ADDRESS_NETWORKS]; /* the values of the option */
    size_t count;
};

/* Adds a value of `option`, like 192.0.2.0/24. False: options.wrong says what is wrong. */
bool address_add(struct address_networks *networks, const char *option, const char *text);
/* Returns what was given, as much as fits, each with a space before it. The next call overwrites
 * it. */
const char *address_describe(const struct address_networks *networks);

/* An IPv4 address is only in IPv4 networks: ::/0 has all IPv6 addresses, and no IPv4 address. */
static inline bool address_is_in(const struct address_networks *networks,
                                 const uint8_t address[ADDRESS_SIZE])
{
    const bool ipv4 = address_is_ipv4(address);
    /* Bits are compared and nothing is added, so the byte order does not matter. */
    uint64_t from[2], wanted[2], mask[2];

    memcpy(from, address, sizeof from);
    for (const struct address_network *one = networks->list; one < networks->list + networks->count;
         one++) {
        memcpy(wanted, one->address, sizeof wanted);
        memcpy(mask, one->mask, sizeof mask);
        if ((((from[0] ^ wanted[0]) & mask[0]) | ((from[1] ^ wanted[1]) & mask[1])) == 0 &&
            one->ipv4 == ipv4)
            return true;
    }
    return false;
}

#endif
