/* SHA-256 by BearSSL.   SPDX-License-Identifier: MIT */
#include "operation.h"

#include "bearssl_hash.h"

STEP(vectors)
STEP(hash)

static uint8_t lab_message[LAB_LENGTH], lab_digest[32];

static void digest(const uint8_t *message, size_t length)
{
    br_sha256_context context;
    br_sha256_init(&context);
    br_sha256_update(&context, message, length);
    br_sha256_out(&context, lab_digest);
}

void vectors_prepare(unsigned n)
{
    (void)n;
}

void vectors_run(void)
{
    digest((const uint8_t *)"abc", 3);
}

/* FIPS 180-4's example. */
bool vectors_right(void)
{
    static const uint8_t lab_right[] = {0xBA, 0x78, 0x16, 0xBF, 0x8F, 0x01, 0xCF, 0xEA,
                                        0x41, 0x41, 0x40, 0xDE, 0x5D, 0xAE, 0x22, 0x23,
                                        0xB0, 0x03, 0x61, 0xA3, 0x96, 0x17, 0x7A, 0x9C,
                                        0xB4, 0x10, 0xFF, 0x61, 0xF2, 0x00, 0x15, 0xAD};
    return lab_same(lab_digest, lab_right, sizeof lab_right);
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
