/* The clock and the loop of images for Cortex-M and CH32V003.   SPDX-License-Identifier: MIT
 *
 * The image has `seconds`, how many TICKS a second has, and the functions below.
 */
#ifndef LOOP_H
#define LOOP_H

static void chip_feed(void); /* feeds the watchdog */
static void rest(void);      /* lets interrupts in that had to wait, and sleeps if it may */
static void serve(void);     /* does a part of the loop's work */

static volatile uint16_t ticks;
_Static_assert(65536 % TICKS == 0, "ticks wraps in the middle of a second");

static inline void count_tick(void)
{
    const uint16_t now = (uint16_t)(ticks + 1U);
    ticks = now;
    if (now % TICKS == 0)
        seconds++;
}

static inline void loop(void)
{
    for (uint16_t fed = 0;;) {
        const uint16_t now = ticks;
        if (now != fed)
            chip_feed(); /* only here: it resets a chip whose loop or clock stands still */
        fed = now;
        rest();
        serve();
    }
}

#endif /* LOOP_H */
