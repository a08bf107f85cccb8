/* The key of a label, from the master key. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

static void copy(uint8_t *to, const uint8_t *from)
{
    uint_fast8_t left = 16;

    do {
        *to++ = *from++;
    } while (--left != 0);
}

void dumpulse_label_key(uint8_t key[16], uint8_t label, uint8_t generation)
{
    uint32_t it[12]; /* as in dumpulse_tag.c */
    uint8_t *block = (uint8_t *)it;
    uint_fast8_t i;

    for (i = 0; i != 15; i++) {
        block[i] = label;
    }
    block[15] = generation;
    copy(block + 16, key);
    dumpulse_to_words_(it);
    dumpulse_to_words_(it + 4);
    dumpulse_double_(it);
    dumpulse_last_(it);
    dumpulse_to_words_(it);
    copy(key, block);
}
