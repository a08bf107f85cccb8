/* The tag of a report, for agents and readers. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

void dumpulse_report_tag_(const uint8_t *request, uint32_t number, uint8_t *report)
{
    uint32_t it[12]; /* as in dumpulse_tag.c; it[4..7] takes the table, block by block */
    uint_fast8_t i;

    dumpulse_start_tag_(it, request, DUMPULSE_READER_LABEL, number);
    for (i = 0; i != DUMPULSE_VARIABLES; i++) {
        const uint8_t *entry = report + 8 + 4 * i;
#ifdef __AVR__
        uint8_t *word = (uint8_t *)(it + 4 + i % 4U);
        word[0] ^= entry[0];
        word[1] ^= entry[1];
        word[2] ^= entry[2];
        word[3] ^= entry[3];
#else
        it[4 + i % 4U] ^= entry[0] | (uint32_t)entry[1] << 8 | (uint32_t)entry[2] << 16 |
                          (uint32_t)entry[3] << 24;
#endif
        if (i % 4U == 3) {
            dumpulse_permute_(it + 4);
        }
    }
    dumpulse_last_(it);
    dumpulse_to_words_(it);
    for (i = 0; i != 8; i++) {
        report[i] = ((const uint8_t *)it)[i];
    }
}
