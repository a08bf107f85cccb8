/* Clocks of an agent for Linux.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_TIMING_H
#define DUMPULSE_TIMING_H

#include <stdint.h>

static const uint64_t TIMING_SECOND = UINT64_C(1000000000); /* ns */

uint64_t timing_ns(void);      /* since the machine was started; nobody can set this clock */
uint64_t timing_boot_ns(void); /* the same, and it goes on while the machine sleeps */
uint64_t timing_unix_ns(void); /* since 1970, until the year 2554; this clock can be set */

static inline uint64_t timing_unix_ms(void)
{
    return timing_unix_ns() / 1000000;
}

#endif
