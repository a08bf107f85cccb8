/* Makes the loop of an image hang when a certain packet comes. It is linked into the image with
 * --wrap.   SPDX-License-Identifier: MIT */
#include "dumpulse.h"

/* The linker wants these names:
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
dumpulse_result __real_dumpulse_process_packet(dumpulse *agent, const uint8_t *packet,
                                               size_t length, void *context);
dumpulse_result __wrap_dumpulse_process_packet(dumpulse *agent, const uint8_t *packet,
                                               size_t length, void *context);

dumpulse_result __wrap_dumpulse_process_packet(dumpulse *agent, const uint8_t *packet,
                                               size_t length, void *context)
{
    static volatile bool hangs; /* only the loop hangs; interrupts go on */
    hangs = packet[0] == 'H' && packet[1] == 'a' && packet[2] == 'n' && packet[3] == 'g' &&
            packet[4] == 'H' && packet[5] == 'e' && packet[6] == 'r' && packet[7] == 'e';
    while (hangs) {
    }
    return __real_dumpulse_process_packet(agent, packet, length, context);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
