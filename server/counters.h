/* What an agent for Linux counts.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_COUNTERS_H
#define DUMPULSE_COUNTERS_H

#include <stdint.h>

/* Every packet is counted once, in one of the counters from COUNT_HEARTBEATS to COUNT_UNSENT.
 * COUNT_PACKETS is their sum, which is made when somebody wants to see it. The counters after these
 * do not count packets that were taken. Beacons, old, tag and COUNT_EPOCH_TAGS are shown only with
 * --key, COUNT_BEFORE only with --key-before, those from COUNT_CHANGES on only with --watch, and
 * those from COUNT_ERROR_FRAMES on only if there is a CAN interface. */
enum {
    COUNT_PACKETS,
    COUNT_HEARTBEATS,
    COUNT_REPORTS,
    COUNT_BEACONS, /* questions and requests that were answered by a beacon */
    COUNT_LENGTH,
    COUNT_MAGIC,
    COUNT_CHECKSUM,
    COUNT_VARIABLE,
    COUNT_NOT_ALLOWED,
    COUNT_RATE,
    COUNT_OLD, /* the count is not larger than the last one */
    COUNT_TAG,
    COUNT_UNSENT,
    COUNT_DROPS,
    COUNT_EPOCH_TAGS, /* wrong tags in the last whole epoch, also of requests */
    COUNT_BEFORE, /* variables that were heard under the key before, and not under the new one */
    COUNT_FAILED_SAVES,
    COUNT_LOST_LINES,      /* Lines of the log that could not be written. */
    COUNT_RELOADS,         /* after which all files were right */
    COUNT_CHANGES,         /* Changes of watched variables. */
    COUNT_NOT_TOLD,        /* changes that the program of --exec did not get */
    COUNT_FAILED_PROGRAMS, /* programs that failed, and tries to start one */
    COUNT_ERROR_FRAMES,
    COUNT_BUS_OFFS,
    COUNTERS
};

extern uint64_t counters[COUNTERS];

/* How a counter is called where people read it, with what comes before it; and in JSON. */
struct counters_name {
    const char *readable, *key;
};
extern const struct counters_name counters_names[COUNTERS];

#endif
