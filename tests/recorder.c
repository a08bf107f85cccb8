/* Hooks that write down their arguments. A test reads these afterwards: if it checked them in the
 * hook, a failure could get lost.   SPDX-License-Identifier: MIT */
#include <string.h>

#include "dumpulse.h"

enum { CALLS_MAX = 16, TIME = 1, SEND = 2 };

typedef struct recorder {
    uint32_t count; /* Number of calls, of which the first CALLS_MAX are kept. */
    uint32_t now;   /* the clock's answer, which the test sets */
    struct {
        uint32_t kind;
        const void *context, *packet;
        size_t length;
        uint8_t bytes[DUMPULSE_REPORT_SIZE];
    } call[CALLS_MAX];
} recorder;

recorder recorded;

uint16_t dumpulse_get_timestamp(void)
{
    if (recorded.count < CALLS_MAX)
        recorded.call[recorded.count].kind = TIME;
    recorded.count++;
    return (uint16_t)recorded.now;
}

void dumpulse_send_packet(void *context, const uint8_t *packet, size_t length)
{
    if (recorded.count < CALLS_MAX) {
        recorded.call[recorded.count].kind = SEND;
        recorded.call[recorded.count].context = context;
        recorded.call[recorded.count].packet = packet;
        recorded.call[recorded.count].length = length;
        if (length == DUMPULSE_REPORT_SIZE)
            memcpy(recorded.call[recorded.count].bytes, packet, length);
    }
    recorded.count++;
}
