/* Sends heartbeats to a port of 127.0.0.1, as fast as one core can. It ends after some
 * milliseconds, and prints how many were sent.
 *     flood PORT MILLISECONDS      SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: sendmmsg */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "dumpulse.h"

enum { BATCH = 64 };

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    static uint8_t packets[BATCH][DUMPULSE_PACKET_SIZE];
    static struct iovec bytes[BATCH];
    static struct mmsghdr messages[BATCH];
    struct sockaddr_in there = {.sin_family = AF_INET};
    const int descriptor = socket(AF_INET, SOCK_DGRAM, 0);
    unsigned long long sent = 0;

    if (argc != 3)
        return 2;
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    there.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
    const double end = seconds() + (double)strtoul(argv[2], NULL, 10) / 1e3;
    if (descriptor < 0 || connect(descriptor, (const struct sockaddr *)&there, sizeof there) != 0)
        return EXIT_FAILURE;
    for (unsigned i = 0; i < BATCH; i++) {
        dumpulse_make_heartbeat(packets[i], (uint8_t)i, 1, (uint8_t)(3 * i));
        bytes[i] = (struct iovec){packets[i], sizeof packets[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &bytes[i], .msg_iovlen = 1};
    }
    while (seconds() < end) {
        const int taken = sendmmsg(descriptor, messages, BATCH, 0);
        if (taken < 0)
            return EXIT_FAILURE; /* nobody listens there */
        sent += (unsigned)taken;
    }
    printf("%llu\n", sent);
    return EXIT_SUCCESS;
}
/* */
