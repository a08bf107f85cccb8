/* HMAC-SHA-256, cut to 64 bits. The key's two blocks are worked out in advance.
 * SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

#ifdef LAB_ASSEMBLY
#include "sha256.h"

static uint32_t inner[8], outer[8]; /* after the key's block in each */

static void begin_half(uint32_t *state, const uint8_t *key, uint8_t pad)
{
    br_sha256_context it;
    br_sha256_init(&it);
    memset(it.block, pad, sizeof it.block);
    for (uint8_t i = 0; i < 16; i++)
        it.block[i] ^= key[i];
    sha256_block(it.state, it.block);
    memcpy(state, it.state, sizeof it.state);
}

static void set_key(const uint8_t *key)
{
    begin_half(inner, key, 0x36);
    begin_half(outer, key, 0x5C);
}

/* Goes on after the key's block, and ends. */
static void hash_half(const uint32_t *state, const void *message, size_t length, uint8_t *digest)
{
    br_sha256_context it = {.length = 64};
    memcpy(it.state, state, sizeof it.state);
    br_sha256_update(&it, message, length);
    br_sha256_out(&it, digest);
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    uint8_t digest[32];
    hash_half(inner, message, length, digest);
    hash_half(outer, digest, sizeof digest, digest);
    memcpy(tag, digest, LAB_TAG);
}
#else
#include "bearssl_hmac.h"

static br_hmac_key_context key_context;

static void set_key(const uint8_t *key)
{
    br_hmac_key_init(&key_context, &br_sha256_vtable, key, 16);
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    br_hmac_context context;
    br_hmac_init(&context, &key_context, LAB_TAG);
    br_hmac_update(&context, message, length);
    br_hmac_out(&context, tag);
}
#endif

/* RFC 4231, test case 2, whose key of 4 bytes HMAC itself fills up with zeros. Then what Python
 * makes of a key of 16 bytes, over several blocks. */
static bool vectors_agree(void)
{
    static const uint8_t lab_jefe[16] = "Jefe";
    static const struct vector lab_of_text[] = {
        {28, {0x5B, 0xDC, 0xC1, 0x46, 0xBF, 0x60, 0x75, 0x4E}}};
    static const struct vector lab_of_all[] = {
        {0, {0x07, 0xEF, 0xF8, 0xB3, 0x26, 0xB7, 0x79, 0x8C}},
        {256, {0x0A, 0xD3, 0x27, 0x0C, 0xA0, 0x98, 0x13, 0x26}}};
    uint8_t all[256];
    set_key(lab_jefe);
    if (!AGREE((const uint8_t *)"what do ya want for nothing?", lab_of_text))
        return false;
    count_upwards(all, sizeof all);
    set_key(all);
    return AGREE(all, lab_of_all);
}
