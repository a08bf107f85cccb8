/* SipHash-2-4 with a tag of 64 bits.   SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

static uint64_t key_low, key_high;

static uint64_t read64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static void set_key(const uint8_t *key)
{
    key_low = read64(key);
    key_high = read64(key + 8);
}

static inline uint64_t rotated(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static void rounds(uint64_t v[4], unsigned count)
{
    while (count-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotated(v[1], 13) ^ v[0];
        v[3] = rotated(v[3], 16) ^ v[2];
        v[0] = rotated(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotated(v[1], 17) ^ v[2];
        v[3] = rotated(v[3], 21) ^ v[0];
        v[2] = rotated(v[2], 32);
    }
}

static void take(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    uint64_t v[4] = {key_low ^ 0x736F6D6570736575U, key_high ^ 0x646F72616E646F6DU,
                     key_low ^ 0x6C7967656E657261U, key_high ^ 0x7465646279746573U};
    uint64_t last = (uint64_t)(uint8_t)length << 56;
    for (; length >= 8; length -= 8, message += 8)
        take(v, read64(message));
    while (length-- > 0)
        last |= (uint64_t)message[length] << (8 * length);
    take(v, last);
    v[2] ^= 0xFF;
    rounds(v, 4);
    uint64_t sum = v[0] ^ v[1] ^ v[2] ^ v[3];
    for (int i = 0; i < 8; i++, sum >>= 8)
        tag[i] = (uint8_t)sum;
}

/* Of 15 bytes: appendix A of the paper of Aumasson and Bernstein. The others are in the table of
 * their reference code, and OpenSSL makes the same. Key and message count upwards. */
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
