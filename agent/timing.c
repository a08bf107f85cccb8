/* Clocks of an agent for Linux; see timing.h.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* NOLINT: for clock_gettime */
#include "timing.h"

#include <time.h>

static struct timespec read_clock(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now); /* these clocks cannot fail */
    return now;
}

uint64_t timing_ns(void)
{
    const struct timespec now = read_clock(CLOCK_MONOTONIC);

    return (uint64_t)now.tv_sec * TIMING_SECOND + (uint64_t)now.tv_nsec;
}

/* This runs for each batch of packets, so it divides no number of 64 bits, which would be slow. */
uint64_t timing_unix_ms(void)
{
    const struct timespec now = read_clock(CLOCK_REALTIME);

    return (uint64_t)now.tv_sec * 1000 + (uint32_t)now.tv_nsec / 1000000;
}
