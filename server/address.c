/* Internet addresses, and networks of them; see address.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for strchrnul */
#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "options.h"

enum { BITS = 8 * ADDRESS_SIZE, MAPPED_BITS = 8 * ADDRESS_MAPPED };

bool address_read(const char *text, size_t length, uint8_t address[ADDRESS_SIZE])
{
    char copy[INET6_ADDRSTRLEN];

    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    memcpy(address, address_mapped, ADDRESS_MAPPED);
    return inet_pton(AF_INET, copy, address + ADDRESS_MAPPED) == 1 ||
           inet_pton(AF_INET6, copy, address) == 1;
}

bool address_add(struct address_networks *networks, const char *option, const char *text)
{
    struct address_network *network = &networks->list[networks->count];
    const char *slash = strchrnul(text, '/');

    if (networks->count == ADDRESS_NETWORKS)
        return options_wrong("%s may be given %d times at most", option, ADDRESS_NETWORKS);
    if (!address_read(text, (size_t)(slash - text), network->address))
        return options_wrong("%s %.60s: it must be an address like 192.0.2.0/24 or 2001:db8::/32",
                             option, text);
    network->ipv4 = address_is_ipv4(network->address);
    const uint64_t before = network->ipv4 ? MAPPED_BITS : 0;
    uint64_t bits = BITS - before;
    if (*slash != '\0' && !options_read_number(slash + 1, '\0', 0, bits, &bits))
        return options_wrong("%s %.60s: it must have a number from 0 to %u after the slash of an "
                             "IPv%d network",
                             option, text, (unsigned)(BITS - before), network->ipv4 ? 4 : 6);
    memset(network->mask, 0, sizeof network->mask);
    for (size_t bit = 0; bit < before + bits; bit++)
        network->mask[bit / 8] |= (uint8_t)(0x80U >> bit % 8);
    for (size_t i = 0; i < ADDRESS_SIZE; i++)
        if ((network->address[i] & ~network->mask[i]) != 0)
            return options_wrong("%s %.60s: it has bits set beyond those that the number after "
                                 "the slash counts",
                                 option, text);
    networks->given[networks->count++] = text;
    return true;
}

const char *address_describe(const struct address_networks *networks)
{
    static char text[800]; /* The whole line of the log must stay below 1 KB. */
    size_t length = 0;

    for (size_t i = 0; i < networks->count && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, " %s", networks->given[i]);
    return text;
}
