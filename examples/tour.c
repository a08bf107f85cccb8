/* The library at work on this machine: heartbeats in, a report out.   SPDX-License-Identifier: MIT
 *
 * The network is a function call here; everything else is as in a firmware.
 */
#include <stdio.h>
#include <string.h>

#include "dumpulse.h"

enum { AGENT = 1, FIRST_NODE = 10 }; /* senders */

static const char *const names[] = {"agent", "engine", "brakes", "battery", "doors"};

static uint16_t now; /* seconds */
static uint8_t received[DUMPULSE_REPORT_SIZE];
static size_t received_length;

uint16_t dumpulse_get_timestamp(void)
{
    return now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context; /* there is one reader only: the end of main() */
    memcpy(received, packet, length);
    received_length = length;
}

static void show_packet(const uint8_t *packet, dumpulse_result result, const char *what)
{
    static const char *const results[] = {"refused", "heartbeat", "report"};

    printf("%5us  ", (unsigned)now);
    for (size_t i = 0; i < DUMPULSE_PACKET_SIZE; i++)
        printf("%02x ", packet[i]);
    printf(" %-10s %s\n", results[result], what);
}

static void beat(dumpulse *agent, uint16_t time, uint8_t variable, uint8_t value)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    now = time;
    dumpulse_make_heartbeat(packet, variable, (uint8_t)(FIRST_NODE + variable), value);
    show_packet(packet, dumpulse_process_packet(agent, packet, sizeof packet, NULL),
                names[variable]);
}

static void show_report(void)
{
    const uint16_t agent_now = dumpulse_read_entry(received, 0).timestamp;

    printf("\nThe report, %u bytes, its checksum %s:\n\n", (unsigned)received_length,
           dumpulse_check_report(received, received_length) ? "right" : "WRONG");
    printf("  variable       value  sender  last heard\n");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const dumpulse_entry entry = dumpulse_read_entry(received, (uint8_t)i);
        printf("  %2u %-10s  ", (unsigned)i, names[i]);
        if (!dumpulse_was_heard(entry))
            printf("    -       -  never\n");
        else
            printf("%5u  %6u  %u s ago\n", entry.value, entry.sender,
                   (unsigned)dumpulse_age(agent_now, entry.timestamp));
    }
}

int main(void)
{
    static const uint8_t request[DUMPULSE_PACKET_SIZE] = DUMPULSE_REQUEST;
    dumpulse agent = {{0}};
    uint8_t damaged[DUMPULSE_PACKET_SIZE];

    printf("time    packet                    the agent sees\n");
    beat(&agent, 65530, 1, 90); /* the clock wraps around during this demonstration */
    beat(&agent, 65531, 2, 7);
    beat(&agent, 65532, 3, 126);
    beat(&agent, 2, 2, 8);

    now = 5;
    dumpulse_make_heartbeat(damaged, 4, 14, 1);
    damaged[7] ^= 0x20; /* a bit flips on its way */
    show_packet(damaged, dumpulse_process_packet(&agent, damaged, sizeof damaged, NULL),
                "doors, damaged on the way");

    now = 7;
    (void)dumpulse_record(&agent, 0, AGENT, 0); /* the agent stamps itself */
    show_packet(request, dumpulse_process_packet(&agent, request, sizeof request, NULL),
                "somebody asks: AreyouOK");
    show_report();
    return received_length == DUMPULSE_REPORT_SIZE ? 0 : 1;
}
