/* An agent with keys, some of whose nodes send version 1. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

static bool is_unkeyed(const uint8_t *unkeyed, uint8_t variable)
{
    return variable < DUMPULSE_VARIABLES &&
           ((unsigned)unkeyed[variable / 8U] >> variable % 8U) % 2U != 0;
}

dumpulse_result dumpulse_mixed_process(dumpulse_keyed *keyed,
                                       const uint8_t unkeyed[DUMPULSE_VARIABLES / 8],
                                       const uint8_t *packet, size_t length, void *context)
{
    if (length == DUMPULSE_PACKET_SIZE) {
        const bool is_version_1 = packet[DUMPULSE_MAGIC_AT_] == DUMPULSE_MAGIC;
        const uint8_t variable = is_version_1 ? packet[DUMPULSE_VARIABLE_AT_]
                                              : (uint8_t)(packet[4] - DUMPULSE_IS_HEARTBEAT_);

        if (is_unkeyed(unkeyed, variable)) {
            return is_version_1 ? dumpulse_process_packet(&keyed->agent, packet, length, context)
                                : (dumpulse_result)DUMPULSE_REFUSED;
        }
    }
    return dumpulse_keyed_process(keyed, packet, length, context);
}
