/* An agent for Linux that receives heartbeats and answers requests on a CAN bus.
 * SPDX-License-Identifier: MIT
 *
 * canserver.8 is its manual. server/can.c does the work; udpserver uses it, too. server/program.h
 * lists the other parts.
 */
#include "dumpulse.h"

#include "server/can.h"
#include "server/keys.h"
#include "server/log.h"
#include "server/options.h"
#include "server/program.h"

void keys_send(void *to, const uint8_t *packet, size_t length)
{
    (void)to; /* there is only one bus */
    can_send(packet, length);
}

static const struct option_spec own_list[] = {
    {"--can-id", "ID", "first of 128 identifiers (680); 8 digits: 29 bits", .set = can_set_id},
    {"--rate", "N", "reports a second (10)", .number = &can_rate, .low = 1, .high = 1000},
};

static bool finish_arguments(void)
{
    return can_interface != NULL || options.help || options.version ||
           options_wrong("which CAN interface? Like: canserver can0");
}

static void say_what_is_served(void)
{
    log_say("<6>listening on %s; %u reports a second", can_describe(), (unsigned)can_rate);
}

static const struct options_own own_options = {
    .usage = "usage: canserver [OPTION]... INTERFACE\n"
             "\n"
             "A Dumpulse agent: receives heartbeats and answers requests on a CAN bus.\n",
    .notes = "The interface must exist. While it is down, canserver waits for it.\n"
             "Without --key, everything on the bus can set variables.\n"
             "udpserver --can answers over UDP.\n",
    .list = own_list,
    .count = sizeof own_list / sizeof own_list[0],
    .set_defaults = can_set_defaults,
    .set_operand = can_set_interface,
    .finish = finish_arguments,
};

const struct program program = {
    .name = "canserver",
    .options = &own_options,
    .open = can_open,
    .say_what_is_served = say_what_is_served,
    .finish = can_finish,
};
