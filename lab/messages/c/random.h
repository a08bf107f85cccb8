/* The random numbers of the n-th run: the same on every machine, and nearly for nothing, as a chip
 * has a source of its own. Nothing in the lab depends on how good they are.
 * SPDX-License-Identifier: MIT */
#ifndef RANDOM_H
#define RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t lab_state = 1;
static const uint8_t *lab_given; /* published vectors fix these bytes instead: LAB_GIVEN of them */

#ifndef LAB_GIVEN
#define LAB_GIVEN 32
#endif

static inline void lab_seed(unsigned n)
{
    lab_state = 0x9E3779B9U * (n + 1U);
}

static void lab_random(uint8_t *bytes, size_t length)
{
    if (lab_given != NULL) {
        memset(bytes, 0, length);
        memcpy(bytes, lab_given, length < LAB_GIVEN ? length : LAB_GIVEN);
        return;
    }
    while (length > 0) {
        lab_state ^= lab_state << 13;
        lab_state ^= lab_state >> 17;
        lab_state ^= lab_state << 5;
        const size_t part = length < sizeof lab_state ? length : sizeof lab_state;
        memcpy(bytes, &lab_state, part);
        bytes += part;
        length -= part;
    }
}

#endif
