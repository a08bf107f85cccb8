/* SipHash-2-4 with a tag of 64 bits.   SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

typedef uint64_t word;
enum { BITS = 64, B1 = 13, B3 = 16, B1_LATER = 17, B3_LATER = 21, MARK = 0xFF };
enum { BYTES = BITS / 8 };

static word key_low, key_high;

static word read_word(const uint8_t *bytes)
{
    word value = 0;
    for (int i = BYTES - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static void set_key(const uint8_t *key)
{
    key_low = read_word(key);
    key_high = read_word(key + BYTES);
}

static inline word rotated(word value, unsigned bits)
{
    return value << bits | value >> (BITS - bits);
}

static void rounds(word v[4], unsigned count)
{
    while (count-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], B1) ^ v[0];
        v[3] = rotated(v[3], B3) ^ v[2];
        v[0] = rotated(v[0], BITS / 2);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotated(v[1], B1_LATER) ^ v[2];
        v[3] = rotated(v[3], B3_LATER) ^ v[0];
        v[2] = rotated(v[2], BITS / 2);
    }
}

static void take(word v[4], word block)
{
    v[3] ^= block;
    rounds(v, 2);
    v[0] ^= block;
}

static void put(uint8_t *tag, word sum)
{
    for (int i = 0; i < BYTES; i++, sum >>= 8)
        tag[i] = (uint8_t)sum;
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    word v[4] = {key_low ^ 0x736F6D6570736575U, key_high ^ 0x646F72616E646F6DU,
                 key_low ^ 0x6C7967656E657261U, key_high ^ 0x7465646279746573U};
    word last = (word)(uint8_t)length << (BITS - 8);
    for (; length >= BYTES; length -= BYTES, message += BYTES)
        take(v, read_word(message));
    while (length-- > 0)
        last |= (word)message[length] << (8 * length);
    take(v, last);
    v[2] ^= MARK;
    rounds(v, 4);
    put(tag, v[0] ^ v[1] ^ v[2] ^ v[3]);
}

/* Of the authors' reference code; SipHash of 15 bytes: appendix A of the paper of Aumasson and
 * Bernstein. Key and message count upwards. */
static bool vectors_agree(void)
{
    static const struct vector lab_vectors[] = {
        {0, {0x31, 0x0E, 0x0E, 0xDD, 0x47, 0xDB, 0x6F, 0x72}},
        {4, {0xB7, 0x87, 0x71, 0x27, 0xE0, 0x94, 0x27, 0xCF}},
        {7, {0x37, 0xD1, 0x01, 0x8B, 0xF5, 0x00, 0x02, 0xAB}},
        {8, {0x62, 0x24, 0x93, 0x9A, 0x79, 0xF5, 0xF5, 0x93}},
        {15, {0xE5, 0x45, 0xBE, 0x49, 0x61, 0xCA, 0x29, 0xA1}},
        {16, {0xDB, 0x9B, 0xC2, 0x57, 0x7F, 0xCC, 0x2A, 0x3F}},
        {63, {0x72, 0x45, 0x06, 0xEB, 0x4C, 0x32, 0x8A, 0x95}}};
    uint8_t bytes[63];
    count_upwards(bytes, sizeof bytes);
    set_key(bytes);
    return AGREE(bytes, lab_vectors);
}
