/* The library at work on this machine: heartbeats in, a report out.   SPDX-License-Identifier: MIT
 *
 * The serial line is a function call here; everything else is as in a firmware.
 */
#include <stdio.h>
#include <string.h>

#include "dumpulse_serial.h"
#include "dumpulse_watch.h"

enum { AGENT = 1, FIRST_NODE = 10 }; /* senders */

static const char *const names[] = {"agent", "engine", "brakes", "battery", "doors"};

/* The brakes send every 3 s at least. After two silences of that length they are dead. */
DUMPULSE_WATCH(watch,
               DUMPULSE_WATCHED(variable(2), silence(3), misses(2), grace(60), values(0, 255)));

static dumpulse agent;       /* zeros: no heartbeat has come yet */
static dumpulse_line serial; /* finds packets in the bytes of the line */
static uint16_t now;         /* seconds */
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

void dumpulse_changed(dumpulse *context, uint8_t variable, dumpulse_state was, dumpulse_state is)
{
    static const char *const states[] = {"waiting",      "missing", "alive",
                                         "out of range", "late",    "dead"};

    (void)context; /* there is one agent only */
    printf("%5us  %s: %s, now %s\n", (unsigned)now, names[variable], states[was], states[is]);
}

/* A packet comes over the line, byte by byte. Then the agent looks at what it watches. */
static void receive(uint16_t time, const uint8_t *packet, const char *what)
{
    static const char *const results[] = {"refused", "heartbeat", "report"};
    dumpulse_result result = DUMPULSE_REFUSED;

    now = time;
    printf("%5us  ", (unsigned)now);
    for (size_t i = 0; i < DUMPULSE_PACKET_SIZE; i++) {
        printf("%02x ", packet[i]);
        result = dumpulse_take_byte(&agent, &serial, packet[i], NULL);
    }
    printf(" %-10s %s\n", results[result], what);
    dumpulse_watch(&watch, &agent, now);
}

static void beat(uint16_t time, uint8_t variable, uint8_t value)
{
    uint8_t packet[DUMPULSE_PACKET_SIZE];

    dumpulse_make_heartbeat(packet, variable, (uint8_t)(FIRST_NODE + variable), value);
    receive(time, packet, names[dumpulse_changed_variable(packet)]);
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
    uint8_t damaged[DUMPULSE_PACKET_SIZE];

    printf("time    packet                    the agent sees\n");
    beat(65530, 1, 90); /* the clock wraps around during this demonstration */
    beat(65531, 2, 7);
    beat(65532, 3, 126);
    beat(2, 2, 8);
    dumpulse_make_heartbeat(damaged, 4, 14, 1);
    damaged[7] ^= 0x20; /* a bit flips on its way */
    receive(5, damaged, "doors, damaged on the way");
    now = 9;
    (void)dumpulse_record(&agent, 0, AGENT, 0); /* the agent stamps itself */
    receive(9, request, "somebody asks: AreyouOK");
    show_report();
    return received_length == DUMPULSE_REPORT_SIZE ? 0 : 1;
}
