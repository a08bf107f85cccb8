/* Why a chip has started, as a board's board_reset_cause() returns it, and how an agent records it:
 * SPEC.md, "Boots".   SPDX-License-Identifier: MIT */
#ifndef RESET_H
#define RESET_H

#include "dumpulse.h"

enum {
    RESET_UNKNOWN,
    RESET_POWER_UP,
    RESET_BROWN_OUT,
    RESET_PIN,
    RESET_WATCHDOG,
    RESET_SOFTWARE,
    RESET_OTHER
};

/* The variable of the agent's own boots. 64: it records none. */
#ifndef BOOTS
#define BOOTS 63
#endif
enum { BOOTS_SENDER = 1 };

/* No start-up code sets the count, so it survives a reset. After a power-up it is random. */
static inline uint8_t boot_value(uint8_t cause)
{
    static uint8_t boots __attribute__((section(".noinit")));

    return (uint8_t)(cause << 5 | ++boots % 32);
}

/* Records a boot, in a table of zeros. The clock has just started, so the time is 0, too. */
static inline void record_boot(dumpulse *agent, uint8_t cause)
{
    if (BOOTS < DUMPULSE_VARIABLES) {
        agent->report[6 + 4 * BOOTS] = BOOTS_SENDER;
        agent->report[7 + 4 * BOOTS] = boot_value(cause);
    }
}

#endif /* RESET_H */
