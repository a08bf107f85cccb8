/* The causes of a reset, as board_reset_cause() of each board returns them.
 * SPDX-License-Identifier: MIT */
#ifndef RESET_H
#define RESET_H

enum {
    RESET_UNKNOWN = 0,
    RESET_POWER_UP = 1,
    RESET_BROWN_OUT = 2,
    RESET_PIN = 3,
    RESET_WATCHDOG = 4,
    RESET_SOFTWARE = 5,
    RESET_OTHER = 6 /* a lock-up, a wake-up from power-down, ... */
};

#endif
