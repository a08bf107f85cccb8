/* BLAKE2s with a key (RFC 7693) and a tag of 64 bits, of messages that are not empty. The key's
 * block is worked out in advance.
 * SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

#include <string.h>

enum { BLOCK = 64, KEY = 16 };

static const uint32_t first[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                  0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
static uint32_t keyed[8]; /* the state after the key's block */

static inline uint32_t rotated(uint32_t value, unsigned bits)
{
    return value >> bits | value << (32 - bits);
}

static inline void mix(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d, uint32_t x, uint32_t y)
{
    *a += *b + x;
    *d = rotated(*d ^ *a, 16);
    *c += *d;
    *b = rotated(*b ^ *c, 12);
    *a += *b + y;
    *d = rotated(*d ^ *a, 8);
    *c += *d;
    *b = rotated(*b ^ *c, 7);
}

static void compress(uint32_t *state, const uint8_t *block, uint32_t bytes, bool last)
{
    /* The order of the message's words in each round. */
    static const uint8_t order[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                          {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                          {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                          {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                          {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                          {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                          {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                          {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                          {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                          {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
    uint32_t v[16], words[16];
    memcpy(words, block, BLOCK); /* all machines of the lab have the lowest byte first */
    memcpy(v, state, 32);
    memcpy(v + 8, first, 32);
    v[12] ^= bytes;
    v[14] ^= last ? UINT32_MAX : 0;
    for (uint8_t round = 0; round < 10; round++) { /* four columns, then four diagonals */
        const uint8_t *const at = order[round];
        mix(v + 0, v + 4, v + 8, v + 12, words[at[0]], words[at[1]]);
        mix(v + 1, v + 5, v + 9, v + 13, words[at[2]], words[at[3]]);
        mix(v + 2, v + 6, v + 10, v + 14, words[at[4]], words[at[5]]);
        mix(v + 3, v + 7, v + 11, v + 15, words[at[6]], words[at[7]]);
        mix(v + 0, v + 5, v + 10, v + 15, words[at[8]], words[at[9]]);
        mix(v + 1, v + 6, v + 11, v + 12, words[at[10]], words[at[11]]);
        mix(v + 2, v + 7, v + 8, v + 13, words[at[12]], words[at[13]]);
        mix(v + 3, v + 4, v + 9, v + 14, words[at[14]], words[at[15]]);
    }
    for (uint8_t i = 0; i < 8; i++)
        state[i] ^= v[i] ^ v[i + 8];
}

static void set_key(const uint8_t *key)
{
    uint8_t block[BLOCK] = {0};
    memcpy(block, key, KEY);
    memcpy(keyed, first, sizeof keyed);
    keyed[0] ^= 0x01010000U | KEY << 8 | LAB_TAG;
    compress(keyed, block, BLOCK, false);
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    uint32_t state[8], bytes = BLOCK;
    uint8_t block[BLOCK] = {0};
    memcpy(state, keyed, sizeof state);
    for (; length > BLOCK; length -= BLOCK, message += BLOCK)
        compress(state, message, bytes += BLOCK, false);
    memcpy(block, message, length);
    compress(state, block, bytes + (uint32_t)length, true);
    memcpy(tag, state, LAB_TAG);
}

/* By Python's hashlib, with a key that counts upwards, as the messages do. */
static bool vectors_agree(void)
{
    static const struct vector lab_vectors[] = {
        {4, {0xEB, 0xC7, 0x67, 0x91, 0xFE, 0xE3, 0x68, 0xF9}},
        {64, {0xCE, 0x49, 0x06, 0x4C, 0xA8, 0x17, 0xBC, 0xBD}},
        {65, {0x03, 0xC7, 0x62, 0xAD, 0x9F, 0x22, 0x3E, 0x6D}},
        {255, {0xAD, 0x4D, 0x47, 0xEF, 0x3B, 0x47, 0xBE, 0xDF}}};
    uint8_t bytes[255];
    count_upwards(bytes, sizeof bytes);
    set_key(bytes);
    return AGREE(bytes, lab_vectors);
}
