/* AES-128-CMAC (NIST SP 800-38B), cut to 64 bits. With -DLAB_TABLES on AES by tables, which is for
 * chips without a cache. Otherwise on BearSSL's AES, which takes the same time for every key and
 * message everywhere: two blocks at once, by logical operations alone.
 * SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

#include <string.h>

enum { BLOCK = 16 };

static uint8_t keys[2][BLOCK]; /* One for a message whose last block is whole, one for others. */

#ifdef LAB_TABLES
#include "aes.h"

static void encrypt(uint8_t *block)
{
    aes_encrypt(block, round_keys);
}
#else
#include "inner.h"

enum { ROUNDS_MAX = 14 };

static uint32_t schedule[8 * (ROUNDS_MAX + 1)];
static unsigned rounds;

static void aes_set_key(const uint8_t *key)
{
    uint32_t compressed[4 * (ROUNDS_MAX + 1)];
    rounds = br_aes_ct_keysched(compressed, key, 16);
    br_aes_ct_skey_expand(schedule, rounds, compressed);
}

static void encrypt(uint8_t *block)
{
    uint32_t q[8];
    memset(q, 0, sizeof q);
    for (int i = 0; i < 4; i++)
        q[2 * i] = br_dec32le(block + 4 * i);
    br_aes_ct_ortho(q);
    br_aes_ct_bitslice_encrypt(rounds, schedule, q);
    br_aes_ct_ortho(q);
    for (int i = 0; i < 4; i++)
        br_enc32le(block + 4 * i, q[2 * i]);
}
#endif

/* Times two in the field of 2^128 elements. */
static void doubled(uint8_t *out, const uint8_t *in)
{
    const uint8_t carry = in[0] & 0x80 ? 0x87 : 0;
    for (int i = 0; i < BLOCK - 1; i++)
        out[i] = (uint8_t)(in[i] << 1 | in[i + 1] >> 7);
    out[BLOCK - 1] = (uint8_t)(in[BLOCK - 1] << 1 ^ carry);
}

static void set_key(const uint8_t *key)
{
    _Alignas(uint32_t) uint8_t zero[BLOCK] = {0};
    aes_set_key(key);
    encrypt(zero);
    doubled(keys[0], zero);
    doubled(keys[1], keys[0]);
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    _Alignas(uint32_t) uint8_t block[BLOCK] = {0};
    for (; length > BLOCK; length -= BLOCK, message += BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            block[i] ^= message[i];
        encrypt(block);
    }
    const uint8_t *const last = keys[length == BLOCK ? 0 : 1];
    for (size_t i = 0; i < length; i++)
        block[i] ^= message[i];
    if (length < BLOCK)
        block[length] ^= 0x80;
    for (int i = 0; i < BLOCK; i++)
        block[i] ^= last[i];
    encrypt(block);
    memcpy(tag, block, LAB_TAG);
}

/* RFC 4493: the lengths 0, 16 and 40. */
static bool vectors_agree(void)
{
    static const uint8_t lab_key_of_vectors[] = {0x2B, 0x7E, 0x15, 0x16, 0x28, 0xAE, 0xD2, 0xA6,
                                                 0xAB, 0xF7, 0x15, 0x88, 0x09, 0xCF, 0x4F, 0x3C};
    static const uint8_t lab_text[] = {0x6B, 0xC1, 0xBE, 0xE2, 0x2E, 0x40, 0x9F, 0x96, 0xE9, 0x3D,
                                       0x7E, 0x11, 0x73, 0x93, 0x17, 0x2A, 0xAE, 0x2D, 0x8A, 0x57,
                                       0x1E, 0x03, 0xAC, 0x9C, 0x9E, 0xB7, 0x6F, 0xAC, 0x45, 0xAF,
                                       0x8E, 0x51, 0x30, 0xC8, 0x1C, 0x46, 0xA3, 0x5C, 0xE4, 0x11};
    static const struct vector lab_vectors[] = {
        {0, {0xBB, 0x1D, 0x69, 0x29, 0xE9, 0x59, 0x37, 0x28}},
        {16, {0x07, 0x0A, 0x16, 0xB4, 0x6B, 0x4D, 0x41, 0x44}},
        {40, {0xDF, 0xA6, 0x67, 0x47, 0xDE, 0x9A, 0xE6, 0x30}}};
    set_key(lab_key_of_vectors);
    return AGREE(lab_text, lab_vectors);
}

/* A block of AES alone. */
STEP(block)

static _Alignas(uint32_t) uint8_t lab_block[BLOCK];

void block_prepare(unsigned n)
{
    make_prepare(n);
    lab_fill(lab_block, BLOCK, 0);
}

void block_run(void)
{
    encrypt(lab_block);
}

bool block_right(void)
{
    _Alignas(uint32_t) uint8_t block[BLOCK];
    lab_fill(block, BLOCK, 0);
    encrypt(block);
    return lab_same(block, lab_block, BLOCK);
}
