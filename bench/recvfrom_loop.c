/* The simplest loop around the same library. `make figures ONLY=bench` compares udpserver with it.
 * SPDX-License-Identifier: MIT
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "dumpulse.h"

struct reader {
    int descriptor;
    struct sockaddr_in address;
    socklen_t length;
};

uint16_t dumpulse_get_timestamp(void)
{
    return (uint16_t)time(NULL);
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    const struct reader *to = (const struct reader *)context;

    (void)sendto(to->descriptor, packet, length, 0, (const struct sockaddr *)&to->address,
                 to->length);
}

int main(int argc, char **argv)
{
    static dumpulse agent;
    struct reader from = {.descriptor = socket(AF_INET, SOCK_DGRAM, 0)};
    struct sockaddr_in here = {.sin_family = AF_INET};
    uint8_t packet[DUMPULSE_PACKET_SIZE + 1]; /* one more, so that longer ones are refused */

    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    here.sin_port = htons((uint16_t)strtoul(argc > 1 ? argv[1] : "9060", NULL, 10));
    if (from.descriptor < 0 ||
        bind(from.descriptor, (const struct sockaddr *)&here, sizeof here) != 0)
        return EXIT_FAILURE;
    for (;;) {
        from.length = sizeof from.address;
        const ssize_t length = recvfrom(from.descriptor, packet, sizeof packet, 0,
                                        (struct sockaddr *)&from.address, &from.length);
        if (length >= 0)
            (void)dumpulse_process_packet(&agent, packet, (size_t)length, &from);
    }
}
