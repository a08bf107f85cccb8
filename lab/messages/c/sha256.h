/* SHA-256 on the block of sha256.S, with the names of BearSSL's functions, which are used where
 * there is no assembly.   SPDX-License-Identifier: MIT */
#ifndef SHA256_H
#define SHA256_H

#ifndef LAB_ASSEMBLY
#include "bearssl_hash.h"
#else
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint32_t state[8];
    size_t length; /* bytes so far, less than 8 kB; as long as a word, after which is the block */
    uint8_t block[64];
} br_sha256_context;

void sha256_block(uint32_t *state, const uint8_t *block);

static void br_sha256_init(br_sha256_context *it)
{
    static const uint32_t first[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                      0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
    memcpy(it->state, first, sizeof first);
    it->length = 0;
}

static void br_sha256_update(br_sha256_context *it, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    while (length > 0) {
        const uint8_t at = it->length % 64, room = 64 - at;
        const uint8_t some = length < room ? (uint8_t)length : room;
        memcpy(it->block + at, bytes, some);
        bytes += some;
        length -= some;
        it->length += some;
        if (some == room)
            sha256_block(it->state, it->block);
    }
}

static void br_sha256_out(const br_sha256_context *of, void *digest)
{
    br_sha256_context it = *of;
    const uint16_t bits = (uint16_t)(it.length * 8);
    uint8_t at = it.length % 64, *to = digest;
    it.block[at++] = 0x80;
    if (at > 56) {
        memset(it.block + at, 0, 64 - at);
        sha256_block(it.state, it.block);
        at = 0;
    }
    memset(it.block + at, 0, 62 - at);
    it.block[62] = (uint8_t)(bits >> 8);
    it.block[63] = (uint8_t)bits;
    sha256_block(it.state, it.block);
    for (uint8_t i = 0; i < 32; i++)
        to[i] = ((const uint8_t *)it.state)[i ^ 3]; /* the highest byte of each word first */
}
#endif

#endif
