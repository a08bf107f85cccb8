/* The causes of a reset, as board_reset_cause() of each board returns them.
 * SPDX-License-Identifier: MIT */
#ifndef RESET_H
#define RESET_H

#include <stdint.h>

enum {
    RESET_UNKNOWN = 0,
    RESET_POWER_UP = 1,
    RESET_BROWN_OUT = 2,
    RESET_PIN = 3,
    RESET_WATCHDOG = 4,
    RESET_SOFTWARE = 5,
    RESET_OTHER = 6 /* a lock-up, a wake-up from power-down, ... */
};

/* The value of a boot count, which a node sends once after a reset: SPEC.md, "Boots". `boots` is
 * how often the chip has started, in memory that survives a reset, or 0. */
static inline uint8_t reset_boot_value(uint8_t cause, uint8_t boots)
{
    return (uint8_t)(cause * 32U + boots % 32U);
}

#endif
