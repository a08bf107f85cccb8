/* Sends heartbeats to a port of 127.0.0.1, or of another IPv4 address, as fast as one core can. It
 * ends after some milliseconds, or after `-N` packets, and prints how many were sent.
 * With SAME, all heartbeats are for that variable, and their sender and their value are the same.
 *     flood PORT MILLISECONDS|-N [ADDRESS [SAME]]      SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: sendmmsg */
#include <arpa/inet.h>
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

    if (argc < 3 || argc > 5 ||
        inet_pton(AF_INET, argc > 3 ? argv[3] : "127.0.0.1", &there.sin_addr) != 1)
        return 2;
    there.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
    const long limit = strtol(argv[2], NULL, 10); /* negative: a number of packets */
    const unsigned long long most = limit < 0 ? (unsigned long long)-limit : UINT64_MAX;
    const unsigned long variable = argc > 4 ? strtoul(argv[4], NULL, 10) : BATCH;
    const double end = limit < 0 ? 1e300 : seconds() + (double)limit / 1e3;
    if (descriptor < 0 || connect(descriptor, (const struct sockaddr *)&there, sizeof there) != 0)
        return EXIT_FAILURE;
    for (unsigned i = 0; i < BATCH; i++) {
        if (variable == BATCH)
            dumpulse_make_heartbeat(packets[i], (uint8_t)i, 1, (uint8_t)(3 * i));
        else
            dumpulse_make_heartbeat(packets[i], (uint8_t)variable, (uint8_t)i, (uint8_t)i);
        bytes[i] = (struct iovec){packets[i], sizeof packets[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &bytes[i], .msg_iovlen = 1};
    }
    while (sent < most && seconds() < end) {
        const unsigned long long left = most - sent;
        const int taken = sendmmsg(descriptor, messages, left < BATCH ? (unsigned)left : BATCH, 0);
        if (taken < 0)
            return EXIT_FAILURE; /* nobody listens there */
        sent += (unsigned)taken;
    }
    printf("%llu\n", sent);
    return EXIT_SUCCESS;
}
/* */
