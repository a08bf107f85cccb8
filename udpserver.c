/* An agent for Linux that takes heartbeats and answers requests over UDP.
 * SPDX-License-Identifier: MIT
 *
 * udpserver.8 is its manual; dumpulse.h explains the library. This file has the parts that need
 * UDP. agent/ has the other parts: agent/program.h lists them.
 */
#define _GNU_SOURCE /* NOLINT: for recvmmsg and sendmmsg */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/address.h"
#include "agent/can.h"
#include "agent/counters.h"
#include "agent/keys.h"
#include "agent/limits.h"
#include "agent/log.h"
#include "agent/manager.h"
#include "agent/options.h"
#include "agent/program.h"
#include "agent/sockets.h"
#include "agent/sources.h"
#include "agent/table.h"
#include "agent/timing.h"
#include "agent/xdp.h"

/* ---- Options ---------------------------------------------------------------------------- */

enum { MAX_BINDS = 16 };

struct endpoint { /* where to listen */
    uint8_t address[ADDRESS_SIZE];
    uint32_t scope; /* the interface of a link-local address */
};

static struct {
    const char *port_text;
    uint64_t port;
    struct endpoint binds[MAX_BINDS];
    size_t bind_count;
    struct address_networks readers; /* who may ask */
    struct address_networks senders; /* who may send heartbeats; none: everybody may */
    uint64_t burst;                  /* reports at once for one source */
    uint64_t rate;                   /* reports a second for one source */
    uint64_t rate_total;             /* reports a second for all sources together */
    bool allow, can_id;
} network;

static struct limits report_limits;

static bool set_port(const char *text)
{
    if (network.port_text != NULL)
        return options_wrong("one PORT is enough: '%.40s' is too many", text);
    network.port_text = text;
    return options_set_number("PORT", text, 0, UINT16_MAX, &network.port);
}

/* Does the first endpoint get the packets for the other one, too? */
static bool covers(const struct endpoint *all, const struct endpoint *one)
{
    static const uint8_t zeros[ADDRESS_SIZE];
    /* 0.0.0.0 covers all of IPv4; :: covers IPv4 and IPv6. */
    const size_t prefix = address_is_ipv4(all->address) ? ADDRESS_MAPPED : 0;

    if (memcmp(all, one, sizeof *all) == 0)
        return true;
    return memcmp(all->address, one->address, prefix) == 0 &&
           memcmp(all->address + prefix, zeros, ADDRESS_SIZE - prefix) == 0;
}

static bool set_bind(const char *text)
{
    const char *percent = strchrnul(text, '%');
    struct endpoint *endpoint = &network.binds[network.bind_count];

    if (network.bind_count == MAX_BINDS)
        return options_wrong("--bind may be given %d times at most", MAX_BINDS);
    if (!address_read(text, (size_t)(percent - text), endpoint->address))
        return options_wrong(
            "--bind wants an address in numbers like 192.0.2.1 or :: and not '%.60s'", text);
    endpoint->scope = *percent == '\0' ? 0 : if_nametoindex(percent + 1);
    if (*percent != '\0' && endpoint->scope == 0)
        return options_wrong("--bind %.60s: there is no such interface", text);
    const struct endpoint everything = {.address = {0}},
                          all_ipv4 = {.address = {[10] = 0xFF, 0xFF}};
    if (*percent != '\0' && (memcmp(endpoint->address, everything.address, ADDRESS_SIZE) == 0 ||
                             memcmp(endpoint->address, all_ipv4.address, ADDRESS_SIZE) == 0))
        return options_wrong("--bind %.60s: this address is every interface; name the address that "
                             "the one interface has",
                             text);
    for (const struct endpoint *earlier = network.binds; earlier != endpoint; earlier++)
        if (covers(endpoint, earlier) || covers(earlier, endpoint))
            return options_wrong(
                "--bind %.60s overlaps another --bind: :: is all of IPv4 and IPv6, "
                "0.0.0.0 all of IPv4; give it alone",
                text);
    network.bind_count++;
    return true;
}

static bool set_allow(const char *text)
{
    network.allow = true;
    return address_add_network(&network.readers, "--allow", text);
}

static bool set_allow_heartbeats(const char *text)
{
    return address_add_network(&network.senders, "--allow-heartbeats", text);
}

static bool set_gateway_id(const char *text)
{
    network.can_id = true;
    return can_set_id(text);
}

static const struct option_spec own_options[] = {
    {"--bind", "ADDRESS", "listen here (repeatable); :: is all IPv4 and IPv6", .set = set_bind},
    {"--allow", "CIDR", "who may ask for reports (repeatable)", .set = set_allow},
    {"--allow-heartbeats", "CIDR", "who may send heartbeats (repeatable; default: all)",
     .set = set_allow_heartbeats},
    {"--burst", "N", "reports at once for one source (128)", NULL, NULL, &network.burst, 1,
     1000000},
    {"--rate", "N", "reports a second for one source (10)", NULL, NULL, &network.rate, 1, 1000000},
    {"--rate-total", "N", "reports a second for all sources (1000)", NULL, NULL,
     &network.rate_total, 1, 1000000},
    {"--can", "INTERFACE", "be a gateway: serve this CAN interface, too", .set = can_set_interface},
    {"--can-id", "ID", "first of 128 CAN identifiers (680)", .set = set_gateway_id},
    {"--xdp", "INTERFACE", XDP_HELP, .set = xdp_add_interface},
    {"--xdp-optional", NULL, "serve without --xdp if it cannot be used", .flag = &xdp_optional},
};

static void set_defaults(void)
{
    memset(&network, 0, sizeof network);
    network.port = 9060;
    network.burst = 128; /* one host may check each of 64 variables, and each check may ask twice */
    network.rate = 10;
    network.rate_total = 1000;
    can_set_defaults();
    xdp_set_defaults();
}

static bool finish_arguments(void)
{
    if (network.can_id && can_interface == NULL)
        return options_wrong("--can-id is for a gateway: give --can INTERFACE, too");
    if (xdp_optional && xdp_interface_count == 0)
        return options_wrong("--xdp-optional is for --xdp: give --xdp INTERFACE, too");
    if (xdp_interface_count != 0 && options.log >= OPTIONS_LOG_CHANGES)
        return options_wrong("--xdp cannot name senders: leave out --log changes");
    if (xdp_interface_count != 0 && options.key != NULL)
        return options_wrong("--xdp cannot check tags: leave out --key");
    return network.allow || (address_add_network(&network.readers, "--allow", "127.0.0.0/8") &&
                             address_add_network(&network.readers, "--allow", "::1"));
}

union source {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static void address_of(const union source *from, uint8_t address[ADDRESS_SIZE])
{
    if (from->any.sa_family == AF_INET6) {
        memcpy(address, &from->v6.sin6_addr, ADDRESS_SIZE);
    } else {
        memcpy(address, address_mapped, ADDRESS_MAPPED);
        memcpy(address + ADDRESS_MAPPED, &from->v4.sin_addr, ADDRESS_SIZE - ADDRESS_MAPPED);
    }
}

/* ---- Packets ---------------------------------------------------------------------------- */

enum {
    BATCH = 64,       /* packets that one system call takes at most */
    PACKET_ROOM = 16, /* more than 8 bytes, to find datagrams that are too long */
    /* Room for the address that a packet was sent to. A passed socket may have options that let the
     * kernel write more in front of it: times of three kinds, and at most six numbers. */
    CONTROL_ROOM = CMSG_SPACE(2 * sizeof(int64_t)) + CMSG_SPACE(6 * sizeof(int64_t)) +
                   CMSG_SPACE(4 * sizeof(int32_t)) + 6 * CMSG_SPACE(sizeof(int32_t)) +
                   CMSG_SPACE(sizeof(struct in6_pktinfo))
};

static size_t udp_count; /* how many sockets are for UDP; they come first */

static struct mmsghdr incoming[BATCH], outgoing[BATCH];
static struct iovec incoming_bytes[BATCH], outgoing_bytes[BATCH];
static uint8_t packets[BATCH][PACKET_ROOM];
static uint8_t reports[BATCH][DUMPULSE_KEYED_REPORT_SIZE]; /* and beacons */
static union source sources[BATCH];
static size_t controls[BATCH][CONTROL_ROOM / sizeof(size_t)]; /* size_t has the alignment needed */
static unsigned outgoing_count;

/* Prepares for the next packet: the kernel writes the lengths of its output into these fields. */
static void reset_lengths(struct msghdr *message)
{
    message->msg_namelen = sizeof sources[0];
    message->msg_controllen = CONTROL_ROOM;
}

static void prepare_batches(void)
{
    for (size_t i = 0; i < BATCH; i++) {
        incoming_bytes[i] = (struct iovec){packets[i], PACKET_ROOM};
        incoming[i].msg_hdr = (struct msghdr){.msg_name = &sources[i],
                                              .msg_iov = &incoming_bytes[i],
                                              .msg_iovlen = 1,
                                              .msg_control = &controls[i]};
        reset_lengths(&incoming[i].msg_hdr);
        outgoing_bytes[i] = (struct iovec){reports[i], DUMPULSE_REPORT_SIZE};
        outgoing[i].msg_hdr = (struct msghdr){.msg_iov = &outgoing_bytes[i], .msg_iovlen = 1};
    }
}

/* Makes the report leave from the address that the request was sent to, because a reader believes
 * no other. The kernel chooses the interface, except for a link-local address, which means nothing
 * without its interface. False: the kernel had no room to write that address. */
__attribute__((always_inline)) static inline bool set_reply_address(struct msghdr *reply,
                                                                    struct msghdr *request)
{
    struct in6_pktinfo info;

    reply->msg_control = NULL;
    reply->msg_controllen = 0;
    if (request->msg_controllen == 0)
        return true;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(request); header != NULL;
         header = CMSG_NXTHDR(request, header)) {
        if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO &&
            header->cmsg_len == CMSG_LEN(sizeof(struct in_pktinfo))) {
            memset(CMSG_DATA(header) + offsetof(struct in_pktinfo, ipi_ifindex), 0, sizeof(int));
        } else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO &&
                   header->cmsg_len == CMSG_LEN(sizeof info)) {
            memcpy(&info, CMSG_DATA(header), sizeof info);
            if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
                info.ipi6_ifindex = 0;
            memcpy(CMSG_DATA(header), &info, sizeof info);
        } else {
            continue;
        }
        reply->msg_control = header;
        reply->msg_controllen = header->cmsg_len;
        return true;
    }
    return (request->msg_flags & MSG_CTRUNC) == 0;
}

/* With --key: where the node of each variable was last heard. It gets all beacons, so that it
 * does not have to ask for them. Else its heartbeats would be refused from each new epoch on
 * until it has asked. Only somebody with the key can put an address here, or bring a heartbeat
 * here from another address before it comes from its own; and that address gets 8 bytes a
 * second. */
static struct listener {
    uint64_t until; /* ns: then it is forgotten */
    int descriptor; /* of the socket that heard it */
    uint8_t address[sizeof(union source)];
    size_t address_length, control_length;
    size_t control[CMSG_SPACE(sizeof(struct in6_pktinfo)) / sizeof(size_t)];
} listeners[DUMPULSE_VARIABLES];

enum { LISTENS = 3 }; /* epochs without a heartbeat until a node is forgotten */

static void note_listener(uint8_t variable, int descriptor, struct msghdr *from, uint64_t now)
{
    struct listener *one = &listeners[variable];
    struct msghdr reply;

    if (!keys_hears(variable) || !set_reply_address(&reply, from) ||
        reply.msg_controllen > sizeof one->control)
        return;
    memset(one, 0, sizeof *one);
    one->until = now + LISTENS * options.epoch * TIMING_SECOND;
    one->descriptor = descriptor;
    one->address_length = from->msg_namelen;
    memcpy(one->address, from->msg_name, from->msg_namelen);
    one->control_length = reply.msg_controllen;
    if (reply.msg_controllen != 0)
        memcpy(one->control, reply.msg_control, reply.msg_controllen);
}

/* One node may have several variables. */
static bool is_first(const struct listener *listener, uint64_t now)
{
    for (const struct listener *one = listeners; one != listener; one++)
        if (one->until > now && memcmp(one->address, listener->address, sizeof one->address) == 0)
            return false;
    return true;
}

/* A heartbeat may have been sent to a multicast or broadcast address: see send_reports(). */
static void tell_listeners(const uint8_t *beacon)
{
    const uint64_t now = timing_ns();
    uint8_t bytes[DUMPULSE_PACKET_SIZE];
    struct iovec all = {bytes, sizeof bytes};

    memcpy(bytes, beacon, sizeof bytes);
    for (struct listener *one = listeners; one != listeners + DUMPULSE_VARIABLES; one++) {
        struct msghdr message = {.msg_name = one->address,
                                 .msg_namelen = (socklen_t)one->address_length,
                                 .msg_iov = &all,
                                 .msg_iovlen = 1,
                                 .msg_control = one->control,
                                 .msg_controllen = one->control_length};
        if (one->until <= now || !is_first(one, now) ||
            sendmsg(one->descriptor, &message, MSG_DONTWAIT) >= 0 || errno == EAGAIN)
            continue; /* what is lost comes again in a second */
        message.msg_controllen = one->control_length = 0;
        (void)sendmsg(one->descriptor, &message, MSG_DONTWAIT);
    }
}

static void reply_to(const struct msghdr *request)
{
    struct msghdr *reply = &outgoing[outgoing_count].msg_hdr;

    reply->msg_name = request->msg_name;
    reply->msg_namelen = request->msg_namelen;
    outgoing_count++;
}

/* The next heartbeat changes the agent's bytes, so they are copied. There is always room: a batch
 * of packets asks for at most BATCH reports. */
void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    if (context == NULL) { /* the request came over CAN */
        can_send(packet, length);
        return;
    }
    memcpy(reports[outgoing_count], packet, length);
    reply_to((const struct msghdr *)context);
}

void keys_send(void *context, const uint8_t *packet, size_t length)
{
    if (context == keys_everybody)
        tell_listeners(packet);
    if (context == NULL || context == keys_everybody) { /* NULL: the request came over CAN */
        can_send(packet, length);
        return;
    }
    memcpy(reports[outgoing_count], packet, length);
    outgoing_bytes[outgoing_count].iov_len = length;
    reply_to((const struct msghdr *)context);
}

/* Sends the batch of reports. A report that the kernel does not take at once is lost, and counted.
 * An error concerns only the first report of a call. A request may have been sent to a multicast or
 * broadcast address, from which nothing can be sent: then the kernel chooses the address. */
static void send_reports(int descriptor)
{
    unsigned done = 0;

    while (done < outgoing_count) {
        struct msghdr *first = &outgoing[done].msg_hdr;
        const int sent = sendmmsg(descriptor, outgoing + done, outgoing_count - done, MSG_DONTWAIT);
        if (sent <= 0 && errno != EAGAIN && first->msg_controllen != 0) {
            first->msg_controllen = 0;
            continue;
        }
        if (sent <= 0) { /* it was counted as a report, or as a beacon */
            counters[outgoing_bytes[done].iov_len == DUMPULSE_PACKET_SIZE ? COUNT_BEACONS
                                                                          : COUNT_REPORTS]--;
            counters[COUNT_UNSENT]++;
        }
        done += sent > 0 ? (unsigned)sent : 1;
    }
    outgoing_count = 0;
}

/* A source is an IPv4 address, or the first 64 bits of an IPv6 address: whoever has one address of
 * such a network has them all. */
static const uint8_t *source_of(const uint8_t address[ADDRESS_SIZE])
{
    return address_is_ipv4(address) ? address + ADDRESS_SIZE - LIMITS_SOURCE : address;
}

static uint64_t requested; /* ns; the clock is read for the first report of a batch */

/* Returns which counter counts the packet. */
static size_t take_request(const uint8_t *packet, struct msghdr *from)
{
    uint8_t address[ADDRESS_SIZE];

    address_of((const union source *)from->msg_name, address);
    if (!address_is_in(&network.readers, address))
        return COUNT_NOT_ALLOWED;
    if (outgoing_count == 0)
        requested = timing_ns();
    if (!limits_allow(&report_limits, source_of(address), requested))
        return COUNT_RATE;
    if (!set_reply_address(&outgoing[outgoing_count].msg_hdr, from))
        return COUNT_UNSENT;
    table_prepare();
    (void)dumpulse_process_packet(&table_agent, packet, DUMPULSE_PACKET_SIZE, from);
    return COUNT_REPORTS;
}

static bool may_send_heartbeats(const struct msghdr *from)
{
    uint8_t address[ADDRESS_SIZE];

    address_of((const union source *)from->msg_name, address);
    return network.senders.count == 0 || address_is_in(&network.senders, address);
}

/* With --key. A request with the count 0 asks only for a beacon, as nodes do: everybody may. The
 * others need a key, so they are allowed to all unless --allow names some. */
static size_t take_keyed(const uint8_t *packet, int descriptor, struct msghdr *from, uint64_t now)
{
    uint8_t address[ADDRESS_SIZE];

    address_of((const union source *)from->msg_name, address);
    if (!keys_is_request(packet)) {
        if (!may_send_heartbeats(from))
            return COUNT_NOT_ALLOWED;
    } else {
        if (packet[5] != 0 && network.allow && !address_is_in(&network.readers, address))
            return COUNT_NOT_ALLOWED;
        if (!set_reply_address(&outgoing[outgoing_count].msg_hdr, from))
            return COUNT_UNSENT;
    }
    const size_t outcome = keys_take(packet, source_of(address), now, from);
    if (outcome == COUNT_HEARTBEATS)
        note_listener(packet[4] % DUMPULSE_VARIABLES, descriptor, from, now);
    return outcome;
}

static void note_source(const struct msghdr *from, size_t outcome, const uint8_t *packet,
                        uint64_t now)
{
    uint8_t address[ADDRESS_SIZE];

    if (options.log < OPTIONS_LOG_CHANGES)
        return;
    address_of((const union source *)from->msg_name, address);
    sources_note(address, outcome, packet, now);
}

/* Takes the packets that have come, BATCH at most, and returns how many. The clock is read once,
 * when all packets of the batch are here. So no stamp is earlier than the arrival of its packet.
 * Reading it for each packet would make a difference only if it ticked in the few µs that a batch
 * takes. If `checks_sources`, this checks and logs the sources of heartbeats, too. */
__attribute__((always_inline)) static inline unsigned take_batch(int descriptor,
                                                                 bool checks_sources, bool keyed)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    const int count = recvmmsg(descriptor, incoming, BATCH, MSG_DONTWAIT, NULL);

    if (count <= 0)
        return 0;
    table_read_clock();
    const uint64_t now = checks_sources ? timing_ns() : 0;
    if (keyed) /* the first report may be one with a key */
        requested = now;
    const uint8_t *packet = packets[0];
    for (struct mmsghdr *message = incoming; message != incoming + count; message++) {
        size_t outcome;
        if (message->msg_len != DUMPULSE_PACKET_SIZE)
            outcome = COUNT_LENGTH;
        else if (keyed && !keys_leaves(packet))
            outcome = take_keyed(packet, descriptor, &message->msg_hdr, now);
        else if (packet[DUMPULSE_MAGIC_AT_] != DUMPULSE_MAGIC &&
                 memcmp(packet, request, sizeof request) == 0)
            outcome = take_request(packet, &message->msg_hdr);
        else if (checks_sources && !may_send_heartbeats(&message->msg_hdr))
            outcome = COUNT_NOT_ALLOWED;
        else
            outcome = table_take_heartbeat(packet);
        counters[outcome]++;
        if (checks_sources)
            note_source(&message->msg_hdr, outcome, packet, now);
        reset_lengths(&message->msg_hdr);
        packet += PACKET_ROOM;
    }
    const unsigned replies = outgoing_count;
    if (replies != 0)
        send_reports(descriptor);
    for (unsigned i = 0; keyed && i < replies; i++) /* a report of version 1 may be next */
        outgoing_bytes[i].iov_len = DUMPULSE_REPORT_SIZE;
    return (unsigned)count;
}

static unsigned take_from_all(int descriptor)
{
    return take_batch(descriptor, false, false);
}

static unsigned take_from_some(int descriptor)
{
    return take_batch(descriptor, true, false);
}

static unsigned take_with_keys(int descriptor)
{
    return take_batch(descriptor, true, true);
}

/* ---- Sockets ---------------------------------------------------------------------------- */

/* Adds a bound socket. Returns NULL, or what is wrong with the socket. */
static const char *add_udp_socket(int descriptor)
{
    union source bound = {.any = {0}};
    socklen_t size = sizeof bound;
    int protocol = 0, everywhere;
    socklen_t int_size = sizeof protocol;

    if (getsockname(descriptor, &bound.any, &size) != 0 ||
        getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &int_size) != 0 ||
        protocol != IPPROTO_UDP)
        return "is no UDP socket";
    if (bound.v4.sin_port == 0) /* IPv6 has it in the same place */
        return "has no address and port: it has to be bound first";
    if (udp_count == MAX_BINDS)
        return "is one too many";
    if (bound.any.sa_family == AF_INET) {
        everywhere = bound.v4.sin_addr.s_addr == htonl(INADDR_ANY);
        (void)setsockopt(descriptor, IPPROTO_IP, IP_PKTINFO, &everywhere, sizeof everywhere);
    } else {
        everywhere = IN6_IS_ADDR_UNSPECIFIED(&bound.v6.sin6_addr);
        (void)setsockopt(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, &everywhere,
                         sizeof everywhere);
    }
    udp_count++;
    const bool checks_sources = options.log >= OPTIONS_LOG_CHANGES || network.senders.count != 0;
    return sockets_add(descriptor, options.key != NULL ? take_with_keys
                                   : checks_sources    ? take_from_some
                                                       : take_from_all)
               ? NULL
               : "cannot be waited for";
}

static const char *describe(const union source *address)
{
    static char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 16];
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?", port[8] = "?";

    (void)getnameinfo(&address->any, sizeof *address, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV | NI_DGRAM);
    (void)snprintf(text, sizeof text, address->any.sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s",
                   host, port);
    return text;
}

/* Opens a socket at the endpoint, and adds it. Returns 0 or an error number. `here` becomes the
 * address that it is bound to, or was to be bound to. */
static int open_socket(const struct endpoint *endpoint, union source *here)
{
    const int off = 0;
    const in_port_t port = htons((uint16_t)network.port);
    socklen_t size = sizeof *here;

    *here = (union source){.v6 = {.sin6_family = AF_INET6, .sin6_port = port}};
    memcpy(&here->v6.sin6_addr, endpoint->address, ADDRESS_SIZE);
    here->v6.sin6_scope_id = endpoint->scope;
    if (address_is_ipv4(endpoint->address)) {
        here->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        memcpy(&here->v4.sin_addr, endpoint->address + ADDRESS_MAPPED,
               ADDRESS_SIZE - ADDRESS_MAPPED);
    }
    const int descriptor = socket(here->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0)
        return errno;
    if (here->any.sa_family == AF_INET6) /* :: is for IPv4, too */
        (void)setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(descriptor, &here->any, sizeof *here) != 0) {
        const int reason = errno;
        (void)close(descriptor);
        return reason;
    }
    (void)getsockname(descriptor, &here->any, &size);
    network.port = ntohs(here->v4.sin_port); /* IPv6 has it in the same place */
    if (add_udp_socket(descriptor) != NULL)
        return errno; /* it cannot be waited for: nothing else can be wrong with an own socket */
    return 0;
}

/* EPERM and EACCES come from a sandbox that allows only IPv4. */
static bool has_no_ipv6(int reason)
{
    return reason == EAFNOSUPPORT || reason == EADDRNOTAVAIL || reason == EPERM || reason == EACCES;
}

/* Opens the sockets that the arguments ask for. All of them get the same port. With PORT 0, the
 * first one gets a port that is free. That port may be in use at the next address: then all are
 * closed, and it tries again. */
static bool open_own_sockets(void)
{
    static const struct endpoint loopback[] = {
        {.address = {[10] = 0xFF, [11] = 0xFF, 127, 0, 0, 1}}, {.address = {[15] = 1}}};
    const bool by_default = network.bind_count == 0, any_port = network.port == 0;
    const struct endpoint *endpoints = by_default ? loopback : network.binds;
    const size_t count = by_default ? 2 : network.bind_count;
    unsigned tries = 16;
    union source here;

    for (size_t i = 0; i < count; i++) {
        const int reason = open_socket(&endpoints[i], &here);
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
        udp_count = 0;
        network.port = 0;
        i = SIZE_MAX; /* begin again */
    }
    return true;
}

/* Uses the sockets that the service manager passes, or opens its own ones. */
static bool open_sockets(void)
{
    const size_t passed = manager_passed_sockets();

    if (passed == 0)
        return open_own_sockets();
    if (network.port_text != NULL || network.bind_count != 0) {
        log_say("sockets were passed by the service manager: give neither PORT nor --bind");
        return false;
    }
    for (size_t i = 0; i < passed; i++) {
        const int descriptor = MANAGER_FIRST_SOCKET + (int)i;
        const char *wrong = add_udp_socket(descriptor);
        if (wrong != NULL) {
            log_say("descriptor %d, passed by the service manager, %s", descriptor, wrong);
            return false;
        }
    }
    return true;
}

static bool open_all(void)
{
    if (!limits_choose_secret()) {
        log_say("the kernel gives no random numbers: %s", strerror(errno));
        return false;
    }
    limits_set(&report_limits, network.rate, network.burst, network.rate_total);
    prepare_batches();
    return open_sockets() && (can_interface == NULL || can_open());
}

/* Would one of our own sockets get packets for this address of that interface? */
static bool serves(const uint8_t address[ADDRESS_SIZE], unsigned interface)
{
    struct endpoint here = {.scope = 0};

    memcpy(here.address, address, ADDRESS_SIZE);
    if (address[0] == 0xFE && (address[1] & 0xC0U) == 0x80) /* it is link-local */
        here.scope = interface;
    for (size_t i = 0; i < network.bind_count; i++)
        if (covers(&network.binds[i], &here))
            return true;
    return false;
}

static bool start(void)
{
    return xdp_begin(&(struct xdp_service){(uint16_t)network.port, &network.senders, serves});
}

/* Returns the texts of the networks, as many as fit. */
static const char *describe_networks(const struct address_networks *networks)
{
    static char text[800]; /* so that the whole line stays below 1 KB */
    size_t length = 0;

    for (size_t i = 0; i < networks->count && length < sizeof text; i++)
        length +=
            (size_t)snprintf(text + length, sizeof text - length, " %s", networks->list[i].text);
    return text;
}

static void say_what_is_served(void)
{
    char text[MAX_BINDS * (INET6_ADDRSTRLEN + IF_NAMESIZE + 16)];
    union source bound = {.any = {0}};
    size_t length = 0;

    sockets_say_if_small();
    if (options.log < OPTIONS_LOG_NORMAL)
        return;
    for (size_t i = 0; i < udp_count; i++) {
        socklen_t size = sizeof bound;
        (void)getsockname(sockets[i].fd, &bound.any, &size);
        length += (size_t)snprintf(text + length, sizeof text - length, " %s", describe(&bound));
    }
    log_say("listening on%s", text);
    if (can_interface != NULL)
        log_say("and on %s; %u reports a second", can_describe(), (unsigned)can_rate);
    if (network.senders.count != 0)
        log_say("heartbeats from%s", describe_networks(&network.senders));
    if (options.key != NULL)
        log_say("reports to%s with the readers' key",
                network.allow ? describe_networks(&network.readers) : " everybody");
    if (options.key != NULL && !options.also_unkeyed)
        return;
    log_say("reports %sto%s; for each %u at once and %u a second, for all %u a second%s",
            options.also_unkeyed ? "without a key " : "", describe_networks(&network.readers),
            (unsigned)network.burst, (unsigned)network.rate, (unsigned)network.rate_total,
            network.allow ? "" : "; --allow CIDR names others");
}

static void finish(void)
{
    xdp_finish();
    can_finish();
    sources_finish();
}

const struct program program = {
    .name = "udpserver",
    .usage = "usage: udpserver [OPTION]... [PORT]\n"
             "\n"
             "A Dumpulse agent: takes heartbeats and answers requests over UDP. By default it\n"
             "listens at port 9060 of 127.0.0.1 and ::1. Port 0 means any free port.\n",
    .notes = "Without --key, everybody who reaches it can set variables. Only this machine\n"
             "may ask for reports, unless --allow names others.\n",
    .options = own_options,
    .option_count = sizeof own_options / sizeof own_options[0],
    .set_defaults = set_defaults,
    .set_operand = set_port,
    .finish_arguments = finish_arguments,
    .open = open_all,
    .start = start,
    .say_what_is_served = say_what_is_served,
    .finish = finish,
};
