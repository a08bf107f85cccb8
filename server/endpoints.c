/* Where udpserver listens; see endpoints.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for strchrnul and struct in6_pktinfo */
#include "endpoints.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "loop.h"
#include "manager.h"
#include "options.h"
#include "sockets.h"
#include "timing.h"
#include "udp.h"

struct endpoint {
    uint8_t address[ADDRESS_SIZE];
    uint32_t scope;        /* Interface of a link-local address. */
    const char *interface; /* Name of the interface. */
};

uint64_t endpoints_port;
size_t endpoints_count;
static struct endpoint binds[ENDPOINTS_MAX];
static bool port_given;
static size_t opened; /* Number of sockets for UDP, which are the first ones. */

/* ---- Options ---------------------------------------------------------------------------- */

void endpoints_set_defaults(void)
{
    endpoints_port = 9060;
    endpoints_count = 0;
    port_given = false;
}

bool endpoints_set_port(const char *text)
{
    if (port_given)
        return options_wrong("one PORT is enough: '%.40s' is too many", text);
    port_given = true;
    return options_set_number("PORT", text, 0, UINT16_MAX, &endpoints_port);
}

/* Does the first endpoint get the packets for the other one, too? */
static bool covers(const struct endpoint *all, const struct endpoint *one)
{
    static const uint8_t zeros[ADDRESS_SIZE];
    /* 0.0.0.0 covers all of IPv4; :: covers IPv4 and IPv6. */
    const size_t prefix = address_is_ipv4(all->address) ? ADDRESS_MAPPED : 0;

    if (memcmp(all->address, one->address, ADDRESS_SIZE) == 0 && all->scope == one->scope)
        return true;
    return memcmp(all->address, one->address, prefix) == 0 &&
           memcmp(all->address + prefix, zeros, ADDRESS_SIZE - prefix) == 0;
}

static bool is_link_local(const uint8_t address[ADDRESS_SIZE])
{
    return address[0] == 0xFE && (address[1] & 0xC0U) == 0x80;
}

bool endpoints_add(const char *text)
{
    static const struct endpoint everything = {.address = {0}},
                                 all_ipv4 = {.address = {[10] = 0xFF, 0xFF}};
    const char *percent = strchrnul(text, '%');
    struct endpoint *endpoint = &binds[endpoints_count];

    if (endpoints_count == ENDPOINTS_MAX)
        return options_wrong("--bind may be given %d times at most", ENDPOINTS_MAX);
    if (!address_read(text, (size_t)(percent - text), endpoint->address))
        return options_wrong(
            "--bind must be an address in numbers like 192.0.2.1 or :: and not '%.60s'", text);
    endpoint->interface = *percent == '\0' ? NULL : percent + 1;
    endpoint->scope = *percent == '\0' ? 0 : if_nametoindex(percent + 1);
    if (*percent != '\0' && endpoint->scope == 0)
        return options_wrong("--bind %.60s: there is no such interface", text);
    if (*percent == '\0' && is_link_local(endpoint->address))
        return options_wrong("--bind %.60s: a link-local address needs its interface, like "
                             "fe80::1%%eth0",
                             text);
    if (*percent != '\0' && (memcmp(endpoint->address, everything.address, ADDRESS_SIZE) == 0 ||
                             memcmp(endpoint->address, all_ipv4.address, ADDRESS_SIZE) == 0))
        return options_wrong("--bind %.60s: this address is every interface; name the address that "
                             "the one interface has",
                             text);
    for (const struct endpoint *earlier = binds; earlier != endpoint; earlier++)
        if (covers(endpoint, earlier) || covers(earlier, endpoint))
            return options_wrong(
                "--bind %.60s overlaps another --bind: :: is all of IPv4 and IPv6, "
                "0.0.0.0 all of IPv4; give it alone",
                text);
    endpoints_count++;
    return true;
}

/* ---- Sockets ---------------------------------------------------------------------------- */

/* Returns an address and its port as text. The next call overwrites it. */
static const char *describe(const union udp_address *address)
{
    static char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 16];
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?", port[8] = "?";

    (void)getnameinfo(&address->any, sizeof *address, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV | NI_DGRAM);
    (void)snprintf(text, sizeof text, address->any.sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
                   host, port);
    return text;
}

/* Asks for the address that each packet was sent to, if the socket has several. */
static void ask_for_addresses(int descriptor, const union udp_address *bound)
{
    const int everywhere = bound->any.sa_family == AF_INET
                               ? bound->v4.sin_addr.s_addr == htonl(INADDR_ANY)
                               : IN6_IS_ADDR_UNSPECIFIED(&bound->v6.sin6_addr);

    if (bound->any.sa_family == AF_INET)
        (void)setsockopt(descriptor, IPPROTO_IP, IP_PKTINFO, &everywhere, sizeof everywhere);
    else
        (void)setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, &everywhere,
                         sizeof everywhere);
}

/* Adds a bound socket. Returns NULL, or what is wrong with the socket. */
static const char *add_socket(int descriptor, unsigned (*take)(int descriptor))
{
    union udp_address bound = {.any = {0}};
    socklen_t size = sizeof bound;
    int protocol = 0;
    socklen_t int_size = sizeof protocol;

    if (getsockname(descriptor, &bound.any, &size) != 0 ||
        getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &int_size) != 0 ||
        protocol != IPPROTO_UDP)
        return "is not a UDP socket";
    if (bound.v4.sin_port == 0) /* IPv6 has it in the same place */
        return "has no address and port: it has to be bound first";
    if (opened == ENDPOINTS_MAX)
        return "is one too many";
    ask_for_addresses(descriptor, &bound);
    opened++;
    return sockets_add(descriptor, take) ? NULL : "cannot be waited for";
}

/* Opens a socket at the endpoint. Returns its descriptor, or -1. `here` becomes the address that it
 * is bound to, or was to be bound to. */
static int open_socket(const struct endpoint *endpoint, union udp_address *here)
{
    const int off = 0;
    const in_port_t port = htons((uint16_t)endpoints_port);
    socklen_t size = sizeof *here;

    *here = (union udp_address){.v6 = {.sin6_family = AF_INET6, .sin6_port = port}};
    memcpy(&here->v6.sin6_addr, endpoint->address, ADDRESS_SIZE);
    here->v6.sin6_scope_id = endpoint->scope;
    if (address_is_ipv4(endpoint->address)) {
        here->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        memcpy(&here->v4.sin_addr, endpoint->address + ADDRESS_MAPPED,
               ADDRESS_SIZE - ADDRESS_MAPPED);
    }
    const int descriptor = socket(here->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return -1;
    if (here->any.sa_family == AF_INET6) /* :: is for IPv4, too */
        (void)setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(descriptor, &here->any, sizeof *here) != 0) {
        const int reason = errno;
        (void)close(descriptor);
        errno = reason;
        return -1;
    }
    (void)getsockname(descriptor, &here->any, &size);
    endpoints_port = ntohs(here->v4.sin_port); /* IPv6 has it in the same place */
    return descriptor;
}

/* An interface that went and came back has another number: then a socket at its link-local address
 * hears nothing any more, and this opens another one. */
static void attend(void)
{
    for (size_t i = 0; i < endpoints_count; i++) {
        const unsigned now = binds[i].interface == NULL ? 0 : if_nametoindex(binds[i].interface);
        union udp_address here;
        if (now == 0 || now == binds[i].scope)
            continue;
        struct endpoint wanted = binds[i];
        wanted.scope = now;
        const int descriptor = open_socket(&wanted, &here);
        if (descriptor < 0) /* it has not got the address yet */
            continue;
        binds[i].scope = now;
        if (sockets_replace(i, descriptor))
            log_say("listening on %s again", describe(&here));
    }
}

/* EPERM and EACCES come from a sandbox that allows only IPv4. */
static bool has_no_ipv6(int reason)
{
    return reason == EAFNOSUPPORT || reason == EADDRNOTAVAIL || reason == EPERM || reason == EACCES;
}

/* Opens the sockets that the arguments ask for. All of them get the same port. With PORT 0, the
 * first one gets a port that is free. That port may be in use at the next address: then all are
 * closed, and it tries again. */
static bool open_own_sockets(unsigned (*take)(int descriptor))
{
    static const struct endpoint loopback[] = {
        {.address = {[10] = 0xFF, [11] = 0xFF, 127, 0, 0, 1}}, {.address = {[15] = 1}}};
    const bool by_default = endpoints_count == 0, any_port = endpoints_port == 0;
    const struct endpoint *endpoints = by_default ? loopback : binds;
    const size_t count = by_default ? 2 : endpoints_count;
    unsigned tries = 16;
    union udp_address here;

    for (size_t i = 0; i < count; i++) {
        const int descriptor = open_socket(&endpoints[i], &here);
        /* Nothing else can be wrong with an own socket than that it cannot be waited for. */
        const int reason = descriptor < 0 || add_socket(descriptor, take) != NULL ? errno : 0;
        if (reason == 0 || (by_default && i == 1 && has_no_ipv6(reason)))
            continue;
        if (reason != EADDRINUSE || !any_port || i == 0 || --tries == 0) {
            log_say("cannot listen on %s: %s", describe(&here),
                    reason == EADDRINUSE
                        ? "the port is in use; stop what listens there, or give another PORT"
                        : strerror(reason));
            return false;
        }
        while (sockets_count != 0)
            (void)close(sockets[--sockets_count].fd);
        opened = 0;
        endpoints_port = 0;
        i = SIZE_MAX; /* begin again */
    }
    return true;
}

bool endpoints_open(unsigned (*take)(int descriptor))
{
    const size_t passed = manager_passed_sockets();

    for (size_t i = 0; i < endpoints_count; i++)
        if (binds[i].interface != NULL)
            loop_define_task(LOOP_ADDRESSES, attend, TIMING_SECOND);
    if (passed == 0)
        return open_own_sockets(take);
    if (port_given || endpoints_count != 0) {
        log_say("sockets were passed by the service manager: give neither PORT nor --bind");
        return false;
    }
    for (size_t i = 0; i < passed; i++) {
        const int descriptor = MANAGER_FIRST_SOCKET + (int)i;
        const char *wrong = add_socket(descriptor, take);
        if (wrong != NULL) {
            log_say("descriptor %d, passed by the service manager, %s", descriptor, wrong);
            return false;
        }
    }
    return true;
}

const char *endpoints_describe(void)
{
    static char text[ENDPOINTS_MAX * (INET6_ADDRSTRLEN + IF_NAMESIZE + 16)];
    union udp_address bound = {.any = {0}};
    size_t length = 0;

    for (size_t i = 0; i < opened; i++) {
        socklen_t size = sizeof bound;
        (void)getsockname(sockets[i].fd, &bound.any, &size);
        length += (size_t)snprintf(text + length, sizeof text - length, " %s", describe(&bound));
    }
    return text;
}
