/* What an agent for Linux counts; see counters.h.   SPDX-License-Identifier: MIT */
#include "counters.h"

uint64_t counters[COUNTERS];

const struct counters_name counters_names[COUNTERS] = {
    [COUNT_PACKETS] = {"packets", "packets"},
    [COUNT_HEARTBEATS] = {": heartbeats", "heartbeats"},
    [COUNT_REPORTS] = {", reports", "reports"},
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
    [COUNT_EPOCH_TAGS] = {"; wrong tags in the last epoch", "epoch_tags"},
    [COUNT_BEFORE] = {"; variables with the key before", "key_before"},
    [COUNT_FAILED_SAVES] = {"; failed saves", "failed_saves"},
    [COUNT_LOST_LINES] = {", lost lines", "lost_lines"},
    [COUNT_RELOADS] = {", reloads", "reloads"},
    [COUNT_CHANGES] = {"; changes", "changes"},
    [COUNT_NOT_TOLD] = {", not told", "not_told"},
    [COUNT_FAILED_PROGRAMS] = {", failed programs", "failed_programs"},
    [COUNT_ERROR_FRAMES] = {"; error frames", "error_frames"},
    [COUNT_BUS_OFFS] = {", bus-offs", "bus_offs"},
};
