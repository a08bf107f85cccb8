/* Clocks of an agent for Linux.   SPDX-License-Identifier: MIT */
#ifndef DUMPULSE_TIMING_H
#define DUMPULSE_TIMING_H

#include <stdint.h>

static const uint64_t TIMING_SECOND = UINT64_C(1000000000); /* ns */

uint64_t timing_ns(void);      /* Time since the machine was started; nothing sets this clock. */
uint64_t timing_boot_ns(void); /* Time since then, including sleep of the machine. */
uint64_t timing_unix_ns(void); /* Time since 1970, until 2554; this clock can be set. */

static inline uint64_t timing_unix_ms(void)
{
    return timing_unix_ns() / 1000000;
}

#endif
