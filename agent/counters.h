/* What an agent for Linux counts.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_COUNTERS_H
#define DUMPULSE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

/* Every packet is counted once more after COUNT_PACKETS, up to COUNT_UNSENT; the rest are no
 * packets that were taken. Those from COUNT_ERROR_FRAMES on are shown if there is a CAN
 * interface. */
enum {
    COUNT_PACKETS,
    COUNT_HEARTBEATS,
    COUNT_REPORTS,
    COUNT_LENGTH,
    COUNT_MAGIC,
    COUNT_CHECKSUM,
    COUNT_VARIABLE,
    COUNT_NOT_ALLOWED,
    COUNT_RATE,
    COUNT_UNSENT,
    COUNT_DROPS,
    COUNT_FAILED_SAVES,
    COUNT_ERROR_FRAMES,
    COUNT_BUS_OFFS,
    COUNTERS
};

extern uint64_t counters[COUNTERS];
extern size_t counters_shown; /* how many of them are printed */

enum { COUNTERS_LINE = (COUNTERS + 5) * 48 }; /* a name is below 26 characters, a number below 21 */

void counters_begin(void); /* from now on, it is up */
void counters_print(void); /* on stdout */

/* As a line of JSON, with what is known besides. Returns its length. */
size_t counters_write_all(char line[COUNTERS_LINE]);

#endif
