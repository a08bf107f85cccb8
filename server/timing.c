/* Clocks of an agent for Linux; see timing.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for clock_gettime */
#include "timing.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now); /* these clocks cannot fail */
    return (uint64_t)now.tv_sec * TIMING_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t timing_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t timing_boot_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

uint64_t timing_unix_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}
