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

/* Reads one network into the list. `wrong` becomes what is wrong with it, or NULL. */
static bool add_network(struct address_networks *networks, const char *text, const char **wrong)
{
    struct address_network *network = &networks->list[networks->count];
    const char *slash = strchrnul(text, '/');

    *wrong = "are too many networks: there may be 64 at most";
    if (networks->count == ADDRESS_NETWORKS)
        return false;
    *wrong = "must be an address like 192.0.2.0/24 or 2001:db8::/32";
    if (!address_read(text, (size_t)(slash - text), network->address))
        return false;
    network->ipv4 = address_is_ipv4(network->address);
    const uint64_t before = network->ipv4 ? MAPPED_BITS : 0;
    uint64_t bits = BITS - before;
    *wrong = network->ipv4 ? "must have a number from 0 to 32 after the slash of an IPv4 network"
                           : "must have a number from 0 to 128 after the slash of an IPv6 network";
    if (*slash != '\0' && !options_read_number(slash + 1, '\0', 0, bits, &bits))
        return false;
    memset(network->mask, 0, sizeof network->mask);
    for (size_t bit = 0; bit < before + bits; bit++)
        network->mask[bit / 8] |= (uint8_t)(0x80U >> bit % 8);
    *wrong = "has bits set beyond those that the number after the slash counts";
    for (size_t i = 0; i < ADDRESS_SIZE; i++)
        if ((network->address[i] & ~network->mask[i]) != 0)
            return false;
    networks->count++;
    return true;
}

/* A file has one network in a line. What is wrong is said without what the file has there. */
static bool read_networks_file(struct address_networks *networks, const char *option,
                               const char *path)
{
    static char content[OPTIONS_FILE_MAX + 2];
    size_t length;
    unsigned line = 0;
    bool is_right = true, is_empty = true;

    if (!options_read_file(path, "a file of networks", content, &length))
        return false;
    for (char *text = content, *next; text != NULL && (is_right || options.check); text = next) {
        const char *wrong;
        next = strchr(text, '\n');
        if (next != NULL)
            *next++ = '\0';
        line++;
        text += strspn(text, " \t");
        text[strcspn(text, " \t\r#")] = '\0';
        if (*text == '\0')
            continue;
        is_empty = false;
        is_right &=
            options_check(add_network(networks, text, &wrong) ||
                          options_wrong("%.300s, line %u: %s %s", path, line, option, wrong));
    }
    return is_right &&
           (!is_empty || options_wrong("%.300s: %s must have a network in it", path, option));
}

bool address_give(struct address_networks *networks, const char *option, const char *text)
{
    if (networks->given_count == ADDRESS_NETWORKS)
        return options_wrong("%s may be given %d times at most", option, ADDRESS_NETWORKS);
    networks->given[networks->given_count++] = text;
    return true;
}

bool address_read_networks(struct address_networks *networks, const char *option)
{
    bool is_right = true;

    networks->count = 0;
    for (size_t i = 0; i < networks->given_count && (is_right || options.check); i++) {
        const char *const text = networks->given[i], *wrong;
        is_right &= options_check(text[0] == '@'
                                      ? read_networks_file(networks, option, text + 1)
                                      : add_network(networks, text, &wrong) ||
                                            options_wrong("%s %.60s: it %s", option, text, wrong));
    }
    return is_right;
}

const char *address_describe(const struct address_networks *networks)
{
    static char text[800]; /* The whole line of the log must stay below 1 KB. */
    size_t length = 0;

    for (size_t i = 0; i < networks->given_count && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, " %s", networks->given[i]);
    return text;
}
