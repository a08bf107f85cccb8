/* Addresses of UDP packets: where one comes from, and where its answer leaves from.
 * SPDX-License-Identifier: MIT
 *
 * A file that includes it defines _GNU_SOURCE before, for struct in6_pktinfo.
 */
#ifndef DUMPULSE_UDP_H
#define DUMPULSE_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"

union udp_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static inline void udp_read_address(const union udp_address *from, uint8_t address[ADDRESS_SIZE])
{
    if (from->any.sa_family == AF_INET6) {
        memcpy(address, &from->v6.sin6_addr, ADDRESS_SIZE);
    } else {
        memcpy(address, address_mapped, ADDRESS_MAPPED);
        memcpy(address + ADDRESS_MAPPED, &from->v4.sin_addr, ADDRESS_SIZE - ADDRESS_MAPPED);
    }
}

enum {
    /* Room for the address that a packet was sent to. A passed socket may have options that let the
     * kernel write more in front of it: times of three kinds, and at most six numbers. */
    UDP_CONTROL_ROOM = CMSG_SPACE(2 * sizeof(int64_t)) + CMSG_SPACE(6 * sizeof(int64_t)) +
                       CMSG_SPACE(4 * sizeof(int32_t)) + 6 * CMSG_SPACE(sizeof(int32_t)) +
                       CMSG_SPACE(sizeof(struct in6_pktinfo))
};

/* Makes the answer leave from the address that the request was sent to, because a reader believes
 * no other. The kernel chooses the interface, except for a link-local address, which means nothing
 * without its interface. False: the kernel had no room to write that address. */
__attribute__((always_inline)) static inline bool udp_set_reply_address(struct msghdr *reply,
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

#endif
