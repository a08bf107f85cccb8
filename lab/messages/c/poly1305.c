/* Poly1305 (RFC 8439) with a key that ChaCha20 makes for each message, both by BearSSL, cut to 64
 * bits. Its counter must never come twice: then everybody could forge. Here it stays 0.
 * SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

#include <string.h>

#include "bearssl_block.h"

static uint8_t key_twice[32];

static void set_key(const uint8_t *key)
{
    memcpy(key_twice, key, 16);
    memcpy(key_twice + 16, key, 16);
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    static const uint8_t counter[12];
    uint8_t whole[16];
    br_poly1305_ctmul_run(key_twice, counter, NULL, 0, message, length, whole, br_chacha20_ct_run,
                          1);
    memcpy(tag, whole, LAB_TAG);
}

/* By OpenSSL: a message that is authentic and not secret, and a key that counts upwards. */
static bool vectors_agree(void)
{
    static const struct vector lab_vectors[] = {
        {0, {0x04, 0x6C, 0x53, 0x72, 0x52, 0x8C, 0x91, 0xF8}},
        {4, {0xC8, 0xFE, 0x04, 0x9C, 0x8E, 0x45, 0x9E, 0xF9}},
        {16, {0x0D, 0x47, 0xEE, 0xF1, 0x19, 0xA0, 0xE2, 0x67}},
        {40, {0x0E, 0xAC, 0xC5, 0x5D, 0xB7, 0xF3, 0x5F, 0x44}}};
    uint8_t bytes[40];
    count_upwards(bytes, sizeof bytes);
    set_key(bytes);
    return AGREE(bytes, lab_vectors);
}
