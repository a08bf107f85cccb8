/* Counts how many of the 2^64 packets of 8 bytes an agent takes.   make figures ONLY=accepted
 *
 * It tries these packets on the compiled library:
 * - with the right checksum, all 2^24 contents with the magic number, and one in 61 of the others
 * - for 1024 contents, each half of the checksum with every value, while the other half is right
 * - the request, with each byte changed to every other value
 * `make proof` shows for all packets that no other checksum is taken.
 * SPDX-License-Identifier: MIT
 */
#include <stdio.h>
#include <stdlib.h>

#include "dumpulse.h"

static dumpulse agent;

uint16_t dumpulse_get_timestamp(void)
{
    return 0;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context, (void)packet, (void)length;
}

static dumpulse_result try(uint32_t sum, uint32_t payload)
{
    const uint8_t packet[DUMPULSE_PACKET_SIZE] = {
        (uint8_t)(sum >> 24),     (uint8_t)(sum >> 16),
        (uint8_t)(sum >> 8),      (uint8_t)sum,
        (uint8_t)(payload >> 24), (uint8_t)(payload >> 16),
        (uint8_t)(payload >> 8),  (uint8_t)payload};

    return dumpulse_process_packet(&agent, packet, sizeof packet, NULL);
}

/* Adler-32 of four bytes with each sum written out, so that it is not the library's code again. */
static uint32_t sum_of(uint32_t payload)
{
    const uint32_t p = payload >> 24, q = payload >> 16 & 255, r = payload >> 8 & 255,
                   s = payload & 255;

    return (4 + 4 * p + 3 * q + 2 * r + s) << 16 | (1 + p + q + r + s);
}

static void must_be(const char *what, uint64_t counted, uint64_t expected)
{
    if (counted != expected) {
        printf("accepted: %s: %llu, and should be %llu\n", what, (unsigned long long)counted,
               (unsigned long long)expected);
        exit(1);
    }
}

int main(void)
{
    const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    const uint64_t with_magic = 1ULL << 24; /* contents of bytes 5-7 */
    const uint32_t contents = 1024;
    uint64_t heartbeats = 0, others = 0, checksums = 0, requests = 0;
    const double year = 365.25 * 86400, frames = 4000;

    for (uint32_t rest = 0; rest < with_magic; rest++) {
        const uint32_t payload = DUMPULSE_MAGIC << 24 | rest;
        heartbeats += try(sum_of(payload), payload) == DUMPULSE_HEARTBEAT;
    }
    must_be("heartbeats taken", heartbeats, with_magic / 4);
    for (uint64_t payload = 0; payload < 1ULL << 32; payload += 61)
        if (payload >> 24 != DUMPULSE_MAGIC)
            others += try(sum_of((uint32_t)payload), (uint32_t)payload) != DUMPULSE_REFUSED;
    must_be("taken with another magic number", others, 0);

    for (uint32_t i = 0; i < contents; i++) {
        /* The factor is odd, so all contents are different, and far from each other. */
        const uint32_t payload = 0xF1000000U | (i * 0x9E3779B1U) % (1U << 22);
        const uint32_t right = sum_of(payload);
        for (uint32_t half = 0; half < 65536; half++) {
            checksums += try(half << 16 | right % 65536, payload) == DUMPULSE_HEARTBEAT;
            checksums += try((right & 0xFFFF0000U) | half, payload) == DUMPULSE_HEARTBEAT;
        }
    }
    must_be("checksums taken, once for each half", checksums, 2ULL * contents);

    for (unsigned at = 0; at < sizeof request; at++)
        for (unsigned byte = 0; byte < 256; byte++) {
            uint8_t packet[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
            packet[at] = (uint8_t)byte;
            requests += dumpulse_process_packet(&agent, packet, 8, NULL) == DUMPULSE_REPORT;
        }
    must_be("requests taken, once at each byte", requests, sizeof request);

    const double packets = 18446744073709551616.0; /* 2^64 */
    printf("heartbeats taken                                 %10llu = 2^22\n",
           (unsigned long long)heartbeats);
    printf("requests taken                                   %10llu\n",
           (unsigned long long)requests / sizeof request);
    printf("probability that a random packet is taken        %.5e, about 2^-42\n",
           ((double)heartbeats + 1) / packets);
    printf("\nIf %g random frames of 8 bytes come each second, how long does it take until one "
           "has\n",
           frames);
    printf("a right checksum (as was published)                  %8.1f days\n",
           4294967296.0 / frames / 86400);
    printf("the magic number, too                                %8.1f years\n",
           packets / (double)with_magic / frames / year);
    printf("a variable in range, too: a heartbeat                %8.1f years\n",
           packets / (double)heartbeats / frames / year);
    printf("the same, if all lengths from 0 to 8 are as frequent %8.1f years\n",
           9 * packets / (double)heartbeats / frames / year);
    printf("Of the frames with checksum and magic number, %.0f %% have a variable out of range.\n",
           100.0 * (double)(with_magic - heartbeats) / (double)with_magic);
    return 0;
}
