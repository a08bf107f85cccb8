/* The tag of a report, for agents and readers. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

void dumpulse_report_tag_(const uint8_t *request, uint32_t number, uint8_t *report)
{
    uint32_t it[12]; /* as in dumpulse_tag.c; it[4..7] takes the table, block by block */
    const uint8_t *entry = report + 8;
    uint_fast8_t i;

    dumpulse_start_tag_(it, request, DUMPULSE_READER_LABEL, number);
    do {
#ifdef __AVR__
        uint8_t *byte = (uint8_t *)(it + 4); /* words would be shifted bit by bit */

        for (i = 16; i != 0; i--) {
            *byte++ ^= *entry++;
        }
#else
        for (i = 4; i != 8; i++) {
            it[i] ^= entry[0] | (uint32_t)entry[1] << 8 | (uint32_t)entry[2] << 16 |
                     (uint32_t)entry[3] << 24;
            entry += 4;
        }
#endif
        dumpulse_permute_(it + 4);
    } while (entry != report + DUMPULSE_KEYED_REPORT_SIZE);
    dumpulse_last_(it);
    dumpulse_to_words_(it);
    for (i = 0; i != 8; i++) {
        report[i] = ((const uint8_t *)it)[i];
    }
}
