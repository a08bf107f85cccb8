/* The nodes that hear udpserver's beacons; see listeners.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for struct in6_pktinfo */
#include "listeners.h"

#include <errno.h>
#include <string.h>

#include "dumpulse_keyed.h"
#include "timing.h"
#include "udp.h"

static struct listener {
    uint64_t until; /* ns: then it is forgotten */
    int descriptor; /* Socket that received the heartbeat. */
    uint8_t address[sizeof(union udp_address)];
    size_t address_length, control_length;
    size_t control[CMSG_SPACE(sizeof(struct in6_pktinfo)) / sizeof(size_t)];
} listeners[DUMPULSE_VARIABLES];

void listeners_note(uint8_t variable, int descriptor, struct msghdr *from, uint64_t until)
{
    struct listener *one = &listeners[variable];
    struct msghdr reply;

    if (!udp_set_reply_address(&reply, from) || reply.msg_controllen > sizeof one->control)
        return;
    memset(one, 0, sizeof *one);
    one->until = until;
    one->descriptor = descriptor;
    one->address_length = from->msg_namelen;
    memcpy(one->address, from->msg_name, from->msg_namelen);
    one->control_length = reply.msg_controllen;
    if (reply.msg_controllen != 0)
        memcpy(one->control, reply.msg_control, reply.msg_controllen);
}

/* A heartbeat may have been sent to a multicast or broadcast address, from which nothing can be
 * sent: then the kernel chooses the address. What is lost, the node asks for. */
void listeners_tell(uint8_t label, const uint8_t *beacon)
{
    uint8_t bytes[DUMPULSE_PACKET_SIZE];
    struct iovec all = {bytes, sizeof bytes};
    struct listener *const one = &listeners[label % DUMPULSE_VARIABLES];
    struct msghdr message = {.msg_name = one->address,
                             .msg_namelen = (socklen_t)one->address_length,
                             .msg_iov = &all,
                             .msg_iovlen = 1,
                             .msg_control = one->control,
                             .msg_controllen = one->control_length};

    if (label == DUMPULSE_READER_LABEL || one->until <= timing_ns())
        return; /* readers ask */
    memcpy(bytes, beacon, sizeof bytes);
    if (sendmsg(one->descriptor, &message, MSG_DONTWAIT) >= 0 || errno == EAGAIN)
        return;
    message.msg_controllen = one->control_length = 0;
    (void)sendmsg(one->descriptor, &message, MSG_DONTWAIT);
}
