/* What an agent for Linux counts; see counters.h.   SPDX-License-Identifier: MIT */
#include "counters.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "can.h"
#include "dumpulse.h"
#include "log.h"
#include "options.h"
#include "program.h"
#include "sockets.h"
#include "table.h"
#include "timing.h"
#include "xdp.h"

static uint64_t begun; /* ns: timing_ns() at the start */
uint64_t counters[COUNTERS];

static const struct {
    const char *readable, *key;
} names[COUNTERS] = {
    [COUNT_PACKETS] = {"packets", "packets"},
    [COUNT_HEARTBEATS] = {": heartbeats", "heartbeats"},
    [COUNT_REPORTS] = {", reports", "reports"},
    [COUNT_ANNOUNCES] = {", announces", "announces"},
    [COUNT_BEACONS] = {", beacons", "beacons"},
    [COUNT_LENGTH] = {"; refused for length", "length"},
    [COUNT_MAGIC] = {", magic", "magic"},
    [COUNT_CHECKSUM] = {", checksum", "checksum"},
    [COUNT_VARIABLE] = {", variable", "variable"},
    [COUNT_NOT_ALLOWED] = {", not allowed", "not_allowed"},
    [COUNT_RATE] = {", rate", "rate"},
    [COUNT_OLD] = {", old", "old"},
    [COUNT_TAG] = {", tag", "tag"},
    [COUNT_UNSENT] = {"; reports unsent", "unsent"},
    [COUNT_DROPS] = {"; dropped by the kernel", "drops"},
    [COUNT_FAILED_SAVES] = {"; failed saves", "failed_saves"},
    [COUNT_CHANGES] = {"; changes", "changes"},
    [COUNT_NOT_TOLD] = {", not told", "not_told"},
    [COUNT_FAILED_PROGRAMS] = {", failed programs", "failed_programs"},
    [COUNT_ERROR_FRAMES] = {"; error frames", "error_frames"},
    [COUNT_BUS_OFFS] = {", bus-offs", "bus_offs"},
};

/* Brings the counters up to date that are not counted packet by packet. */
static void complete_counters(void)
{
    sockets_count_drops();
    counters[COUNT_HEARTBEATS] += xdp_new_heartbeats();
    counters[COUNT_PACKETS] = 0;
    for (size_t i = COUNT_HEARTBEATS; i <= COUNT_UNSENT; i++)
        counters[COUNT_PACKETS] += counters[i];
}

static bool is_shown(size_t counter)
{
    if (counter == COUNT_ANNOUNCES || counter == COUNT_BEACONS || counter == COUNT_OLD ||
        counter == COUNT_TAG)
        return options.key != NULL;
    return counter < COUNT_CHANGES ||
           (counter < COUNT_ERROR_FRAMES ? options.watch : can_interface) != NULL;
}

/* Appends the counters to a line that has `length` characters. Returns its new length. */
static size_t write_counters(char line[COUNTERS_LINE], size_t length, bool json)
{
    for (size_t i = 0; i < COUNTERS; i++) {
        if (!is_shown(i))
            continue;
        const char *format = json ? "%s\"%s\":%llu" : "%s%s %llu";
        const char *before = json && i != 0 ? "," : "";
        const char *name = json ? names[i].key : names[i].readable;
        length += (size_t)snprintf(line + length, COUNTERS_LINE - length, format, before, name,
                                   (unsigned long long)counters[i]);
    }
    return length + (size_t)snprintf(line + length, COUNTERS_LINE - length, json ? "}\n" : "\n");
}

void counters_print(void)
{
    char line[COUNTERS_LINE] = "{";

    complete_counters();
    log_write(STDOUT_FILENO, line, write_counters(line, options.json ? 1 : 0, options.json));
}

void counters_begin(void)
{
    begun = timing_ns();
}

size_t counters_write_all(char line[COUNTERS_LINE])
{
    const uint64_t up = (timing_ns() - begun) / TIMING_SECOND;

    complete_counters();
    const int length = snprintf(
        line, COUNTERS_LINE,
        "{\"program\":\"%s\",\"version\":\"%s\",\"started\":%llu,\"uptime\":%llu,\"variables\":%u,",
        program.name, DUMPULSE_VERSION, (unsigned long long)(timing_unix_ms() / 1000 - up),
        (unsigned long long)up, (unsigned)table_count());
    return write_counters(line, (size_t)length, true);
}
