/* The counters as text; see summary.h.   SPDX-License-Identifier: MIT */
#include "summary.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "can.h"
#include "dumpulse.h"
#include "log.h"
#include "options.h"
#include "sockets.h"
#include "table.h"
#include "timing.h"

static const char *program;
static uint64_t begun; /* ns: timing_ns() at the start */

/* Brings the counters up to date that are not counted packet by packet. */
static void complete_counters(void)
{
    sockets_count_drops();
    counters[COUNT_PACKETS] = 0;
    for (size_t i = COUNT_HEARTBEATS; i <= COUNT_UNSENT; i++)
        counters[COUNT_PACKETS] += counters[i];
}

static bool is_shown(size_t counter)
{
    if (counter == COUNT_BEACONS || counter == COUNT_OLD || counter == COUNT_TAG)
        return options.key != NULL;
    if (counter == COUNT_BEFORE)
        return options.key_before != NULL;
    return counter < COUNT_CHANGES ||
           (counter < COUNT_ERROR_FRAMES ? options.watch : can_interface) != NULL;
}

/* Appends the counters to a line that has `length` characters. Returns its new length. */
static size_t write_counters(char line[SUMMARY_LINE], size_t length, bool json)
{
    for (size_t i = 0; i < COUNTERS; i++) {
        if (!is_shown(i))
            continue;
        const char *format = json ? "%s\"%s\":%llu" : "%s%s %llu";
        const char *before = json && i != 0 ? "," : "";
        const char *name = json ? counters_names[i].key : counters_names[i].readable;
        length += (size_t)snprintf(line + length, SUMMARY_LINE - length, format, before, name,
                                   (unsigned long long)counters[i]);
    }
    return length + (size_t)snprintf(line + length, SUMMARY_LINE - length, json ? "}\n" : "\n");
}

void summary_print(void)
{
    char line[SUMMARY_LINE];

    complete_counters();
    log_write(STDOUT_FILENO, line, write_counters(line, 0, false));
}

void summary_begin(const char *of_program)
{
    program = of_program;
    begun = timing_ns();
}

size_t summary_write(char line[SUMMARY_LINE])
{
    const uint64_t up = (timing_ns() - begun) / TIMING_SECOND;

    complete_counters();
    const int length = snprintf(
        line, SUMMARY_LINE,
        "{\"program\":\"%s\",\"version\":\"%s\",\"started\":%llu,\"uptime\":%llu,\"variables\":%u,",
        program, DUMPULSE_VERSION, (unsigned long long)(timing_unix_ms() / 1000 - up),
        (unsigned long long)up, (unsigned)table_count());
    return write_counters(line, (size_t)length, true);
}
