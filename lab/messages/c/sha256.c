/* SHA-256.   SPDX-License-Identifier: MIT */
#include "operation.h"
#include "vectors.h"

#include <string.h>

#include "sha256.h"

STEP(hash)

static uint8_t lab_message[LAB_LENGTH], lab_digest[32];

/* The callers must not change how it is compiled: see tag.h. */
static LAB_APART __attribute__((used)) void digest(const uint8_t *message, size_t length)
{
    br_sha256_context context;
    br_sha256_init(&context);
    br_sha256_update(&context, message, length);
    br_sha256_out(&context, lab_digest);
}

/* FIPS 180-4's examples of one block and of two. Then, as the padding depends on the length: the
 * hash of the hashes of 0 to 129 bytes, which count upwards, by Python. */
static bool vectors_agree(void)
{
    static const struct {
        const char *message;
        uint8_t digest[sizeof lab_digest];
    } lab_vectors[] = {{"abc", {0xBA, 0x78, 0x16, 0xBF, 0x8F, 0x01, 0xCF, 0xEA, 0x41, 0x41, 0x40,
                                0xDE, 0x5D, 0xAE, 0x22, 0x23, 0xB0, 0x03, 0x61, 0xA3, 0x96, 0x17,
                                0x7A, 0x9C, 0xB4, 0x10, 0xFF, 0x61, 0xF2, 0x00, 0x15, 0xAD}},
                       {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                        {0x24, 0x8D, 0x6A, 0x61, 0xD2, 0x06, 0x38, 0xB8, 0xE5, 0xC0, 0x26,
                         0x93, 0x0C, 0x3E, 0x60, 0x39, 0xA3, 0x3C, 0xE4, 0x59, 0x64, 0xFF,
                         0x21, 0x67, 0xF6, 0xEC, 0xED, 0xD4, 0x19, 0xDB, 0x06, 0xC1}}};
    static const uint8_t lab_of_digests[] = {0x10, 0x58, 0x12, 0x60, 0x2B, 0xB3, 0x37, 0xAB,
                                             0xCA, 0x31, 0xD9, 0xF6, 0xBF, 0x3A, 0x57, 0xA3,
                                             0x90, 0x75, 0x00, 0x00, 0x5F, 0xAD, 0x7C, 0x01,
                                             0xE1, 0xE1, 0x14, 0x0A, 0xA7, 0x7E, 0x44, 0x99};
    for (size_t i = 0; i < sizeof lab_vectors / sizeof *lab_vectors; i++) {
        digest((const uint8_t *)lab_vectors[i].message, strlen(lab_vectors[i].message));
        if (!lab_same(lab_digest, lab_vectors[i].digest, sizeof lab_digest))
            return false;
    }
    br_sha256_context of_digests;
    br_sha256_init(&of_digests);
    uint8_t bytes[129];
    for (uint8_t length = 0; length <= sizeof bytes; length++) {
        digest(bytes, length);
        br_sha256_update(&of_digests, lab_digest, sizeof lab_digest);
        if (length < sizeof bytes)
            bytes[length] = length;
    }
    br_sha256_out(&of_digests, lab_digest);
    return lab_same(lab_digest, lab_of_digests, sizeof lab_digest);
}

void hash_prepare(unsigned n)
{
    (void)n;
    lab_fill(lab_message, sizeof lab_message, 0);
}

void hash_run(void)
{
    digest(lab_message, sizeof lab_message);
}

/* Another message has another digest. */
bool hash_right(void)
{
    uint8_t before[sizeof lab_digest];
    for (size_t i = 0; i < sizeof before; i++)
        before[i] = lab_digest[i];
    lab_message[LAB_LENGTH - 1] ^= 1;
    hash_run();
    return !lab_same(before, lab_digest, sizeof before);
}
