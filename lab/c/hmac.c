/* HMAC-SHA-256 by BearSSL, cut to 64 bits. The key's two blocks are worked out in advance.
 * SPDX-License-Identifier: MIT */
#define LAB_TAG 8
#include "tag.h"

#include "bearssl_hmac.h"

static br_hmac_key_context key_context;

static void set_key_of(const uint8_t *key, size_t length)
{
    br_hmac_key_init(&key_context, &br_sha256_vtable, key, length);
}

static void set_key(const uint8_t *key)
{
    set_key_of(key, 16);
}

static void make_tag(uint8_t *tag, const uint8_t *message, size_t length)
{
    br_hmac_context context;
    br_hmac_init(&context, &key_context, LAB_TAG);
    br_hmac_update(&context, message, length);
    br_hmac_out(&context, tag);
}

/* RFC 4231, test case 2. */
static bool vectors_agree(void)
{
    static const uint8_t lab_right[] = {0x5B, 0xDC, 0xC1, 0x46, 0xBF, 0x60, 0x75, 0x4E};
    uint8_t tag[LAB_TAG];
    set_key_of((const uint8_t *)"Jefe", 4);
    make_tag(tag, (const uint8_t *)"what do ya want for nothing?", 28);
    return lab_same(tag, lab_right, LAB_TAG);
}
