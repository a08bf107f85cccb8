/* What the boards with an AVR share beside tools/processors/avr_host.h. The lab's counts are made
 * with that file: each change of its code makes every count on an AVR stale.
 * SPDX-License-Identifier: MIT */
#ifndef AVR_BOARD_H
#define AVR_BOARD_H

#include "avr_host.h" /* first: simavr's other headers need what it includes */

enum { MCUSR = 0x54 }; /* data address of the cause of a reset, on each chip of firmware/ */

/* Replaces simavr's own function, which really sleeps. */
static inline void count_sleep(avr_t *unused, avr_cycle_count_t cycles)
{
    (void)unused;
    asleep += cycles + 1;
}

static inline void print_board(FILE *file, const avr_t *chip)
{
    print_counts(file, chip);
    fprintf(file, " flags %u", chip->data[MCUSR]);
}

#endif
