/* Chaskey-12 (ISO/IEC 29192-6) with a tag of 64 bits.   SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

#include <string.h>

/* What version 2 has: in C, or in assembly on an AVR. Its messages all have the length of a block,
 * so this one is filled up with zeros, and there is no second way to end one. */
#include "extras/dumpulse_keyed.h"

enum { BLOCK = 16 };

static uint32_t kept[4];

void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    (void)label; /* tags of packets are not counted here */
    memcpy(key, kept, BLOCK);
}

static void set_key(const uint8_t *key)
{
    memcpy(kept, key, BLOCK);
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    uint32_t at[12] = {0}; /* the block, the key, and room for the key doubled */
    memcpy(at, message, length < BLOCK ? length : BLOCK);
    memcpy(at + 4, kept, BLOCK);
    dumpulse_double_(at);
    dumpulse_last_(at);
    memcpy(tag, at, LAB_TAG);
}

/* The designers' vector for 12 rounds and a message of one block: 0 1 2 … */
static bool vectors_agree(void)
{
    static const uint8_t lab_key_of_vectors[] = {0x33, 0x34, 0x3D, 0x83, 0x9F, 0x38, 0x9F, 0x00,
                                                 0x4F, 0xE6, 0x98, 0x23, 0x39, 0xCF, 0x7A, 0x41};
    static const struct vector lab_vectors[] = {
        {BLOCK, {0xA9, 0xE2, 0xD0, 0x5D, 0x8C, 0xAC, 0x5E, 0xFB}}};
    uint8_t message[BLOCK];
    count_upwards(message, sizeof message);
    set_key(lab_key_of_vectors);
    return AGREE(message, lab_vectors);
}
