/* An agent for Linux: takes heartbeats and answers requests on a CAN bus.   SPDX-License-Identifier: MIT
 *
 * canserver.8 is its manual. All that it does is done by agent/can.c, which udpserver uses, too,
 * and agent/service.c.
 */
#define _GNU_SOURCE /* NOLINT: for clockid_t in service.h */
#include "agent/can.h"

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    (void)context, (void)length; /* there is one bus only, and one length */
    keep_can_report(packet);
}

static const struct option own_options[] = {
    {"--can-id", "ID", "first of 128 identifiers (680); 8 digits: 29 bits", .set = set_can_id},
    {"--rate", "N", "reports a second (10)", NULL, NULL, &can_rate, 1, 1000},
};

static bool finish_arguments(void)
{
    return can_interface != NULL || options.help || options.version ||
           wrong("which CAN interface? Like: canserver can0");
}

static void say_what_is_served(void)
{
    say("listening on %s; %u reports a second", describe_can(), (unsigned)can_rate);
}

const struct program program = {
    .name = "canserver",
    .usage = "usage: canserver [OPTION]... INTERFACE\n"
             "\n"
             "A Dumpulse agent: takes heartbeats and answers requests on a CAN bus.\n",
    .notes = "The interface must be there; while it is down, canserver waits for it.\n"
             "Whoever is on the bus can set variables. Reports over UDP: udpserver --can.\n",
    .options = own_options,
    .option_count = sizeof own_options / sizeof own_options[0],
    .set_defaults = set_can_defaults,
    .set_operand = set_can_interface,
    .finish_arguments = finish_arguments,
    .open = open_can,
    .say_what_is_served = say_what_is_served,
    .take_packets = take_can,
    .finish = finish_can,
};
