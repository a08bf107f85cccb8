/* Chaskey-12 (ISO/IEC 29192-6) with a tag of 64 bits.   SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

#include <string.h>

#ifdef LAB_KEYED
/* What version 2 has: in assembly on an AVR. Its messages all have the length of a block, so this
 * one is filled up with zeros, and there is no second way to end one. */
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
#else
enum { BLOCK = 16, WORDS = 4 };

static uint32_t keys[3][WORDS]; /* the key, and the two that end a message */

static uint32_t read32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Times two in the field of 2^128 elements. */
static void doubled(uint32_t *out, const uint32_t *in)
{
    out[0] = in[0] << 1 ^ (in[3] >> 31 ? 0x87U : 0U);
    for (uint8_t i = 1; i < WORDS; i++)
        out[i] = in[i] << 1 | in[i - 1] >> 31;
}

static void set_key(const uint8_t *key)
{
    for (uint8_t i = 0; i < WORDS; i++)
        keys[0][i] = read32(key + 4 * i);
    doubled(keys[1], keys[0]);
    doubled(keys[2], keys[1]);
}

static inline uint32_t rotated(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static void permute(uint32_t v[WORDS])
{
    for (uint8_t round = 0; round < 12; round++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 5) ^ v[0];
        v[3] = rotated(v[3], 8) ^ v[2];
        v[0] = rotated(v[0], 16) + v[3];
        v[2] += v[1];
        v[1] = rotated(v[1], 7) ^ v[2];
        v[3] = rotated(v[3], 13) ^ v[0];
        v[2] = rotated(v[2], 16);
    }
}

static void add(uint32_t v[WORDS], const uint32_t *key)
{
    for (uint8_t i = 0; i < WORDS; i++)
        v[i] ^= key[i];
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    uint32_t v[WORDS] = {keys[0][0], keys[0][1], keys[0][2], keys[0][3]};
    for (; length > BLOCK; length -= BLOCK, message += BLOCK) {
        for (uint8_t i = 0; i < WORDS; i++)
            v[i] ^= read32(message + 4 * i);
        permute(v);
    }
    const uint32_t *const last = keys[length == BLOCK ? 1 : 2];
    uint8_t block[BLOCK] = {0};
    memcpy(block, message, length);
    if (length < BLOCK)
        block[length] = 1;
    for (uint8_t i = 0; i < WORDS; i++)
        v[i] ^= read32(block + 4 * i);
    add(v, last);
    permute(v);
    add(v, last);
    for (uint8_t i = 0; i < LAB_TAG; i++)
        tag[i] = (uint8_t)(v[i / 4] >> (i % 4 * 8));
}
#endif

/* The designers' vectors for 12 rounds: the messages 0 1 2 …, of so many bytes. */
static bool vectors_agree(void)
{
    static const uint8_t lab_key_of_vectors[] = {0x33, 0x34, 0x3D, 0x83, 0x9F, 0x38, 0x9F, 0x00,
                                                 0x4F, 0xE6, 0x98, 0x23, 0x39, 0xCF, 0x7A, 0x41};
    static const struct vector lab_vectors[] = {
#ifndef LAB_KEYED
        {0, {0x41, 0x1F, 0xCB, 0x43, 0xC2, 0xA0, 0xEB, 0x51}},
        {4, {0xDB, 0x62, 0x2B, 0x0B, 0x50, 0x3F, 0x9E, 0x1E}},
        {15, {0x4B, 0xB4, 0xCF, 0x03, 0x63, 0x81, 0x3C, 0x28}},
        {17, {0x5A, 0x6D, 0x5F, 0x8B, 0xF6, 0x14, 0x23, 0x20}},
        {63, {0xE1, 0x72, 0xD0, 0x2D, 0xFE, 0x9E, 0xB8, 0x42}},
#endif
        {16, {0xA9, 0xE2, 0xD0, 0x5D, 0x8C, 0xAC, 0x5E, 0xFB}}};
    uint8_t message[63];
    count_upwards(message, sizeof message);
    set_key(lab_key_of_vectors);
    return AGREE(message, lab_vectors);
}
