/* An agent for Linux that receives heartbeats and answers requests over UDP.
 * SPDX-License-Identifier: MIT
 *
 * udpserver.8 is its manual; dumpulse.h explains the library. This file has the agent's options,
 * and what it does with packets. server/ has the other parts: server/program.h lists them.
 */
#define _GNU_SOURCE /* NOLINT: for recvmmsg and sendmmsg */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "server/address.h"
#include "server/can.h"
#include "server/counters.h"
#include "server/endpoints.h"
#include "server/keys.h"
#include "server/limits.h"
#include "server/listeners.h"
#include "server/log.h"
#include "server/options.h"
#include "server/program.h"
#include "server/sockets.h"
#include "server/table.h"
#include "server/timing.h"
#include "server/udp.h"
#include "server/udpserver_internal.h"

/* ---- Options ---------------------------------------------------------------------------- */

struct udpserver udpserver;
static struct limits report_limits;

static bool set_allow(const char *text)
{
    udpserver.allow = true;
    return address_add(&udpserver.readers, "--allow", text);
}

static bool set_allow_heartbeats(const char *text)
{
    return address_add(&udpserver.senders, "--allow-heartbeats", text);
}

static bool set_gateway_id(const char *text)
{
    udpserver.can_id = true;
    return can_set_id(text);
}

static const struct option_spec own_list[] = {
    {"--bind", "ADDRESS", "listen here (repeatable); :: is all IPv4 and IPv6",
     .set = endpoints_add},
    {"--allow", "CIDR", "networks that may poll (repeatable)", .set = set_allow},
    {"--allow-heartbeats", "CIDR", "who may send heartbeats (default: all)",
     .set = set_allow_heartbeats},
    {"--burst", "N", "reports at once for one source (128)", .number = &udpserver.burst, .low = 1,
     .high = 1000000},
    {"--rate", "N", "reports a second for one source (10)", .number = &udpserver.rate, .low = 1,
     .high = 1000000},
    {"--rate-total", "N", "reports a second for all sources (1000)",
     .number = &udpserver.rate_total, .low = 1, .high = 1000000},
    {"--can", "INTERFACE", "be a gateway: serve this CAN interface, too", .set = can_set_interface},
    {"--can-id", "ID", "first of 128 CAN identifiers (680)", .set = set_gateway_id},
};

static void set_defaults(void)
{
    memset(&udpserver, 0, sizeof udpserver);
    udpserver.burst =
        128; /* one host may check each of 64 variables, and each check may ask twice */
    udpserver.rate = 10;
    udpserver.rate_total = 1000;
    endpoints_set_defaults();
    can_set_defaults();
}

static bool finish_arguments(void)
{
    if (udpserver.can_id && can_interface == NULL)
        return options_wrong("--can-id is for a gateway: give --can INTERFACE, too");
    return udpserver.allow || (address_add(&udpserver.readers, "--allow", "127.0.0.0/8") &&
                               address_add(&udpserver.readers, "--allow", "::1"));
}

/* ---- Packets ---------------------------------------------------------------------------- */

enum {
    BATCH = SOCKETS_BATCH, /* packets that one system call takes at most */
    PACKET_ROOM = 16       /* more than 8 bytes, to find datagrams that are too long */
};

/* With two keys, a packet may be answered by two beacons. */
enum { REPLIES = 2 * BATCH };
static struct mmsghdr incoming[BATCH], outgoing[REPLIES];
static struct iovec incoming_bytes[BATCH], outgoing_bytes[REPLIES];
static uint8_t packets[BATCH][PACKET_ROOM];
static uint8_t reports[REPLIES][DUMPULSE_KEYED_REPORT_SIZE]; /* Beacons use these, too. */
static union udp_address sources[BATCH];
/* size_t has the alignment that these need. */
static size_t controls[BATCH][UDP_CONTROL_ROOM / sizeof(size_t)];
static unsigned outgoing_count;

/* Prepares for the next packet: the kernel writes the lengths of its output into these fields. */
static void reset_lengths(struct msghdr *message)
{
    message->msg_namelen = sizeof sources[0];
    message->msg_controllen = UDP_CONTROL_ROOM;
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
    }
    for (size_t i = 0; i < REPLIES; i++) {
        outgoing_bytes[i] = (struct iovec){reports[i], DUMPULSE_REPORT_SIZE};
        outgoing[i].msg_hdr = (struct msghdr){.msg_iov = &outgoing_bytes[i], .msg_iovlen = 1};
    }
}

static void reply_to(const struct msghdr *request)
{
    struct msghdr *reply = &outgoing[outgoing_count].msg_hdr;

    reply->msg_name = request->msg_name;
    reply->msg_namelen = request->msg_namelen;
    outgoing_count++;
}

/* There is always room: a batch of packets gets at most REPLIES answers. */
void keys_send(void *to, const uint8_t *packet, size_t length)
{
    if (to == NULL) {
        can_send(packet, length);
        return;
    }
    memcpy(reports[outgoing_count], packet, length);
    outgoing_bytes[outgoing_count].iov_len = length;
    reply_to((const struct msghdr *)to);
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
        const bool is_second = done != 0 && first->msg_name == outgoing[done - 1].msg_hdr.msg_name;
        if (sent <= 0 && !is_second) { /* it was counted as a report, or as a beacon */
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
static size_t take_request(struct msghdr *from)
{
    uint8_t address[ADDRESS_SIZE];

    udp_read_address((const union udp_address *)from->msg_name, address);
    if (!address_is_in(&udpserver.readers, address))
        return COUNT_NOT_ALLOWED;
    if (outgoing_count == 0)
        requested = timing_ns();
    if (!limits_allow(&report_limits, source_of(address), requested))
        return COUNT_RATE;
    if (!udp_set_reply_address(&outgoing[outgoing_count].msg_hdr, from))
        return COUNT_UNSENT;
    table_write_report(reports[outgoing_count]);
    reply_to(from);
    return COUNT_REPORTS;
}

static bool may_send_heartbeats(const struct msghdr *from)
{
    uint8_t address[ADDRESS_SIZE];

    udp_read_address((const union udp_address *)from->msg_name, address);
    return udpserver.senders.count == 0 || address_is_in(&udpserver.senders, address);
}

/* With --key. Everybody may ask for a beacon. Requests need a key, so they are allowed to all
 * unless --allow names some. */
static size_t take_keyed(const uint8_t *packet, int descriptor, struct msghdr *from, uint64_t now)
{
    enum { LISTENED = 3 }; /* epochs without a heartbeat, until a node is forgotten */
    const bool requests = keys_is_request(packet), asks = keys_is_question(packet);
    uint8_t address[ADDRESS_SIZE];

    udp_read_address((const union udp_address *)from->msg_name, address);
    if (requests ? udpserver.allow && !address_is_in(&udpserver.readers, address)
                 : !asks && !may_send_heartbeats(from))
        return COUNT_NOT_ALLOWED;
    struct msghdr *const first = &outgoing[outgoing_count].msg_hdr,
                         *const second = &outgoing[outgoing_count + 1].msg_hdr;
    if ((requests || asks) &&
        !(udp_set_reply_address(first, from) && udp_set_reply_address(second, from)))
        return COUNT_UNSENT;
    const size_t outcome = keys_take(packet, from);
    if (outcome == COUNT_HEARTBEATS)
        listeners_note(packet[4] % DUMPULSE_VARIABLES, descriptor, from,
                       now + LISTENED * keys_epoch * TIMING_SECOND);
    return outcome;
}

/* Takes the packets that have come, BATCH at most, and returns how many. The clock is read once,
 * when all packets of the batch are here. So no stamp is earlier than the arrival of its packet.
 * Reading it for each packet would make a difference only if it ticked in the few µs that a batch
 * takes. If `checks_sources`, this checks the sources of heartbeats, too. */
__attribute__((always_inline)) static inline unsigned take_batch(int descriptor,
                                                                 bool checks_sources, bool keyed)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    const int count = recvmmsg(descriptor, incoming, BATCH, MSG_DONTWAIT, NULL);

    if (count <= 0)
        return 0;
    table_read_clock();
    const uint64_t now = keyed ? timing_ns() : 0;
    const uint8_t *packet = packets[0];
    for (struct mmsghdr *message = incoming; message != incoming + count; message++) {
        size_t outcome;
        if (message->msg_len != DUMPULSE_PACKET_SIZE)
            outcome = COUNT_LENGTH;
        else if (keyed && !keys_leaves(packet))
            outcome = take_keyed(packet, descriptor, &message->msg_hdr, now);
        else if (packet[DUMPULSE_MAGIC_AT_] != DUMPULSE_MAGIC &&
                 memcmp(packet, request, sizeof request) == 0)
            outcome = take_request(&message->msg_hdr);
        else if (checks_sources && !may_send_heartbeats(&message->msg_hdr))
            outcome = COUNT_NOT_ALLOWED;
        else
            outcome = table_take_heartbeat(packet);
        counters[outcome]++;
        reset_lengths(&message->msg_hdr);
        packet += PACKET_ROOM;
    }
    if (outgoing_count != 0)
        send_reports(descriptor);
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

/* ---- From the start to the end ---------------------------------------------------------- */

static bool open_all(void)
{
    if (!limits_choose_secret()) {
        log_say("the kernel gives no random numbers: %s", strerror(errno));
        return false;
    }
    limits_set(&report_limits, udpserver.rate, udpserver.burst, udpserver.rate_total);
    report_limits.takes_turns = true;
    prepare_batches();
    return endpoints_open(options.key != NULL            ? take_with_keys
                          : udpserver.senders.count != 0 ? take_from_some
                                                         : take_from_all) &&
           (can_interface == NULL || can_open());
}

static void say_what_is_served(void)
{
    sockets_say_if_small();
    log_say("<6>listening on%s", endpoints_describe());
    if (can_interface != NULL)
        log_say("and on %s; %u reports a second", can_describe(), (unsigned)can_rate);
    if (udpserver.senders.count != 0)
        log_say("<6>heartbeats from%s", address_describe(&udpserver.senders));
    if (options.key != NULL) {
        log_say("<6>reports to%s with the readers' key",
                udpserver.allow ? address_describe(&udpserver.readers) : " anyone");
        return;
    }
    log_say("<6>reports to%s; for each %u at once and %u a second, for all %u a second%s",
            address_describe(&udpserver.readers), (unsigned)udpserver.burst,
            (unsigned)udpserver.rate, (unsigned)udpserver.rate_total,
            udpserver.allow ? "" : "; --allow CIDR names others");
}

static const struct options_own own_options = {
    .usage = "usage: udpserver [OPTION]... [PORT]\n"
             "\n"
             "A Dumpulse agent: receives heartbeats and answers requests over UDP. By default\n"
             "it listens at port 9060 of 127.0.0.1 and ::1. Port 0 means any free port.\n",
    .notes = "Without --key, anyone who reaches it can set variables. Only this machine may\n"
             "poll it, unless --allow names others.\n",
    .list = own_list,
    .count = sizeof own_list / sizeof own_list[0],
    .set_defaults = set_defaults,
    .set_operand = endpoints_set_port,
    .finish = finish_arguments,
};

const struct program program = {
    .name = "udpserver",
    .options = &own_options,
    .open = open_all,
    .say_what_is_served = say_what_is_served,
    .finish = can_finish,
};
