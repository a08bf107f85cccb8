/* What an agent for Linux counts: counters.h tells more.   SPDX-License-Identifier: MIT */
#include "counters.h"

#include <stdio.h>
#include <unistd.h>

#include "log.h"
#include "options.h"

size_t counters_shown = COUNT_ERROR_FRAMES;
uint64_t counters[COUNTERS];

static const struct {
    const char *readable, *key;
} names[COUNTERS] = {
    [COUNT_PACKETS] = {"packets", "packets"},
    [COUNT_HEARTBEATS] = {": heartbeats", "heartbeats"},
    [COUNT_REPORTS] = {", reports", "reports"},
    [COUNT_LENGTH] = {"; refused for length", "length"},
    [COUNT_MAGIC] = {", magic", "magic"},
    [COUNT_CHECKSUM] = {", checksum", "checksum"},
    [COUNT_VARIABLE] = {", variable", "variable"},
    [COUNT_NOT_ALLOWED] = {", not allowed", "not_allowed"},
    [COUNT_RATE] = {", rate", "rate"},
    [COUNT_UNSENT] = {"; reports unsent", "unsent"},
    [COUNT_DROPS] = {"; dropped by the kernel", "drops"},
    [COUNT_FAILED_SAVES] = {"; failed saves", "failed_saves"},
    [COUNT_ERROR_FRAMES] = {"; error frames", "error_frames"},
    [COUNT_BUS_OFFS] = {", bus-offs", "bus_offs"},
};

void counters_print(void)
{
    char line[COUNTERS * 48]; /* a name is below 26 characters, a number below 21 */
    size_t length = 0;

    for (size_t i = 0; i < counters_shown; i++) {
        const char *format = options.json ? "%s\"%s\":%llu" : "%s%s %llu";
        const char *before = !options.json ? "" : i == 0 ? "{" : ",";
        const char *name = options.json ? names[i].key : names[i].readable;
        length += (size_t)snprintf(line + length, sizeof line - length, format, before, name,
                                   (unsigned long long)counters[i]);
    }
    length += (size_t)snprintf(line + length, sizeof line - length, options.json ? "}\n" : "\n");
    log_write(STDOUT_FILENO, line, length);
}
