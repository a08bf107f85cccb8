/* The tag of a report, for agents and readers. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

/* Mixes the table of a report into the state, block by block. */
static void mix(uint32_t state[4], const uint8_t *report)
{
    uint_fast8_t block, i;

    /*@ loop invariant 0 <= block <= 16 && report == \at(report, Pre) + 16 * block;
        loop invariant BLOCK_AT(state) == MIXED(block);
        loop assigns block, i, report, state[0 .. 3];
        loop variant 16 - block; */
    for (block = 0; block != DUMPULSE_VARIABLES / 4; block++) {
#ifdef __AVR__
        uint8_t *byte = (uint8_t *)state; /* avr-gcc would shift words bit by bit */

        for (i = 8; i != 24; i++) {
            *byte++ ^= report[i];
        }
#else
        i = 0;
        /*@ loop pragma UNROLL 4;
            loop assigns i, state[0 .. 3];
            loop variant 4 - i; */
        do {
            state[i] ^= dumpulse_load32_(report + 8 + (size_t)4 * i);
        } while (++i != 4);
#endif
        dumpulse_permute_(state);
        report += 16;
    }
}

void dumpulse_report_tag_(const uint8_t *request, uint32_t number, uint8_t *report)
{
    uint32_t it[12]; /* The words are those of dumpulse_tag.c. */
    uint_fast8_t i;

    dumpulse_start_tag_(it, request, DUMPULSE_READER_LABEL, number);
    mix(it + 4, report);
    dumpulse_last_(it);
    dumpulse_to_words_(it);
    for (i = 0; i != 8; i++) {
        report[i] = ((const uint8_t *)it)[i];
    }
}
