/* Gives a function of dumpulse_keyed.h that has five arguments a name that a simulator can call,
 * which passes up to four.   SPDX-License-Identifier: MIT */
#include "dumpulse_keyed.h"

bool export_keyed_heartbeat(dumpulse_node *node, uint8_t *packet, uint8_t variable, uint16_t more);

/* More is the sender * 256 + the value. */
bool export_keyed_heartbeat(dumpulse_node *node, uint8_t *packet, uint8_t variable, uint16_t more)
{
    return dumpulse_keyed_heartbeat(node, packet, variable, (uint8_t)(more / 256U),
                                    (uint8_t)(more % 256U));
}
