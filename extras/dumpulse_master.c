/* The key of a label, from the master key. dumpulse_keyed.h is the manual.
 * SPDX-License-Identifier: MIT
 */
#include "dumpulse_keyed.h"

/* Copies 16 bytes. Both are aligned as a uint32_t. */
static void copy(void *to, const void *from)
{
#if defined __GNUC__ && !defined __AVR__
    typedef uint32_t __attribute__((may_alias)) word;
    const word *old = (const word *)from;
    word *copied = (word *)to;
    const word first = old[0], second = old[1], third = old[2], fourth = old[3];

    copied[0] = first;
    copied[1] = second;
    copied[2] = third;
    copied[3] = fourth;
#else
    const uint8_t *old = (const uint8_t *)from;
    uint8_t *copied = (uint8_t *)to;
    uint_fast8_t left = 16;

    do {
        *copied++ = *old++;
    } while (--left != 0);
#endif
}

void dumpulse_label_key(uint8_t key[16], uint8_t label, uint8_t generation)
{
    uint32_t it[12]; /* The words are those of dumpulse_tag.c. */
#ifdef __AVR__
    uint8_t *byte = (uint8_t *)it; /* avr-gcc would multiply words */
    uint_fast8_t left = 15;

    do {
        *byte++ = label;
    } while (--left != 0);
    *byte = generation;
#else
    it[0] = it[1] = it[2] = label * (uint32_t)0x01010101UL;
    it[3] = it[0] >> 8 | (uint32_t)generation << 24;
#endif
    copy(it + 4, key);
    dumpulse_to_words_(it + 4);
    dumpulse_double_(it);
    dumpulse_last_(it);
    dumpulse_to_words_(it);
    copy(key, it);
}
