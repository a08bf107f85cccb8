/* Linked into an image with --wrap, so that a test can hang its loop.   SPDX-License-Identifier: MIT */
#include <string.h>

#include "dumpulse.h"

dumpulse_result __real_dumpulse_process_packet(dumpulse *agent, const uint8_t *packet, size_t length,
                                               void *context);
dumpulse_result __wrap_dumpulse_process_packet(dumpulse *agent, const uint8_t *packet, size_t length,
                                               void *context);

dumpulse_result __wrap_dumpulse_process_packet(dumpulse *agent, const uint8_t *packet, size_t length,
                                               void *context)
{
    static volatile bool hangs; /* interrupts go on: only the loop is stuck */
    hangs = memcmp(packet, "HangHere", DUMPULSE_PACKET_SIZE) == 0;
    while (hangs) {
    }
    return __real_dumpulse_process_packet(agent, packet, length, context);
}
