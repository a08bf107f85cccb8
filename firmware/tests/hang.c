/* Makes the loop of an image hang when a certain packet comes. It is linked into the image with
 * --wrap.   SPDX-License-Identifier: MIT */
#ifdef KEYED
#include "dumpulse_keyed.h"
#define AGENT dumpulse_keyed
#define REAL __real_dumpulse_keyed_process
#define WRAPPED __wrap_dumpulse_keyed_process
#else
#include "dumpulse.h"
#define AGENT dumpulse
#define REAL __real_dumpulse_process_packet
#define WRAPPED __wrap_dumpulse_process_packet
#endif

/* The linker wants these names:
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
dumpulse_result REAL(AGENT *agent, const uint8_t *packet, size_t length, void *context);
dumpulse_result WRAPPED(AGENT *agent, const uint8_t *packet, size_t length, void *context);

dumpulse_result WRAPPED(AGENT *agent, const uint8_t *packet, size_t length, void *context)
{
    static volatile bool hangs; /* only the loop hangs; interrupts go on */
    hangs = packet[0] == 'H' && packet[1] == 'a' && packet[2] == 'n' && packet[3] == 'g' &&
            packet[4] == 'H' && packet[5] == 'e' && packet[6] == 'r' && packet[7] == 'e';
    while (hangs) {
    }
    return REAL(agent, packet, length, context);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
