/* AES-128 by tables, for chips without a cache: there its time depends on no key and no message.
 * On an AVR and a Cortex-M0+, aes_avr.S and aes_m0.S encrypt a block.
 * SPDX-License-Identifier: MIT */
#ifndef AES_H
#define AES_H

#include <stdint.h>
#include <string.h>

#include "sbox.h"

enum { ROUNDS = 10, KEYS = 16 * (ROUNDS + 1) };

static uint8_t __attribute__((aligned(4))) round_keys[KEYS];

#ifdef __AVR__
#include <avr/pgmspace.h>
void aes_encrypt(uint8_t *block, const uint8_t *keys);
extern const uint8_t aes_sbox[256];
#ifdef AES_TABLE_IN_RAM
#define SUBSTITUTED(byte) aes_sbox[byte]
#else
#define SUBSTITUTED(byte) pgm_read_byte(aes_sbox + (byte))
#endif
#else
/* What a byte adds to a column in MixColumns: 2, 1, 1 and 3 times its substitute, the lowest first.
 * The other rows have the same, rotated. So the substitute itself is the second byte of it. */
#define DOUBLED(byte) (((byte) << 1 ^ ((byte) >> 7) * 0x1BU) & 0xFFU)
#define MIXED(byte)                                                                                \
    ((uint32_t)DOUBLED(byte) | (uint32_t)(byte) << 8 | (uint32_t)(byte) << 16 |                    \
     (uint32_t)(DOUBLED(byte) ^ (byte)) << 24)
const uint32_t aes_table[256] = {SBOX(MIXED)};
#define SUBSTITUTED(byte) ((uint8_t)(aes_table[byte] >> 8))

#ifdef __ARM_ARCH_6M__
void aes_encrypt(uint8_t *block, const uint8_t *keys); /* both begin at a word */
#else

static inline uint32_t rotated(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static inline uint32_t column(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t cd = aes_table[c >> 16 & 0xFF] ^ rotated(aes_table[d >> 24], 8);
    return aes_table[a & 0xFF] ^ rotated(aes_table[b >> 8 & 0xFF] ^ rotated(cd, 8), 8);
}

static inline uint32_t last_column(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return SUBSTITUTED(a & 0xFF) | (uint32_t)SUBSTITUTED(b >> 8 & 0xFF) << 8 |
           (uint32_t)SUBSTITUTED(c >> 16 & 0xFF) << 16 | (uint32_t)SUBSTITUTED(d >> 24) << 24;
}

/* The words of a block are in memory with their lowest byte first, as the processor has them. Block
 * and keys begin at a word. */
static void aes_encrypt(uint8_t *block, const uint8_t *keys)
{
    uint32_t s[4], k[4];
    block = __builtin_assume_aligned(block, 4);
    keys = __builtin_assume_aligned(keys, 4);
    memcpy(s, block, 16);
    memcpy(k, keys, 16);
    uint32_t a = s[0] ^ k[0], b = s[1] ^ k[1], c = s[2] ^ k[2], d = s[3] ^ k[3];
    for (int round = 1; round < ROUNDS; round++) {
        memcpy(k, keys += 16, 16);
        const uint32_t e = column(a, b, c, d) ^ k[0], f = column(b, c, d, a) ^ k[1],
                       g = column(c, d, a, b) ^ k[2];
        d = column(d, a, b, c) ^ k[3];
        a = e;
        b = f;
        c = g;
    }
    memcpy(k, keys + 16, 16);
    s[0] = last_column(a, b, c, d) ^ k[0];
    s[1] = last_column(b, c, d, a) ^ k[1];
    s[2] = last_column(c, d, a, b) ^ k[2];
    s[3] = last_column(d, a, b, c) ^ k[3];
    memcpy(block, s, 16);
}
#endif
#endif

static void aes_set_key(const uint8_t *key)
{
    uint8_t constant = 1;
    memcpy(round_keys, key, 16);
    for (uint8_t *at = round_keys + 16; at < round_keys + KEYS; at += 16) {
        /* The first word: the last one, rotated and substituted. */
        for (uint8_t i = 0; i < 4; i++)
            at[i] = at[i - 16] ^ SUBSTITUTED(at[i == 3 ? -4 : i - 3]);
        at[0] ^= constant;
        constant = (uint8_t)(constant << 1 ^ (constant & 0x80 ? 0x1B : 0));
        for (uint8_t i = 4; i < 16; i++)
            at[i] = at[i - 16] ^ at[i - 4];
    }
}

#endif
